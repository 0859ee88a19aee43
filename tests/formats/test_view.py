"""A view returns only its value. `with_report` also returns what the view left out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from tests.formats.made import call, run
from trace_recorder import views
from trace_recorder.formats.format_writer import view
from trace_recorder.views import LeftOut, preference_pairs, to_trl

REPORTING = sorted(name for name in views.__all__ if hasattr(getattr(views, name), "with_report") and name != "View")


def test_every_view_has_a_report() -> None:
    """`to_invariant` has no report, but `to_invariant_dataset` has one. `to_rollouts` counts in its values."""
    named = {name for name in views.__all__ if name.startswith("to_")} - {"to_invariant", "to_rollouts"}

    assert set(REPORTING) == named | {"preference_pairs"}


@pytest.mark.parametrize("name", REPORTING)
def test_the_report_is_not_a_parameter(name: str) -> None:
    """The signature of a view, also in `help`, has only arguments that callers can pass."""
    made = getattr(views, name)

    assert "left_out" not in inspect.signature(made).parameters
    assert inspect.isfunction(made)
    assert made.__doc__


def test_the_report_does_not_change_the_value() -> None:
    """The value is the same with a report and without."""
    made = run(call(["q"], "a"))

    assert to_trl.with_report(made, "prompt_completion")[0] == to_trl(made, "prompt_completion")


def test_each_report_covers_one_call() -> None:
    """A second call of the view counts from zero."""
    faulty = run(call(["q"], None))

    first, second = (to_trl.with_report(faulty)[1] for _ in range(2))
    assert first == second == {"answers without a text or a tool call": 1}


def test_the_report_of_an_iterator_is_complete_at_its_end() -> None:
    """The runs of an iterator are read and counted one after another, so the report is empty at first."""
    runs = [run(call(["q"], answer)) for answer in ("a", "b")]
    pairs, left_out = preference_pairs.with_report(iter(runs), "passed")

    assert left_out == {}
    assert list(pairs) == []
    assert left_out == {"runs without the reward": 2}


def test_the_report_has_no_zeros() -> None:
    """A kind of content that was not left out is not mentioned."""

    @view
    def evens(left_out: LeftOut, numbers: list[int]) -> Iterator[int]:
        for number in numbers:
            left_out.add("odd numbers", number % 2)
            if number % 2 == 0:
                yield number

    found, left_out = evens.with_report([2, 4])
    assert (list(found), left_out) == ([2, 4], {})
    assert (list(evens([1, 2])), evens.__name__) == ([2], "evens")
