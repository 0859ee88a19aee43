"""Recorded requests, read into messages and built again, are the same except for the documented differences."""

from __future__ import annotations

import pytest

from tests.clients.round_trip import KINDS, count, markdown
from tests.processes import ROOT
from tests.wire.corpus import DIRECTORY, load

with_corpus = pytest.mark.skipif(not load(), reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")


@with_corpus
def test_every_difference_has_a_named_kind() -> None:
    """Each difference between a rebuilt request and the recorded one is of a named kind, and each kind occurs."""
    _, _, differing = count()

    assert differing.keys() == {kind.name for kind in KINDS} | {"a role that no provider has is refused"}


@with_corpus
def test_the_docs_have_the_figures() -> None:
    """The tables of results/clients.md have the figures of the corpus."""
    written = (ROOT / "results" / "clients.md").read_text()

    assert markdown() in written
