"""Differences between prompts, in the viewer."""

from __future__ import annotations

from array import array

from tests.formats.made import call, run, system
from trace_recorder.viewer.prompts import Prompts


def test_prompts_that_are_compared_again_keep_the_numbers_of_messages() -> None:
    """If all prompts are compared again, each message keeps its number, so that the page need not load it again."""
    made = run(call(["Is it cold?"], "Yes."), call([system("Be brief."), "Is it warm?", "Is it cold?"], "Yes."))
    before = Prompts()
    for one in made.llm_interactions:
        before.add(one)

    again = before.begin_again()
    again.add(made.llm_interactions[1])
    assert (len(again.shown), again.numbers_of(1), before.numbers_of(2)) == (1, *[array("q", [1, 2, 0])] * 2)
    assert [*again.messages] == [*before.messages]
