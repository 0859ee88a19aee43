"""docs/many-runs.md: each term of the page is in the language, each field is on the page, and its commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.catalog.many_runs import make_runs
from tests.cli.invoking import invoke
from tests.processes import ROOT
from trace_recorder.catalog.query import FIELDS, parse_query

PAGE = (ROOT / "docs" / "many-runs.md").read_text(encoding="utf-8")
TERMS = [term for cell in re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE) for term in re.findall(r"`([^`]+)`", cell)]
COMMANDS = re.findall(r"^trace-recorder (.*?)(?:  +#.*)?$", PAGE, re.MULTILINE)


def test_each_term_of_the_page_is_in_the_language() -> None:
    """Each term in the first column of the table is a term, and together with the text below it has each field."""
    terms = [term for term in TERMS if not term.startswith("--")]
    named = {match[1] for term in terms if (match := re.match(r"-?([a-z_]+)[:~<>]", term))}

    assert all(len(parse_query(term)) == 1 for term in terms)
    assert {field for field in FIELDS if field not in named and f"`{field}`" not in PAGE} == set()


@pytest.fixture
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_runs(tmp_path / "trajectories", 6)
    (tmp_path / "trajectories" / "damaged.json").unlink()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_runs")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_run(command: str) -> None:
    """Each command of the page runs; 1 is the exit code if no run matches."""
    result = invoke(*shlex.split(command))

    assert result.exit_code == 0 or (result.exit_code, result.stderr) in {
        (1, ""),
        (1, "trace-recorder: no run matches\n"),
    }
