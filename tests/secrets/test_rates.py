"""The two rates that `results/secrets.md` publishes: no kind of secret is missed in any place, and fewer than one
in a hundred texts without a secret is changed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.searching import IS_SEARCH
from tests.secrets import published
from tests.secrets.corpus import keys, masked
from tests.secrets.everywhere import PLACES, missed, samples
from tests.secrets.harmless import alarms, texts


@pytest.mark.parametrize("place", PLACES)
def test_no_kind_of_secret_is_missed(place: str, tmp_path: Path) -> None:
    """Each place has a secret of every kind, or in CI of a sixth of the kinds. No byte of the two files shows any."""
    step = 1 if IS_SEARCH else 6
    kinds = samples()[[*PLACES].index(place) % step :: step]

    assert (missed(place, tmp_path, kinds), len(samples()) >= 250) == ([], True)


def test_fewer_than_one_in_200_of_many_draws_is_missed() -> None:
    """The letters of a kind are random, so forty of each kind are drawn, most with digits and some with only
    letters.
    """
    drawn = keys(40)
    missed_ones = Counter(key.service for key in drawn if key.longest in masked(key.text))

    assert missed_ones.total() * 200 < len(drawn), missed_ones


def test_fewer_than_one_in_a_hundred_harmless_texts_is_changed() -> None:
    """The rate applies to prose, code, data, logs and lock files separately."""
    several = Counter(kind for kind, _, _ in texts())
    touched = {kind: len(some) for kind, some in alarms().items()}

    assert {kind: some for kind, some in touched.items() if some * 100 >= several[kind]} == {}


def test_the_page_lists_the_current_kinds() -> None:
    """The lists of both pages are the output of `python -m tests.secrets.published`."""
    texts = [path.read_text(encoding="utf-8") for path in (published.PAGE, published.KINDS)]

    assert [published.page(text) for text in texts] == texts
