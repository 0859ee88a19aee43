"""Streams of a hundred thousand events are joined completely, in every dialect: each text is joined once."""

from __future__ import annotations

import pytest

from tests.processes import python

EVENTS: dict[str, str] = {
    "openai-chat": '{"choices":[{"index":0,"delta":{"content":"wort "}}]}',
    "openai-chat, arguments": '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":'
    '{"name":"f","arguments":"wort "}}]}}]}',
    "openai-chat, calls": '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c%d","function":'
    '{"name":"f","arguments":"{}"}}]}}]}',
    "openai-chat, details": '{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"t","text":"wort "}]}}]}',
    "openai-completions": '{"choices":[{"index":0,"text":"wort "}]}',
    "openai-responses": '{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"wort ",'
    '"logprobs":[{"token":"wort "}]}',
    "anthropic-messages": '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"wort "}}',
    "anthropic-messages, citations": '{"type":"content_block_delta","index":0,"delta":'
    '{"type":"citations_delta","citation":{"cited_text":"x"}}}',
    "google-generate": '{"candidates":[{"index":0,"content":{"parts":[{"text":"wort "}]},'
    '"logprobsResult":{"chosenCandidates":[{"token":"wort "}]}}]}',
    "google-generate, arguments": '{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"f",'
    '"willContinue":true,"partialArgs":[{"jsonPath":"$.a","stringValue":"wort "}]}}]}}]}',
    "google-interactions": '{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"wort ",'
    '"annotations":[{"a":1}]}}',
    "google-interactions, thoughts": '{"event_type":"step.delta","index":0,"delta":{"type":"thought_summary",'
    '"content":{"text":"wort "}}}',
    "ollama-chat": '{"message":{"role":"assistant","content":"wort "},"done":false}',
    "ollama-generate": '{"response":"wort ","done":false}',
    "images": '{"type":"image_generation.completed","b64_json":"QUJD"}',
    "speech": '{"type":"speech.audio.delta","audio":"QUJD"}',
    "transcriptions": '{"type":"transcript.text.delta","delta":"wort "}',
    "transcriptions, segments": '{"type":"transcript.text.segment","text":"wort "}',
}
"""An event of each kind that is joined with the events before it. `%d` is its number."""


@pytest.mark.parametrize("kind", EVENTS)
def test_a_long_stream_is_joined(kind: str) -> None:
    """No event of 100,000 is lost. A reader that joined each text to all texts before it would take hours."""
    code = """
        import json, sys
        from trace_recorder.dialects.dialect import join_stream, dialect_of

        api, event, number = sys.argv[1].partition(",")[0], sys.argv[2], int(sys.argv[3])
        before = "" if api.startswith("ollama") else "data: "
        after = "\\n" if api.startswith("ollama") else "\\n\\n"
        event = event.replace("wort ", "wort " + "." * 100)
        texts = (before + (event % at if "%d" in event else event) + after for at in range(number))
        joined = join_stream(api, "".join(texts).encode())
        response = dialect_of(api).read_response(joined.body)
        print(joined.events, json.dumps(joined.body).count("wort "))
    """
    number = 100_000

    ended = python(code, kind, EVENTS[kind], number)

    events, words = map(int, ended.stdout.split())
    assert (ended.stderr, events) == ("", number)
    assert words in ({0} if "wort " not in EVENTS[kind] else {number * EVENTS[kind].count("wort ")})
