"""The readers of the OpenAI dialects never raise, whatever JSON and whatever text they are given."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.dialects import embeddings, openai_chat, openai_completions, openai_responses
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, RequestReading

READERS = [openai_chat, openai_responses, openai_completions, embeddings]
KEYS = """
    model messages input prompt instructions tools functions role content name type text function arguments tool_calls
    tool_call_id call_id function_call custom thinking reasoning reasoning_content reasoning_details summary choices
    index delta message finish_reason logprobs usage prompt_tokens prompt_tokens_details cached_tokens cost x_groq error
    object id value output status incomplete_details reason response item output_index content_index summary_index part
    annotation data embedding
"""
WORDS = """
    user model function function_call function_call_output message reasoning thinking custom_tool_call_output text
    response.completed response.output_text.delta response.output_item.added response.failed error output_text {} {"a
"""

ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.sampled_from(WORDS.split()) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=5),
    max_leaves=20,
)
FRAMES = st.sampled_from(["data: ", "event: error\ndata: ", "event: response.x_y.delta\ndata: ", ": ", ""])
STREAMS = st.text() | st.lists(st.tuples(FRAMES, ODD), max_size=6).map(
    lambda frames: "".join(f"{start}{json.dumps(value)}\n\n" for start, value in frames)
)


@pytest.mark.parametrize("reader", READERS)
@given(body=ODD)
def test_any_request(reader, body):
    """A request of any shape gives a reading."""
    assert isinstance(reader.read_request(body), RequestReading)


@pytest.mark.parametrize("reader", [openai_chat, openai_responses])
@given(element=ODD)
def test_any_message(reader, element):
    """An element of any shape gives messages."""
    assert all(isinstance(message, Message) for message in reader.read_message(element))


@pytest.mark.parametrize("reader", READERS)
@given(body=ODD, made_up_ids=st.integers(0, 3))
def test_any_response(reader, body, made_up_ids):
    """A response of any shape gives a reading."""
    assert isinstance(reader.read_response(body, made_up_ids), LLMResponse)


@pytest.mark.parametrize("reader", READERS)
@given(text=STREAMS)
def test_any_stream(reader, text):
    """A text of any kind joins, and what it joins to can be read."""
    joined = reader.join_stream(text)
    assert (type(joined), type(reader.read_response(joined.body))) == (JoinedStream, LLMResponse)
