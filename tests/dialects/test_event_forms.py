"""Runs of events that differ only in one text: joined together, they give the same as the events joined one by one."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.counting import calls
from trace_recorder.dialects.dialect import join_stream
from trace_recorder.dialects.event_forms import MergedRuns

FORMS = {
    "openai-chat": [
        '{"id":"c","choices":[{"index":0,"delta":{"content":TEXT},"finish_reason":null}],"obfuscation":"FILLER"}',
        '{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":TEXT}}]}',
        '{"choices":[{"index":0,"delta":{"content":TEXT},"content_filter_results":{"hate":{"filtered":false}}}]}',
        '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":TEXT}}]}}]}',
        '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":TEXT}}]}}]}',
        '{"choices":[{"index":0,"delta":{"content":TEXT},"logprobs":{"content":[{"token":"a"}]}}]}',
        '{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"t","text":TEXT}]}}]}',
        '{"choices":[{"index":0,"delta":{"content":TEXT},"name":"FILLER"}]}',
        '{"created_at":NUMBER,"choices":[{"index":0,"delta":{"content":TEXT}}],"system_fingerprint":"FILLER"}',
        '{"choices":[{"index":0,"delta":{"content":TEXT}}],"id":"NUMBER"}',
        '{"object":"error","choices":[{"index":0,"delta":{"content":TEXT}}]}',
        '{"choices":[{"index":0,"text":TEXT}]}',
        '{"choices":[{"index":0,"delta":{"content":TEXT}},{"index":1,"delta":{"content":"b"}}]}',
        '{"choices":[],"text":TEXT}',
        '{"choices":[{"index":0,"delta":{"content":"b"}}],"text":TEXT}',
    ],
    "anthropic-messages": [
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":TEXT}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":TEXT}}',
        '{"type":"content_block_delta","index":0,"delta":{"text":TEXT,"citation":{"a":1}}}',
        '{"type":"content_block_delta","index":0,"delta":{"text":TEXT,"signature":"s"}}',
        '{"type":"content_block_delta","index":0,"delta":{"text":TEXT,"thinking":"a"}}',
        '{"type":"message_delta","delta":{"text":TEXT},"content":[{"type":"tool_use"}]}',
    ],
    "openai-responses": [
        '{"type":"response.a_text.delta","sequence_number":NUMBER,"output_index":0,"delta":TEXT,"obfuscation":"FILLER"}',
        '{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":TEXT,"logprobs":[{"a":1}]}',
        '{"type":"response.output_text.delta","output_index":0,"delta":TEXT,"annotation":{"a":1}}',
        '{"type":"response.output_text.delta","output_index":0,"delta":TEXT,"part":{"text":"a"}}',
        '{"type":"response.output_text.delta","output_index":0,"delta":TEXT,"item":{"type":"message","content":[]}}',
        '{"type":"response.output_text.delta","output_index":0,"text":TEXT,"delta":"b"}',
        '{"type":"response.output_text.done","output_index":0,"content_index":0,"text":TEXT}',
    ],
    "openai-realtime": [
        '{"type":"response.output_text.delta","event_id":"event_aNUMBER","output_index":0,"content_index":0,"delta":TEXT}',
        '{"type":"response.output_audio.delta","event_id":"event_NUMBER","output_index":0,"delta":TEXT}',
    ],
}
"""Events of each dialect. For some of them, repeated merging has an effect beside that on the text."""
WORDS = st.one_of(
    st.sampled_from([" word", "\n", '"', "\\", "é", "{", "}", "{}", "data: {", "", "\ud83d", "\ude00"]), st.text()
)
SPELLED = st.one_of(
    *[WORDS.map(json.dumps)] * 9, st.sampled_from(['"\\q"', '"a\tb"', '"', "1", '["a"]', '"a","b":"c"'])
)
"""JSON strings, and sometimes other texts."""
BETWEEN = st.sampled_from(["", "event: a\n", "event: error\n", "data: 1\n", "id: 1\n"])
ENDS = st.sampled_from(["\n\n", "\n\n", "\n"])
LAST = [{"choices": [{"index": 0, "delta": {"content": "z"}, "finish_reason": "stop"}], "id": "d"}]


def stream_of(form: str, texts: list[str], between: str = "", end: str = "\n\n", comment: str = "") -> bytes:
    """Return a stream of events of one form. Comments between the events do not change the result, but end the run."""
    events = [
        between
        + "data: "
        + form.replace("NUMBER", str(number)).replace("FILLER", "f" * max(0, number % 7 - 2)).replace("TEXT", text)
        + end
        + comment
        for number, text in enumerate(texts)
    ]
    return "".join([*events, *(f"data: {json.dumps(event)}\n\n" for event in LAST)]).encode()


def words(number: int) -> list[str]:
    return [f'" word{at}"' for at in range(number)]


@pytest.mark.parametrize(("api", "form"), [(api, form) for api, forms in FORMS.items() for form in forms])
@settings(max_examples=settings().max_examples // 3)
@given(texts=st.lists(SPELLED, max_size=40), between=BETWEEN, end=ENDS)
@example(texts=words(200), between="", end="\n\n")
@example(texts=words(200), between="event: a\n", end="\n\n")
@example(texts=words(200), between="event: error\n", end="\n\n")
@example(texts=words(10), between="data: 1\n", end="\n\n")
@example(texts=words(10), between="", end="\n")
@example(texts=words(11), between="", end="\n\n")
@example(texts=['"{}"'] * 10, between="", end="\n\n")
@example(texts=[*words(5), '"\\q"', *words(5), '"a\tb"', *words(5), '"\\""', "1", *words(5)], between="", end="\n\n")
@example(texts=[*words(20), '"a\\"', '"n"', *words(20)], between="", end="\n\n")
def test_a_run_of_events_gives_the_same_as_its_events(
    api: str, form: str, texts: list[str], between: str, end: str
) -> None:
    """The answer and the count are the same as if no two events were neighbours."""
    runs, single = (stream_of(form, texts, between, end, comment) for comment in ("", ": \n"))

    assert join_stream(api, runs) == join_stream(api, single)


@pytest.mark.parametrize(
    ("api", "form"),
    [
        ("openai-chat", FORMS["openai-chat"][0]),
        ("openai-chat", FORMS["openai-chat"][3]),
        ("anthropic-messages", FORMS["anthropic-messages"][0]),
        ("openai-responses", FORMS["openai-responses"][0]),
        ("openai-realtime", FORMS["openai-realtime"][0]),
    ],
)
def test_the_events_of_a_run_are_joined_together(api: str, form: str) -> None:
    """A run of ten times as many events takes hardly more calls of our functions."""
    few, many = (stream_of(form, words(events)) for events in (50, 500))

    assert calls(lambda: join_stream(api, many)) < 2 * calls(lambda: join_stream(api, few))


def test_streams_without_runs_are_rarely_searched_for_runs() -> None:
    """If two texts take turns, few events are compared with the events after them."""
    lines = [f'data: {{"index":{number % 2},"text":"word{number}"}}' for number in range(1000)]
    merge = MergedRuns(lambda _: True)

    assert calls(lambda: merge(lines)) < 1300
    assert merge.merged == 0
