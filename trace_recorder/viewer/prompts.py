"""The prompt of each interaction as its difference from an earlier prompt, so that no history is sent twice.

`reading/relations/prompt_relations.py` finds the earlier prompt and the relation: the new prompt extends, edits,
rewrites or refers to the earlier prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.figures.conversations.side_calls import side_calls
from trace_recorder.reading.relations.prompt_relations import PromptRelation, PromptRelations, relations_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.prompt_comparison import Change, Numbers, Relation, ranges_of
from trace_recorder.values.structs import Struct
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.parts import characters_of


class ShownPrompt(Struct, frozen=True, gc=False):
    """The prompt of one interaction, as its difference from the prompt of the interaction `base`.

    `answers` are the numbers of inserted messages that repeat earlier answers of the model.
    """

    known: bool = True
    count: int = 0
    characters: int = 0
    base: int | None = None
    relation: Relation = "begins"
    changes: tuple[Change, ...] = ()
    answers: tuple[int, ...] = ()
    instructions: int = 0

    def to_json(self) -> dict[str, Payload]:
        """Return the prompt as JSON for the outline."""
        return {
            "known": self.known,
            "count": self.count,
            "characters": self.characters,
            "base": self.base,
            "relation": self.relation,
            "changes": [[change.position, change.removed, ranges_of(change.inserted)] for change in self.changes],
            "answers": [*self.answers],
            "instructions": self.instructions,
        }


class Prompts:
    """The prompts of a run, which may grow."""

    def __init__(self) -> None:
        self.shown: list[ShownPrompt] = []
        self._relations = PromptRelations()
        self._compared: Sequence[PromptRelation] = ()
        self._characters: list[int] = []

    @property
    def messages(self) -> Sequence[Message]:
        """The distinct messages by their numbers, in the order in which they were first sent."""
        return self._relations.messages.messages

    def numbers_of(self, interaction: LLMInteraction) -> Numbers:
        """Return the numbers of the messages in the prompt of an interaction."""
        return self._relations.numbers_of(interaction)

    def update(self, trajectory: Trajectory) -> None:
        """Set the newest state of the run. Prompts that are compared as before are not made again."""
        interactions = trajectory.llm_interactions
        self._relations = relations_of(trajectory)
        before, shown = self._compared, self.shown
        self._compared, self.shown = (self._relations.all() if interactions else ()), []
        numbers: dict[str, int] = {}
        for number, (interaction, relation) in enumerate(zip(interactions, self._compared, strict=True), start=1):
            if number <= len(before) and before[number - 1] is relation:
                self.shown.append(shown[number - 1])
            elif interaction.source.has_request():
                self.shown.append(self._prompt(interaction, relation, numbers.get(relation.base or "")))
            else:
                self.shown.append(ShownPrompt(known=False))
            if self.shown[-1].known:
                numbers[interaction.interaction_id] = number

    def side_calls(self, trajectory: Trajectory) -> frozenset[str]:
        """Return the ids of the side calls of the run."""
        turns = [relation.turn for relation in self._compared if relation.turn is not None]
        return frozenset(turn.interaction.interaction_id for turn in side_calls(trajectory, turns))

    def _prompt(self, interaction: LLMInteraction, relation: PromptRelation, base: int | None) -> ShownPrompt:
        numbers = self.numbers_of(interaction)
        if base is None or relation.kind == "refers":
            changes: Sequence[Change] = (Change(0, 0, numbers),) if numbers else ()
            characters = sum(map(self._length, numbers))
        else:
            changes, gone = relation.comparison.changes, relation.comparison.gone
            new = map(numbers.__getitem__, relation.comparison.new)
            characters = self.shown[base - 1].characters - sum(map(self._length, gone)) + sum(map(self._length, new))
        return ShownPrompt(
            count=relation.count,
            characters=characters,
            base=base,
            relation=relation.kind,
            changes=tuple(changes),
            answers=tuple(numbers[place] for place in sorted(relation.answers)),
            instructions=interaction.source.request().instructions,
        )

    def _length(self, number: int) -> int:
        for message in self.messages[len(self._characters) :]:
            self._characters.append(characters_of(message))
        return self._characters[number]
