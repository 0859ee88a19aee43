"""Every export shows the exchanged content: compared with the script of the provider, in every dialect."""

from __future__ import annotations

import json
from collections import Counter
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from tests.contents.comparing import ASPECTS, EXPORTS, KNOWN, NOT_CARRIED, READERS, Outcome, compare, payloads_of
from tests.contents.recording import export_all, names, record_all

RUNS = list(names())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record every script in every dialect, export it in every format, and return the directory."""
    directory = tmp_path_factory.mktemp("contents")
    export_all(record_all(directory), directory / "exports")
    return directory


@cache
def outcomes(name: str, run: str, place: Path) -> list[Outcome]:
    """Return the results of comparing each export of a run. The document is the recorder's own."""
    if name == "document":
        return compare(run, name, [json.loads((place / f"{run}.json").read_bytes())], place)
    payloads, base = payloads_of(run, name, place / "exports")
    return compare(run, name, payloads, base)


@pytest.mark.parametrize("name", READERS)
def test_an_export_shows_what_was_exchanged(name: str, place: Path) -> None:
    """Messages, calls, results, thoughts, images, tokens and failures are equal, except for known differences."""
    found = {run: [one for one in outcomes(name, run, place) if one.is_finding] for run in RUNS}

    assert {run: differing for run, differing in found.items() if differing} == {}


def test_known_differences_exist(place: Path) -> None:
    """Each known difference is still found. If one is gone, its reason must go too."""

    def differs(export: str, aspect: str, script: str, dialect: str) -> bool:
        chosen = [run for run in RUNS if fnmatch(run, f"{script}.{dialect}.*")]
        found = [one for run in chosen for one in outcomes(export, run, place)]
        return any(one.aspect == aspect and one.equal is False for one in found)

    assert [key for key in KNOWN if not differs(*key)] == []


def test_every_aspect_of_every_export_is_compared_or_has_a_reason(place: Path) -> None:
    """Each aspect is compared with at least one value, or has a stated reason."""
    counted = Counter(
        (name, one.aspect, one.equal is None) for name in READERS for one in outcomes(name, RUNS[0], place)
    )

    assert counted == Counter(
        {(name, aspect, (name, aspect) in NOT_CARRIED): 1 for name in READERS for aspect in ASPECTS}
    )
    assert EXPORTS.keys() | {"document"} == READERS.keys()


def test_a_changed_export_is_found(place: Path) -> None:
    """A changed word, argument, order of results, count of tokens, or byte of an image is each a separate
    difference.
    """
    run = "tools.anthropic.whole"
    [document], base = payloads_of(run, "atif", place / "exports")
    steps = document["steps"]
    steps[1]["message"] += "!"
    steps[2]["tool_calls"][0]["arguments"]["days"] = 1.5
    steps[2]["observation"]["results"].reverse()
    steps[3]["metrics"]["prompt_tokens"] = 40

    found = [one.aspect for one in compare(run, "atif", [document], base) if one.is_finding]

    assert found == ["messages", "calls", "results", "tokens"]
