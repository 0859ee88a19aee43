"""The rules for the streams of all dialects: long streams, broken events, errors, and yields to other threads."""

from __future__ import annotations

import json
import sys
from types import FrameType

import pytest

from tests.searching import IS_SEARCH
from trace_recorder.background_work import current_yield
from trace_recorder.dialects.dialect import DIALECTS, JoinedStream, dialect_of, join_stream

EVENTS: dict[str, str] = {
    "openai-chat": '{"choices":[{"index":0,"delta":{"content":"wort "}}]}',
    "openai-chat, arguments": '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":'
    '{"name":"f","arguments":"wort "}}]}}]}',
    "openai-chat, calls": '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c%d","function":'
    '{"name":"f","arguments":"{}"}}]}}]}',
    "openai-chat, details": '{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"t","text":"wort "}]}}]}',
    "openai-completions": '{"choices":[{"index":0,"text":"wort "}]}',
    "openai-responses": '{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"wort "}',
    "openai-responses, logprobs": '{"type":"response.output_text.delta","output_index":0,"content_index":0,'
    '"delta":"wort ","logprobs":[{"token":"wort "}]}',
    "openai-realtime": '{"type":"response.output_audio_transcript.delta","event_id":"event_%d","response_id":"r",'
    '"output_index":0,"content_index":0,"delta":"wort "}',
    "openai-realtime, sound": '{"type":"response.output_audio.delta","event_id":"event_%d","response_id":"r",'
    '"output_index":0,"content_index":0,"delta":"[media: 7 bytes, sha256 0]"}',
    "anthropic-messages": '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"wort "}}',
    "anthropic-messages, citations": '{"type":"content_block_delta","index":0,"delta":'
    '{"type":"citations_delta","citation":{"cited_text":"x"}}}',
    "google-generate": '{"candidates":[{"index":0,"content":{"parts":[{"text":"wort "}]},'
    '"logprobsResult":{"chosenCandidates":[{"token":"wort "}]}}]}',
    "google-generate, arguments": '{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"f",'
    '"willContinue":true,"partialArgs":[{"jsonPath":"$.a","stringValue":"wort "}]}}]}}]}',
    "google-code-assist": '{"response":{"candidates":[{"index":0,"content":{"parts":[{"text":"wort "}]}}]},'
    '"traceId":"t"}',
    "google-interactions": '{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"wort "}}',
    "google-interactions, annotations": '{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"wort ",'
    '"annotations":[{"a":1}]}}',
    "google-interactions, thoughts": '{"event_type":"step.delta","index":0,"delta":{"type":"thought_summary",'
    '"content":{"text":"wort "}}}',
    "ollama-chat": '{"message":{"role":"assistant","content":"wort "},"done":false}',
    "ollama-generate": '{"response":"wort ","done":false}',
    "vllm-generate": '{"choices":[{"index":0,"token_ids":[7],"logprobs":{"content":[{"token_id":7,"logprob":-1}]}}]}',
    "sglang-generate": '{"text":"wort ","output_ids":[7],"meta_info":{"completion_tokens":9%d}}',
    "llama-completion": '{"content":"wort ","tokens":[7],"stop":false}',
    "images": '{"type":"image_generation.completed","b64_json":"QUJD"}',
    "speech": '{"type":"speech.audio.delta","audio":"QUJD"}',
    "transcriptions": '{"type":"transcript.text.delta","delta":"wort "}',
    "transcriptions, segments": '{"type":"transcript.text.segment","text":"wort "}',
}
"""An event of each kind that is joined with the events before it. `%d` is its number."""


LINES = ("ollama-chat", "ollama-generate")
"""Dialects whose streams are lines of JSON, and not events."""
IN_ONE_EVENT = {*LINES, "google-generate", "google-code-assist"}
"""Dialects in which a JSON body in place of a stream is one event."""


def stream_of(kind: str, number: int, broken: str = "") -> str:
    """Return the stream of this many events of a kind. `broken` is an event in the middle that is not JSON."""
    before, after = ("", "\n") if kind.startswith("ollama") else ("data: ", "\n\n")
    events = [EVENTS[kind] % at if "%d" in EVENTS[kind] else EVENTS[kind] for at in range(number)]
    events[number // 2 : number // 2] = [broken] * bool(broken)
    return "".join(before + event + after for event in events)


def joined(kind: str, text: str) -> JoinedStream:
    stream = join_stream(kind.partition(",")[0], text.encode())
    assert stream is not None
    return stream


@pytest.mark.parametrize("kind", EVENTS)
def test_a_long_stream_is_joined(kind: str) -> None:
    """No event of a long stream is lost. A search has 100,000 events, for which a reader that joined each text to all
    texts before it would take hours.
    """
    number = 100_000 if IS_SEARCH else 5_000

    stream = joined(kind, stream_of(kind, number).replace("wort ", "wort " + "." * 100))
    dialect_of(kind.partition(",")[0]).read_response(stream.body)

    words = json.dumps(stream.body).count("wort ")
    assert (stream.events, words) == (number, number * EVENTS[kind].count("wort "))


@pytest.mark.parametrize("kind", EVENTS)
def test_a_broken_event_is_skipped_and_counted(kind: str) -> None:
    """An event that is not JSON changes only the count of events."""
    whole, broken = joined(kind, stream_of(kind, 2)), joined(kind, stream_of(kind, 2, broken='{"type": '))

    assert (broken.body, broken.ended, broken.events) == (whole.body, whole.ended, whole.events + 1)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("error", ["no such model", {"type": "overloaded_error", "message": "later"}])
@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "manual"])
def test_an_error_in_place_of_a_stream_is_read(name: str, error: object, indent: int | None) -> None:
    """The body is not an answer, so it has no choices. It is the body of the stream, in any layout."""
    body = {"type": "error", "error": error}
    read = joined(name, json.dumps(body, indent=indent))
    response = DIALECTS[name].read_response(body)

    is_event = name in IN_ONE_EVENT
    assert read == JoinedStream(body, ended=not is_event, events=int(is_event), error=error)
    assert (response.choices, response.content, response.extra["error"]) == ((), None, error)


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "manual"])
def test_a_stream_without_an_event_has_an_empty_body(name: str) -> None:
    assert joined(name, "") == JoinedStream({}, ended=False, events=0)


def longest_between_yields(api: str, text: str) -> int:
    """Return the largest number of function calls between two yields, before the first yield and after the last."""
    calls = [0]

    def count(frame: FrameType, what: str, _: object) -> None:
        if (
            what == "call"
            and "trace_recorder" in frame.f_code.co_filename
            and frame.f_code is not yield_to_others.__code__
        ):
            calls[-1] += 1

    def yield_to_others() -> None:
        calls.append(0)

    token = current_yield.set(yield_to_others)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        join_stream(api, text.encode())
    finally:
        sys.setprofile(before)
        current_yield.reset(token)
    assert len(calls) > 1
    return max(calls)


AFTER_THE_LAST = {
    *("openai-chat, calls", "openai-responses, logprobs", "anthropic-messages, citations"),
    *("google-interactions, annotations", "google-interactions, thoughts"),
    *("vllm-generate", "sglang-generate", "llama-completion"),
}
"""Kinds of which the pieces are put together after the last chunk, without a yield."""


@pytest.mark.parametrize("kind", [kind for kind in EVENTS if kind not in AFTER_THE_LAST])
def test_at_most_one_chunk_is_joined_between_two_yields(kind: str) -> None:
    """The work between two yields does not grow with the number of chunks."""
    api = kind.partition(",")[0]
    join_stream(api, stream_of(kind, 40).encode())  # imports and caches

    assert longest_between_yields(api, stream_of(kind, 400)) <= longest_between_yields(api, stream_of(kind, 40))
