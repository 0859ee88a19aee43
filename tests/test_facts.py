"""Facts: own members come first, absent ones are left out, and the page on the format names every member."""

from __future__ import annotations

import json
import re

import pytest

from tests.processes import ROOT
from trace_recorder.facts import ABSENT, KINDS, InStep, JsonText, LLMResponseFact, ToolCallFact
from trace_recorder.storage.journal_lines import foreign_text, record_data

PAGE = (ROOT / "docs" / "format.md").read_text("utf-8")
SHARED = {"redacted", *InStep.__struct_fields__}
"""Members that the page describes below its table of kinds."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_names_every_member_of_a_kind(kind: str) -> None:
    """The row of a kind in the table of `docs/format.md` has each of its members."""
    [row] = re.findall(rf"^\| `{kind}` \| (.*) \|$", PAGE, re.MULTILINE)
    members = {*KINDS[kind].__struct_fields__} - SHARED
    if kind == "tool_result":  # its row refers to the row of `tool_call`
        members -= {*ToolCallFact.__struct_fields__}

    assert members - {*re.findall(r"`(\w+)`", row)} == set()


def test_members_that_records_share_are_described() -> None:
    """The page describes the members of agents and steps, and the count of masked secrets."""
    assert {name for name in SHARED if f"`{name}`" not in PAGE} == set()


def test_own_members_come_before_foreign_ones() -> None:
    """A record has its own members, then the foreign ones. A text of JSON stays as it is, and no member is absent."""
    body = JsonText('{"a" : 1.0e2}')
    fact = LLMResponseFact(interaction_id="llm_1", attempt=0, status=200, complete=True, headers={"a": "b"}, body=body)

    own, foreign = fact.members()
    text = record_data(own, foreign_text(foreign), 2)

    assert text == (
        '{"interaction_id":"llm_1","attempt":0,"status":200,"complete":true,"redacted":2,'
        '"headers":{"a":"b"},"body":{"a" : 1.0e2}}'
    )
    assert (fact.error, fact.assembled, repr(fact.assembled)) == (None, ABSENT, "ABSENT")
    assert json.loads(text)["body"] == {"a": 100.0}
