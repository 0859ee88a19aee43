"""`trace-recorder fork`: unmodified programs repeat a run up to a call, and then call the provider."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import HTTPX, Done, Place, ending
from tests.journals import records_of
from tests.provider import CHAT_STREAM, Server, chat_chunk, serving, stream
from tests.rerun.runs import said
from trace_recorder import load
from trace_recorder.reading.validate import validate
from trace_recorder.values.origins import ReplayedFrom

ASKING = (
    HTTPX
    + """
    from trace_recorder import tool

    URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"

    @tool
    def write(name: str) -> str:
        print("running", name, flush=True)
        return "wrote " + name

    def ask(text, **more):
        asked = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]
        answer = httpx.post(URL, json={"model": "m", "messages": asked, **more})
        return answer.json()["choices"][0]["message"]["content"]
"""
)
"""The first lines of each agent of these tests."""
WORK = "print(ask('a'), write('x'), ask('b'), write('y'), ask('c'))"
"""The code of an agent of three calls, with a tool between each two."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A provider that answers "one", "two" and "three" while the run is recorded, and "live" from then on."""
    with serving(said("one"), said("two"), said("three"), said("live")) as server:
        yield server


def agent(place: Place, code: str = WORK) -> list[object]:
    """Write an agent, and return the command that starts it."""
    (place.path / "agent.py").write_text(textwrap.dedent(ASKING) + textwrap.dedent(code))
    return ["--", sys.executable, "agent.py"]


def record(place: Place, code: str = WORK) -> None:
    """Record an agent with `trace-recorder run`."""
    place.record("--task", "count", *agent(place, code))


def fork(place: Place, *options: object, code: str = WORK, file: str = "child.json") -> Done:
    return place.command("fork", "run.json", "--trajectory-file", file, *options, *agent(place, code))


def texts(path: Path) -> list[str | None]:
    """Return the model's texts in a run, call by call."""
    return [call.response.content if call.response else None for call in load(path).llm_interactions]


def sent(server: Server) -> list[tuple[str, str]]:
    """Return the model and the system prompt of each request that was sent after the run was recorded."""
    bodies = [json.loads(body) for _, _, body in server.requests[3:]]
    return [(body["model"], body["messages"][0]["content"]) for body in bodies]


@pytest.mark.parametrize("call", ["2", "llm_2"])
def test_a_forked_program_calls_the_provider_from_the_fork_point(call: str, place: Place, server: Server) -> None:
    """Calls and tools before the fork point get recorded answers.

    Later calls reach the provider. The child's file is printed last.
    """
    record(place)
    done = fork(place, "--at", call)

    assert (done.returncode, done.stdout) == (0, "running y\none wrote x live wrote y live\n")
    assert done.stderr == "trace-recorder: recorded 1 run, 2 LLM calls, 1 replayed LLM call, 2 tool calls: child.json\n"
    assert (texts(place.path / "child.json"), len(server.requests)) == (["one", "live", "live"], 5)


def test_the_fork_records_its_parent_and_its_end(place: Place) -> None:
    """The first record names the parent, call and step. The fork has the parent's task, and its own exit code."""
    record(place)
    fork(place, "--at", "2", code=WORK + "; sys.exit(3)")

    child, parent = place.path / "child.json", load(place.path / "run.json").trajectory_id
    start = records_of(child)[0].data
    assert (start["parent"], start["forked_at"]) == (parent, {"interaction_id": "llm_2", "step_number": 2})
    assert (load(child).task, validate(child).ok) == ("count", True)
    assert [call.replayed_from for call in load(child).llm_interactions] == [ReplayedFrom(parent, "llm_1"), None, None]
    assert ending(child) == {"status": "failed", "success": False, "error": "SystemExit", "exit_code": 3, "calls": 3}


def test_model_and_prompt_change_from_the_fork_point(place: Place, server: Server) -> None:
    """The new model replaces only the model of the forked call. Calls of a third model keep it."""
    record(place)
    (place.path / "prompt.txt").write_bytes("Be brief.".encode("utf-16"))
    fork(
        place, "--at", "2", "--model", "better", "--system-file", "prompt.txt", code=WORK + "; ask('d', model='small')"
    )
    fork(place, "--at", "3", "--system", "Be rude.", file="other.json")

    better = ("better", "Be brief.")
    assert sent(server) == [better, better, ("small", "Be brief."), ("m", "Be rude.")]
    recorded = [call.raw_request["model"] for call in load(place.path / "child.json").llm_interactions]  # type: ignore[index]
    assert recorded == ["m", "better", "better", "small"]


def test_an_answer_from_a_file_replaces_the_call(place: Place, server: Server) -> None:
    """The forked call gets the answer of the file and is not sent. The next call is sent."""
    record(place)
    (place.path / "answer.json").write_bytes(b"".join(said("by hand").chunks))  # type: ignore[arg-type]
    done = fork(place, "--at", "2", "--answer", "answer.json")

    assert (done.stdout, len(server.requests)) == ("running y\none wrote x by hand wrote y live\n", 4)
    origins = [call.replayed_from for call in load(place.path / "child.json").llm_interactions]
    assert [one and (one.interaction_id, one.by_hand) for one in origins] == [("llm_1", False), ("llm_2", True), None]


def test_a_stream_is_answered_by_the_text_of_a_stream(place: Place, server: Server) -> None:
    """A streamed call gets the recorded text of a stream, here for the OpenAI SDK."""
    server.answers[:] = [stream(*CHAT_STREAM)]
    code = """
        import openai

        USAGE = {"include_usage": True}
        with openai.OpenAI(max_retries=0) as client:
            chunks = list(client.chat.completions.create(model="m", messages=[], stream=True, stream_options=USAGE))
        print("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
        """
    record(place, code)
    by_hand = chat_chunk("by ") + chat_chunk("hand") + b"data: [DONE]\n\n"
    (place.path / "answer.txt").write_bytes(by_hand)

    assert fork(place, "--at", "1", "--answer", "answer.txt", code=code).stdout == "by hand\n"


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--loose"], 0)])
def test_a_program_that_never_reaches_the_fork_point_fails(
    options: list[str], code: int, place: Place, server: Server
) -> None:
    """The command exits with 1 without `--loose`, even if the agent exits with 0.

    A differing request is not sent.
    """
    record(place)
    hiding = """
        try:
            ask("something else")
        except httpx.HTTPError:
            print("no answer")
        """
    done = fork(place, "--at", "llm_3", *options, code=hiding)

    assert (done.returncode, done.stdout, len(server.requests)) == (code, "no answer\n", 3)
    assert "  ~ messages[1].content: [-a-]{+something else+}" in done.stderr
    assert "trace-recorder: the fork of run.jsonl ended before llm_3: no live call was made.\n" in done.stderr


def test_skipped_calls_are_reported(place: Place) -> None:
    """The forked call is sent even if the program skipped an earlier recorded call. The command names the
    skipped call.
    """
    record(place)
    done = fork(place, "--at", "llm_3", code="print(ask('a'), ask('c'))")

    assert (done.returncode, done.stdout) == (1, "one live\n")
    assert "run.jsonl, up to llm_3, has calls that nobody asked for: llm_2" in done.stderr


def test_processes_share_the_recording_and_the_fork(place: Place, server: Server) -> None:
    """Each recorded call is given to one process only, and the file of each process names the parent."""
    record(place)
    code = """
    import subprocess
    if __name__ == "__main__":
        print(ask("a"), write("x"), flush=True)
        subprocess.run([sys.executable, "-c", "import agent; print(agent.ask('b'), agent.write('y'))"], check=True)
        print(ask("c"), ask("d"))
    """
    done = place.command("fork", "run.json", "--at", "3", *agent(place, code))

    assert (done.returncode, done.stdout) == (0, "one wrote x\ntwo wrote y\nlive live\n")
    children = [load(path) for path in place.path.glob("trajectory_*.json")]
    parent = load(place.path / "run.json").trajectory_id
    assert sorted(len(one.llm_interactions) for one in children) == [1, 3]
    assert {one.metadata["forked_from"]["trajectory_id"] for one in children} == {parent}


REFUSED = {
    "no such call": (["--at", "llm_9"], 1, "has no call llm_9. Its calls are: llm_1 (step 1)"),
    "no such step": (["--at", "9"], 1, "has no call of step 9"),
    "an answer that is no JSON": (["--at", "1", "--answer", "agent.py"], 1, "the answer to llm_1 has to be JSON"),
    "no such answer": (["--at", "1", "--answer", "nowhere"], 2, "nowhere cannot be read"),
    "two prompts": (["--at", "1", "--system", "a", "--system-file", "agent.py"], 2, "mean the same: give only one"),
    "no speed": (["--at", "1", "--speed", "0"], 2, "it must be above 0"),
    "a path that is none": (["--at", "1", "--ignore", "[0]"], 1, "a path begins with the name of a member"),
}


@pytest.mark.parametrize(("options", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_forks_are_refused(options: list[str], code: int, message: str, place: Place) -> None:
    """A fork that is impossible is refused in one sentence, before the program is started."""
    record(place)
    done = fork(place, *options)

    assert (done.returncode, done.stdout) == (code, "")
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_fork_needs_a_command_that_can_be_started(place: Place) -> None:
    """A missing command is a misuse. A command that does not exist ends as in a shell."""
    record(place)

    assert place.command("fork", "run.json", "--at", "1").returncode == 2
    assert place.command("fork", "run.json", "--at", "1", "--", "no-such-program").returncode == 127
    assert place.command("fork", "nowhere.json", "--at", "1", *agent(place)).returncode == 1


UNSEEN = """
import json, urllib.request

def unseen():
    try:
        request = urllib.request.Request(URL, json.dumps({"model": "m", "messages": []}).encode())
        return urllib.request.urlopen(request).status
    except OSError:
        return "refused"
"""


def test_clients_that_are_not_captured_are_refused_up_to_the_fork(place: Place, server: Server) -> None:
    """After the fork point such clients may reach a model.

    A message says that the call is not recorded, and the command exits with 1.
    """
    record(place)
    work = "print(unseen(), ask('a'), write('x'), unseen(), ask('b'), unseen())"
    done = fork(place, "--at", "2", code=UNSEEN + work)
    lacking, first, refused, live = done.stderr.splitlines()

    assert (done.returncode, done.stdout, len(server.requests)) == (1, "refused one wrote x refused live 200\n", 5)
    assert "child.json may lack LLM calls: urllib connected to 127.0.0.1" in lacking
    assert first == "trace-recorder: recorded 1 run, 1 LLM call, 1 replayed LLM call, 1 tool call: child.json"
    assert refused.startswith("trace-recorder: urllib was kept from connecting to 127.0.0.1")
    assert live.startswith("trace-recorder: urllib connected to 127.0.0.1: its calls are live, and not recorded.")


def test_clients_that_are_not_captured_may_be_allowed(place: Place, server: Server) -> None:
    """With `--allow-live` such clients reach a model from the start, without a message."""
    record(place)
    done = fork(place, "--quiet", "--allow-live", "--at", "2", code=UNSEEN + "print(unseen(), ask('a'), ask('b'))")

    assert (done.returncode, done.stdout, len(server.requests)) == (0, "200 one live\n", 5)
    assert "urllib" not in done.stderr


def test_a_program_that_uses_requests_is_forked(place: Place, server: Server) -> None:
    """Calls by `requests` are answered up to the fork. Later calls are sent to the other model, and recorded."""
    record(place)
    code = """
    import requests

    def ask(text):
        asked = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]
        answer = requests.post(URL, json={"model": "m", "messages": asked})
        return answer.json()["choices"][0]["message"]["content"]

    print(ask("a"), write("x"), ask("b"))
    """
    done = fork(place, "--quiet", "--at", "2", "--model", "other", code=code)
    calls = load(place.path / "child.json").llm_interactions

    assert (done.returncode, done.stdout) == (0, "one wrote x live\n")
    assert [(call.model, call.replayed_from is None) for call in calls] == [("m", False), ("other", True)]
