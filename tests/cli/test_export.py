"""`trace-recorder export`: files in, files out, what is reported, and how it exits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.chat_calls import asked as asked_again
from tests.chat_calls import call, rich_run
from tests.chat_calls import said as said_again
from tests.cli.invoking import invoke, recorded
from tests.counting import alive, arguments_of
from trace_recorder import Trajectory, TrajectoryRecorder
from trace_recorder.formats.any_file import load_only
from trace_recorder.values.messages import Payload


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with two successful runs, a failed run, and a file that is not a run."""
    directory = tmp_path / "runs"
    directory.mkdir()
    for number, success in enumerate((True, True, False)):
        recorded(directory / f"run{number}.json", f"answer {number}", success=success)
    return directory


def rows(path: Path) -> list[Payload]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_rows_of_all_runs_are_written_to_one_file(runs: Path, tmp_path: Path) -> None:
    """The rows are in the order of the runs' names. Only the owner can read the file."""
    out = tmp_path / "out" / "rows.jsonl"
    result = invoke("export", runs, "--format", "openai", "-o", out)

    assert (result.exit_code, result.stderr) == (0, f"trace-recorder: 3 runs as openai: 3 rows, in {out}\n")
    assert [row["messages"][-1]["content"] for row in rows(out)] == ["answer 0", "answer 1", "answer 2"]
    assert out.stat().st_mode & 0o777 == 0o600 or sys.platform == "win32"


@pytest.mark.parametrize("name", ["invariant", "openai", "traces", "trae"])
def test_several_processes_write_what_one_writes(name: str, runs: Path, tmp_path: Path) -> None:
    """Several processes write the same files and rows in the same order as one process, and report the same
    failures.
    """
    (runs / "run00.json").write_text("{")
    exports = []
    for jobs in (1, 3):
        out = tmp_path / str(jobs) / "out"
        target = out if name in {"traces", "trae"} else out.with_suffix(".jsonl")
        result = invoke("export", runs, "-f", name, "-o", target, "--jobs", jobs, "--name", "all")
        files = {path.name: path.read_text() for path in sorted(target.parent.rglob("*.json*"))}
        exports.append((files, result.stderr.replace(str(target), "OUT"), result.exit_code))

    assert exports[1] == exports[0]
    assert exports[0][2] == 1


def test_a_file_that_exists_is_reported_by_each_process(runs: Path, tmp_path: Path) -> None:
    """Each process reports the existing file and writes the other files."""
    invoke("export", runs / "run1.json", "-f", "trae", "-o", f"{tmp_path}/out/")
    result = invoke("export", runs, "-f", "trae", "-o", tmp_path / "out", "--jobs", 2)

    assert (result.exit_code, "run1.json exists" in result.stderr) == (1, True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["run0.json", "run1.json", "run2.json"]


def test_rows_may_be_written_to_stdout(runs: Path) -> None:
    """Without `-o` the rows are written to stdout."""
    result = invoke("export", runs / "run0.json", "-f", "trl", "--form", "prompt_completion")

    assert json.loads(result.stdout)["completion"] == [{"role": "assistant", "content": "answer 0"}]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("atif", ["run0.json", "run1.json", "run2.json"]),
        ("trae", ["run0.json", "run1.json", "run2.json"]),
        ("toolbrain", ["run0.json", "run1.json", "run2.json"]),
        ("hierarchy", ["run0.json", "run1.json", "run2.json"]),
        ("traces", ["run0.jsonl", "run1.jsonl", "run2.jsonl"]),
    ],
)
def test_each_run_is_exported_to_a_file_of_its_own(name: str, files: list[str], runs: Path, tmp_path: Path) -> None:
    """Formats of one document a run write a file for each run, with the run's name."""
    result = invoke("export", runs, "-f", name, "-o", tmp_path / "out")

    assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files


def test_one_run_may_be_given_its_file(runs: Path, tmp_path: Path) -> None:
    """An export of one run writes to the path of `-o` if the path ends in .json."""
    assert invoke("export", runs / "run0.json", "-f", "atif", "-o", tmp_path / "x.json").exit_code == 0
    assert json.loads((tmp_path / "x.json").read_text())["schema_version"] == "ATIF-v1.7"


def test_runs_of_one_name_get_numbers(runs: Path, tmp_path: Path) -> None:
    """Runs of the same name in several directories are exported to files with different numbers."""
    (tmp_path / "more").mkdir()
    recorded(tmp_path / "more" / "run0.json")
    invoke("export", runs, tmp_path / "more", "-f", "atif", "-o", tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("run0.1.json", "run0.json", "run1.json", "run2.json")
    ]


def test_export_replaces_no_existing_file(runs: Path) -> None:
    """An export into the runs' own directory fails, because it would replace their documents."""
    before = (runs / "run0.json").read_bytes()
    result = invoke("export", runs, "-f", "atif", "-o", runs)

    assert result.exit_code == 1
    assert "run0.json exists: give another -o, or --force to replace it" in result.stderr
    assert (runs / "run0.json").read_bytes() == before


def test_force_replaces_a_file_of_rows(runs: Path, tmp_path: Path) -> None:
    """With --force the file is replaced. Without --force the old file stays."""
    out = tmp_path / "rows.jsonl"
    out.write_text("old")

    assert (invoke("export", runs, "-f", "openai", "-o", out).exit_code, out.read_text()) == (1, "old")
    assert (invoke("export", runs, "-f", "openai", "-o", out, "--force").exit_code, len(rows(out))) == (0, 3)


def test_a_broken_file_is_reported_and_skipped(runs: Path, tmp_path: Path) -> None:
    """The other files are exported. The exit code says that a file was skipped."""
    (runs / "broken.json").write_text('{"llm_interactions": [')
    (runs / "newer.json").write_text('{"llm_interactions": [], "schema_version": 99}')
    result = invoke("export", runs, "-f", "openai", "-o", tmp_path / "rows.jsonl")

    assert result.exit_code == 1
    assert "broken.json is not a trajectory: it is not JSON" in result.stderr
    assert "newer.json has schema_version 99, and this trace_recorder reads up to 1" in result.stderr
    assert "3 runs as openai: 3 rows" in result.stderr


def test_an_empty_run_is_reported(tmp_path: Path) -> None:
    """An empty run is reported but is not a failure, because there is nothing to export."""
    with TrajectoryRecorder(tmp_path / "empty.json"):
        pass

    for name in ("openai", "atif"):
        result = invoke("export", tmp_path / "empty.json", "-f", name, "-o", tmp_path / f"{name}.jsonl")
        assert (result.exit_code, "empty.json: " in result.stderr) == (0, True)


def test_an_unfinished_run_is_exported_so_far(tmp_path: Path) -> None:
    """A run that is still being recorded is exported up to now, with a remark."""
    recorder = TrajectoryRecorder(tmp_path / "on.json")
    recorder.start()
    recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
    result = invoke("export", tmp_path / "on.json", "-f", "openai")
    recorder.finalize()

    assert len(result.stdout.splitlines()) == 1
    assert "1 run still being recorded: exported up to now" in result.stderr


def test_omitted_content_is_counted(tmp_path: Path) -> None:
    """An export prints how much it left out of all runs, by kind of content."""
    result = invoke("export", rich_run(tmp_path / "rich.json"), "-f", "openai")

    assert "left out: 2 x calls that failed, or whose answer or prompt is incomplete" in result.stderr


def test_a_dataset_has_metadata(runs: Path, tmp_path: Path) -> None:
    """The metadata has the name, other settings, the number of runs, and the share of judged runs that succeeded."""
    out = tmp_path / "rows.jsonl"
    invoke("export", runs, "-f", "trl", "-o", out, "--name", "try", "--metadata", "split=train", "--metadata", "seed=7")

    assert json.loads((tmp_path / "rows.jsonl.metadata.json").read_text()) == {
        "runs": 3,
        "accuracy": 0.6667,
        "accuracy_runs": 3,
        "split": "train",
        "seed": 7,
        "name": "try",
    }


def test_a_dataset_of_invariants_begins_with_its_metadata(runs: Path, tmp_path: Path) -> None:
    """The metadata is in the first line, although the number of successful runs is known only at the end."""
    invoke("export", runs, "-f", "invariant", "-o", tmp_path / "set.jsonl", "--name", "try")

    first, *traces = rows(tmp_path / "set.jsonl")
    assert first == {"metadata": {"runs": 3, "accuracy": 0.6667, "accuracy_runs": 3, "name": "try"}}
    assert [trace["index"] for trace in traces] == [0, 1, 2]
    assert [trace["messages"][-1]["content"] for trace in traces] == ["answer 0", "answer 1", "answer 2"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-f", "csv"], "not one of atif"),
        (["-f", "atif"], "name a directory with -o"),
        (["-f", "openai", "--metadata", "alone"], "not KEY=VALUE"),
    ],
)
def test_misuse_of_export_exits_with_2(arguments: list[str], why: str, runs: Path) -> None:
    """A misuse exits with 2, before any file is read."""
    result = invoke("export", runs, *arguments)

    assert (result.exit_code, why in " ".join(result.stderr.replace("│", " ").split())) == (2, True)


def test_a_form_that_a_format_lacks_is_refused(runs: Path) -> None:
    """The message lists the forms that the format has."""
    result = invoke("export", runs, "-f", "trl", "--form", "nonsense")

    assert (result.exit_code, "its forms are messages, prompt_completion, tokens" in result.stderr) == (1, True)


def test_images_are_written_beside_the_document(tmp_path: Path) -> None:
    """Images are written to a directory that is named after the document."""
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    shown = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}}]
    with TrajectoryRecorder(tmp_path / "see.json") as recorder:
        call(recorder, asked_again({"role": "user", "content": shown}), said_again("red"))
    invoke("export", tmp_path / "see.json", "-f", "atif", "-o", tmp_path / "out")

    [image] = (tmp_path / "out" / "see_images").iterdir()
    [part] = json.loads((tmp_path / "out" / "see.json").read_text())["steps"][0]["message"]
    assert part["source"] == {"media_type": "image/png", "path": f"see_images/{image.name}"}


@pytest.mark.parametrize("name", ["openai", "atif"])
def test_export_keeps_one_run_in_memory(name: str, tmp_path: Path) -> None:
    """An export releases each run before it reads the next, however many runs there are."""
    for number in range(5):
        with TrajectoryRecorder(tmp_path / "runs" / f"{number}.json") as recorder:
            call(recorder, asked_again({"role": "user", "content": f"{number}"}), said_again("done"))
    out = tmp_path / "out" / ("rows.jsonl" if name == "openai" else "")

    there = arguments_of(
        lambda: invoke("export", tmp_path / "runs", "-f", name, "-o", out), load_only, lambda _: alive(Trajectory)
    )

    assert (len(there), {*there}) == (5, {there[0]})


def test_an_interrupted_export_of_files_is_continued(runs: Path, tmp_path: Path) -> None:
    """A second export keeps files with the same content, and refuses to replace a file with different content."""
    out = tmp_path / "out"
    assert invoke("export", runs, "-f", "trae", "-o", out).exit_code == 0
    (out / "run1.json").unlink()
    before = (out / "run0.json").stat().st_mtime_ns
    again = invoke("export", runs, "-f", "trae", "-o", out, "--resume")
    left = (out / "run0.json").stat().st_mtime_ns == before
    (out / "run2.json").write_text("mine")
    refused = invoke("export", runs, "-f", "trae", "-o", out, "--resume")

    assert (again.exit_code, left, (out / "run1.json").exists()) == (0, True, True)
    assert (refused.exit_code, (out / "run2.json").read_text()) == (1, "mine")
    assert "run2.json exists" in refused.stderr
