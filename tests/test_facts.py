"""Facts: the page on the format names every member of each kind."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.processes import ROOT
from trace_recorder.facts import KINDS, InStep
from trace_recorder.storage.journal_reader import Record

PACKAGE = ROOT / "trace_recorder"
PAGE = (ROOT / "docs" / "format.md").read_text("utf-8")
SHARED = {"redacted", *InStep.__struct_fields__}
"""Members that the page describes below its table of kinds."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_names_every_member_of_a_kind(kind: str) -> None:
    """The row of a kind in the table of `docs/format.md` has each of its members."""
    [row] = re.findall(rf"^\| `{kind}` \| (.*) \|$", PAGE, re.MULTILINE)
    members = {*KINDS[kind].__struct_fields__} - SHARED

    assert members - {*re.findall(r"`(\w+)`", row)} == set()


def test_members_that_records_share_are_described() -> None:
    """The page describes the members of agents and steps, and the count of masked secrets."""
    assert {name for name in SHARED if f"`{name}`" not in PAGE} == set()


READERS_OF_LINES = {
    *("storage/fact_reader.py", "storage/journal_reader.py", "storage/rewritten_journal.py", "reading/validate.py"),
    "storage/content_tiers/textless_journal.py",
}
"""The files that see a record as JSON. All others get facts."""
WRITERS_OF_LINES = {
    *("facts.py", "storage/fact_writer.py", "storage/fact_reader.py", "storage/journal_lines.py"),
    "storage/rewritten_journal.py",
}
"""The files that know the members of a fact by their names as texts."""
OF_READERS = {"read_fact", "fact_decoder", "json_of_line"}
OF_WRITERS = {"own_and_foreign_members", "hints_of"}


def _names_of_others(path: Path) -> set[str]:
    """Return the names that a file imports from other files, or takes from them as attributes."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return names


def test_no_room_names_a_member_of_a_record() -> None:
    """A record has a fact and no JSON, and only the files at the line of a journal go from one to the other."""
    names = {str(path.relative_to(PACKAGE)): _names_of_others(path) for path in PACKAGE.rglob("*.py")}

    assert {name for name, imported in names.items() if imported & OF_READERS} - READERS_OF_LINES == set()
    assert {name for name, imported in names.items() if imported & OF_WRITERS} - WRITERS_OF_LINES == set()
    assert "data" not in Record.__struct_fields__
