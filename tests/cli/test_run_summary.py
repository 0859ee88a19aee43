"""The summary at the end of `trace-recorder run`: what was recorded and where, or why nothing was recorded."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.agents import Place, ending
from tests.processes import FORKS_WITH_THREADS
from tests.provider import CHAT, Answer, plain, serving
from trace_recorder import load

KEY = "sk-ant-api03-" + "Zq8" * 30 + "AA"


def lines(said: str) -> list[str]:
    """Return the printed lines, without the times and process ids in file names."""
    return [re.sub(r"_\d{8}_\d{6}|(?<=\.)\d+(?=\.json)", "", line) for line in said.splitlines()]


def test_the_summary_is_printed_to_stderr(place: Place) -> None:
    """The summary has the number of runs, calls and tools, and the file. stdout has only the agent's output."""
    done = place.run(*place.agent("call(); call(); print('out'); print('aside', file=sys.stderr)"))

    [document] = place.files()
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert done.stderr == f"aside\ntrace-recorder: recorded 1 run, 2 LLM calls: trajectories/{document.name}\n"


def test_failures_and_tools_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The summary has the number of failed calls and of tools."""
    code = """
    from trace_recorder import tool

    @tool
    def broken(): raise ValueError("no")

    @tool
    def whole(): return 1

    call(); whole(); call()
    try:
        broken()
    except ValueError:
        pass
    """
    with serving(plain(CHAT), Answer([b'{"error": {"message": "no"}}'], status=500)) as server:
        place = Place(tmp_path, server, capfd)
        done = place.run(*place.agent(code))

    [document] = place.files()
    figures = load(document).metrics
    tools = f"{figures['tool_calls']} tool calls (1 failed)" if figures["failed_tool_calls"] else "1 tool call"
    assert (done.returncode, figures["llm_calls"], figures["failed_llm_calls"]) == (0, 2, 1)
    assert done.stderr.startswith(f"trace-recorder: recorded 1 run, 2 LLM calls (1 failed), {tools}: ")


CHILDREN = """
import subprocess

if __name__ == "__main__":
    call()
    code = "import runpy; runpy.run_path('caller.py', run_name='__main__')"
    subprocess.run([sys.executable, "-c", code], check=True)
"""
FORKS = """
import os
call()
if os.fork() == 0:
    call()
    if os.fork() == 0:
        call()
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
"""
OWN = """
import openai
from trace_recorder import TrajectoryRecorder
for name in ("own.json", "other.json"):
    with TrajectoryRecorder(name) as recorder:
        client = recorder.wrap(openai.OpenAI())
        client.chat.completions.create(model="m", messages=[])
"""


@pytest.mark.parametrize(
    ("code", "files"),
    [
        (CHILDREN, ["trajectories/run..json", "trajectories/run.json"]),
        (FORKS, ["trajectories/run..json", "trajectories/run..json", "trajectories/run.json"]),
        (OWN, [f"{name} (by the program's own recorder)" for name in ("other.json", "own.json")]),
    ],
    ids=["children", "forks", "own"],
)
def test_every_process_and_every_run_is_counted(code: str, files: list[str], place: Place) -> None:
    """The summary counts children, forks of forks, and the agent's own recorders, each with its file."""
    place.agent("call()", "caller.py")
    command = ["--trajectory-file", "trajectories/run.json", *place.agent(code)]
    done = place.run(*command, PYTHONWARNINGS=FORKS_WITH_THREADS)

    first, *others = lines(done.stderr)
    assert (done.returncode, done.stdout) == (0, "")
    assert first == f"trace-recorder: recorded {len(files)} runs, {len(files)} LLM calls:"
    assert sorted(others) == [f"  {name}" for name in files]


def test_at_most_ten_files_are_named(place: Place) -> None:
    """Of 13 files, the summary names ten, and says that there are 3 more."""
    code = """
    import os
    for _ in range(13):
        if os.fork() == 0:
            call()
            os._exit(0)
        os.wait()
    """
    done = place.run("--trajectory-file", "run.json", *place.agent(code))

    first, *named, last = lines(done.stderr)
    assert (first, len(named)) == ("trace-recorder: recorded 13 runs, 13 LLM calls:", 10)
    assert last == "  and 3 more"


def test_a_partly_recorded_run_is_reported(place: Place) -> None:
    """The last line names the library and the host of the calls that may be missing, once."""
    unseen = "import urllib.request; urllib.request.urlopen(os.environ['OPENAI_BASE_URL'], b'{}').close()"
    done = place.run(*place.agent(f"call(); {unseen}; call()"))

    recorded, missing = done.stderr.splitlines()
    assert recorded.startswith("trace-recorder: recorded 1 run, 2 LLM calls: trajectories/")
    assert missing.startswith("trace-recorder: some calls may be missing: urllib connected to 127.0.0.1. Clients of")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_does_not_suppress_the_summary(name: str, place: Place) -> None:
    """After a signal the summary is printed, and then the command exits as its child did."""
    started = place.start(*place.agent('import time; call(); print("ready", flush=True); time.sleep(300)'))
    started.send_signal(signal.Signals[name])
    _, errors = started.communicate(timeout=120)

    assert (started.returncode, errors.splitlines()[-1].partition(": t")[0]) == (
        -signal.Signals[name],
        "trace-recorder: recorded 1 run, 1 LLM call",
    )


@pytest.mark.parametrize(
    ("code", "options", "environment", "reason"),
    [
        ("sys.exit(4)", [], {}, "no LLM call was made through httpx"),
        ("httpx.get(os.environ['OPENAI_BASE_URL'] + '/x')", [], {}, "no LLM call was made through httpx"),
        (
            "import urllib.request; urllib.request.urlopen(os.environ['OPENAI_BASE_URL'], b'{}').close()",
            *([], {}),
            "urllib connected to 127.0.0.1. Clients of httpx, httpx2, aiohttp, requests, urllib3 and websockets",
        ),
        ("call()", ["-I"], {}, "was started with -I"),
        ("call()", ["-S"], {}, "was started with -S"),
        ("call()", ["-sE"], {}, "was started with -E"),
        ("call()", [], {"TRACE_RECORDER_DISABLED": "1"}, "TRACE_RECORDER_DISABLED is set"),
    ],
    ids=["no call", "no LLM", "urllib", "-I", "-S", "-E", "disabled"],
)
def test_a_summary_says_that_nothing_was_recorded(
    code: str, options: list[str], environment: dict[str, str], reason: str, place: Place
) -> None:
    """The summary has the reason, if the reason is known. The exit code is the agent's."""
    dashes, python, name = map(str, place.agent(code))
    done = place.run(dashes, python, *options, name, **environment)

    told = [line for line in done.stderr.splitlines() if line.startswith("trace-recorder: ")]
    assert (len(told), reason in told[0]) == (1, True)
    assert told[0].startswith("trace-recorder: nothing was recorded: ")
    assert (done.returncode in {0, 1, 4}, done.stdout, place.files()) == (True, "", [])


@pytest.mark.parametrize(
    "command",
    [["sh", "-c", "exit 3"], ["PYTHON", "-c", "import urllib.request; raise SystemExit(3)"]],
    ids=["no Python", "another library"],
)
def test_possible_reasons_for_an_empty_recording_are_listed(command: list[str], place: Place) -> None:
    """The reason may be another HTTP library, a Python that does not load our recorder, or a program that is not
    Python.
    """
    [_, python, _] = map(str, place.agent(""))
    done = place.run("--", *(python if part == "PYTHON" else part for part in command))

    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith("trace-recorder: nothing was recorded: no Python process of the command used httpx")
    for reason in ("requests", "aiohttp", "-I", "-S", "environment", "`trace-recorder proxy`"):
        assert reason in done.stderr


def test_quiet_suppresses_the_summary(place: Place) -> None:
    """With `--quiet`, `run` prints no summary."""
    done = place.run("--quiet", *place.agent("call()"))
    assert (done.returncode, done.stderr, len(place.files())) == (0, "", 1)

    assert place.run("--quiet", *place.agent("")).stderr == ""


def test_a_closed_stderr_does_not_change_the_exit_code(place: Place) -> None:
    """If the summary cannot be printed, the exit code is the same."""
    command = place.program(*place.agent("call(); sys.exit(7)"))
    for to in ("2>&-", "2>/dev/full"):
        script = " ".join(["exec", *map(_quoted, command), to])
        done = subprocess.run(["sh", "-c", script], cwd=place.path, env=place.environment, check=False)
        assert done.returncode == 7


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def test_the_task_is_the_command_unless_a_task_is_given(place: Place) -> None:
    """The task in every process's file is the command as a user would type it."""
    place.agent("call()", "caller.py")
    command = place.agent(CHILDREN)
    place.run(*command, "--name", "two words")

    tasks = {load(path).task for path in place.files()}
    assert tasks == {f"{command[1]} agent.py --name 'two words'"}


def test_a_secret_in_the_command_is_in_no_file(place: Place) -> None:
    """A secret is masked in the task, in the metadata, and in the summary."""
    done = place.run(*place.agent("call()"), "--key", KEY)

    [document] = place.files()
    assert "--key [REDACTED:" in str(load(document).task)
    assert [path for path in (place.path / "trajectories").iterdir() if KEY in path.read_text()] == []
    assert KEY not in done.stderr


def test_a_secret_known_only_by_its_option_is_in_no_file(place: Place) -> None:
    """The command's words are masked together as a line, so that an option's name reveals the secret after it."""
    place.run(*place.agent("call()"), "--password", "hunter2-secret", "--name", "two words", "it's")

    [document] = place.files()
    words = load(document).metadata["command"]
    assert (words[1], words[2], words[3].startswith("[REDACTED:"), words[4:]) == (
        *("agent.py", "--password", True),
        ["--name", "two words", "it's"],
    )
    assert [path for path in (place.path / "trajectories").iterdir() if "hunter2" in path.read_text()] == []


def test_the_exit_code_is_recorded_beside_the_summary(place: Place) -> None:
    """The exit code is recorded next to the summary."""
    place.run(*place.agent("call(); sys.exit(3)"))

    [document] = place.files()
    assert ending(document)["exit_code"] == 3


def test_nothing_is_left_behind(place: Place) -> None:
    """The command deletes the files by which its processes exchange data."""
    temporary = place.path / "tmp"
    temporary.mkdir()
    environment = {**place.environment, "TMPDIR": str(temporary)}
    subprocess.run(place.program(*place.agent("call()")), cwd=place.path, env=environment, check=True)

    assert (len(place.files()), [*temporary.iterdir()]) == (1, [])
