"""The command `tail`: a run is followed while its agent works."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from tests.data.shown import HALF, JOINED, captured
from tests.data.written import Writing, asked, called, said
from trace_recorder import TrajectoryRecorder
from trace_recorder.cli.tail import Follower, ShownSteps, waiting_for

ASK = [{"role": "user", "content": "q"}]


def test_an_ended_run_shows_its_last_steps(tmp_path: Path) -> None:
    """`tail` prints the last steps and how the run ended. It exits with 1 if the run was not completed."""
    done = invoke("tail", recorded(tmp_path / "run.json", "an answer"))

    assert done.exit_code == 0
    assert done.output.splitlines()[0] == f"{tmp_path / 'run.jsonl'}: 1 step so far"
    assert "  answer     an answer" in done.output.splitlines()
    assert done.output.splitlines()[-1] == "the run has ended: completed, success"
    assert "an answer" not in invoke("tail", tmp_path, "-n", 0).output


def test_a_run_that_was_broken_off_exits_with_1(tmp_path: Path) -> None:
    """`tail` exits with 1 for a run whose process is known to be dead."""
    path = recorded(tmp_path / "run.json")
    journal = path.with_suffix(".jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))

    done = invoke("tail", path)
    assert (done.exit_code, done.output.splitlines()[-1]) == (1, "the run has ended: interrupted")


def test_a_run_without_a_journal_is_refused(tmp_path: Path) -> None:
    """The message is one sentence."""
    assert "there are no journals" in invoke("tail", tmp_path).output
    (tmp_path / "alone.json").write_text("{}")
    assert "has no journal" in invoke("tail", tmp_path / "alone.json").output
    assert invoke("tail", tmp_path / "alone.json").exit_code == 1


def test_new_steps_are_read_and_shown_once(tmp_path: Path) -> None:
    """`tail` prints each step when the step is complete, and never again."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        follower = Follower(path.with_suffix(".jsonl"))
        shown = ShownSteps(follower.read(), full=False)
        answers = []
        for number in range(3):
            recorder.record_llm_interaction(ASK, {"content": f"answer {number}"}, "openai", "m")
            steps = [*shown.settled(follower.read())]
            answers.append([[entry.text for entry in step if entry.label == "answer"] for step in steps])
        assert [*shown.settled(follower.read())] == []

    assert answers == [[["answer 0"]], [["answer 1"]], [["answer 2"]]]


def test_an_open_call_is_not_shown(tmp_path: Path) -> None:
    """A call is shown when it is answered, and a torn line is read when it is complete."""
    writing = captured(tmp_path / "run.jsonl")
    follower = Follower(tmp_path / "run.jsonl")
    trajectory = follower.read()
    shown = ShownSteps(trajectory, full=False)
    assert len([*shown.settled(trajectory)]) == 3
    writing.response(4, body={"id": "c", "choices": [{"index": 0, "message": {"content": "late"}}]})
    writing.journal.close()
    journal = tmp_path / "run.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-5])

    assert [*shown.settled(follower.read())] == []
    journal.write_bytes(whole)
    [step] = shown.settled(follower.read())
    assert "late" in [entry.text for entry in step]


def test_several_runs_are_followed_at_once(tmp_path: Path) -> None:
    """Each printed block names its run. The exit code is 1 if one of the runs was not completed."""
    path, other = recorded(tmp_path / "one.json", "first"), recorded(tmp_path / "other.json", "second")
    cut = other.with_suffix(".jsonl")
    cut.write_bytes(b"".join(cut.read_bytes().splitlines(keepends=True)[:-1]))

    done = invoke("tail", path, other)

    lines = [line for line in done.output.splitlines() if line.startswith(("==>", "the run"))]
    assert lines == [
        f"==> {path.with_suffix('.jsonl')} <==",
        "the run has ended: completed, success",
        f"==> {cut} <==",
        "the run has ended: interrupted",
    ]
    assert done.exit_code == 1
    assert invoke("tail", path, path.with_suffix(".jsonl")).output.count("the run has ended") == 1


def test_a_running_agent_is_followed_to_its_end(tmp_path: Path) -> None:
    """`tail` runs as a process while another process records."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        command = [sys.executable, "-m", "trace_recorder", "tail", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None
            assert following.stdout.readline().endswith(": 0 steps so far\n")
            recorder.record_llm_interaction(ASK, {"content": "here"}, "openai", "m")
            line = next(line for line in following.stdout if "answer" in line)
            recorder.finalize(success=True)
            rest = following.stdout.read()

    assert (line.split(), following.returncode) == (["answer", "here"], 0)
    assert rest.splitlines()[-1] == "the run has ended: completed, success"


def waiting(path: Path, now: str) -> list[str]:
    """Return the lines about the calls and tools that a run waits for at a time."""
    trajectory = Follower(path).read()
    shown = ShownSteps(trajectory, full=False)
    assert [*shown.settled(trajectory)]
    return [line.plain for part in shown.open_parts(trajectory) for line in waiting_for(part, now)]


def test_an_open_call_is_shown_with_its_time_and_text(tmp_path: Path) -> None:
    """An open call is shown with its waiting time and the text received so far."""
    writing = captured(tmp_path / "run.jsonl")
    writing.request(5, asked({"role": "user", "content": "go"}, stream=True))
    writing.stream(5, HALF)

    assert waiting(tmp_path / "run.jsonl", "2025-06-12T20:07:46+00:00") == [
        "waiting 1 min 45 s: llm_4, openai gpt-4o, no answer yet",
        "waiting 1 min 43 s: llm_5, openai gpt-4o, 11 characters so far",
        "Half an ans",
    ]


def test_a_running_tool_is_shown(tmp_path: Path) -> None:
    """A tool without a result is shown with its arguments, from the time of the model's answer on."""
    writing = Writing(tmp_path / "run.jsonl", task="t", provider="openai", model="gpt-4o")
    writing.request(1, asked({"role": "user", "content": "go"}))
    writing.response(1, body=said(None, called("a", "bash", command="ls")), duration_seconds=3)
    writing.request(2, asked({"role": "user", "content": "go"}))
    writing.response(2, body=said("x", called("b", "bash", command="pwd")), duration_seconds=3)

    assert waiting(tmp_path / "run.jsonl", "2025-06-12T20:05:59+00:00") == ['waiting 6 s: bash {"command": "pwd"}']


def test_a_tool_with_a_result_is_not_waited_for(tmp_path: Path) -> None:
    """`tail` shows only the tools of an answer that have no result."""
    writing = Writing(tmp_path / "run.jsonl", task="t", provider="openai", model="gpt-4o")
    writing.request(1, asked({"role": "user", "content": "go"}))
    writing.response(1, body=said("first"), duration_seconds=3)
    calls = [called(command, "bash", command=command) for command in ("ls", "pwd", "id")]
    writing.request(2, asked({"role": "user", "content": "go on"}))
    writing.response(2, body=said(None, *calls), duration_seconds=3)
    writing.add("tool_result", execution_id="tool_1", call_id="pwd", name="bash", success=True, result="/")

    [line] = waiting(tmp_path / "run.jsonl", "2025-06-12T20:05:59+00:00")
    assert line.partition(": ")[2] == 'bash {"command": "ls"}, bash {"command": "id"}'


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such terminals")
def test_a_terminal_shows_the_text_of_an_open_call(tmp_path: Path) -> None:
    """The text is drawn while the call is open, and removed when the step is printed."""
    import pty  # noqa: PLC0415 - Windows has none

    writing = Writing(tmp_path / "run.jsonl", "elsewhere", task="t", provider="openai", model="gpt-4o")
    writing.request(1, asked({"role": "user", "content": "go"}, stream=True))
    writing.stream(1, HALF)
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "trace_recorder", "tail", str(writing.journal.path)]
    tail = subprocess.Popen(command, stdout=its, stderr=its, env={**os.environ, "COLUMNS": "60", "TERM": "xterm"})
    os.close(its)

    shown = b""
    while b"Half an ans" not in shown:
        shown += os.read(ours, 4096)
    writing.response(1, stream=True, complete=True, assembled=JOINED)
    writing.add("finalize", status="completed", success=None, final_result=None, execution_time=5.0)
    writing.journal.close()
    printed = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(ours, 4096):
            printed += part
    os.close(ours)

    assert tail.wait() == 0
    later = printed.decode("utf-8", "replace")  # a read may have ended in the middle of a character
    assert later.rindex("waiting") < later.rindex("step 1, llm_1") < later.rindex("the run has ended: completed")
