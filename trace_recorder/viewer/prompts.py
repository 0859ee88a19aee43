"""The prompt of each interaction as the difference to an earlier one, so that no history is written out twice.

The base of a prompt is the call that it continues, by the rule of `views/conversations/call_chains.py`, which says too
whether it extends, edits or rewrites the history or refers to it. A prompt that continues no call by that rule, such as
one that is sent again, is the difference to the prompt that it begins with, or else, of the agent's last few calls, to
the first that shares at least half of its messages, or to the one that shares most.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Choice, LLMResponse, Message, Payload
from trace_recorder.values.shared_sequence import SharedSequence
from trace_recorder.viewer.message_numbers import MessageNumbers
from trace_recorder.viewer.parts import characters_of
from trace_recorder.viewer.prompt_changes import Change, Numbers, applied, changes_between, ranges_of
from trace_recorder.views.content.parts import text_of
from trace_recorder.views.conversations.call_chains import CallChains, Relation, Turn
from trace_recorder.views.conversations.chained_call import agent_key

MAX_EARLIER_PROMPTS = 8
"""With how many earlier prompts of its agent a prompt is compared."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one interaction. `base` is the number of the one that it is the difference to.

    `answers` are inserted messages that repeat what the model said before. `messages` is the list that it was made of.
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
        """Return the prompt as the outline has it."""
        return {
            "known": self.known,
            "count": self.count,
            "characters": self.characters,
            "base": self.base,
            "relation": self.relation,
            "changes": [[one.position, one.removed, ranges_of(one.inserted)] for one in self.changes],
            "answers": [*self.answers],
            "instructions": self.instructions,
        }


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A prompt that later ones may continue: the number of its interaction, its messages, its length in characters."""

    number: int
    numbers: Numbers
    characters: int


class Prompts:
    """The prompts of a run, one interaction after another."""

    def __init__(self, messages: MessageNumbers) -> None:
        self.made: list[Prompt] = []
        self._messages = messages
        self._characters: list[int] = []
        self._earlier: dict[str | None, list[_Earlier]] = defaultdict(list)
        self._numbers_by_id: dict[str, int] = {}
        self._answers: set[str] = set()
        self._chains = CallChains()
        self._unanswered: set[int] = set()

    def numbers_of(self, number: int) -> Numbers:
        """Return the message numbers of a prompt."""
        chain: list[Prompt] = []
        at: int | None = number
        while at is not None:
            chain.append(self.made[at - 1])
            at = None if chain[-1].relation == "refers" else chain[-1].base
        numbers: Numbers = array("q")
        for prompt in reversed(chain):
            numbers = applied(numbers, prompt.changes)
        return numbers

    def add(self, one: LLMInteraction) -> Prompt:
        """Return the prompt of the next interaction, and remember it for those after it."""
        number = len(self.made) + 1
        if not one.source.has_request():
            self.made.append(Prompt(known=False))
            return self.made[-1]
        reading = one.source.request()
        messages = SharedSequence.of(reading.messages)
        prompt = self._prompt(one, self._messages.numbers_of(messages), number)
        self.made.append(
            Prompt(
                count=len(messages),
                characters=prompt.characters,
                base=prompt.base,
                relation=prompt.relation,
                changes=prompt.changes,
                answers=self._repeated_answers(prompt.changes),
                instructions=reading.instructions,
                messages=reading.messages,
            )
        )
        return self.made[-1]

    def add_answer(self, number: int, one: LLMInteraction) -> None:
        """Remember what the model said in an interaction: later prompts repeat it."""
        if one.answered:
            self._answers.update([_said(one.response), *map(_said, one.response.choices)])
        if one.answered and number in self._unanswered:
            self._unanswered.discard(number)
            self._chains.add(one)

    def _prompt(self, one: LLMInteraction, numbers: Numbers, number: int) -> Prompt:
        turn = self._turn(one, number)
        continued = self._continued(turn, agent_key(one))
        refers = continued is not None and turn is not None and turn.relation == "refers"
        base, changes = self._difference(numbers, agent_key(one), continued, refers=refers)
        characters = self._length_after(base, changes)
        self._remember(one, _Earlier(number, numbers, characters))
        found = continued if refers else base
        relation = turn.relation if continued and turn else self._relation(base, changes)
        before = None if found is None else found.number
        return Prompt(characters=characters, base=before, relation=relation, changes=tuple(changes))

    def _turn(self, one: LLMInteraction, number: int) -> Turn | None:
        """Return what the call continues. One that is not answered yet is added again when it is."""
        if one.api == "embeddings":
            return None
        if not one.answered:
            self._unanswered.add(number)
        return self._chains.add(one)

    def _continued(self, turn: Turn | None, agent: str | None) -> _Earlier | None:
        """Return the prompt of the call that a turn continues; one of the agent's last few is still in memory."""
        previous = turn.previous if turn else None
        number = self._numbers_by_id.get(previous.interaction.interaction_id) if previous else None
        if number is None:
            return None
        kept = next((one for one in self._earlier[agent] if one.number == number), None)
        return kept or _Earlier(number, self.numbers_of(number), self.made[number - 1].characters)

    def _remember(self, one: LLMInteraction, prompt: _Earlier) -> None:
        self._numbers_by_id[one.interaction_id] = prompt.number
        if one.api != "embeddings":
            self._earlier[agent_key(one)] = [*self._earlier[agent_key(one)][1 - MAX_EARLIER_PROMPTS :], prompt]

    def _difference(
        self, numbers: Numbers, agent: str | None, continued: _Earlier | None, *, refers: bool
    ) -> tuple[_Earlier | None, list[Change]]:
        """Return the prompt that a prompt is written as the difference to, and the changes."""
        base, changes = None, []
        if continued is not None and not refers:
            base, changes = continued, changes_between(continued.numbers, numbers)
        elif not refers:
            base, changes = self._base(numbers, agent)
        if base is None and len(numbers):
            changes = [Change(0, 0, numbers)]
        return base, changes

    def _base(self, numbers: Numbers, agent: str | None) -> tuple[_Earlier | None, list[Change]]:
        """Return the earlier prompt that has most in common with a new one, and the changes to it."""
        earlier = [*reversed(self._earlier[agent])]
        beginnings = [one for one in earlier if len(one.numbers) and one.numbers == numbers[: len(one.numbers)]]
        if beginnings:
            longest = max(beginnings, key=lambda one: len(one.numbers))
            return longest, changes_between(longest.numbers, numbers)
        best: tuple[int, _Earlier | None, list[Change]] = 0, None, []
        for one in earlier:
            changes = changes_between(one.numbers, numbers)
            kept = len(one.numbers) - sum(change.removed for change in changes)
            if kept > best[0]:
                best = kept, one, changes
            if 2 * kept >= len(numbers):
                break
        return best[1:]

    def _relation(self, base: _Earlier | None, changes: Sequence[Change]) -> Relation:
        if base is None:
            return "begins"
        if all(change.position == len(base.numbers) for change in changes):
            return "extends"
        gone = {number for one in changes for number in base.numbers[one.position : one.position + one.removed]}
        gone -= {number for one in changes for number in one.inserted}
        is_lost = any(self._messages.messages[number].role == "assistant" for number in gone)
        return "rewrites" if is_lost else "edits"

    def _length_after(self, base: _Earlier | None, changes: Sequence[Change]) -> int:
        """Return the length of a prompt in characters, from that of its base."""
        if base is None:
            return sum(self._length(number) for change in changes for number in change.inserted)
        length = base.characters
        for one in changes:
            length -= sum(map(self._length, base.numbers[one.position : one.position + one.removed]))
            length += sum(map(self._length, one.inserted))
        return length

    def _length(self, number: int) -> int:
        for message in self._messages.messages[len(self._characters) :]:
            self._characters.append(characters_of(message))
        return self._characters[number]

    def _repeated_answers(self, changes: Sequence[Change]) -> tuple[int, ...]:
        inserted = (number for change in changes for number in change.inserted)
        messages = self._messages.messages
        return tuple(
            number
            for number in inserted
            if messages[number].role == "assistant" and _said(messages[number]) in self._answers
        )


def _said(one: Message | LLMResponse | Choice) -> str:
    text = text_of(one) if isinstance(one, Message) else one.content or ""
    return json.dumps([text, [(call.name, call.arguments) for call in one.tool_calls]], sort_keys=True)
