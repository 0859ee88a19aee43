"""The two rates that `docs/secrets-results.md` publishes.

No kind of secret is missed in any place, and fewer than one in a hundred texts without a secret is changed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.secrets import published
from tests.secrets.corpus import keys, masked
from tests.secrets.everywhere import PLACES, missed, samples
from tests.secrets.harmless import alarms, texts


@pytest.mark.parametrize("place", PLACES)
def test_no_kind_of_secret_is_missed(place: str, tmp_path: Path) -> None:
    """The place has one secret of every kind, and no byte of the two files shows any."""
    assert (missed(place, tmp_path), len(samples()) >= 250) == ([], True)


def test_of_many_draws_of_every_kind_fewer_than_one_in_200_are_missed() -> None:
    """The letters of a kind are random, so forty of each are drawn, most with digits and some of letters alone."""
    drawn = keys(40)
    missed_ones = Counter(key.service for key in drawn if key.longest in masked(key.text))

    assert missed_ones.total() * 200 < len(drawn), missed_ones


def test_of_harmless_texts_fewer_than_one_in_a_hundred_is_touched() -> None:
    """Prose, code, data, logs and lock files, each kind by itself."""
    several = Counter(kind for kind, _, _ in texts())
    touched = {kind: len(some) for kind, some in alarms().items()}

    assert {kind: some for kind, some in touched.items() if some * 100 >= several[kind]} == {}


def test_the_page_lists_what_the_code_knows() -> None:
    """The lists of the page are the output of `python -m tests.secrets.published`."""
    text = published.PAGE.read_text(encoding="utf-8")

    assert published.page(text) == text
