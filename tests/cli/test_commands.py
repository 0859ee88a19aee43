"""The command line: its output, and how it exits, in this process and as a program."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.cli.program import program
from tests.data import recorded
from tests.data.shown import by_hand, captured
from tests.data.written import Writing, asked, change, said
from trace_recorder import Trajectory, TrajectoryFormatError, TrajectoryRecorder, load
from trace_recorder.cli import main
from trace_recorder.cli.list_runs import OtherFile, listing
from trace_recorder.values.messages import Payload


@pytest.fixture(autouse=True)
def _two_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    monkeypatch.delenv("COLUMNS", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with a captured run, a run that was recorded by hand, a run without its journal, and another file."""
    directory = tmp_path / "runs"
    directory.mkdir()
    captured(directory / "captured.jsonl").journal.close()
    by_hand(directory / "by_hand.jsonl")
    head = {"task": "An older\nrun" + " that was long" * 6, "start_time": "2025-06-11T08:00:00Z", "end_time": None}
    (directory / "alone.json").write_text(json.dumps({**head, "llm_interactions": [], "agent_steps": []}))
    (directory / ".hidden.json").write_text("{")
    (directory / "notes.txt").write_text("none of ours")
    return directory


def output_of(*arguments: object, code: int = 0) -> str:
    """Run a command that must exit with this code, and return its output."""
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    return result.output


# ── list ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_runs_of_a_directory_are_listed_by_their_start(runs: Path) -> None:
    """`list` prints one line for each run, however the run ended. Unknown values are blank."""
    assert output_of("list", runs) == (
        "file            start             task                                                          status   "
        "success  steps  tokens     cost  errors    took  calls  model\n"
        "alone.json      2025-06-11 10:00  An older run that was long that was long that was long th...  unknown  "
        "             0                                       0\n"
        "by_hand.jsonl   2025-06-12 22:05  List                                                          failed   "
        "no           2      11                1  8.25 s      2  anthropic/claude\n"
        "captured.jsonl  2025-06-12 22:05  Mend a.py                                                     unknown  "
        "             4   1,230  ~0.0021                      4  openai/gpt-4o\n"
    )


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (150, "file start task status success steps tokens cost errors took model"),
        (110, "file start task status success steps tokens cost calls"),
        (80, "file start task status success steps"),
        (70, "file start task status success"),
        (58, "file task status success steps"),
        (24, "file status"),
        (3, "file status"),
    ],
)
def test_a_narrow_terminal_has_the_columns_that_matter_most(
    width: int, titles: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is never wider than the terminal: the least important columns are left out, and no line is broken."""
    monkeypatch.setenv("COLUMNS", str(width))

    lines = output_of("list", runs).splitlines()
    assert " ".join(lines[0].split()) == titles
    assert max(map(len, lines)) <= max(width, 24)


def test_a_run_that_continues_another_names_it(tmp_path: Path) -> None:
    """`list` has a column for the continued run if at least one run continues another run."""
    with TrajectoryRecorder(tmp_path / "run.json"):
        pass
    assert "forked from" not in output_of("list", tmp_path)

    with TrajectoryRecorder(
        tmp_path / "child.json", metadata={"forked_from": {"file": "run.jsonl", "interaction_id": "llm_7"}}
    ):
        pass
    assert "forked from" in output_of("list", tmp_path)
    assert output_of("list", tmp_path).splitlines()[2].split()[-1] == "llm_7"
    assert output_of("list", tmp_path, "--sort", "calls").splitlines()[2].split()[-2:] == ["run.jsonl", "llm_7"]


def test_the_json_list_has_numbers(runs: Path) -> None:
    """`list --json` has the known values as numbers, and null for unknown values."""
    [first, *_] = json.loads(output_of("list", runs, "--json"))["trajectories"]
    named = ["file", "path", "trajectory_id", "parent", "session", "start_time", "task", "status", "success"]
    names = [*named, "provider", "model", "llm_calls", "input_tokens"]

    figures = ["agent_steps", "cost", "failed_llm_calls", "failed_tool_calls"]
    origins = ["forked_from", "replay_of", "replayed_llm_calls"]
    of_costs = ["cost_estimated", "calls_without_price"]
    assert list(first) == [*names, "output_tokens", "execution_time", *figures, "rewards", *origins, *of_costs]
    assert (first["file"], first["status"], first["success"], first["llm_calls"]) == ("alone.json", "unknown", None, 0)


def test_a_file_that_is_not_a_trajectory_is_listed_with_its_reason(tmp_path: Path) -> None:
    """`list` reports the file with the message of `load`, and lists the other runs."""
    good = recorded.by_hand(tmp_path)
    bad = tmp_path / "package.json"
    bad.write_text('{"name": "x"}')
    with pytest.raises(TrajectoryFormatError) as refused:
        load(bad)

    lines = output_of("list", tmp_path).splitlines()
    assert (lines[1].split()[0], lines[2:]) == (good.name, ["", "Not shown:", f"  {refused.value}"])
    assert json.loads(output_of("list", tmp_path, "--json"))["others"] == [
        {"file": bad.name, "reason": str(refused.value)}
    ]


def test_a_file_that_breaks_its_reader_hides_no_other(runs: Path) -> None:
    """`list` reports a file whose reader fails unexpectedly, and lists the other files."""

    def load_or_break(path: Path) -> list[Trajectory]:
        return [load(path) if path.name != "captured.jsonl" else Trajectory(execution_time=1 / 0)]

    found = listing([runs], load_runs=load_or_break)

    assert [row.file for row in found.rows()] == ["alone.json", "by_hand.jsonl"]
    reason = f"{runs / 'captured.jsonl'} cannot be read: ZeroDivisionError: division by zero"
    assert found.others == [OtherFile("captured.jsonl", reason)]


def test_a_run_that_goes_on_is_listed_as_running(tmp_path: Path) -> None:
    """The status differs from the status of a run that broke off, although neither run has a recorded end."""
    going = captured(tmp_path / "going.jsonl", socket.gethostname())
    captured(tmp_path / "gone.jsonl", socket.gethostname()).journal.close()

    rows = json.loads(output_of("list", tmp_path, "--json"))["trajectories"]
    going.journal.close()
    assert [(row["file"], row["status"]) for row in rows] == [("going.jsonl", "running"), ("gone.jsonl", "interrupted")]


def test_the_environment_names_the_default_directory(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`list` without an argument lists the directory that TRACE_RECORDER_DIR names."""
    monkeypatch.setenv("TRACE_RECORDER_DIR", str(runs))

    assert output_of("list") == output_of("list", runs)


def test_without_an_argument_or_variable_the_usual_directory_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default directory is `trajectories`, where recorders put their files."""
    (tmp_path / "trajectories").mkdir()
    monkeypatch.chdir(tmp_path)

    assert output_of("list", code=1) == "trace-recorder: there are no trajectories in trajectories\n"


# ── validate ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_validate_reports_how_much_it_checked(tmp_path: Path) -> None:
    """For a valid file, `validate` prints how many records and LLM interactions it checked."""
    path = recorded.by_hand(tmp_path)

    assert output_of("validate", path) == f"{path}: ok (9 records, 3 LLM interactions)\n"


def test_findings_are_printed_with_their_place_and_the_exit_code_is_1(runs: Path) -> None:
    """`validate` prints the errors and notes of each file with their places, and a summary."""
    whole, changed, none = runs / "by_hand.jsonl", runs / "captured.jsonl", runs / "none.json"

    def late(record: dict[str, Payload]) -> None:
        record["seq"] += record["seq"] > 14

    change(changed, late)
    assert output_of("validate", whole, changed, none, code=1) == (
        f"{whole}: ok (13 records, 2 LLM interactions)\n"
        "  note   journal, record 12 (gap): record a request: OSError: disk full\n"
        "  note   document: there is no by_hand.json next to the journal\n"
        f"{changed}: 1 error (16 records, 4 LLM interactions)\n"
        "  error  journal, record 16 (llm_response): missing before it: record 15\n"
        "  note   journal: the run has no end on file: it is still running, or it was killed\n"
        "  note   document: there is no captured.json next to the journal\n"
        f"{none}: 1 error\n"
        "  error  file: No such file or directory\n"
        "3 files, 2 with errors\n"
    )


def test_findings_are_printed_as_json(runs: Path) -> None:
    """`validate --json` prints the same findings, and exits with the same code."""
    [report] = json.loads(output_of("validate", runs / "none.json", "--json", code=1))

    finding = {"severity": "error", "where": "file", "what": "No such file or directory"}
    told = {"path": str(runs / "none.json"), "findings": [finding], "records": 0, "interactions": 0, "ok": False}
    assert report == told


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "none.json"], "none.json: No such file or directory"),
        (["list", "none"], "none: No such file or directory"),
        (["list", "none.json"], "none.json: No such file or directory"),
        (["show", "alone.json", "--step", "3"], "alone.json has no step 3"),
        (["show", "by_hand.jsonl", "--step", "3"], "by_hand.jsonl has no step 3; it has 1-2"),
    ],
)
def test_a_file_that_cannot_be_shown_is_one_sentence(
    arguments: list[str], message: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`show` prints one sentence to stderr and exits with 1."""
    monkeypatch.chdir(runs)

    result = invoke(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"trace-recorder: {message}\n")


@pytest.mark.parametrize("content", [b"{", b'{"a": 1}', b'{"llm_interactions": [], "schema_version": 99}'])
def test_a_foreign_file_is_refused_with_the_message_of_load(content: bytes, tmp_path: Path) -> None:
    """`show` prints the message of `load` for a file that is not a trajectory, and for a file of a newer version."""
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(TrajectoryFormatError) as refused:
        load(path)

    assert output_of("show", path, code=1) == f"trace-recorder: {refused.value}\n"


def test_a_damaged_document_causes_no_traceback(tmp_path: Path) -> None:
    """`show` reports a document with values of a wrong type in one sentence."""
    path = tmp_path / "file.json"
    call = {"timestamp": "", "duration_seconds": "x"}
    path.write_text(json.dumps({"llm_interactions": [call], "agent_steps": []}))

    output = output_of("show", path, code=1)
    assert (output.startswith(f"trace-recorder: {path}"), output.count("\n")) == (True, 1)


@pytest.mark.parametrize(
    "arguments", [["grep"], ["diff", "a", "b", "c"], ["show", "a", "--step", "x"], ["dance"], ["--nope"]]
)
def test_misuse_exits_with_2(arguments: list[str]) -> None:
    """For a misuse, the command prints its usage and exits with 2."""
    assert output_of(*arguments, code=2).startswith("Usage: trace-recorder")


# ── as a program ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_program_prints_what_the_commands_print(runs: Path) -> None:
    """`python -m trace_recorder` prints the same as the command, and nothing on stderr."""
    result = program("show", runs / "by_hand.jsonl")

    assert (result.returncode, result.stdout.decode(), result.stderr) == (
        0,
        output_of("show", runs / "by_hand.jsonl"),
        b"",
    )


def test_any_locale_can_show_any_text(tmp_path: Path) -> None:
    """A character that the encoding lacks is printed as its escape. JSON stays JSON."""
    writing = Writing(tmp_path / "run.jsonl", task="Grüße 日本")
    writing.request(1, asked())
    writing.response(1, body=said("\U0001f600"))
    writing.journal.close()
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    lines = program("show", writing.path, **ascii_only).stdout.decode("ascii").splitlines()
    assert (lines[1], lines[-1]) == ("  task       Gr\\xfc\\xdfe \\u65e5\\u672c", "  answer     \\U0001f600")
    document = json.loads(program("show", "--json", writing.path, **ascii_only).stdout.decode("ascii"))
    assert document["llm_interactions"][0]["response"]["content"] == "\U0001f600"


def test_a_reader_that_stops_reading_is_not_an_error(runs: Path) -> None:
    """`trace-recorder show … | head -1` prints no error."""
    writing = Writing(runs / "long.jsonl")
    writing.request(1, asked(*({"role": "user", "content": f"{n} " * 400} for n in range(500))))
    writing.journal.close()
    command = [sys.executable, "-m", "trace_recorder", "show", str(writing.path)]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"long.jsonl\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_version_prints_the_name_and_the_version() -> None:
    """`--version` prints the name and the version of the package."""
    assert output_of("--version").startswith("trace-recorder ")


def test_main_exits_as_its_command_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The package's entry point reads the program's arguments, and exits with the code of the command."""
    monkeypatch.setattr(sys, "argv", ["trace-recorder", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()

    assert (ended.value.code, capsys.readouterr().out[:15]) == (0, "trace-recorder ")
