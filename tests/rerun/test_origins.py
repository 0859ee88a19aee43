"""A replayed run names the run that it repeats, and a replayed call the recorded call."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

import trace_recorder
from tests.agreement import agrees_when_saved
from tests.cli.invoking import invoke
from tests.journals import records_of
from tests.provider import CHAT_STREAM, Answer, plain, serving, stream
from tests.rerun.runs import KEY, NOWHERE, ask, client
from trace_recorder import TrajectoryRecorder, fork, load, replay
from trace_recorder.figures.stats import Stats
from trace_recorder.reading.document import from_document
from trace_recorder.reading.validate import validate
from trace_recorder.rerun.record_or_replay import RecordOrReplay
from trace_recorder.rerun.serving import ReplayServer
from trace_recorder.values.origins import ForkedFrom, ReplayedFrom, ReplayOf, run_origin_of
from trace_recorder.values.trajectory import Trajectory

Payload = Any
USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}


def used(text: str) -> Answer:
    """Return a chat completion that states its tokens."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    about = {"id": f"c-{text}", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE}
    return plain({**about, "choices": [choice]})


def work(made: openai.OpenAI) -> None:
    """Make a plain call, a streamed call, and two calls that fail: with an HTTP error, and without a response."""
    ask(made, "one")
    list(made.chat.completions.create(model="m", messages=[{"role": "user", "content": "two"}], stream=True))
    for broken, text in ((made, "three"), (made.with_options(base_url=NOWHERE), "four")):
        with suppress(openai.APIError):
            ask(broken, text)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Record a run of such an agent."""
    answers = [used("1"), stream(*CHAT_STREAM), plain({"error": {"message": "no"}}, 400)]
    with serving(*answers) as server, TrajectoryRecorder(tmp_path / "source.json", strict=True) as recorder:
        work(recorder.wrap(client(f"{server.url}/v1", max_retries=0)))
    return tmp_path / "source.json"


def origins(path: Path) -> list[tuple[str, ReplayedFrom | None]]:
    """Return the calls of a run, each with the recorded call that gave its answer."""
    return [(call.interaction_id, call.replayed_from) for call in load(path).llm_interactions]


def test_a_replay_names_its_run_and_the_source_of_each_call(source: Path, tmp_path: Path) -> None:
    """Both files name the recorded call in every record of an answer. No figure counts the replayed calls."""
    path = tmp_path / "again.json"
    with replay(source) as run, TrajectoryRecorder(path, strict=True) as recorder:
        work(recorder.wrap(run.wrap(client(max_retries=0))))
        assert agrees_when_saved(recorder)

    identity = load(source).trajectory_id
    kinds = ("llm_stream", "llm_response", "llm_error")
    marks = {(record.kind, str(record.data["replayed_from"])) for record in records_of(path) if record.kind in kinds}
    again = load(path)
    assert records_of(path)[0].data["replay_of"] == identity
    assert again.metadata["replay_of"] == {"trajectory_id": identity, "file": "source.jsonl"}
    assert {kind for kind, _ in marks} == set(kinds)
    assert origins(path) == [(f"llm_{number}", ReplayedFrom(identity, f"llm_{number}")) for number in (1, 2, 3, 4)]
    alone = from_document(json.loads(path.read_text()), "again.json").llm_interactions
    assert [(one.interaction_id, one.replayed_from) for one in alone] == origins(path)
    assert validate(path).findings == ()
    counted = {name: again.metrics[name] for name in ("llm_calls", "replayed_llm_calls", "attempts")}
    assert counted == {"llm_calls": 0, "replayed_llm_calls": 4, "attempts": 0}
    assert again.metrics.keys().isdisjoint({"input_tokens", "total_input_tokens", "llm_seconds"})


def test_an_async_replay_names_the_sources(source: Path, tmp_path: Path) -> None:
    """The calls are a plain call, a stream, a refused call, and a call without a response."""
    path = tmp_path / "again.json"

    async def act(made: openai.AsyncOpenAI) -> None:
        two: Any = [{"role": "user", "content": "two"}]
        await made.chat.completions.create(model="m", messages=[{"role": "user", "content": "one"}])
        async for _ in await made.chat.completions.create(model="m", messages=two, stream=True):
            pass
        for broken, text in ((made, "three"), (made.with_options(base_url=NOWHERE), "four")):
            with suppress(openai.APIError):
                await broken.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])

    with replay(source) as run, TrajectoryRecorder(path, strict=True) as recorder:
        made = openai.AsyncOpenAI(api_key=KEY, base_url=NOWHERE, max_retries=0)
        asyncio.run(act(recorder.wrap(run.wrap(made))))

    identity = load(source).trajectory_id
    assert origins(path) == [(f"llm_{number}", ReplayedFrom(identity, f"llm_{number}")) for number in (1, 2, 3, 4)]


def test_a_fork_distinguishes_replayed_and_made_calls(source: Path) -> None:
    """Calls before the fork name those of the parent. An answer by hand counts neither as made nor as the model's."""
    identity = load(source).trajectory_id
    with serving(used("a"), used("b"), used("c")) as server:
        with fork(source, at="llm_2") as branch:
            work(branch.wrap(client(f"{server.url}/v1", max_retries=0)))
        with fork(source, at="llm_1", answer={"choices": []}) as by_hand, suppress(openai.APIError, IndexError):
            ask(by_hand.wrap(client(f"{server.url}/v1", max_retries=0)), "one")

    path = branch.recorder.trajectory_path
    assert origins(path) == [("llm_1", ReplayedFrom(identity, "llm_1")), *((f"llm_{n}", None) for n in (2, 3, 4))]
    assert load(path).metrics["llm_calls"] == 3
    assert "replay_of" not in records_of(path)[0].data
    assert origins(by_hand.recorder.trajectory_path) == [("llm_1", ReplayedFrom(identity, "llm_1", by_hand=True))]


def test_a_call_that_a_replay_sends_is_a_made_call(source: Path, tmp_path: Path) -> None:
    """With `missing="live"`, a request that equals no recorded request is sent, and its call is not marked as
    replayed.
    """
    path = tmp_path / "again.json"
    with serving(used("new")) as server, replay(source, missing="live", strict=False) as run:
        with TrajectoryRecorder(path, strict=True) as recorder:
            made = recorder.wrap(run.wrap(client(f"{server.url}/v1", max_retries=0)))
            ask(made, "one")
            ask(made, "five")

    assert [one is None for _, one in origins(path)] == [False, True]
    assert load(path).metrics["input_tokens"] == 10


def test_a_call_to_the_local_provider_names_its_source(source: Path, tmp_path: Path) -> None:
    """`serve` names the source in a header, which is not recorded as a header. A refused call has no source."""
    path = tmp_path / "again.json"
    with ReplayServer(replay(source)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with TrajectoryRecorder(path, strict=True) as recorder:
            made = recorder.wrap(client(f"{server.url}/v1", max_retries=0))
            ask(made, "one")
            with suppress(openai.NotFoundError):
                ask(made, "five")
        server.shutdown()

    assert origins(path) == [("llm_1", ReplayedFrom(load(source).trajectory_id, "llm_1")), ("llm_2", None)]
    assert "trace-recorder-replayed-from" not in path.with_suffix(".jsonl").read_text()


@trace_recorder.tool
def count(word: str) -> int:
    """Count letters."""
    return len(word)


@trace_recorder.tool
def letters(word: str) -> Iterator[str]:
    """Yield letters."""
    yield from word


@trace_recorder.tool
async def wait(word: str) -> str:
    """Return a word later."""
    return word


def use_tools() -> None:
    """Run a tool of each kind, and a tool in a block that announces it."""
    count("one")
    list(letters("two"))
    asyncio.run(wait("three"))
    with trace_recorder.tool_call("count", {"word": "four"}):
        count("four")


def test_a_tool_that_was_not_run_is_marked(tmp_path: Path) -> None:
    """The journal and the document have the mark, `stats` counts executions without it, and `show` prints it."""
    first, again = tmp_path / "first.json", tmp_path / "again.json"
    with TrajectoryRecorder(first, strict=True):
        use_tools()
    with replay(first), TrajectoryRecorder(again, strict=True) as recorder:
        use_tools()
        assert agrees_when_saved(recorder)

    def replayed(run: Trajectory) -> list[bool]:
        return [result.replayed for step in run.agent_steps for result in step.tool_results]

    stats = Stats()
    for path in (first, again):
        stats.add(load(path))
    assert (replayed(load(first)), replayed(load(again))) == ([False] * 4, [True] * 4)
    assert replayed(from_document(json.loads(again.read_text()), "again.json")) == [True] * 4
    assert [(tool["name"], tool["calls"], tool["replayed"]) for tool in stats.to_json()["tools"]] == [
        *(("count", 2, 2), ("letters", 1, 1), ("wait", 1, 1))
    ]
    assert invoke("show", again).output.count("the tool did not run") == 4
    assert validate(again).findings == ()


AGENT = """
import openai
from trace_recorder import TrajectoryRecorder

with TrajectoryRecorder("again.json") as recorder:
    client = recorder.wrap(openai.OpenAI(base_url="http://127.0.0.1:9/v1"))
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "one"}])
"""


@pytest.mark.parametrize("tools", ["recorded", "live"])
def test_a_replayed_program_names_its_source(tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder under `trace-recorder replay` knows the source, even if the program's tools are run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    recording = tmp_path / "one.json"
    with serving(used("1")) as server, TrajectoryRecorder(recording) as recorder:
        ask(recorder.wrap(client(f"{server.url}/v1")), "one")
    identity = load(recording).trajectory_id
    result = invoke("replay", recording, "--tools", tools, "--", sys.executable, "agent.py")

    assert (result.exit_code, origins(tmp_path / "again.json")) == (0, [("llm_1", ReplayedFrom(identity, "llm_1"))])
    assert load(tmp_path / "again.json").metadata["replay_of"] == {"trajectory_id": identity, "file": "one.jsonl"}


def test_a_cassette_marks_replayed_calls(source: Path, tmp_path: Path) -> None:
    """The run of a test that is replayed from its journal has the marks too."""
    with RecordOrReplay(source.with_suffix(".jsonl"), tmp_path / "scratch", mode="once") as block:
        work(client(max_retries=0))

    assert [one is None for _, one in origins(block.path)] == [False] * 4


def test_a_journal_without_marks_is_read_as_before(source: Path) -> None:
    """All of its calls count as made."""
    assert [one for _, one in origins(source)] == [None] * 4
    assert load(source).metrics["llm_calls"] == 4


def test_a_caller_of_a_replay_sees_only_recorded_headers(source: Path) -> None:
    """The header that names an answer's source reaches only the recorder."""
    with replay(source, strict=False) as run:
        raw = run.wrap(client(max_retries=0)).chat.completions.with_raw_response
        headers = raw.create(model="m", messages=[{"role": "user", "content": "one"}]).headers
    assert [name for name in headers if "trace-recorder" in name] == []


@pytest.mark.parametrize(
    ("url", "believed"),
    [
        ("http://127.0.0.1:8421/v1/chat/completions", True),
        ("http://localhost/v1/messages", True),
        ("http://[::1]:80/v1/messages", True),
        ("https://api.openai.com/v1/chat/completions", False),
        ("http://127.0.0.1.evil.example/v1/messages", False),
    ],
)
def test_only_servers_of_this_machine_can_mark_calls(url: str, believed: bool) -> None:
    """If a provider elsewhere sends the header, its calls still count as made."""
    assert (ReplayedFrom.of_server(url, '{"interaction_id": "llm_1"}') is not None) is believed


@pytest.mark.parametrize(
    ("metadata", "origin"),
    [
        ({"forked_from": {"branch": "main"}}, None),
        ({"replay_of": {"season": 3}}, None),
        ({"replay_of": "a text", "forked_from": []}, None),
        ({"forked_from": {"file": "a.jsonl"}}, ForkedFrom(file="a.jsonl")),
        ({"replay_of": {"trajectory_id": "t"}}, ReplayOf(trajectory_id="t")),
    ],
)
def test_metadata_of_the_agent_is_no_origin(metadata: Payload, origin: object) -> None:
    """The agent's own metadata with the same names does not make its run a replay."""
    assert run_origin_of(metadata) == origin
