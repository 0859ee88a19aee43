"""Shared by all dialects: no reader refuses any JSON or text from a provider."""

from __future__ import annotations

import inspect
import json
import re
import sys
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.dialects.dialect import DIALECTS, Dialect
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading

SHARED = """
    role content name type text function arguments tool_calls tool_call_id id index delta message finish_reason usage
    error thinking thought reasoning reasoning_content parts summary status output {"a {}
"""
"""Words that readers take from functions that several dialects share, and texts that are arguments."""


@cache
def json_of(name: str) -> st.SearchStrategy[Payload]:
    """Return a strategy for any JSON in the words of a dialect: every string in its source, and the shared ones."""
    source = inspect.getsource(sys.modules[DIALECTS[name].read_request.__module__])
    words = sorted({*re.findall(r'"([\w.]+)"', source), *SHARED.split()})
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(words)
    return st.recursive(
        leaves, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(words), inner), max_leaves=25
    )


@cache
def streams_of(name: str) -> st.SearchStrategy[str]:
    """Return a strategy for streams: any text, and events, lines and lists of any JSON."""
    starts = st.sampled_from(["data: ", "event: error\ndata: ", "event: response.x_y.delta\ndata: ", ": ", ""])
    events = st.lists(st.tuples(starts, json_of(name)), max_size=6).map(
        lambda pairs: "".join(f"{start}{json.dumps(value)}\n\n" for start, value in pairs)
    )
    values = st.lists(json_of(name), max_size=6)
    lines = values.map(lambda parts: "\n".join(map(json.dumps, parts)))
    return st.text() | events | lines | values.map(json.dumps)


def read_message(dialect: Dialect, element: Payload) -> list[Message]:
    return dialect.history.read_message(element) if dialect.history else []


@pytest.mark.parametrize("name", DIALECTS)
@given(data=st.data())
def test_any_json_is_read(name: str, data: st.DataObject) -> None:
    """A request, a message and a response of any shape are read."""
    dialect, body = DIALECTS[name], data.draw(json_of(name))

    assert isinstance(dialect.read_request(body), RequestReading)
    assert isinstance(dialect.read_response(body, data.draw(st.integers(0, 3))), LLMResponse)
    assert all(isinstance(message, Message) for message in read_message(dialect, body))


@pytest.mark.parametrize("name", DIALECTS)
@given(data=st.data())
def test_any_text_is_joined(name: str, data: st.DataObject) -> None:
    """A text of any kind is joined as a stream, the result is read, and an error of the stream is in its body."""
    dialect = DIALECTS[name]
    joined = dialect.join_stream(data.draw(streams_of(name)))

    assert (type(joined), type(dialect.read_response(joined.body))) == (JoinedStream, LLMResponse)
    assert joined.error is None or as_dict(joined.body).get("error") is not None
