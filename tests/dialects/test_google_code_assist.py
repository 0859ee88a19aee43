"""Code Assist: Gemini's dialect in an envelope. The bodies have the members that Gemini CLI 0.61 sends and reads."""

from __future__ import annotations

import json

import httpx
import pytest

from trace_recorder import TrajectoryRecorder, load
from trace_recorder.dialects.dialect import read_error
from trace_recorder.dialects.google_generate import (
    CODE_ASSIST,
    join_enveloped_stream,
    read_enveloped_request,
    read_enveloped_response,
)
from trace_recorder.values.messages import JoinedStream, Message, Payload, Tool, ToolCall, Usage

URL = "https://cloudcode-pa.googleapis.com/v1internal"
DECLARED = {"name": "look", "parametersJsonSchema": {"type": "object"}}
CALL = {"functionCall": {"name": "look", "args": {"at": "sky"}, "id": "c1"}, "thoughtSignature": "c2ln"}
REQUEST: dict[str, Payload] = {
    "model": "gemini-2.5-pro",
    "project": "own-project",
    "user_prompt_id": "5e55########0",
    "request": {
        "contents": [{"role": "user", "parts": [{"text": "Weather?"}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [DECLARED]}],
        "generationConfig": {"temperature": 0, "thinkingConfig": {"includeThoughts": True}},
        "session_id": "5e55",
    },
}
COUNTS = {
    "promptTokenCount": 90,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 20,
    "cachedContentTokenCount": 40,
    "totalTokenCount": 117,
}
USAGE = Usage(90, 7, cache_read_input_tokens=40, reasoning_tokens=20, extra={"totalTokenCount": 117})
TRACE = "7a3b"
ERROR = {"code": 429, "message": "You have exhausted your capacity on this model.", "status": "RESOURCE_EXHAUSTED"}


def candidate(*parts: Payload, **members: Payload) -> dict[str, Payload]:
    return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, **members}]}


THOUGHT: Payload = {"text": "I look.", "thought": True}
ANSWER: dict[str, Payload] = {
    **candidate(THOUGHT, {"text": "Let me look."}, CALL, finishReason="STOP"),
    "usageMetadata": COUNTS,
    "modelVersion": "gemini-2.5-pro-001",
}
CHUNKS: list[Payload] = [
    {"response": candidate(THOUGHT), "traceId": TRACE},
    {"response": candidate({"text": "Let me "}), "traceId": TRACE},
    {"response": {**ANSWER, **candidate({"text": "look."}, CALL, finishReason="STOP")}, "traceId": TRACE},
]


def sse(*chunks: Payload) -> str:
    return "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)


def test_a_request_is_read() -> None:
    """Messages and tools come from the inner request. The model is in the envelope, and the rest are parameters."""
    reading = read_enveloped_request(REQUEST)
    inner = REQUEST["request"]
    assert (reading.messages, reading.tools, reading.model) == (
        [Message("system", "Be brief."), Message("user", "Weather?")],
        [Tool("look", None, {"type": "object"}, DECLARED)],
        "gemini-2.5-pro",
    )
    assert reading.parameters == {
        "model": "gemini-2.5-pro",
        "project": "own-project",
        "user_prompt_id": "5e55########0",
        "generationConfig": inner["generationConfig"],
        "session_id": "5e55",
    }


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_is_read(streamed: bool) -> None:
    """A stream is joined to the answer that comes without a stream. Thoughts, calls, tokens and the id are read."""
    whole: Payload = {"response": ANSWER, "traceId": TRACE}
    body = whole
    if streamed:
        joined = join_enveloped_stream(sse(*CHUNKS))
        assert joined == JoinedStream(whole, ended=True, events=3)
        body = joined.body
    response = read_enveloped_response(body)
    assert (response.content, response.reasoning, response.finish_reason) == ("Let me look.", "I look.", "STOP")
    assert response.tool_calls == (ToolCall("c1", "look", {"at": "sky"}, extra={"thoughtSignature": "c2ln"}),)
    assert (response.usage, response.model, response.id) == (USAGE, "gemini-2.5-pro-001", TRACE)
    assert response.extra == {}


def test_an_array_of_chunks_is_an_answer() -> None:
    """Without `alt=sse`, the chunks of a stream come as one array."""
    assert read_enveloped_response(CHUNKS) == read_enveloped_response({"response": ANSWER, "traceId": TRACE})
    assert join_enveloped_stream(json.dumps(CHUNKS)).body == {"response": ANSWER, "traceId": TRACE}


def test_credits_are_kept() -> None:
    """Members of the envelope, such as the credits that a call used, are in `extra`."""
    credit = [{"creditType": "GOOGLE_ONE_AI", "creditAmount": "5"}]
    chunks = [*CHUNKS, {"consumedCredits": credit}, {"remainingCredits": credit}]
    response = read_enveloped_response(join_enveloped_stream(sse(*chunks)).body)
    assert (response.content, response.extra) == (
        "Let me look.",
        {"consumedCredits": credit, "remainingCredits": credit},
    )


def test_the_answer_s_own_id_is_its_id() -> None:
    response = read_enveloped_response({"response": {**ANSWER, "responseId": "r1"}, "traceId": TRACE})
    assert (response.id, response.extra) == ("r1", {"traceId": TRACE})


def test_a_stream_that_was_cut_off_has_not_ended() -> None:
    text = sse(*CHUNKS)
    joined = join_enveloped_stream(text[: len(text) // 2])
    assert (joined.ended, read_enveloped_response(joined.body).reasoning) == (False, "I look.")


@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_has_no_envelope(streamed: bool) -> None:
    """An error is read, whole or in the middle of a stream. The text before it is kept."""
    if not streamed:
        body: Payload = {"error": ERROR}
        assert read_enveloped_response(body).extra == {"error": ERROR}
        assert read_error(body) == ("RESOURCE_EXHAUSTED", ERROR["message"])
        return
    joined = join_enveloped_stream(sse(CHUNKS[1], {"error": ERROR}))
    assert (joined.error, joined.ended, joined.body["error"]) == (ERROR, False, ERROR)
    response = read_enveloped_response(joined.body)
    assert (response.content, response.extra["error"]) == ("Let me ", ERROR)


def test_a_blocked_prompt_has_ended() -> None:
    blocked: Payload = {"response": {"promptFeedback": {"blockReason": "SAFETY"}}, "traceId": TRACE}
    joined = join_enveloped_stream(sse(blocked))
    assert (joined.ended, read_enveloped_response(joined.body).extra) == (
        True,
        {"promptFeedback": {"blockReason": "SAFETY"}},
    )


def test_another_system_prompt_is_set_inside() -> None:
    """`fork --system` changes the instruction in the inner request, and nothing else."""
    assert CODE_ASSIST.with_system is not None
    changed = CODE_ASSIST.with_system(REQUEST, "Be long.")
    assert [message.content for message in read_enveloped_request(changed).messages] == ["Be long.", "Weather?"]
    assert {**changed, "request": None} == {**REQUEST, "request": None}


def test_a_conversation_is_recorded(tmp_path) -> None:
    """A call, its tool's result and the next call are a conversation, with the tokens of each call."""
    answers = iter([httpx.Response(200, text=sse(*CHUNKS), headers={"content-type": "text/event-stream"})])
    result = {"functionResponse": {"id": "c1", "name": "look", "response": {"output": "sunny"}}}
    last = {**ANSWER, **candidate({"text": "It is sunny."}, finishReason="STOP")}
    transport = httpx.MockTransport(lambda _: next(answers, httpx.Response(200, json={"response": last})))
    path = tmp_path / "run.json"
    inner = REQUEST["request"]
    contents = [*inner["contents"], {"role": "model", "parts": [CALL]}, {"role": "user", "parts": [result]}]
    with TrajectoryRecorder(path) as recorder, httpx.Client(transport=transport) as client:
        recorder.wrap(client)
        client.post(f"{URL}:streamGenerateContent?alt=sse", json=REQUEST)
        client.post(f"{URL}:generateContent", json={**REQUEST, "request": {**inner, "contents": contents}})
        client.post(f"{URL}:countTokens", json={"request": {"model": "models/m", "contents": contents}})

    run = load(path)
    assert [(call.api, call.provider, call.model) for call in run.llm_interactions] == [
        ("google-code-assist", "google", "gemini-2.5-pro")
    ] * 2
    assert [message.role for message in run.llm_interactions[1].input_messages] == [
        *("system", "user", "assistant", "tool")
    ]
    assert [call.response.usage.input_tokens for call in run.llm_interactions] == [90, 90]
    assert [result.result for step in run.agent_steps for result in step.tool_results] == ["sunny"]


def test_a_history_is_stored_once(tmp_path) -> None:
    """The journal grows by what is new in each request, and each prompt is read from its history."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"response": ANSWER}))
    path, contents = tmp_path / "run.json", []
    with TrajectoryRecorder(path) as recorder, httpx.Client(transport=transport) as client:
        recorder.wrap(client)
        for number in range(50):
            contents.append({"role": "user", "parts": [{"text": f"{number} " + "words of a question " * 20}]})
            body = {**REQUEST, "user_prompt_id": f"p{number}", "request": {**REQUEST["request"], "contents": contents}}
            client.post(f"{URL}:generateContent", json=body)

    text = path.with_suffix(".jsonl").read_text()
    assert [text.count(f'"{number} words') for number in (0, 25, 49)] == [1, 1, 1]
    calls = load(path).llm_interactions
    assert [len(call.input_messages) for call in calls] == [*range(2, 52)]
    assert calls[-1].raw_request == body
    assert [call.parameters["user_prompt_id"] for call in calls] == [f"p{number}" for number in range(50)]
