"""Where `trace-recorder export` writes: allowed values of `-o`, and the names of the runs' files."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Sequence
from contextlib import chdir
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import asked, call, said
from tests.cli.invoking import invoke, recorded
from trace_recorder import TrajectoryRecorder
from trace_recorder.cli.export_files import unique_names
from trace_recorder.formats.format_writer import EXPORT_FORMATS

FILES = [name for name, row in EXPORT_FORMATS.items() if row.kind in {"documents", "sessions"}]
ROWS = [name for name, row in EXPORT_FORMATS.items() if row.kind == "rows"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def several(path: Path, task: str = "ask") -> Path:
    """Record a run that becomes several files: a sub-agent's conversation, a rewritten history, and an image."""
    seen = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    with TrajectoryRecorder(path, task=task) as recorder:
        call(recorder, asked({"role": "user", "content": [seen]}), said("red"))
        call(recorder, asked({"role": "user", "content": "another history"}), said("a"))
        with recorder.agent("helper"):
            call(recorder, asked({"role": "user", "content": "help"}), said("b"))
    return path


def tree(directory: Path) -> dict[str, bytes]:
    """Return the paths of all files below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with two runs, one of which is exported as several files."""
    (tmp_path / "runs").mkdir()
    several(tmp_path / "runs" / "a.json")
    recorded(tmp_path / "runs" / "b.json")
    return tmp_path / "runs"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("there", [True, False])
def test_a_file_as_the_target_of_several_runs_is_refused(name: str, there: bool, runs: Path, tmp_path: Path) -> None:
    """For formats of a file a run, naming one file for several runs is a misuse, and nothing is written."""
    (tmp_path / "place").mkdir()
    if there:
        (tmp_path / "place" / "all.json").write_text("before")
    before = tree(tmp_path)
    with chdir(tmp_path / "place"):
        result = invoke("export", runs, "-f", name, "-o", "all.json", "--force")

    assert (result.exit_code, "is a file" in result.stderr, "2 runs" in result.stderr) == (2, True, True)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("out", ["there", "new", "new/", "new.json/", "new/inside.d"])
def test_all_files_are_written_to_the_target_directory(name: str, out: str, runs: Path, tmp_path: Path) -> None:
    """A target may be an existing directory, a new directory, or a name that ends in a slash.

    No file is written outside it.
    """
    place = tmp_path / "place"
    (place / "there").mkdir(parents=True)
    with chdir(place):
        result = invoke("export", runs, "-f", name, "-o", out)

    assert result.exit_code == 0
    assert {file for file in tree(place) if not file.startswith(out.rstrip("/") + "/")} == set()
    assert {"a", "b"} <= {file.name.partition(".")[0] for file in (place / out).iterdir()}


@pytest.mark.parametrize("name", ["atif", "traces"])
def test_a_file_as_the_target_of_a_run_that_becomes_several_is_refused(name: str, runs: Path, tmp_path: Path) -> None:
    """The export is refused, and nothing is written next to the named file."""
    (tmp_path / "place").mkdir()
    with chdir(tmp_path / "place"):
        result = invoke("export", runs / "a.json", "-f", name, "-o", "one.json")

    assert (result.exit_code, tree(tmp_path / "place")) == (1, {})
    assert "a.json: it becomes" in result.stderr
    assert "name a directory with -o" in result.stderr


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("out", ["there", "new/"])
def test_a_directory_as_the_target_of_rows_is_refused(name: str, out: str, runs: Path, tmp_path: Path) -> None:
    """Formats of rows write one file, so a directory as their target is a misuse."""
    (tmp_path / "place" / "there").mkdir(parents=True)
    with chdir(tmp_path / "place"):
        result = invoke("export", runs, "-f", name, "-o", out, "--force")

    assert (result.exit_code, "name a file" in " ".join(result.stderr.split())) == (2, True)
    assert tree(tmp_path / "place") == {}


@pytest.mark.parametrize("name", ["atif", "traces"])
def test_files_of_different_runs_never_share_a_name(name: str, tmp_path: Path) -> None:
    """The second conversation of `t` gets a file next to the first conversation of `t.1`, whatever the runs are
    called.
    """
    (tmp_path / "runs").mkdir()
    called = ["t", "t.1", "t.cont-1", "t.conversation-2", "t.2"]
    for task in called:
        several(tmp_path / "runs" / f"{task}.json", task)
    alone = {}
    for task in called:
        invoke("export", tmp_path / "runs" / f"{task}.json", "-f", name, "-o", tmp_path / "alone" / task)
        alone[task] = len(tree(tmp_path / "alone" / task))
    result = invoke("export", tmp_path / "runs", "-f", name, "-o", tmp_path / "all")

    assert (result.exit_code, len(tree(tmp_path / "all"))) == (0, sum(alone.values()))


def test_a_run_that_is_not_written_leaves_no_image(runs: Path, tmp_path: Path) -> None:
    """If the document of a run already exists, the export writes no image of the run."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.json").write_text("before")
    result = invoke("export", runs, "-f", "atif", "-o", tmp_path / "out")

    assert (result.exit_code, "a.json exists" in result.stderr) == (1, True)
    assert (sorted(tree(tmp_path / "out")), (tmp_path / "out" / "a.json").read_text()) == (
        ["a.json", "b.json"],
        "before",
    )


def test_metadata_and_a_run_of_that_name_have_different_files(tmp_path: Path) -> None:
    """The files of a run called `metadata` do not replace the metadata of the export."""
    recorded(tmp_path / "metadata.json", "of the run")
    invoke("export", tmp_path / "metadata.json", "-f", "toolbrain", "-o", tmp_path / "out", "--name", "try")

    assert json.loads((tmp_path / "out" / "metadata.json").read_text())["name"] == "try"
    assert "of the run" in (tmp_path / "out" / "metadata.1.json").read_text()


@pytest.mark.parametrize("command", ["stats", "export"])
def test_a_run_named_twice_is_exported_once(command: str, runs: Path, tmp_path: Path) -> None:
    """A run named by its two files, as `runs/*` names them, and by its directory is exported once."""
    more = ["-f", "openai", "-o", tmp_path / "rows.jsonl"] if command == "export" else []
    result = invoke(command, *sorted(runs.iterdir()), runs, f"{runs}/../runs/b.json", *more)

    assert (result.exit_code, "2 runs" in result.output) == (0, True)


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────

ADVERSARIAL: list[list[str]] = [
    ["t.json", "t.1.json", "t.json"],
    ["t.json", "t.json", "t.json", "t.1.json", "t.2.json"],
    ["t.1.json", "t.json", "t.json"],
    ["t.json", "T.json", "t.1.json", "T.1.json"],
    ["t.json", "t.jsonl", "t", "t.journal.jsonl"],
    ["t.cont-1.json", "t.json", "t.json"],
    ["t.json", "t.json", "t.1.cont-1.json"],
    ["t.json", "t.cont-1.json", "t.cont-1.cont-1.json", "t.cont-1.1.json"],
    ["t.json", "t.conversation-2.json", "t.conversation-2.conversation-2.json"],
    ["t.json", "t_images.json", "T_IMAGES.json"],
    ["caf\u00e9.json", "cafe\u0301.json", "CAF\u00c9.json"],
    ["stra\u00dfe.json", "strasse.json", "STRASSE.json"],
    ["x" * 250 + ".json", "x" * 249 + "y.json", "x" * 200 + ".json"],
    ["\u65e5" * 83 + ".json", "\u65e5" * 82 + "\u672c.json"],
    [".json", "..json", "...json", " .json", "\n.json"],
    ["metadata.json", "Metadata.json", "metadata.1.json"],
    [os.fsdecode(b"\xff.json"), os.fsdecode(b"\xfe.json")],
]
"""Names of files of runs, each file in a directory of its own."""


def folded(name: str) -> str:
    """Return a name as a file system sees it that ignores case and forms of Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def files_of(name: str) -> set[str]:
    """Return the paths of all files and directories that a run of this name may become, in any format."""
    kinds = [".json", ".jsonl", "_images"]
    more = [form.format(number) for number in range(1, 6) for form in (".cont-{}.json", ".conversation-{}.jsonl")]
    return {folded(name + end) for end in [*kinds, *more]}


def assert_apart(called: Sequence[str], names: Sequence[str]) -> None:
    """Check that no two runs share a file, that every name is valid, and that unambiguous names are kept."""
    groups = [*map(files_of, names), {"metadata.json"}]
    assert [(one & other) for one, other in combinations(groups, 2) if one & other] == []
    assert all(len(os.fsencode(f"{name}.conversation-999.jsonl")) <= 255 and "/" not in name for name in names)
    assert len(names) == len(called)


@pytest.mark.parametrize("called", ADVERSARIAL, ids=lambda called: ascii(called)[:60])
def test_no_two_runs_share_a_file(called: list[str]) -> None:
    """No two runs share a file, whatever the runs are called."""
    assert_apart(called, unique_names([Path(str(place), name) for place, name in enumerate(called)], ["metadata"]))


@given(st.lists(st.text(alphabet="tT.-_1con", min_size=1, max_size=8).filter(lambda text: text.strip(".")), max_size=6))
def test_no_two_runs_with_generated_names_share_a_file(stems: list[str]) -> None:
    """No two runs share a file if their names are made of parts of our own file names."""
    called = [f"{stem}.json" for stem in stems]
    assert_apart(called, unique_names([Path(str(place), name) for place, name in enumerate(called)], ["metadata"]))


def test_unique_names_are_kept() -> None:
    """A run keeps a name that no other run needs. A run that cannot keep its name gets a number that no run has."""
    called = ["a.json", "a.1.json", "a.journal.jsonl", "b.cont-1.json", "t.json", "t.cont-1.json"]
    names = ["a", "a.1", "a.2", "b.cont-1", "t", "t.cont-1.1"]
    assert unique_names([Path(str(place), name) for place, name in enumerate(called)]) == names
