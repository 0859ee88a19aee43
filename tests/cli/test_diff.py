"""The command `diff`: the first difference of two runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded

HOSTILE_TEXT = "\x1b[31mred\x07 \u202etext [bold]"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs of one call each, with different answers."""
    return recorded(tmp_path / "one.json", "three files"), recorded(tmp_path / "other.json", "four files")


def test_equal_runs_exit_with_0(runs: tuple[Path, Path]) -> None:
    """`diff` of two equal runs exits with 0, and prints only the cost of each run."""
    done = invoke("diff", runs[0], runs[0])

    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "no difference in 1 step")


def test_the_first_step_that_differs_is_shown_by_word(runs: tuple[Path, Path]) -> None:
    """`diff` shows the first differing step word by word, and exits with 1."""
    done = invoke("diff", *runs)

    assert done.exit_code == 1
    assert done.output.splitlines()[2:] == [
        "equal: 0 steps; then 1 of 1 differ",
        "",
        "a step 1 | b step 1: answer",
        "  ~ content: [-three-]{+four+} files",
    ]
    assert invoke("diff", *runs, "--ignore", "answer").exit_code == 0


def test_diff_json_is_the_result_of_to_dict(runs: tuple[Path, Path]) -> None:
    """`diff --json` prints the comparison's `to_dict()`."""
    found = json.loads(invoke("diff", *runs, "--json").output)

    assert (found["equal"], found["parts_at"]) == (False, 0)
    assert found["steps"][0]["differences"][0]["kind"] == "answer"


def test_invalid_arguments_of_diff_exit_with_2(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """`diff` exits with 2 for a file that is not a run, and for an unknown word after --ignore."""
    (tmp_path / "none.json").write_text("{}")

    assert invoke("diff", runs[0], tmp_path / "none.json").exit_code == 2
    assert invoke("diff", runs[0], tmp_path / "missing.json").exit_code == 2
    refused = invoke("diff", *runs, "--ignore", "id")
    assert (refused.exit_code, "'id' is not one of ids, times" in refused.output) == (2, True)


def test_recorded_text_does_not_control_the_terminal(tmp_path: Path) -> None:
    """`diff` prints escape codes and other control characters of recorded texts as escapes."""
    done = invoke("diff", recorded(tmp_path / "a.json", "x"), recorded(tmp_path / "b.json", HOSTILE_TEXT))

    assert done.exit_code == 1
    assert not {"\x1b", "\x07", "\u202e"} & {*done.output}


def test_a_terminal_shows_changes_in_colour(runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """`diff` prints removed words in red and added words in green on a terminal, but not with NO_COLOR or in a pipe."""
    monkeypatch.setenv("COLUMNS", "200")
    marked = "~ content: \x1b[31m[-three-]\x1b[0m\x1b[32m{+four+}\x1b[0m files"

    monkeypatch.setenv("FORCE_COLOR", "1")
    assert invoke("diff", *runs).output.splitlines()[-1].strip() == marked
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in invoke("diff", *runs).output
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b" not in invoke("diff", *runs).output
