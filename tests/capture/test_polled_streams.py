"""Background responses whose stream broke off, was resumed, or is still open while they are polled."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import openai
import pytest

from tests.capture.background import (
    CALL,
    FINAL,
    QUEUED,
    USAGE,
    answer,
    ask,
    document,
    endings,
    event,
    google_client,
    response,
    said,
    streamed_final,
)
from tests.capture.recorded_clients import interactions, recorded_client
from tests.journals import records_of
from tests.processes import python
from tests.provider import DROP, SILENCE, Answer, serving, stream
from trace_recorder import TrajectoryRecorder, load, replay, validate


@pytest.mark.parametrize("streamed", [True, False])
def test_a_stream_that_broke_off_is_fetched(tmp_path: Path, *, streamed: bool) -> None:
    """After a stream broke off, the fetched answer is recorded for its call, and the streamed part stays."""
    path = tmp_path / "run.json"
    begin = event("response.created", 0, response=response("in_progress"))
    delta = event("response.output_text.delta", 1, item_id="msg_1", output_index=0, content_index=0, delta="He")
    final = response("completed", said("Here."), usage=USAGE)
    rest = stream(event("response.completed", 2, response=final)) if streamed else answer(final)
    with recorded_client(path, stream(begin, delta, DROP), rest) as (client, server):
        with pytest.raises(openai.APIConnectionError):
            list(client.responses.create(model="o9", input="Look.", background=True, stream=True))
        if streamed:
            list(client.responses.retrieve("resp_1", stream=True, starting_after=1))
        else:
            client.responses.retrieve("resp_1")

    [one] = interactions(path)
    assert "resp_1" in server.requests[1][0]
    assert (one.response.content, one.complete, one.error, one.ended_by) == ("Here.", True, None, None)
    assert one.raw_stream == (begin + delta).decode()
    assert one.time_to_first_token_seconds is not None
    assert document(path)[0]["response"]["content"] == "Here."


def test_closing_a_polled_stream_at_its_end_loses_nothing(tmp_path: Path) -> None:
    """A polled stream that the caller closes after its last event is recorded as complete, with its answer."""
    path = tmp_path / "run.json"
    with recorded_client(path, QUEUED, stream(streamed_final(), SILENCE)) as (client, _):
        ask(client)
        for one in client.responses.retrieve("resp_1", stream=True):
            if one.type == "response.completed":
                break

    [call] = interactions(path)
    assert (call.response.content, call.complete) == ("Here.", True)


def test_an_open_stream_can_be_polled(tmp_path: Path) -> None:
    """The answer of a poll stays the call's answer when the open stream ends later."""
    path = tmp_path / "run.json"
    begin = event("response.created", 0, response=response("in_progress"))
    with recorded_client(path, stream(begin, SILENCE), FINAL) as (client, _):
        chunks = client.responses.create(model="o9", input="Look.", background=True, stream=True)
        next(iter(chunks))
        assert client.responses.retrieve("resp_1").output_text == "Here."
        assert interactions(path)[0].response.content == "Here."

    [call] = interactions(path)
    assert (call.response.content, call.complete, call.ended_by, len(endings(path))) == ("Here.", True, None, 2)
    assert document(path)[0]["response"]["content"] == "Here."
    chunks.close()


def test_a_request_after_a_fetched_answer_is_a_new_call(tmp_path: Path) -> None:
    """A request after a fetched answer is a new call, even if it equals the request of the broken stream."""
    path = tmp_path / "run.json"
    begin = event("response.created", 0, response=response("in_progress"))
    second = event("response.completed", 1, response=response("completed", said("Second."), number=2))
    with recorded_client(path, stream(begin, DROP), FINAL, stream(second)) as (client, _):
        with pytest.raises(openai.APIConnectionError):
            list(client.responses.create(model="o9", input="Look.", background=True, stream=True))
        client.responses.retrieve("resp_1")
        list(client.responses.create(model="o9", input="Look.", background=True, stream=True))

    assert [call.response.content for call in interactions(path)] == ["Here.", "Second."]


def test_a_tool_run_for_a_streamed_call_stays_with_it(tmp_path: Path) -> None:
    """A tool that ran for a call in a broken stream stays with this call when the fetched answer has the call again."""
    path = tmp_path / "run.json"
    first = [CALL, {**CALL, "id": "fc_2", "call_id": "call_2"}]
    events = [
        event("response.created", 0, response=response("in_progress")),
        event("response.output_item.added", 1, output_index=0, item={**CALL, "arguments": ""}),
        event("response.function_call_arguments.done", 2, item_id="fc_1", output_index=0, arguments=CALL["arguments"]),
        event("response.output_item.done", 3, output_index=0, item=CALL),
    ]
    with (
        serving(stream(*events, DROP), answer(response("completed", *first))) as server,
        TrajectoryRecorder(path, strict=True) as recorder,
        openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        recorder.wrap(client)
        with pytest.raises(openai.APIConnectionError):
            list(client.responses.create(model="o9", input="Look.", background=True, stream=True))
        with recorder.tool_call("look", {"at": "it"}) as tool:
            tool.result = "first"
        client.responses.retrieve("resp_1")
        with recorder.tool_call("look", {"at": "it"}) as tool:
            tool.result = "second"

    [step] = load(path).agent_steps
    assert {result.call_id: result.result for result in step.tool_results} == {"call_1": "first", "call_2": "second"}


def test_a_resumed_google_stream_is_not_taken_for_the_answer(tmp_path: Path) -> None:
    """A resumed Google stream, which has only the end of the answer, is not recorded as the answer."""
    path = tmp_path / "run.json"
    begun = {"id": "v1_abc", "object": "interaction", "status": "in_progress", "model": "g"}
    tail = [
        {"event_type": "content.start", "index": 0, "content": {"type": "text"}},
        {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "world"}},
        {"event_type": "interaction.completed", "interaction": {**begun, "status": "completed"}},
    ]
    rest = stream(*(f"event: {one['event_type']}\ndata: {json.dumps(one)}\n\n".encode() for one in tail))
    with serving(answer(begun), rest) as server, google_client(server) as client:
        with TrajectoryRecorder(path, strict=True) as recorder:
            recorder.wrap(client)
            one = client.interactions.create(model="g", input="Look.", background=True)
            list(client.interactions.get(one.id, stream=True, last_event_id="e1"))

    [call] = interactions(path)
    assert (call.response.content, len(endings(path))) == (None, 1)


def test_a_fetched_answer_of_lenient_json_replaces_the_stream(tmp_path: Path) -> None:
    """A fetched answer that is not strict JSON is recorded as text, and is read as the call's answer."""
    path = tmp_path / "run.json"
    begin = event("response.created", 0, response=response("in_progress"))
    odd = json.dumps(response("completed", said("Here.")))[:-1].encode() + b', "n": NaN}'
    with recorded_client(path, stream(begin, DROP), Answer([odd])) as (client, _):
        with pytest.raises(openai.APIConnectionError):
            list(client.responses.create(model="o9", input="Look.", background=True, stream=True))
        client.responses.retrieve("resp_1")

    [call] = interactions(path)
    assert (call.response.content, "text" in endings(path)[-1].data) == ("Here.", True)


def test_a_polled_stream_is_replayed(tmp_path: Path) -> None:
    """A replay answers a polled stream by its last event, which has the whole response, also for an async client."""
    path = tmp_path / "run.json"
    with recorded_client(path, QUEUED, stream(streamed_final())) as (client, _):
        ask(client)
        list(client.responses.retrieve("resp_1", stream=True))

    async def again() -> list[str]:
        with replay(path) as run:
            made = run.wrap(openai.AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:1/v1", max_retries=0))
            await made.responses.create(model="o9", input="Look.", background=True)
            events = await made.responses.retrieve("resp_1", stream=True)
            return [event.response.output_text async for event in events if event.type == "response.completed"]

    assert asyncio.run(again()) == ["Here."]


def test_an_incomplete_poll_at_the_exit_is_not_recorded(tmp_path: Path) -> None:
    """When the process exits, received parts of calls are written, but not those of polls."""
    agent = """
        import sys, threading, time, openai, trace_recorder
        recorder = trace_recorder.TrajectoryRecorder(sys.argv[1] + "/run.json")
        recorder.start()
        client = recorder.wrap(openai.OpenAI(api_key="k", base_url=sys.argv[2], max_retries=0))
        client.responses.create(model="o9", input="Look.", background=True)
        poll = client.responses.with_streaming_response.retrieve("resp_1").__enter__()
        chunks = poll.iter_bytes()
        next(chunks)
        """
    half = json.dumps(response("completed", said("Here."))).encode()[:-20]
    with serving(QUEUED, Answer([half, SILENCE])) as server:
        ended = python(agent, tmp_path, f"{server.url}/v1")
        assert len(server.requests) == 2, ended.stderr

    path = tmp_path / "run.json"
    assert [record.kind for record in records_of(path)] == ["start", "llm_request", "llm_response", "finalize"]
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []


def test_a_response_polled_before_its_stream_ended_is_written_once(tmp_path: Path) -> None:
    """A poll after the end of a stream whose answer was already fetched writes nothing."""
    path = tmp_path / "run.json"
    begin = event("response.created", 0, response=response("in_progress"))
    with recorded_client(path, stream(begin, SILENCE), FINAL) as (client, _):
        chunks = client.responses.create(model="o9", input="Look.", background=True, stream=True)
        next(iter(chunks))
        client.responses.retrieve("resp_1")
        chunks.close()
        client.responses.retrieve("resp_1")

    assert [record.data.get("polled") for record in endings(path)] == [True, None]
