"""The newest files of other tools, compared with the provider's answers and with a second reading."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.formats import independent
from tests.formats.files import real_files

_SPANS = "spans/"


@pytest.mark.parametrize("pattern", independent.READERS)
def test_answers_tokens_tools_results_and_times_are_equal(pattern: str) -> None:
    for path in real_files(f"newest/{pattern}"):
        read, second = independent.ours(path), independent.READERS[pattern](path)
        assert [answer.time for answer in read.answers] == [answer.time for answer in second.answers], path
        if pattern.startswith(
            _SPANS
        ):  # the second reading has only the times of the answers; the next test compares the rest
            assert Counter(second.results.values()) <= Counter(read.results.values()), path
            continue
        assert read.answers == second.answers, path
        assert read.results == second.results, path


def test_answers_are_the_provider_s() -> None:
    [truth] = real_files("newest/truth.json")
    compared: list[Path] = []
    for path, read, _, said in independent.readings():
        if said is not None:
            compared.append(path)
            assert [answer._replace(time="") for answer in read.answers] == said, path
    assert len(compared) == 4
    assert truth.parent == independent.NEWEST
