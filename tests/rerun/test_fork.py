"""Fork: a run is repeated up to one of its calls, and then calls the provider, as a run of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.cli.invoking import invoke
from tests.journals import records_of
from tests.provider import CHAT_STREAM, Answer, Server, chat_chunk, plain, serving, stream
from tests.rerun.runs import KEY, NOWHERE, ask, client, said
from trace_recorder import (
    RecorderStateError,
    ReplayMismatchError,
    TrajectoryRecorder,
    agent,
    fork,
    load,
    tool,
)

ran: list[str] = []


@tool
def write(name: str) -> str:
    """A tool with an effect."""
    ran.append(name)
    return f"wrote {name}"


def work(made: openai.OpenAI) -> list[str]:
    """Make three calls, and run a tool after each."""
    ran.clear()
    done = []
    for text in ("first", "second", "third"):
        done += [ask(made, text), write(text)]
    return done


@pytest.fixture
def server() -> Iterator[Server]:
    """A live provider whose answers differ from the recorded ones."""
    with serving(said("four"), said("five"), said("six")) as server:
        yield server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run of three calls."""
    return record(tmp_path, [said("one"), said("two"), said("three")], work)


def record(tmp_path: Path, answers: list[Answer], act: Callable[[openai.OpenAI], object]) -> Path:
    with serving(*answers) as server, TrajectoryRecorder(tmp_path / "run.json", task="count", strict=True) as recorder:
        act(recorder.wrap(client(f"{server.url}/v1")))
    return tmp_path / "run.json"


def texts(path: Path) -> list[str | None]:
    """Return the model's texts in a run, call by call."""
    return [call.response.content if call.response else None for call in load(path).llm_interactions]


@pytest.mark.parametrize("point", [{"at": "llm_2"}, {"at_step": 2}])
def test_a_fork_calls_the_provider_from_a_call_on(point: dict[str, Any], path: Path, server: Server) -> None:
    """Earlier calls and tools are answered from the run. The forked call and later calls are sent, and their tools are
    run.
    """
    with fork(path, **point) as branch:
        done = work(branch.wrap(client(f"{server.url}/v1")))

    assert done == ["one", "wrote first", "four", "wrote second", "five", "wrote third"]
    assert (ran, len(server.requests)) == (["second", "third"], 2)
    assert texts(branch.recorder.trajectory_path) == ["one", "four", "five"]


def test_a_form_before_the_point_is_answered_from_the_run(tmp_path: Path, server: Server) -> None:
    """A form has another boundary each time, and is the recorded call nevertheless."""

    def transcribe_and_ask(made: openai.OpenAI) -> list[str]:
        sound = ("a.mp3", b"ID3\xff")
        return [made.audio.transcriptions.create(model="w", file=sound).text, ask(made, "and now?")]

    path = record(tmp_path, [plain({"text": "heard"}), said("one")], transcribe_and_ask)
    with fork(path, at="llm_2") as branch:
        done = transcribe_and_ask(branch.wrap(client(f"{server.url}/v1")))

    assert (done, len(server.requests)) == (["heard", "four"], 1)


def test_a_fork_names_its_parent(path: Path, server: Server) -> None:
    """The first record of the fork's journal and its metadata name the parent. Its file is next to the parent's."""
    with fork(path, at="llm_2") as branch:
        work(branch.wrap(client(f"{server.url}/v1")))

    child = branch.recorder.trajectory_path
    start = records_of(child)[0].data
    parent = load(path).trajectory_id
    point = {"interaction_id": "llm_2", "step_number": 2}
    assert (child.parent, start["parent"], start["forked_at"]) == (path.parent, parent, point)
    assert load(child).metadata["forked_from"] == {"trajectory_id": parent, "file": "run.jsonl", **point}
    assert (load(child).task, load(child).status) == ("count", "completed")


@pytest.mark.parametrize("facts", [{}, {"provider": "openai", "model": "m"}], ids=["not stated", "stated"])
def test_a_fork_is_listed_under_the_model_that_it_called(facts: dict[str, str], path: Path, server: Server) -> None:
    """The model of the parent's answers is not the fork's, even if the agent states it. The document and the journal,
    `list`, `show` and queries agree.
    """
    child, provider = path.with_name("child.json"), load(path).provider
    with fork(path, at="llm_2", model="better", recorder=TrajectoryRecorder(child, **facts)) as branch:
        work(branch.wrap(client(f"{server.url}/v1")))

    [row] = json.loads(invoke("list", child, "--json").output)["trajectories"]
    shown = [line.split()[1:] for line in invoke("show", child).output.splitlines() if line.split()[:1] == ["model"]]
    models = [load(child).model, json.loads(child.read_bytes())["model"], row["model"]]
    found = [invoke("find", f"model:{provider}/{name}", child).exit_code for name in ("better", "m")]
    assert (models, shown, found) == (["better"] * 3, [[f"{provider},", "better"]], [0, 1])


def test_edited_requests_are_recorded_as_sent(path: Path, server: Server) -> None:
    """The model changes from the forked call on. Recorded calls keep their model."""
    with fork(path, at="llm_2", edit=lambda body: {**body, "model": "better"}) as branch:
        work(branch.wrap(client(f"{server.url}/v1")))

    sent = [json.loads(body)["model"] for _, _, body in server.requests]
    recorded = [call.raw_request["model"] for call in load(branch.recorder.trajectory_path).llm_interactions]  # type: ignore[index]
    assert (sent, recorded) == (["better", "better"], ["m", "better", "better"])


def test_an_answer_by_hand_replaces_the_call(path: Path, server: Server) -> None:
    """The forked call gets the answer and is not sent. The next call is sent."""
    by_hand = json.loads(b"".join(said("by hand").chunks))  # type: ignore[arg-type]
    with fork(path, at="llm_2", answer=by_hand) as branch:
        done = work(branch.wrap(client(f"{server.url}/v1")))

    assert (done[::2], len(server.requests)) == (["one", "by hand", "four"], 1)
    assert texts(branch.recorder.trajectory_path) == ["one", "by hand", "four"]


def streamed(made: openai.OpenAI) -> str:
    chunks = made.chat.completions.create(model="m", messages=[], stream=True, stream_options={"include_usage": True})
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_a_stream_is_answered_by_the_text_of_a_stream(tmp_path: Path) -> None:
    """For a streamed call, the answer must be the text of a stream, and for any other call JSON."""
    path = record(tmp_path, [stream(*CHAT_STREAM)], streamed)
    by_hand = (chat_chunk("by ") + chat_chunk("hand") + b"data: [DONE]\n\n").decode()

    with fork(path, at="llm_1", answer=by_hand) as branch:
        assert streamed(branch.wrap(client())) == "by hand"
    with pytest.raises(ValueError, match="answer= has to be the text of a stream"):
        fork(path, at="llm_1", answer={})


def test_a_changed_program_forks_after_its_earlier_calls(path: Path, server: Server) -> None:
    """The forked call may differ from the recorded call if all calls before it were made."""
    with fork(path, at="llm_3") as branch:
        made = branch.wrap(client(f"{server.url}/v1"))
        done = [ask(made, "first"), write("first"), ask(made, "second"), write("second"), ask(made, "something else")]

    assert done == ["one", "wrote first", "two", "wrote second", "four"]


def test_a_different_call_before_the_fork_is_refused(path: Path, server: Server) -> None:
    """The call is not sent, and the block raises, even if the agent hides the error."""

    def hide() -> None:
        with fork(path, at="llm_3") as branch:
            with suppress(openai.OpenAIError):
                ask(branch.wrap(client(f"{server.url}/v1", max_retries=0)), "changed")

    with pytest.raises(ReplayMismatchError, match="changed"):
        hide()
    assert server.requests == []


def test_a_different_tool_before_the_fork_is_refused(path: Path, server: Server) -> None:
    """The tool is not run."""
    ran.clear()

    def differ() -> None:
        with fork(path, at="llm_3") as branch:
            ask(branch.wrap(client(f"{server.url}/v1")), "first")
            write("another")

    with pytest.raises(ReplayMismatchError, match="another"):
        differ()
    assert (ran, server.requests) == ([], [])


def test_a_block_that_ends_before_the_fork_is_refused(path: Path) -> None:
    """The block raises, because no call was sent to the provider."""
    with pytest.raises(ReplayMismatchError, match="ended before llm_3"), fork(path, at="llm_3") as branch:
        ask(branch.wrap(client()), "first")

    assert load(branch.recorder.trajectory_path).status == "failed"


def test_a_tool_that_contains_the_fork_point_is_run(tmp_path: Path, server: Server) -> None:
    """The forked call is a sub-agent's, so the tool that runs the sub-agent must be run."""

    def act(made: openai.OpenAI) -> list[str]:
        @tool
        def research(question: str) -> str:
            with agent("researcher"):
                return ask(made, question)

        return [ask(made, "outer"), research("inner"), ask(made, "end")]

    path = record(tmp_path, [said("one"), said("two"), said("three")], act)
    with fork(path, at="llm_2") as branch:
        assert act(branch.wrap(client(f"{server.url}/v1"))) == ["one", "four", "five"]
    with fork(path, at="llm_3") as branch:
        assert act(branch.wrap(client(f"{server.url}/v1")))[::2] == ["one", "six"]


def test_async_clients_fork_too(tmp_path: Path, server: Server) -> None:
    """The transport of an async client is replaced too."""

    async def act(made: openai.AsyncOpenAI) -> list[str | None]:
        done = []
        async with made:
            for text in ("first", "second"):
                answer = await made.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
                done += [answer.choices[0].message.content]
        return done

    path = tmp_path / "run.json"
    with serving(said("one"), said("two")) as before, TrajectoryRecorder(path, strict=True) as recorder:
        asyncio.run(act(recorder.wrap(openai.AsyncOpenAI(api_key=KEY, base_url=f"{before.url}/v1"))))
    with fork(path, at="llm_2") as branch:
        made = openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1")
        assert asyncio.run(act(branch.wrap(made))) == ["one", "four"]

    assert texts(branch.recorder.trajectory_path) == ["one", "four"]


def test_instrument_forks_all_clients(path: Path, server: Server, tmp_path: Path) -> None:
    """With `instrument`, clients that are not wrapped are forked too. The caller may give a recorder."""
    recorder = TrajectoryRecorder(tmp_path / "child.json")
    with fork(path, at="llm_3", instrument=True, recorder=recorder):
        done = work(client(f"{server.url}/v1"))

    assert (done[::2], texts(tmp_path / "child.json")) == (["one", "two", "four"], ["one", "two", "four"])


def test_a_fork_gives_an_http_client(path: Path, server: Server) -> None:
    """An SDK may take the fork's HTTP client."""
    with fork(path, at="llm_2") as branch, branch.http_client() as http_client:
        done = work(client(f"{server.url}/v1", http_client=http_client))

    assert done[::2] == ["one", "four", "five"]


def test_invalid_forks_are_refused(path: Path, tmp_path: Path) -> None:
    """`fork` refuses an unknown call, no call, two calls, and a recorder whose run has begun."""
    for wrong in ({}, {"at": "llm_1", "at_step": 1}, {"at": "llm_9"}, {"at_step": 9}):
        with pytest.raises(ValueError, match=r"at=|has no call"):
            fork(path, **wrong)  # type: ignore[arg-type]
    with TrajectoryRecorder(tmp_path / "begun.json") as recorder:
        with pytest.raises(RecorderStateError, match="has not been started"), fork(path, at="llm_1", recorder=recorder):
            pass


def test_an_edit_must_return_the_body(path: Path) -> None:
    """The error names the type of the returned value."""
    with pytest.raises(TypeError, match="edit= returned NoneType"), fork(path, at="llm_1", edit=print) as branch:
        work(branch.wrap(client(NOWHERE)))


def test_wrappers_around_a_fork_stay(path: Path, server: Server, tmp_path: Path) -> None:
    """A recorder that wraps the client within the block still records it afterwards. A client that is wrapped twice is
    forked once.
    """
    made = client(f"{server.url}/v1")
    before = made._client._transport
    with TrajectoryRecorder(tmp_path / "other.json", strict=True) as recorder:
        with fork(path, at="llm_1") as branch:
            ask(branch.wrap(recorder.wrap(branch.wrap(made))), "first")
        ask(made, "behind")
        recorded = texts(tmp_path / "other.json")
    recorder_s, inside = made._client._transport, made._client._transport.inner  # type: ignore[attr-defined]

    assert (recorded, texts(branch.recorder.trajectory_path)) == (["four", "five"], ["four"])
    assert (recorder_s is before, inside is before) == (False, True)
