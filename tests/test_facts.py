"""Facts: the page on the format names every member of each kind."""

from __future__ import annotations

import re

import pytest

from tests.processes import ROOT
from trace_recorder.facts import KINDS, InStep

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
