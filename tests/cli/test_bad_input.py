"""Every command with every kind of bad input: an exit code and a sentence, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.invoking import invoke, recorded
from tests.cli.program import program
from tests.data.recorded import captured
from tests.processes import ROOT, in_forks
from trace_recorder import TraceRecorderError, Trajectory, TrajectoryFormatError, load
from trace_recorder.cli.read_files import UnreadableError, process
from trace_recorder.figures.stats import Stats
from trace_recorder.reading.document import from_document
from trace_recorder.reading.validate import validate
from trace_recorder.values.messages import Payload

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "list": ("list",),
    "list --json": ("list", "--json"),
    "show": ("show",),
    "show --json": ("show", "--json"),
    "show --turns": ("show", "--turns"),
    "validate": ("validate",),
    "validate --json": ("validate", "--json"),
    "stats": ("stats",),
    "stats --json": ("stats", "--json"),
    "score": ("score", "--reward", "one.py:one"),
    "export atif": ("export", "-f", "atif", "-o", "out"),
    "export hierarchy": ("export", "-f", "hierarchy", "-o", "out"),
    "export invariant": ("export", "-f", "invariant", "-o", "out.jsonl"),
    "export openai": ("export", "-f", "openai", "-o", "out.jsonl"),
    "export toolbrain": ("export", "-f", "toolbrain", "-o", "out"),
    "export traces": ("export", "-f", "traces", "-o", "out"),
    "export trae": ("export", "-f", "trae", "-o", "out"),
    "export trl": ("export", "-f", "trl", "-o", "out.jsonl"),
}
ONE = "def one(trajectory):\n    return 1\n"


def document(**members: Payload) -> bytes:
    return json.dumps({"llm_interactions": [], "agent_steps": [], **members}).encode()


def calling(**members: Payload) -> bytes:
    """Return a document of one call, some of whose members are of a wrong type."""
    call = {"timestamp": "2025-06-12T22:05:46Z", "provider": "p", "model": "m", "input_messages": []}
    return document(llm_interactions=[{**call, "response": {"content": "x", "model": "m"}, **members}])


UNREADABLE: Mapping[str, bytes] = {
    "empty.json": b"",
    "blank.json": b" \n\n",
    "blank.jsonl": b" \n\n",
    "zeros.json": bytes(64),
    "junk.json": bytes(range(256)) * 4,
    "junk.jsonl": bytes(range(256)) * 4,
    "text.json": b"the quick brown fox",
    "text.jsonl": b"the quick\nbrown fox\n",
    "cut.json": b'{"llm_interactions": [',
    "list.json": b"[1]",
    "number.json": b"7",
    "nan.json": b"NaN",
    "null.json": b"null",
    "string.json": b'"x"',
    "object.json": b'{"name": "x"}',
    "deep.json": b"[" * 100_000,
    "calls.json": b'{"llm_interactions": 5, "agent_steps": {}}',
    "call.json": b'{"llm_interactions": [5, null, "x"], "agent_steps": [3]}',
    "attempts.json": calling(attempts=[1]),
    "rewards.json": document(rewards=[1]),
    "newer.json": document(schema_version=99),
    "atif.json": b'{"schema_version": "ATIF-v1.7", "steps": 5, "agent": []}',
    "steps.json": b'{"schema_version": "ATIF-v1.7", "steps": [5], "agent": {"name": 3}}',
}
"""Files that are not a trajectory."""
WRONG: Mapping[str, bytes] = {
    "provider.json": calling(provider=7),
    "providers.json": calling(provider=["x"]),
    "model.json": calling(model={"a": 1}),
    "served.json": calling(model=None, response={"content": "x", "model": [1]}),
    "seconds.json": calling(duration_seconds="x"),
    "first.json": calling(time_to_first_token_seconds="x"),
    "timestamp.json": calling(timestamp=5),
    "tokens.json": calling(response={"content": "x", "usage": {"input_tokens": "many", "cost": "x"}}),
    "usage.json": calling(response={"usage": []}),
    "messages.json": calling(input_messages=[{"role": 5, "content": {"a": 1}}, 7]),
    "tools.json": calling(response={"tool_calls": [{"name": 5, "arguments": "x", "call_id": []}, 5]}),
    "status.json": document(start_time=5, execution_time="x", status=[1], task=5, success="x"),
    "metrics.json": document(metrics="x", metadata=[1], annotations=5),
    "metrics2.json": document(metrics={"llm_calls": [1], "input_tokens": {}}, status="completed", provider=[1]),
    "step.json": document(agent_steps=[{"step_number": "x", "timestamp": 1, "state": 5, "tool_calls": [1]}]),
    "deep_in.json": calling(response={"content": "x", "extra": json.loads("[" * 500 + "]" * 500)}),
    "nothing.jsonl": b"",
    "nuls.jsonl": bytes(64),
    "torn.jsonl": b'{"seq":1,"time":"2025',
}
"""Files with a trajectory in which a member is missing or has a wrong type or value."""
PLACES = ("missing.json", "missing.jsonl", "object.json/inside.json", "n" * 300 + ".json", "dangling.json", "loop.json")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a reward function and files of every kind."""
    for name, content in {**UNREADABLE, **WRONG, "one.py": ONE.encode()}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "dangling.json").symlink_to("nowhere.json")
    (tmp_path / "loop.json").symlink_to("loop.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outcome(command: str, *paths: str) -> tuple[int, list[str]]:
    """Return the exit code of a command on some paths, and its error messages."""
    name, *options = COMMANDS[command]
    result = invoke(name, *paths, *options, *(["--force"] if name == "export" else []))
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    if command == "validate":
        return result.exit_code, [line for line in result.stdout.splitlines() if line.startswith("  error")]
    if command == "validate --json":
        found = [finding for report in json.loads(result.stdout) for finding in report["findings"]]
        return result.exit_code, [one["what"] for one in found if one["severity"] == "error"]
    summary = f" as {command.partition(' ')[2]}: "
    return result.exit_code, [line for line in result.stderr.splitlines() if summary not in line]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_a_run_is_reported_in_one_sentence(command: str, place: Path) -> None:
    """Each command exits with 1, and prints one sentence that names the file."""
    told = {name: outcome(command, name) for name in (*UNREADABLE, *PLACES)}

    assert {name: code for name, (code, _) in told.items() if code != 1} == {}
    assert {name: said for name, (_, said) in told.items() if len(said) != 1} == {}
    named = [name for name in told if command.startswith("validate") or name in told[name][1][0]]
    assert named == [*told]


def test_redact_changes_no_file_that_is_not_a_run(place: Path) -> None:
    """It exits with 1, and the first sentence names the file. A document of a newer version is edited as JSON."""
    for name in {*UNREADABLE, *PLACES} - {"newer.json"}:
        result = invoke("redact", name, "--pattern", ".", "--yes")
        sentence, _ = result.stderr.splitlines()
        assert (result.exit_code, name in sentence, result.stdout) == (1, True, ""), (name, result.output)

    assert {name: Path(name).read_bytes() for name in UNREADABLE} == UNREADABLE
    assert (Path("dangling.json").is_symlink(), Path("loop.json").is_symlink()) == (True, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_with_wrong_types_causes_no_traceback(command: str, place: Path) -> None:
    """A file with wrong types is shown, or refused in a sentence with exit code 1, or both."""
    told = {name: outcome(command, name) for name in WRONG}

    assert {name: code for name, (code, said) in told.items() if code not in {0, 1} or (code and not said)} == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_files_and_directories(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command takes a file, a directory or `.`. For a directory, `show` shows the newest run."""
    monkeypatch.chdir(tmp_path)
    for directory in ("runs", "here"):
        recorded(tmp_path / directory / "a.json", "the older")
        recorded(tmp_path / directory / "b.json", "the newest")
    (tmp_path / "here" / "one.py").write_text(ONE)
    (tmp_path / "one.py").write_text(ONE)
    name, *options = COMMANDS[command]

    results = [
        invoke(name, path, *options, *(["--force"] if name == "export" else [])) for path in ("runs/b.json", "runs")
    ]
    monkeypatch.chdir(tmp_path / "here")
    results.append(invoke(name, ".", *options))
    assert [(result.exit_code, result.exception) for result in results] == [(0, None)] * 3
    if name == "show":
        assert [("the newest" in result.output, "the older" in result.output) for result in results] == [
            (True, False)
        ] * 3


def test_a_directory_full_of_bad_files_hides_no_run(place: Path) -> None:
    """Each command reports the files that it cannot read, and does its work with the other files."""
    recorded(place / "good.json", "the good one")
    for command in COMMANDS:
        name, *options = COMMANDS[command]
        result = invoke(name, ".", *options, *(["--force"] if name == "export" else []))
        assert result.exception is None or isinstance(result.exception, SystemExit), (command, repr(result.exception))
        assert "Traceback" not in result.output

    assert [reward.name for reward in load("good.json").rewards] == ["one"]
    assert '"the good one"' in (place / "out.jsonl").read_text()
    assert (place / "out" / "good.json").is_file()


def test_an_error_names_the_member_that_cannot_be_processed(place: Path) -> None:
    """The message names the damaged document, the member, and what to do."""
    damaged = json.loads(captured(place / "whole").read_bytes())
    damaged["llm_interactions"][0]["attempts"][0]["timestamp"] = "yesterday"
    Path("odd.json").write_text(json.dumps(damaged))

    with pytest.raises(UnreadableError) as refused:
        process(Path("odd.json"), lambda: datetime.fromisoformat("yesterday"), "exported")

    assert str(refused.value).startswith("odd.json cannot be exported, as it is damaged: document: ")
    assert "attempts[0].timestamp: " in str(refused.value)
    assert "`trace-recorder validate` lists all damage" in str(refused.value)


def test_an_invalid_time_stops_no_export(place: Path) -> None:
    """An export succeeds although the document has an invalid time of a request."""
    odd = json.loads(captured(place / "whole").read_bytes())
    odd["llm_interactions"][0]["attempts"][0]["timestamp"] = "yesterday"
    Path("odd.json").write_text(json.dumps(odd))

    assert invoke("export", "odd.json", "-f", "atif", "-o", "out").exit_code == 0


def test_a_file_of_another_tool_is_named_by_its_format(place: Path) -> None:
    """`validate` names the tool whose format the file has, and the command that reads it.

    It does not report each line as damaged.
    """
    line = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/"}
    Path("theirs.jsonl").write_text(json.dumps(line) + "\n")
    result = invoke("validate", "theirs.jsonl", "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)[0]["findings"] == [
        {
            "severity": "error",
            "where": "file",
            "what": "it is not a run of this package: it looks like pi, which `trace-recorder import` reads",
        }
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_directory_has_no_runs(command: str, place: Path) -> None:
    """Each command that reads runs prints one sentence to stderr and fails."""
    (place / "none").mkdir()
    name, *options = COMMANDS[command]
    result = invoke(name, "none", *options)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "trace-recorder: there are no trajectories in none\n"


@pytest.mark.parametrize("path", [".", "/", "", ".."])
def test_load_refuses_a_directory(path: str, place: Path) -> None:
    """The error of `load` for a directory says that it is a directory."""
    with pytest.raises(TrajectoryFormatError, match="is a directory") as refused:
        load(path)
    assert isinstance(refused.value, TraceRecorderError)
    with pytest.raises(IsADirectoryError):
        validate(path)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("empty.json", "it is empty"),
        ("nothing.jsonl", "it has no complete record"),
        ("nuls.jsonl", "it has no complete record"),
    ],
)
def test_an_empty_file_is_an_error(name: str, what: str, place: Path) -> None:
    """`validate` reports an error for an empty file, and for a file of zeros from a lost disk block."""
    assert [(finding.severity, finding.what) for finding in validate(name).findings] == [("error", what)]


def test_an_empty_document_is_called_empty(place: Path) -> None:
    """The error says that the document is empty. It is not a JSON parser's message."""
    with pytest.raises(TrajectoryFormatError, match=r"empty\.json is not a trajectory: it is empty"):
        load("empty.json")


def test_a_provider_that_is_not_a_string_is_counted() -> None:
    """A provider or model of any type is counted under its text form."""
    given: list[tuple[Payload, Payload]] = [(7, "m"), (["x"], {"a": 1}), (None, None), ("p", "m")]
    run = Trajectory(
        llm_interactions=[
            replace(one, provider=provider, model=model)
            for provider, model in given
            for one in from_document(json.loads(calling(response={})), "it").llm_interactions
        ]
    )
    figures = Stats()
    figures.add(run)

    assert [(model["provider"], model["model"]) for model in figures.to_json()["models"]] == [
        *(("7", "m"), ('["x"]', '{"a": 1}'), ("p", "m"), ("unknown", "unknown"))
    ]


def test_a_run_that_cannot_be_counted_is_counted_nowhere(place: Path) -> None:
    """Each figure of `stats` leaves out a run that cannot be counted, and covers all other runs."""
    recorded(place / "good.json")
    alone = json.loads(invoke("stats", "good.json", "--json").stdout)
    result = invoke("stats", "seconds.json", "good.json", "status.json", "--json")

    assert (result.exit_code, result.stderr.count("\n")) == (1, 2)
    assert json.loads(result.stdout) == {**alone, "unreadable": 2}


# ── output that nobody takes ─────────────────────────────────────────────────────────────────────────────────────────


def piped(arguments: list[str], to: str) -> tuple[int, str]:
    """Run the program with its stdout redirected. Return its exit code and its stderr."""
    command = " ".join([sys.executable, "-m", "trace_recorder", *arguments])
    script = f"set -o pipefail; {command} {to}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


TO_A_FULL_DISK = """
import os, runpy, sys
for number in {streams}:
    os.dup2(os.open("/dev/full", os.O_WRONLY), number)
sys.argv[1:] = {arguments}
runpy.run_module("trace_recorder", run_name="__main__")
"""
IMPORTED = """
import genai_prices.data_snapshot, pydantic.main, pydantic.type_adapter, rich.console, typer.main
from trace_recorder.cli import entry
from trace_recorder.cli.app import app_of
for name in ("list", "show", "validate", "stats", "score", "find", "grep", "diff", "export"):
    app_of([name])
"""
SEARCHES = ("find", "grep", "diff")


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Run the program with its stdout, or both streams, on a full disk. Return its exit codes and what it says.

    The processes are forks of one, because its imports take most of the time of a command.
    """
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    place = tmp_path_factory.mktemp("full")
    (place / "one.py").write_text(ONE)
    recorded(place / "runs" / "a.json", "word " * 30_000)
    for name in ("a", "b"):
        recorded(place / f"{name}.json", f"word {name}")
    cases = {name: [command[0], "runs", *command[1:]] for name, command in COMMANDS.items() if "-o" not in command}
    cases |= {"find": ["find", "word", "."], "grep": ["grep", "word", "."], "diff": ["diff", "a.json", "b.json"]}
    cases |= {f"{name} 2>&1": cases[name] for name in SEARCHES}
    cases |= {"rows": ["export", "a.json", "-f", "openai"]}
    programs = {
        name: (TO_A_FULL_DISK.format(streams=(1, 2) if "2>&1" in name else (1,), arguments=arguments), place)
        for name, arguments in cases.items()
    }
    ended = in_forks(programs, IMPORTED, {**os.environ, "PYTHONPATH": str(ROOT)})
    return {name: (done.returncode, done.stderr) for name, done in ended.items()}


@pytest.mark.parametrize("command", [name for name in COMMANDS if "-o" not in COMMANDS[name]])
def test_a_full_disk_is_reported(command: str, full_disk: dict[str, tuple[int, str]]) -> None:
    """If the disk is full, the program prints one sentence and exits with 1, for short and long outputs."""
    assert full_disk[command] == (1, "trace-recorder: stdout: No space left on device\n")


@pytest.mark.parametrize("command", SEARCHES)
def test_a_full_disk_is_not_an_answer(command: str, full_disk: dict[str, tuple[int, str]]) -> None:
    """`find`, `grep` and `diff` exit with 2 if the disk is full, because 1 means "no match" or "different"."""
    assert full_disk[command] == (2, "trace-recorder: stdout: No space left on device\n")
    assert full_disk[f"{command} 2>&1"] == (2, "")


def test_a_full_disk_is_reported_for_rows(full_disk: dict[str, tuple[int, str]]) -> None:
    """An export of rows to a full disk reports the failure, on stdout and in a file."""
    code, said = full_disk["rows"]

    assert (code, said.splitlines()[-1]) == (1, "trace-recorder: stdout: No space left on device")
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("command", "size", "reader"),
    [
        *((command, 300_000, "head -1") for command in ("show", "validate", "export")),
        *((command, 10, "true") for command in ("list", "show", "stats")),
    ],
)
def test_a_closed_pipe_is_not_an_error(command: str, size: int, reader: str, tmp_path: Path) -> None:
    """A command prints no error if its pipe is closed before or after the first line."""
    recorded(tmp_path / "a.json", "line\n" * size)
    options = ["-f", "trl"] if command == "export" else []

    code, said = piped([command, str(tmp_path / "a.json"), *options], f"| {reader} > /dev/null")
    assert (code in {0, 1}, [line for line in said.splitlines() if " as trl: " not in line]) == (True, [])


def test_closed_streams_cause_no_traceback(tmp_path: Path) -> None:
    """A program that is started without stdout or stderr prints no traceback."""
    recorded(tmp_path / "a.json")

    assert piped(["list", str(tmp_path)], ">&-") == (0, "")
    assert piped(["show", str(tmp_path / "none.json")], "2>&-") == (1, "")


def test_the_program_fails_in_one_sentence(tmp_path: Path) -> None:
    """Also as a process of its own, the program reports a failure in one sentence, without a traceback."""
    done = program("validate", tmp_path / "none.json")
    assert (done.returncode, done.stderr) == (1, b"")
    done = program("list", tmp_path / "none")
    assert (done.returncode, done.stderr.decode()) == (
        1,
        f"trace-recorder: {tmp_path / 'none'}: {os.strerror(2)}\n",
    )
