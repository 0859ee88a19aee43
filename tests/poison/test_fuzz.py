"""The targets of the fuzzer, run for a short time. `scripts/fuzz` runs them for longer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.poison.fuzzing import TARGETS, example, search, seeds

BRIEF = settings(max_examples=60 if settings().max_examples <= 100 else settings().max_examples)


@BRIEF
@given(st.sampled_from(sorted(TARGETS)), st.integers(0, 2**32))
def test_mutated_input_causes_no_finding(target: str, seed: int) -> None:
    """The functions that join, read and mask handle any mutated bytes."""
    TARGETS[target](example(target, Random(seed)))


@BRIEF
@given(st.sampled_from(sorted(TARGETS)), st.binary(max_size=300))
def test_any_bytes_cause_no_finding(target: str, data: bytes) -> None:
    """The functions that join, read and mask handle random bytes."""
    TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_the_seeds_cause_no_finding(target: str) -> None:
    """The inputs that mutations start from cause no finding by themselves."""
    for seed in seeds(target)[:20]:
        TARGETS[target](seed)


def test_a_search_reports_failing_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that raises is reported, with how often it raised."""

    def breaks(data: bytes) -> None:
        if b"}" in data:
            raise ValueError("a bracket")

    monkeypatch.setitem(TARGETS, "json", breaks)

    tries, found = search("json", lambda tries: tries == 50, 1)

    assert (tries, list(found)) == (50, ["ValueError: a bracket"])
