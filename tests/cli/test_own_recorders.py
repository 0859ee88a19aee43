"""Programs with a recorder of their own, run by a command that records: one call is one call, and one run has it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import HTTPX, Done, Place, ending
from tests.cli.invoking import invoke
from tests.journals import records_of
from tests.provider import Server, serving
from tests.rerun.runs import said
from trace_recorder import load

OPENAI = """
    from openai import OpenAI
    client = wrap(OpenAI(max_retries=0))
    def ask(text):
        return client.chat.completions.create(model="m", messages=asked(text)).choices[0].message.content
"""
CLIENT = (
    HTTPX
    + """
    client = wrap(httpx.Client())
    def ask(text):
        return answer_of(client.post(URL, json={"model": "m", "messages": asked(text)}).json())
"""
)
REQUESTS = """
    import requests
    client = wrap(requests.Session())
    def ask(text):
        return answer_of(client.post(URL, json={"model": "m", "messages": asked(text)}).json())
"""
AIOHTTP = """
    import aiohttp, asyncio
    async def ask_async(text):
        async with aiohttp.ClientSession() as client:
            wrap(client)
            async with client.post(URL, json={"model": "m", "messages": asked(text)}, headers={"x-a": "b"}) as answer:
                return answer_of(await answer.json())
    def ask(text):
        return asyncio.run(ask_async(text))
"""
CLIENTS = {"httpx": CLIENT, "openai": OPENAI, "requests": REQUESTS, "aiohttp": AIOHTTP}
AGENT = """
    import os, sys
    import trace_recorder

    URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"

    def asked(text):
        return [{"role": "user", "content": text}]

    def answer_of(body):
        return body["choices"][0]["message"]["content"]

    @trace_recorder.tool
    def write(name):
        print("running", name, flush=True)
        return "wrote " + name
"""
BLOCK = """
with RECORDER as recorder:
    wrap = WRAP
CLIENT
    print(ask("a"), write("x"), ask("b"), write("y"), ask("c"))
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A provider that answers "one", "two" and "three" at first, and "live" from then on."""
    with serving(said("one"), said("two"), said("three"), said("live")) as server:
        yield server


each_client_and_wrap = pytest.mark.parametrize(
    ("client", "wrap"),
    [("openai", "trace_recorder.wrap"), ("requests", "recorder.wrap"), ("aiohttp", "trace_recorder.wrap")],
)
"""HTTP libraries and SDKs, each with one of the two ways to wrap a client."""


def agent(
    place: Place,
    client: str = "httpx",
    recorder: str = "trace_recorder.TrajectoryRecorder(task='count')",
    wrap: str = "trace_recorder.wrap",
) -> list[object]:
    """Write an agent with a recorder of its own, and return the command that starts it."""
    block = BLOCK.replace("RECORDER", recorder).replace("WRAP", wrap)
    block = block.replace("CLIENT", textwrap.indent(textwrap.dedent(CLIENTS[client]), "    "))
    (place.path / "agent.py").write_text(textwrap.dedent(AGENT) + block)
    return ["--", sys.executable, "agent.py"]


def record(place: Place, *command: object) -> Path:
    """Run an agent by itself, without a command of ours, and return the run that it records."""
    subprocess.run([*map(str, command[1:])], cwd=place.path, env=place.environment, check=True, capture_output=True)
    [path] = documents(place)
    return path


def documents(place: Place) -> list[Path]:
    """Return all documents in the place, in whatever directory they are, the oldest first."""
    paths = place.path.rglob("*.json")
    return sorted(paths, key=lambda path: str(load(path).start_time))


def told(path: Path) -> list[tuple[str, str | None]]:
    """Return the prompt and the answer of each call of a run."""
    calls = load(path).llm_interactions
    return [(call.input_messages[-1].content or "", call.response.content if call.response else None) for call in calls]


ALL = [("a", "one"), ("b", "two"), ("c", "three")]
FORKED = [("a", "one"), ("b", "live"), ("c", "live")]


def last_line(done: Done) -> str:
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("wrap", ["trace_recorder.wrap", "recorder.wrap", "(lambda client: client)"])
def test_run_leaves_the_calls_to_the_agent_s_recorder(wrap: str, place: Place) -> None:
    """There is one run, in the command's directory. The file and the terminal say whose recorder it was."""
    done = place.run("--directory", "out", *agent(place, wrap=wrap))

    [path] = documents(place)
    assert (path.parent, told(path)) == (place.path / "out", ALL)
    assert load(path).metadata == {"recorded_under": "trace-recorder run"}
    assert last_line(done) == (
        f"trace-recorder: recorded 1 run, 3 LLM calls, 2 tool calls: out/{path.name} (by the program's own recorder)"
    )


@each_client_and_wrap
def test_a_fork_is_recorded_once_by_the_agent_s_recorder(client: str, wrap: str, place: Place, server: Server) -> None:
    """The agent's run is the fork: it names its parent, is beside it, and has each call and each request as sent."""
    pytest.importorskip(client)
    command = agent(place, client, wrap=wrap)
    parent = record(place, *command)
    done = place.command("fork", "trajectories", "--at", "2", "--model", "better", *command)

    [_, child] = documents(place)
    assert (done.returncode, child.parent, told(child)) == (0, parent.parent, FORKED), done
    assert records_of(child)[0].data["parent"] == load(parent).trajectory_id
    assert load(child).metadata["forked_from"]["file"] == parent.with_suffix(".jsonl").name
    assert [call.raw_request["model"] for call in load(child).llm_interactions] == ["m", "better", "better"]  # type: ignore[index]
    assert [json.loads(body)["model"] for _, _, body in server.requests[3:]] == ["better", "better"]
    assert done.stderr.count("(by the program's own recorder)") == 1


def test_a_directory_can_be_forked_again_and_again(place: Place) -> None:
    """`fork DIR` takes the newest run, which is the last fork, with the results of its tools. Each call counts once."""
    command = agent(place)
    record(place, *command)
    codes = [place.command("fork", "trajectories", "--at", at, *command).returncode for at in ("2", "3", "2")]

    made = [load(path).metrics["llm_calls"] for path in documents(place)]
    assert (codes, made) == ([0, 0, 0], [3, 2, 1, 2])
    assert "8 LLM calls" in invoke("stats", place.path / "trajectories").stdout


@pytest.mark.parametrize("command", ["fork", "replay"])
def test_the_parent_of_a_fork_keeps_its_path(command: str, place: Place) -> None:
    """The agent gives its run the path of the run that is forked or replayed. The earlier run stays where it is."""
    words = agent(place, recorder="trace_recorder.TrajectoryRecorder('run.json', task='count')")
    record(place, *words)
    before = (place.path / "run.jsonl").read_bytes()
    options = ["--at", "2"] if command == "fork" else []
    done = place.command(command, "run.json", *options, *words)

    expected = FORKED if command == "fork" else ALL
    assert (done.returncode, told(place.path / "run.1.json")) == (0, expected), done
    assert (place.path / "run.jsonl").read_bytes() == before


def test_a_replay_is_recorded_once(place: Place) -> None:
    """The agent's recorder records the replay, whose calls do not count as made."""
    command = agent(place)
    parent = record(place, *command)
    first, second = (place.command("replay", "trajectories", *command) for _ in range(2))

    assert (first.returncode, second.returncode) == (0, 0), second
    assert [told(path) for path in documents(place)] == [ALL] * 3
    assert load(documents(place)[1]).metadata["replay_of"]["trajectory_id"] == load(parent).trajectory_id
    assert [load(path).metrics["llm_calls"] for path in documents(place)] == [3, 0, 0]


@each_client_and_wrap
def test_a_proxy_leaves_the_calls_to_the_agent_s_recorder(client: str, wrap: str, place: Place, server: Server) -> None:
    """The proxy forwards a request that the agent records, without our header, and records the others itself."""
    pytest.importorskip(client)
    words = agent(place, client, wrap=wrap)
    extra = "import httpx; httpx.post(URL, json={'model': 'm', 'messages': asked('d')})"
    (place.path / "agent.py").write_text((place.path / "agent.py").read_text() + extra)
    done = place.command("proxy", "--directory", "out", *words)

    [own, ours] = documents(place)
    assert (told(own), told(ours)) == (ALL, [("d", "live")])
    assert load(own).metadata == {"recorded_under": "trace-recorder proxy"}
    assert (own.parent, ending(ours)["exit_code"]) == (place.path / "out", 0)
    assert [name for request in server.requests for name in request.headers if "trace" in name.lower()] == []
    assert done.stderr.splitlines() == [
        "trace-recorder: recorded 2 runs, 4 LLM calls, 2 tool calls:",
        f"  out/{ours.name}",
        f"  out/{own.name} (by the program's own recorder)",
    ]


def test_a_proxy_that_records_nothing_itself_names_the_agent_s_run(place: Place) -> None:
    """If the agent records each request, there is one run, and the summary names it."""
    done = place.command("proxy", *agent(place))

    [own] = documents(place)
    file = f"trajectories/{own.name} (by the program's own recorder)"
    assert told(own) == ALL
    assert done.stderr == f"trace-recorder: recorded 1 run, 3 LLM calls, 2 tool calls: {file}\n"


def test_a_proxy_without_files_says_so(place: Place) -> None:
    """If the directory is a file, the requests pass, and the summary does not say that there were none."""
    (place.path / "out").write_text("")
    words = agent(place, recorder="open(os.devnull)", wrap="(lambda client: client)")
    done = place.command("proxy", "--directory", "out", *words)

    assert (done.returncode, last_line(done)) == (
        0,
        "trace-recorder: nothing was recorded: the files could not be created; the messages above have the reason",
    )
