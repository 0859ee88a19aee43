"""The prompt of each interaction as its difference from an earlier prompt, so that no history is sent twice.

`figures/conversations/compared_prompts.py` finds the earlier prompt and the relation: the new prompt extends, edits,
rewrites or refers to the earlier prompt (`call_chains.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_recorder.dialects.dialect import is_turn
from trace_recorder.figures.conversations.call_chains import CallChains
from trace_recorder.figures.conversations.compared_prompts import ComparedPrompt, ComparedPrompts, answer_text
from trace_recorder.figures.conversations.turn import Turn
from trace_recorder.figures.conversations.turns_of_run import side_calls
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.prompt_relation import Change, Numbers, Relation, apply_changes, ranges_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.parts import characters_of


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """The prompt of one interaction, as its difference from the prompt of the interaction `base`.

    `answers` are the numbers of inserted messages that repeat earlier answers of the model. `messages` is the whole
    prompt.
    """

    known: bool = True
    count: int = 0
    characters: int = 0
    base: int | None = None
    relation: Relation = "begins"
    changes: tuple[Change, ...] = ()
    answers: tuple[int, ...] = ()
    instructions: int = 0
    messages: Sequence[Message] | None = field(default=None, repr=False, compare=False)

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
    """The prompts of a run, which are added interaction by interaction."""

    def __init__(self, compared: ComparedPrompts | None = None) -> None:
        self.shown: list[ShownPrompt] = []
        self._compared = compared or ComparedPrompts()
        self._characters: list[int] = []
        self._numbers_by_id: dict[str, int] = {}
        self._answers: set[str] = set()
        self._chains = CallChains()
        self._turns: dict[int, Turn] = {}
        self._unanswered: set[int] = set()

    @property
    def messages(self) -> Sequence[Message]:
        """The distinct messages by their numbers, in the order in which they were first sent."""
        return self._compared.messages.messages

    def begin_again(self) -> Prompts:
        """Return new `Prompts` without prompts. Messages keep their numbers."""
        return Prompts(self._compared.begin_again())

    def numbers_of(self, number: int) -> Numbers:
        """Return the numbers of the messages in the prompt of the interaction `number`."""
        chain: list[ShownPrompt] = []
        current: int | None = number
        while current is not None:
            chain.append(self.shown[current - 1])
            current = None if chain[-1].relation == "refers" else chain[-1].base
        numbers: Numbers = array("q")
        for prompt in reversed(chain):
            numbers = apply_changes(numbers, prompt.changes)
        return numbers

    def add(self, interaction: LLMInteraction) -> ShownPrompt:
        """Return the prompt of the next interaction, and remember it for later prompts."""
        number = len(self.shown) + 1
        prompt = ShownPrompt(known=False)
        if interaction.source.has_request():
            prompt = self._prompt(interaction, self._compared.add_call(interaction, self._turn(interaction, number)))
            self._numbers_by_id[interaction.interaction_id] = number
        self.shown.append(prompt)
        return prompt

    def add_answer(self, number: int, interaction: LLMInteraction) -> None:
        """Remember the answer of an interaction, so that it is recognised in later prompts."""
        if interaction.answered:
            self._answers.update([answer_text(interaction.response), *map(answer_text, interaction.response.choices)])
        if interaction.answered and number in self._unanswered:
            self._unanswered.discard(number)
            self._turns[number] = self._chains.add(interaction)

    def _turn(self, interaction: LLMInteraction, number: int) -> Turn | None:
        """Return the turn of a call, or None for embeddings.

        A call without an answer is added again when its answer is known.
        """
        if not is_turn(interaction.api):
            return None
        if not interaction.answered:
            self._unanswered.add(number)
        self._turns[number] = self._chains.add(interaction)
        return self._turns[number]

    def side_calls(self, trajectory: Trajectory) -> frozenset[str]:
        """Return the ids of the run's side calls among the calls that were added."""
        turns = [*self._turns.values()]
        return frozenset(turn.interaction.interaction_id for turn in side_calls(trajectory, turns))

    def _prompt(self, interaction: LLMInteraction, prompt: ComparedPrompt) -> ShownPrompt:
        request = interaction.source.request()
        base = self._numbers_by_id.get(prompt.base or "")
        changes = tuple(prompt.comparison.changes)
        if base is None or prompt.relation == "refers":
            changes = (Change(0, 0, prompt.numbers),) if prompt.numbers else ()
        return ShownPrompt(
            count=len(prompt.numbers),
            characters=self._characters_of(prompt, base),
            base=base,
            relation=prompt.relation,
            changes=changes,
            answers=self._repeated_answers(changes),
            instructions=request.instructions,
            messages=request.messages,
        )

    def _characters_of(self, prompt: ComparedPrompt, base: int | None) -> int:
        """Return the length of a prompt in characters, computed from the length of its base."""
        if base is None or prompt.relation == "refers":
            return sum(map(self._length, prompt.numbers))
        gone, new = prompt.comparison.gone, map(prompt.numbers.__getitem__, prompt.comparison.new)
        return self.shown[base - 1].characters - sum(map(self._length, gone)) + sum(map(self._length, new))

    def _length(self, number: int) -> int:
        for message in self.messages[len(self._characters) :]:
            self._characters.append(characters_of(message))
        return self._characters[number]

    def _repeated_answers(self, changes: Sequence[Change]) -> tuple[int, ...]:
        inserted = (number for change in changes for number in change.inserted)
        return tuple(
            number
            for number in inserted
            if self.messages[number].role == "assistant" and answer_text(self.messages[number]) in self._answers
        )
