"""`trace-recorder replay`: unmodified programs get recorded answers without a server or a key."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import HTTPX, Done, Place
from tests.provider import CHAT, CHAT_STREAM, Server, plain, serving, stream
from tests.rerun.runs import said
from trace_recorder import load

ASKING = (
    HTTPX
    + """
    from trace_recorder import tool

    URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"

    @tool
    def write(name: str) -> str:
        print("running", name)
        return "wrote " + name

    def ask(text):
        answer = httpx.post(URL, json={"model": "m", "messages": [{"role": "user", "content": text}]})
        return answer.json()["choices"][0]["message"]["content"]
"""
)
"""The first lines of each agent of these tests."""
UNSEEN = {
    "urllib": """
    import json, urllib.request

    def unseen():
        request = urllib.request.Request(URL, json.dumps({"model": "m", "messages": []}).encode())
        return urllib.request.urlopen(request).read()
    """,
    "asyncio": """
    import asyncio
    from urllib.parse import urlsplit

    def unseen():
        async def connect():
            _, writer = await asyncio.open_connection(urlsplit(URL).hostname, urlsplit(URL).port)
            writer.close()
        asyncio.run(connect())
    """,
}
"""Functions that call a model by an HTTP client that we do not capture, by the client's library."""
NOWHERE = "http://127.0.0.1:9/v1"
"""An address where no server listens: each request fails at once."""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(said("one"), said("two"), said("three")) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return Place(tmp_path, server, capfd)


def record(place: Place, code: str) -> None:
    """Record an agent with `trace-recorder run`."""
    place.record(*agent(place, code))


def agent(place: Place, code: str) -> list[object]:
    """Write an agent, and return the command that starts it."""
    (place.path / "agent.py").write_text(textwrap.dedent(ASKING) + textwrap.dedent(code))
    return ["--", sys.executable, "agent.py"]


def replay(place: Place, *arguments: object, **environment: str) -> Done:
    """Replay the run where there is neither a server nor a key."""
    del place.environment["OPENAI_API_KEY"]
    return place.command("replay", "run.json", *arguments, OPENAI_BASE_URL=NOWHERE, **environment)


def test_a_program_is_answered_without_a_server_and_a_key(place: Place, server: Server) -> None:
    """A program that uses the OpenAI SDK prints the same as before, and no server is called."""
    code = """
    import openai

    def ask(text):
        with openai.OpenAI(max_retries=0) as client:
            answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        return answer.choices[0].message.content

    print(ask("a"), ask("b"), write("x"))
    """
    record(place, code)
    asked = len(server.requests)

    assert replay(place, *agent(place, code)) == Done(0, "one two wrote x\n", "")
    assert (asked, len(server.requests)) == (2, 2)


def test_tools_run_with_tools_live(place: Place) -> None:
    """With `--tools live`, a tool is run instead of answered from the recording."""
    code = "print(ask('a'), write('x'))"
    record(place, code)

    assert replay(place, "--tools", "live", *agent(place, code)).stdout == "running x\none wrote x\n"


HIDING = """
try:
    print(ask("another question"))
except httpx.HTTPError:
    print("no answer")
"""


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--loose"], 0)])
def test_a_request_that_was_not_recorded_is_reported_with_its_difference(
    options: list[str], code: int, place: Place
) -> None:
    """Without `--loose`, the command exits with 1, even if the agent hides its errors and exits with 0."""
    record(place, "print(ask('one question'))")
    done = replay(place, *options, *agent(place, HIDING))

    assert (done.returncode, done.stdout) == (code, "no answer\n")
    assert "trace-recorder: run.jsonl has no answer to this request (openai-chat)" in done.stderr
    assert "  ~ messages[0].content: [-one-]{+another+} question" in done.stderr
    assert "run.jsonl has calls that nobody asked for: llm_1" in done.stderr


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--loose"], 0)])
def test_a_recorded_call_that_is_not_made_is_reported(options: list[str], code: int, place: Place) -> None:
    """The program makes one of two recorded calls, and the message names the other call."""
    record(place, "ask('a'), ask('b')")
    done = replay(place, *options, *agent(place, "print(ask('a'))"))

    assert done == Done(code, "one\n", "trace-recorder: run.jsonl has calls that nobody asked for: llm_2\n")


def test_the_program_s_own_exit_code_is_passed_on(place: Place) -> None:
    """The command exits with the program's code if it failed, even if recorded calls remain."""
    record(place, "ask('a')")

    assert replay(place, *agent(place, "sys.exit(7)")).returncode == 7


def test_ignored_members_may_differ(place: Place) -> None:
    """`--ignore` may be given several times. The ignored members of a request may differ from the recorded request."""
    record(place, "ask('a')")
    options = ["--ignore", "messages[0].content", "--ignore", "temperature"]

    assert replay(place, *options, *agent(place, "print(ask('b'))")) == Done(0, "one\n", "")


def test_processes_share_the_recording(place: Place) -> None:
    """Each recorded call is given to one process only. A call that was given to a killed child is not given again."""
    record(place, "ask('a'), ask('a'), ask('a')")
    code = """
    import subprocess
    children = "import agent; print(agent.ask('a'), flush=True); import os; os._exit(0)"
    if __name__ == "__main__":
        subprocess.run([sys.executable, "-c", children], check=True)
        if os.fork() == 0:
            print(ask("a"), flush=True)
            os._exit(0)
        os.wait()
        print(ask("a"))
    """

    assert replay(place, *agent(place, code)) == Done(0, "one\ntwo\nthree\n", "")


def test_a_stream_is_replayed_with_its_delays(place: Place, server: Server) -> None:
    """With --speed, the replay waits between chunks in proportion to the recorded delays."""
    server.answers[:] = [stream(CHAT_STREAM[0], 0.3, *CHAT_STREAM[1:])]
    code = """
    import time
    USAGE = {"include_usage": True}
    body = {"model": "m", "messages": [], "stream": True, "stream_options": USAGE}
    began = time.monotonic()
    with httpx.stream("POST", URL, json=body) as answer:
        chunks = [line for line in answer.iter_lines() if line.startswith("data: {")]
    print(time.monotonic() - began > 0.25, len(chunks))
    """
    record(place, code)

    assert replay(place, "--speed", "1", *agent(place, code)).stdout == "True 3\n"


def test_the_replay_can_be_recorded(place: Place) -> None:
    """A replay under `run` is recorded again, with the replayed answers."""
    code = "print(ask('a'))"
    record(place, code)
    recording = [sys.executable, "-m", "trace_recorder", "run", "-q", "--trajectory-file", "again.json"]
    done = replay(place, "--", *recording, *agent(place, code))

    assert done == Done(0, "one\n", "")
    [call] = load(place.path / "again.json").llm_interactions
    assert call.response is not None
    assert call.response.content == "one"


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["run.json"], 2, "there is no command"),
        (["run.json", "--", "no-such-command"], 127, "command not found"),
        (["none.json", "--", "true"], 1, "there is no such file"),
        (["run.json", "--ignore", "[0]", "--", "true"], 2, "a path begins with the name of a member"),
        (["run.json", "--speed", "0", "--", "true"], 2, "above 0"),
    ],
)
def test_misuse_is_reported(arguments: list[str], code: int, why: str, place: Place) -> None:
    """A misuse is reported in one sentence, before the program is started."""
    record(place, "ask('a')")
    done = place.command("replay", *arguments)

    assert (done.returncode, why in done.stderr) == (code, True)


def test_a_process_that_cannot_be_replayed_calls_no_model(place: Place, server: Server) -> None:
    """If a process cannot read the settings of the replay, it ends instead of calling a model."""
    command = agent(place, "print(ask('a'))")
    place.environment["TRACE_RECORDER_REPLAY"] = "{"
    done = place.run("--quiet", *command)

    assert (done.returncode, "cannot be replayed" in done.stderr, server.requests) == (1, True, [])


def test_answers_are_read_by_any_http_client(place: Place, server: Server) -> None:
    """A program that posts requests itself by httpx gets the recorded answers."""
    server.answers[:] = [plain(CHAT)]
    code = """
    print(httpx.post(URL, json={"model": "m", "messages": []}).json()["id"])
    """
    record(place, code)

    assert replay(place, *agent(place, code)) == Done(0, "chatcmpl-1\n", "")


@pytest.mark.parametrize("library", UNSEEN)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_clients_that_are_not_captured_cannot_reach_a_model(
    library: str, host: str, place: Place, server: Server
) -> None:
    """The connection fails with an error that says what to do.

    The summary repeats the error, and the command exits with 1.
    """
    record(place, "print(ask('a'))")
    asked = len(server.requests)
    code = (
        UNSEEN[library]
        + """
    print(ask('a'))
    try:
        unseen()
    except OSError as error:
        print(type(error).__name__, "--allow-live" in str(error))
    """
    )
    url = f"{server.url}/v1".replace("127.0.0.1", host)
    done = place.command("replay", "run.json", *agent(place, code), OPENAI_BASE_URL=url)

    name = {"urllib": "URLError", "asyncio": "ReplayMismatchError"}[library]
    assert (done.returncode, done.stdout, len(server.requests)) == (1, f"one\n{name} True\n", asked)
    who = library if library != "asyncio" else "a client"
    assert done.stderr.startswith(f"trace-recorder: {who} was kept from connecting to {host}, which serves models.")


def test_a_program_that_uses_requests_is_answered(place: Place, server: Server) -> None:
    """`requests` gets the recorded answers in its own types. A request that differs is a connection error."""
    record(place, "print(ask('a'), ask('b'))")
    asked = len(server.requests)
    code = """
    import requests

    def ask(text):
        answer = requests.post(URL, json={"model": "m", "messages": [{"role": "user", "content": text}]})
        return answer.json()["choices"][0]["message"]["content"]

    print(ask("a"), ask("b"))
    try:
        ask("c")
    except requests.ConnectionError as error:
        print("equals none" in str(error) or "ReplayMismatchError" in str(error))
    """
    done = place.command("replay", "run.json", *agent(place, code), OPENAI_BASE_URL="http://127.0.0.1:9/v1")

    assert (done.returncode, done.stdout, len(server.requests)) == (1, "one two\nTrue\n", asked)


def test_clients_that_are_not_captured_may_be_allowed(place: Place, server: Server) -> None:
    """With `--allow-live` such clients reach their model, without a message."""
    record(place, "ask('a')")
    code = UNSEEN["urllib"] + "ask('a'); unseen()"
    done = place.command("replay", "run.json", "--allow-live", *agent(place, code))

    assert (done, len(server.requests)) == (Done(0, "", ""), 2)


def test_other_traffic_is_not_blocked(place: Place, server: Server) -> None:
    """A request by httpx to the model's host that is not an LLM call is sent. Any client may connect to other hosts."""
    record(place, "ask('a')")
    with serving(plain({})) as other:
        code = f"""
        import requests
        ask('a')
        print(httpx.get(os.environ["OPENAI_BASE_URL"] + "/models").status_code, requests.get("{other.url}").status_code)
        """
        done = place.command("replay", "run.json", *agent(place, code))

    assert (done, len(server.requests)) == (Done(0, "200 200\n", ""), 2)


def test_children_cannot_reach_a_model(place: Place, server: Server) -> None:
    """A process that the program starts or forks cannot reach a model during a replay."""
    record(place, "ask('a')")
    code = (
        UNSEEN["urllib"]
        + """
    import subprocess
    if __name__ == "__main__":
        ask("a")
        child = subprocess.run([sys.executable, "-c", "import agent; agent.unseen()"], stderr=subprocess.DEVNULL)
        if os.fork() == 0:
            try:
                unseen()
            finally:
                os._exit(0)
        os.wait()
        print(child.returncode)
    """
    )
    done = place.command("replay", "run.json", *agent(place, code))

    assert (done.returncode, done.stdout, len(server.requests)) == (1, "1\n", 1)
