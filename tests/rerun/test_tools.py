"""Tools in a replay: their recorded results are given, and a call that was not recorded is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_recorder import ReplayMismatchError, TrajectoryRecorder, replay, tool


@tool
def delete(name: str) -> str:
    """A tool with an effect."""
    ran.append(name)
    if name == "nothing":
        raise FileNotFoundError(name)
    return f"deleted {name}"


@tool
async def fetch(url: str) -> dict[str, str]:
    """An async tool."""
    ran.append(url)
    return {"url": url}


@tool
def lines(count: int) -> Iterator[int]:
    """A generator."""
    ran.append(str(count))
    yield from range(count)


ran: list[str] = []


def test_tools_return_recorded_results_without_being_run(tmp_path: Path) -> None:
    """The tools are functions, coroutines, generators and functions that raise. With tools="live" they are run."""
    path = tmp_path / "run.json"

    def use() -> list[object]:
        ran.clear()
        given: list[object] = [delete("a.py"), asyncio.run(fetch(url="u")), list(lines(3))]
        with pytest.raises(FileNotFoundError, match="nothing"):
            delete(name="nothing")
        return given

    with TrajectoryRecorder(path, strict=True):
        came, before = use(), list(ran)
    with replay(path):
        again, during = use(), list(ran)
    with replay(path, tools="live"):
        use()

    assert (again, during, before, ran) == (came, [], ["a.py", "u", "3", "nothing"], ["a.py", "u", "3", "nothing"])


def test_a_tool_call_with_other_arguments_is_a_mismatch(tmp_path: Path) -> None:
    """The tool is not run, and the error shows the difference."""
    path = tmp_path / "run.json"
    ran.clear()
    with TrajectoryRecorder(path, strict=True):
        delete("a.py")
    ran.clear()

    with pytest.raises(ReplayMismatchError, match="delete") as raised, replay(path):
        delete("b.py")

    assert "[-a-]{+b+}" in str(raised.value)
    assert ran == []
