"""Differences between prompts, in the viewer."""

from __future__ import annotations

from array import array

from tests.formats.made import call, run, system
from trace_recorder.reading.relations.prompt_relations import PromptRelations, continue_relations
from trace_recorder.viewer.prompts import Prompts


def test_prompts_that_are_compared_again_keep_the_numbers_of_messages() -> None:
    """If all prompts are compared again, each message keeps its number, so that the page need not load it again."""
    made = run(call(["Is it cold?"], "Yes."), call([system("Be brief."), "Is it warm?", "Is it cold?"], "Yes."))
    changed = run(call([system("Be brief."), "Is it warm?", "Is it cold?"], "Yes."))
    relations, prompts = PromptRelations(), Prompts()
    continue_relations(relations, made)
    prompts.update(made)
    messages = [*prompts.messages]

    continue_relations(relations, changed)
    prompts.update(changed)
    assert (len(prompts.shown), prompts.numbers_of(changed.llm_interactions[0])) == (1, array("q", [1, 2, 0]))
    assert [*prompts.messages] == messages
