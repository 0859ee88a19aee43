"""The contents of scripted runs that a reader has read are counted for each aspect, and printed in a table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.contents.comparing import ASPECTS
from tests.contents.recording import export_all, record
from tests.readers.__main__ import content_lines
from tests.readers.contents import Contents

EQUAL = {"equal": 1, "different": 0, "why": ""}


@pytest.fixture
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a scripted run and its exports to the directory of a check."""
    (tmp_path / "contents" / "runs").mkdir(parents=True)
    run = record("image.anthropic.whole", tmp_path / "contents" / "runs")
    export_all([run], tmp_path / "contents")
    monkeypatch.setattr(sys, "argv", ["check", str(tmp_path)])


@pytest.mark.usefixtures("_place")
def test_a_reader_s_content_is_counted_by_aspect() -> None:
    """Each aspect is counted as equal, or with the reason why the format or the reader lacks it."""
    contents = Contents("R", "openai", "pytest")
    contents.hold(lambda rows, _: rows, without={"images": "R shows none"})

    not_carried = {name: contents.result()["aspects"].pop(name) for name in ("thinking", "tokens", "failures")}
    assert {name: contents.result()["aspects"][name] for name in ("messages", "calls", "results")} == dict.fromkeys(
        ("messages", "calls", "results"), EQUAL
    )
    assert contents.result()["aspects"]["images"] == {"equal": 0, "different": 0, "why": "R shows none"}
    assert all(value["equal"] == value["different"] == 0 and value["why"] for value in not_carried.values())
    assert (contents.accepted, contents.refused) == (3, 0)


@pytest.mark.usefixtures("_place")
def test_content_that_a_reader_loses_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A difference without a known reason, and an exception of the reader, are printed and count as refused."""
    losing, raising = Contents("L", "openai", "pytest"), Contents("E", "openai", "pytest")

    losing.hold(lambda rows, _: [{"messages": rows[0]["messages"][1:]}])
    raising.hold(lambda rows, _: rows[7])

    output = capsys.readouterr().out
    assert (losing.refused, raising.refused, raising.accepted) == (2, 1, 0)
    assert [
        output.count(f"DIFFERENT in L: image.anthropic.whole: {aspect}: ") for aspect in ("messages", "images")
    ] == [
        1,
        1,
    ]
    assert "REFUSED by E: image.anthropic.whole: " in output


@pytest.mark.usefixtures("_place")
def test_the_table_has_a_line_for_each_aspect() -> None:
    """The table has for each aspect how many values were compared, equal and different, with the reasons."""
    contents = Contents("R", "openai", "pytest")
    contents.hold(lambda rows, _: rows)

    head, _, *told = content_lines([{"reader": "another"}, contents.result()])

    assert head == "| reader | aspect | compared | equal | different | why |"
    assert [line.split(" | ")[:5] for line in told[:3]] == [
        ["| R", aspect, "1", "1", "0"] for aspect in ("messages", "calls", "results")
    ]
    assert len(told) == len(ASPECTS)
