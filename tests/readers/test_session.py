"""`nox -s readers` never counts refused, broken or missing readers as accepted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.readers.__main__ import checked, lines, read_in
from tests.readers.environments import ENVIRONMENTS, Environment
from tests.readers.reading import RESULT, Reader, finish


def refuse() -> None:
    raise ValueError("not so")


def test_every_check_has_an_environment() -> None:
    """Each check belongs to an environment, and each environment names only existing checks."""
    there = {path.stem for path in Path(__file__).parent.glob("check_*.py")}

    assert sorted(check for one in ENVIRONMENTS for check in one.checks) == sorted(there)


def test_a_reader_counts_accepted_and_refused_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader prints refused inputs with the reasons, and the exit code is 1."""
    reader = Reader("R", "things", "pytest")
    reader.take("one", lambda: None)
    reader.take("two", refuse)
    reader.pass_over("odd")
    with pytest.raises(SystemExit) as ended:
        finish(reader)

    output, result = capsys.readouterr().out.rsplit(RESULT, 1)
    counts = {"accepted": 1, "refused": 1}
    expected = {
        "reader": "R",
        "version": f"pytest {pytest.__version__}",
        "what": "things; 1 skipped: odd",
        **counts,
    }
    assert (ended.value.code, json.loads(result)) == (True, expected)
    assert "REFUSED by R: two: " in output
    assert "ValueError: not so" in output


def test_a_reader_without_inputs_has_accepted_nothing() -> None:
    """A reader that got no input exits with 1."""
    with pytest.raises(SystemExit) as ended:
        finish(Reader("R", "things"))

    assert ended.value.code is True


def test_a_reader_that_cannot_be_installed_is_named(tmp_path: Path) -> None:
    """The table names a reader that cannot be installed with the reason, and without counts."""
    [result] = read_in(Environment("future", ("pytest",), ("check_atif",), python=(9, 9)), tmp_path)

    assert result == {
        "reader": "future: not installed",
        "version": "",
        "what": "there is no Python 9.9 or newer here",
        "accepted": None,
        "refused": None,
    }
    assert list(lines([result]))[2] == "| future: not installed |  | there is no Python 9.9 or newer here | - | - |"


def test_a_check_that_breaks_off_counts_as_refused(tmp_path: Path) -> None:
    """A check that breaks off counts as refused, because its next input might have been refused."""
    [result] = checked(sys.executable, "no_such_check", tmp_path)

    assert (result["what"], result["accepted"], result["refused"]) == ("it broke off", 0, 1)
