"""Files of version 1 are read for ever, and in the same way (`tests/data/frozen_runs.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.data.frozen_runs import DIRECTORY
from tests.journals import line, records_of
from trace_recorder import load
from trace_recorder.facts import KINDS
from trace_recorder.reading.validate import validate

JOURNALS = sorted(DIRECTORY.glob("journals/*.jsonl"))
DOCUMENTS = sorted(DIRECTORY.glob("documents/*.json"))


def read_as(path: Path) -> Any:
    """Return the document that a frozen file must be read as."""
    return json.loads((DIRECTORY / "read" / f"{path.name}.read.json").read_bytes())


@pytest.mark.parametrize("path", [*JOURNALS, *DOCUMENTS], ids=lambda path: path.name)
def test_a_frozen_file_is_read_in_the_same_way(path: Path) -> None:
    """The whole document of each frozen journal and document is the one that was frozen with it."""
    assert load(path).to_document("inline") == read_as(path)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.name)
def test_a_frozen_journal_is_valid(path: Path) -> None:
    """No frozen journal has an error."""
    assert [one for one in validate(path).findings if one.severity == "error"] == []


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.name)
def test_new_kinds_and_new_members_are_skipped(path: Path, tmp_path: Path) -> None:
    """A journal to which a later version added a kind, and a member of each kind, is read like the journal without."""
    lines = []
    for record in records_of(path):
        lines.append(line(record.seq, record.kind, {**record.data, "of_a_later_version": [1]}, record.time))
    lines.append(line(len(lines) + 1, "kind_of_a_later_version", {"interaction_id": "llm_1"}, record.time))
    later = tmp_path / "later.jsonl"
    later.write_bytes(b"".join(lines))

    document = load(later).to_document("inline")

    assert {**document, "journal_records": len(lines) - 1} == read_as(path)


def test_every_member_of_every_kind_is_frozen() -> None:
    """Each member of each kind of record, and each form of the members with a structure, is in a frozen journal."""
    records = [record for path in JOURNALS for record in records_of(path)]
    present = {(record.kind, name) for record in records for name in record.data}
    expected = {(kind, name) for kind, fact in KINDS.items() for name in fact.__struct_fields__}
    forms = {form for record in records for form in forms_of(record.data)}

    assert sorted(expected - present) == []
    assert sorted(FORMS - forms) == []


FORMS = {
    *("items: one number", "items: ranges", "items: a difference", "items: positions of the base"),
    *("forked_at: interaction_id", "forked_at: step_number"),
    *("replayed_from: trajectory_id", "replayed_from: interaction_id", "replayed_from: by_hand"),
    *("error: type", "error: message", "added: server", "added: members"),
}


def forms_of(data: Any) -> Iterator[str]:
    """Yield the forms in which the members of a record are written that have a structure."""
    for numbers in data.get("items", {}).values():
        if isinstance(numbers, dict):
            yield "items: a difference"
            yield from ("items: positions of the base" for part in numbers["ranges"] if isinstance(part, dict))
        else:
            yield "items: one number" if isinstance(numbers, int) else "items: ranges"
    for name in ("forked_at", "replayed_from", "error", "added"):
        if isinstance(data.get(name), dict):
            yield from (f"{name}: {member}" for member in data[name])
