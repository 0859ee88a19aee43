"""The command `grep`: a pattern in prompts, answers and tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from tests.data.shown import captured


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with two runs, and a file that is not a run."""
    captured(tmp_path / "captured.jsonl").journal.close()
    recorded(tmp_path / "other.json", "It prints\nnothing, or " + "x" * 500 + " nothing")
    return tmp_path


def test_a_match_is_shown_with_its_file_and_step(runs: Path) -> None:
    """A message that later prompts repeat is printed once, at the step where it was new."""
    done = invoke("grep", "Mend a.py", runs)

    assert (done.exit_code, done.output) == (0, f"{runs / 'captured.jsonl'}: step 1: user: Mend a.py\n")


def test_parts_of_a_run_are_searched_alone(runs: Path) -> None:
    """Options restrict the search to prompts, answers or tools."""
    found = {where: invoke("grep", "a.py|nothing", runs, "--in", where).output for where in ("prompts", "tools")}

    assert found == {
        "prompts": f"{runs / 'captured.jsonl'}: step 1: user: Mend a.py\n",
        "tools": f'{runs / "captured.jsonl"}: step 1: call of read_file: {{"path": "a.py"}}\n',
    }


def test_a_long_line_is_cut_around_the_match(runs: Path) -> None:
    """For each matching line, `grep` prints one line with the text around the match."""
    lines = invoke("grep", "NOTHING", runs, "-i").output.splitlines()

    assert [line.rpartition(": ")[2][:30] for line in lines] == ["nothing, or xxxxxxxxxxxxxxxxxx", "It prints nothing."]
    assert max(map(len, lines)) < len(str(runs)) + 260


def test_grep_prints_file_names_or_json(runs: Path) -> None:
    """`-l` prints the names of the files, and --json every match."""
    assert invoke("grep", "prints", runs, "-l").output.splitlines() == [
        *map(str, (runs / "other.json", runs / "captured.jsonl"))
    ]
    assert json.loads(invoke("grep", "Mend a", runs, "--json").output) == [
        {"file": str(runs / "captured.jsonl"), "step": 1, "where": "user", "line": "Mend a.py"}
    ]


def test_no_match_exits_with_1_and_an_unreadable_run_with_2(runs: Path) -> None:
    """The exit codes are those of grep. The readable runs are searched."""
    assert (invoke("grep", "no such text", runs).exit_code, invoke("grep", "m[e", runs, "-F").exit_code) == (1, 1)
    (runs / "bad.json").write_text("{}")
    done = invoke("grep", "Mend", runs)
    assert (done.exit_code, "bad.json" in done.output, "step 1: user: Mend" in done.output) == (2, True, True)
    assert invoke("grep", "m[e", runs).exit_code == 2
    assert invoke("grep", "me", runs, "--in", "reward").exit_code == 2
