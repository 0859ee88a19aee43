"""The tree of a list: runs that belong together are below one another, at the place of the first of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import lines
from trace_recorder.catalog.run_tree import TreePlace, run_tree


def places(*branches: tuple[int, int]) -> list[TreePlace]:
    return [TreePlace(*branch) for branch in branches]


def test_later_runs_of_a_session_are_below_its_first() -> None:
    """Sessions that take turns are not mixed, and a run of no session stays where it is."""
    tree = run_tree([None] * 5, ["a", "b", "a", None, "b"])
    assert tree == places((0, 0), (2, 1), (1, 0), (4, 1), (3, 0))


def test_a_closer_relation_comes_before_the_session() -> None:
    """A fork of the second run of a session is below that run, and a child without a session is below its parent."""
    assert run_tree([None, None, 1, 1], ["a", "a", "a", None]) == places((0, 0), (1, 1), (2, 2), (3, 2))


def test_a_tree_is_where_its_first_row_is() -> None:
    """In a list with the newest first, a new fork of an old run brings the old run to the top."""
    assert run_tree([2, None, None], [None] * 3) == places((2, 0), (0, 1), (1, 0))


def test_rows_below_each_other_are_listed_once() -> None:
    """In a circle one row is the root. A row that is below itself is a root."""
    assert run_tree([1, 0, 2], [None] * 3) == places((1, 0), (0, 1), (2, 0))


@given(st.data())
def test_each_row_is_listed_once_below_its_upper_row(data: st.DataObject) -> None:
    """Whatever rows refer to, each is listed once. A row that is not a root follows the row that it is below."""
    count = data.draw(st.integers(0, 12))
    uppers = data.draw(st.lists(st.none() | st.integers(0, max(count - 1, 0)), min_size=count, max_size=count))
    sessions = data.draw(st.lists(st.sampled_from([None, "a", "b", {}]), min_size=count, max_size=count))
    tree = run_tree(uppers, sessions)

    assert sorted(branch.row for branch in tree) == [*range(count)]
    path: list[int] = []
    for row, depth in tree:
        assert depth <= len(path)
        path[depth:] = [row]
        if depth > 0:
            assert uppers[row] in {None, row, path[depth - 1]}


@pytest.mark.parametrize("shape", ["one session", "a chain", "a circle"])
def test_the_work_is_linear_in_the_rows(shape: str) -> None:
    """A session of many runs, and a long chain of forks, take a number of lines for each row."""

    def arrange(count: int) -> None:
        uppers = {
            "one session": [None] * count,
            "a chain": [None, *range(count - 1)],
            "a circle": [*range(1, count), 0],
        }[shape]
        assert len(run_tree(uppers, ["a"] * count)) == count

    assert lines(lambda: arrange(2000)) < 2.1 * lines(lambda: arrange(1000))
