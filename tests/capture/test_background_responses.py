"""Background responses: later requests fetch the answer, which is recorded for the call that asked for it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import openai
import pytest

from tests.capture.background import (
    AT_WORK,
    CALL,
    FINAL,
    QUEUED,
    USAGE,
    answer,
    ask,
    document,
    endings,
    google_client,
    response,
    said,
)
from tests.capture.recorded_clients import interactions, recorded_client
from tests.exporters.sink import attributes, sink
from tests.provider import DROP, Answer, serving
from tests.waiting import wait_until
from trace_recorder import TrajectoryRecorder, load, otlp, replay
from trace_recorder.cli.tail import Follower, ShownSteps
from trace_recorder.rerun.serving import ReplayServer

KEY = "sk-proj-aB3dE6fG9hJ2kL5mN8pQ1rS4tU7vW0xY"


def test_the_final_answer_is_recorded(tmp_path: Path) -> None:
    """The final answer of a background response is recorded for its call, and of the earlier answers only the first."""
    path = tmp_path / "run.json"
    final = answer(response("completed", said("Here."), CALL, usage=USAGE))
    with recorded_client(path, QUEUED, AT_WORK, AT_WORK, final) as (client, server):
        got = ask(client)
        while got.status in {"queued", "in_progress"}:
            got = client.responses.retrieve(got.id)

    [one] = interactions(path)
    assert [asked[0] for asked in server.requests] == ["/v1/responses", *["/v1/responses/resp_1"] * 3]
    assert (one.response.content, one.response.finish_reason, one.complete) == ("Here.", "completed", True)
    assert ([call.name for call in one.response.tool_calls], one.response.usage.output_tokens) == (["look"], 4)
    assert [record.data["body"]["status"] for record in endings(path)] == ["queued", "completed"]
    assert [record.data.get("polled") for record in endings(path)] == [None, True]
    assert document(path)[0]["response"]["content"] == "Here."
    assert load(path).metrics["output_tokens"] == 4
    assert [len(step.tool_calls) for step in load(path).agent_steps] == [1]


def test_other_calls_may_come_between_polls(tmp_path: Path) -> None:
    """Each fetched answer belongs to its own call, in journal and document, however many calls follow."""
    path = tmp_path / "run.json"
    others = [answer(response("completed", said(f"{number}"), number=number)) for number in range(10, 40)]
    second = answer(response("completed", said("There."), number=2))
    begun = (QUEUED, answer(response("queued", number=2)))
    with recorded_client(path, *begun, *others, second, FINAL) as (client, _):
        ask(client)
        ask(client)
        for _ in others:
            client.responses.create(model="o9", input="And?")
        client.responses.retrieve("resp_2")
        client.responses.retrieve("resp_1")

    contents = [call.response.content for call in interactions(path)]
    assert contents == ["Here.", "There.", *(f"{number}" for number in range(10, 40))]
    assert [call["response"]["content"] for call in document(path)] == contents


def test_a_cancelled_response_is_final(tmp_path: Path) -> None:
    """The answer to the request that cancels a response is recorded as the final answer."""
    path = tmp_path / "run.json"
    with recorded_client(path, QUEUED, answer(response("cancelled"))) as (client, server):
        client.responses.cancel(ask(client).id)

    [one] = interactions(path)
    assert server.requests[1][0] == "/v1/responses/resp_1/cancel"
    assert (one.response.finish_reason, len(endings(path))) == ("cancelled", 2)


def test_a_failed_poll_is_not_recorded(tmp_path: Path) -> None:
    """A failed poll is not recorded, and the next poll is not a second attempt."""
    path = tmp_path / "run.json"
    broken = Answer([b'{"id": "resp_1", "sta', DROP])
    with recorded_client(path, QUEUED, answer({"error": {"message": "busy"}}, 503), broken, FINAL) as (client, _):
        ask(client)
        with pytest.raises(openai.InternalServerError):
            client.responses.retrieve("resp_1")
        with pytest.raises(openai.APIConnectionError):
            client.responses.retrieve("resp_1")
        assert client.responses.retrieve("resp_1").output_text == "Here."

    [one] = interactions(path)
    assert (one.response.content, len(one.attempts), one.error, len(endings(path))) == ("Here.", 1, None, 2)


def test_an_async_client_of_a_second_recorder_may_poll(tmp_path: Path) -> None:
    """An answer that an async client of a second recorder fetches is recorded in the run of the call, complete and with
    keys masked.
    """
    path, other = tmp_path / "run.json", tmp_path / "other.json"
    text = f"{KEY} " + "word " * 100_000
    with recorded_client(path, QUEUED, answer(response("completed", said(text)))) as (client, server):
        ask(client)

        async def poll() -> str:
            with TrajectoryRecorder(other, strict=True) as recorder:
                async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as polling:
                    return (await recorder.wrap(polling).responses.retrieve("resp_1")).output_text

        assert asyncio.run(poll()) == text

    [one] = interactions(path)
    assert one.response.content == text.replace(KEY, "[REDACTED:openai-key]")
    assert (interactions(other), KEY in path.with_suffix(".jsonl").read_text()) == ([], False)


def test_a_poll_of_an_unknown_response_is_not_recorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A poll is not recorded if another process began the response, or if its run has ended."""
    path = tmp_path / "run.json"
    with serving(QUEUED, FINAL) as server, openai.OpenAI(api_key="k", base_url=f"{server.url}/v1") as client:
        with TrajectoryRecorder(path, strict=True) as recorder:
            ask(recorder.wrap(client))
            client.responses.retrieve("resp_77")
        before = path.with_suffix(".jsonl").read_bytes()
        with caplog.at_level(logging.WARNING):
            client.responses.retrieve("resp_1")

    [one] = interactions(path)
    assert (one.response.finish_reason, one.response.extra["status"]) == (None, "queued")
    assert [step.state for step in load(path).agent_steps] == ["thinking"]
    assert (path.with_suffix(".jsonl").read_bytes(), caplog.records) == (before, [])


def test_a_step_is_shown_when_its_answer_has_arrived(tmp_path: Path) -> None:
    """`tail` shows the step of a background response once, when the final answer has arrived."""
    path = tmp_path / "run.json"
    with recorded_client(path, QUEUED, FINAL) as (client, _):
        follower = Follower(path.with_suffix(".jsonl"))
        shown = ShownSteps(follower.read(), full=False)
        ask(client)
        assert [*shown.settled(follower.read())] == []
        client.responses.retrieve("resp_1")
        [entries] = shown.settled(follower.read())
        assert [entry.text for entry in entries if entry.label == "answer"] == ["Here."]


def test_google_interactions_are_polled_in_the_same_way(tmp_path: Path) -> None:
    """The fetched answer of a Google agent, which only works in the background, is recorded for its call."""
    path = tmp_path / "run.json"
    begun = {"id": "v1_abc", "object": "interaction", "status": "in_progress", "model": "g"}
    output = [{"type": "model_output", "content": [{"type": "text", "text": "Here."}]}]
    final = {**begun, "status": "completed", "steps": output, "usage": {"total_output_tokens": 4}}
    with serving(answer(begun), answer(begun), answer(final)) as server, google_client(server) as client:
        with TrajectoryRecorder(path, strict=True) as recorder:
            polled: Callable[[str], Any] = recorder.wrap(client).interactions.get
            one = client.interactions.create(model="g", input="Look.", background=True)
            while one.status == "in_progress":
                one = polled(one.id)

    [call] = interactions(path)
    asked = [request[0].partition("?")[0].rpartition("/")[2] for request in server.requests]
    assert asked == ["interactions", "v1_abc", "v1_abc"]
    assert (call.response.content, call.response.finish_reason) == ("Here.", "completed")
    assert [record.data["body"]["status"] for record in endings(path)] == ["in_progress", "completed"]


def test_a_span_is_sent_when_the_answer_is_final(tmp_path: Path) -> None:
    """The span of a background response is sent once, with the final answer."""
    path = tmp_path / "run.json"
    other = answer(response("completed", said("Yes."), number=2))
    with (
        sink() as collector,
        serving(QUEUED, other, FINAL) as server,
        openai.OpenAI(api_key="k", base_url=f"{server.url}/v1") as client,
        TrajectoryRecorder(path, strict=True, exporters=[otlp(collector.url, flush_seconds=20)]) as recorder,
    ):
        with recorder.step():
            ask(recorder.wrap(client))
        with recorder.step():
            client.responses.create(model="o9", input="And?")
        wait_until(lambda: len(collector.spans()) >= 2)
        before = collector.names()
        client.responses.retrieve("resp_1")
        recorder.finalize(success=True)
        after = {attributes(span).get("gen_ai.response.id"): attributes(span) for span in collector.spans()}

    assert before == ["chat o9", "step 2"]
    assert "Here." in after["resp_1"]["gen_ai.output.messages"]


def test_a_replay_is_polled_too(tmp_path: Path) -> None:
    """A replay gives the first answer, and the final answer to each poll, without a request to the provider."""
    path = tmp_path / "run.json"
    with recorded_client(path, QUEUED, AT_WORK, FINAL) as (client, _):
        ask(client)
        client.responses.retrieve("resp_1")
        client.responses.retrieve("resp_1")

    with replay(path) as run, openai.OpenAI(api_key="k", base_url="http://127.0.0.1:1/v1", max_retries=0) as made:
        got = ask(run.wrap(made))
        assert got.status == "queued"
        assert made.responses.retrieve(got.id).output_text == "Here."
    with ReplayServer(replay(path, strict=False)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as made:
            assert made.responses.retrieve(ask(made).id).output_text == "Here."
        server.shutdown()


def test_a_large_first_answer_is_recognised_in_a_poll(tmp_path: Path) -> None:
    """The call of a large first answer, which is written in parts, is found again by a poll."""
    path = tmp_path / "run.json"
    large = {"instructions": "word " * 20_000}
    final = answer(response("completed", said("Here."), **large))
    with recorded_client(path, answer(response("queued", **large)), final) as (client, _):
        client.responses.retrieve(ask(client).id)

    [one] = interactions(path)
    assert one.response.content == "Here."
    assert document(path)[0]["response"]["content"] == "Here."
    with replay(path) as run, openai.OpenAI(api_key="k", base_url="http://127.0.0.1:1/v1", max_retries=0) as made:
        assert made.responses.retrieve(ask(run.wrap(made)).id).output_text == "Here."


class Through(httpx2.BaseTransport):
    """A transport that sends requests by another client."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request by the other client."""
        same = {"headers": request.headers, "content": request.read()}
        return self.client.send(httpx2.Request(request.method, request.url, **same))


def test_two_recorders_of_one_call_both_have_the_answer(tmp_path: Path) -> None:
    """Two recorders that record the same client, one inside the other, both have the fetched answer."""
    with (
        serving(QUEUED, FINAL) as server,
        TrajectoryRecorder(tmp_path / "inner.json") as inner,
        TrajectoryRecorder(tmp_path / "outer.json") as outer,
        httpx2.Client() as http,
        httpx2.Client(transport=Through(inner.wrap(http))) as around,
    ):
        client = outer.wrap(openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", http_client=around))
        client.responses.retrieve(ask(client).id)

    assert [interactions(tmp_path / name)[0].response.content for name in ("inner.json", "outer.json")] == ["Here."] * 2


def test_keys_of_a_polling_client_are_masked(tmp_path: Path) -> None:
    """The key of a client that polls is masked in answers, even if it does not look like a key."""
    path = tmp_path / "run.json"
    key = "correct-horse-42-battery"
    with recorded_client(path, QUEUED, answer(response("completed", said(f"You sent {key}.")))) as (client, _):
        ask(client)
        client.with_options(api_key=key).responses.retrieve("resp_1")

    assert key not in path.with_suffix(".jsonl").read_text() + path.read_text()


def test_an_unreadable_first_answer_is_recorded_unchanged(tmp_path: Path) -> None:
    """A first answer that cannot be read is recorded unchanged, and other calls are recorded as usual."""
    path = tmp_path / "run.json"
    odd = b'{"id":"resp_1","status":"queued","output":[],"n":' + b"9" * 5000 + b"}"
    with recorded_client(path, Answer([odd])) as (client, _):
        client.responses.with_raw_response.create(model="o9", input="Look.", background=True)

    [ending] = endings(path)
    assert ending.data["text"].encode() == odd


def test_an_answer_is_written_with_a_later_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that could not be written to a full disk is written with a later poll."""
    path = tmp_path / "run.json"
    with (
        serving(QUEUED, FINAL) as server,
        TrajectoryRecorder(path) as recorder,
        openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        ask(recorder.wrap(client))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full_disk)
            assert client.responses.retrieve("resp_1").output_text == "Here."
        assert client.responses.retrieve("resp_1").output_text == "Here."

    assert ([call.response.content for call in interactions(path)], len(endings(path))) == (["Here."], 2)


def full_disk(fd: int, data: bytes) -> int:
    """Raise the error of a write to a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
