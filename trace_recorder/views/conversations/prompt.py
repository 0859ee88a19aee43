"""One request in a chain of calls: its normalized messages, what it continues, and which of its messages are new.

`call_chains.py` decides what a request continues. This file has its inputs and the consequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import NormalizedContent
from trace_recorder.values.messages import Message, RequestReading
from trace_recorder.values.prompt_relation import Relation
from trace_recorder.values.structs import replace
from trace_recorder.views.content.parts import text_of
from trace_recorder.views.conversations.chained_call import Turn, agent_key
from trace_recorder.views.conversations.normalized_messages import (
    MessageNormalizer,
    NormalizedMessage,
    prefix_sums,
)
from trace_recorder.views.conversations.normalized_prompts import NormalizedPrompt, PromptNormalizer, is_instruction
from trace_recorder.views.conversations.prompt_matching import KnownMessages, RepeatedAnswers, TurnRecord


@dataclass(frozen=True, slots=True)
class Continuation:
    """The turn that a request continues. `answers` says which of its normalized messages are recorded answers."""

    relation: Relation
    previous: Turn | None = None
    choice: int = 0
    exact: bool = False
    prefix_length: int = 0
    answers: RepeatedAnswers = field(default_factory=dict)
    chain_start: Turn | None = None


@dataclass(frozen=True, slots=True)
class AnswerPrefix:
    """An answer with everything before it: the sum of these messages, the answer's content, and their number."""

    sum: int
    content: NormalizedContent | None
    message_count: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request with its normalized prompt.

    A request that refers to a turn starts with the turn's sum and message count.
    """

    call: LLMInteraction
    reading: RequestReading
    normalized: NormalizedPrompt
    start_sum: int = 0
    start_count: int = 0

    @classmethod
    def of(
        cls, call: LLMInteraction, reading: RequestReading, prompts: PromptNormalizer, referred: TurnRecord | None
    ) -> Prompt:
        """Normalize a request. `referred` is the record of the turn that it refers to, if any."""
        if referred is None:
            return cls(call, reading, prompts.normalize(reading.messages, reading.instructions, agent_key(call)))
        place, start = referred.message_count, referred.prefix_sum
        normalized = prompts.normalize_after(
            referred.answers[0], reading.messages, reading.instructions, agent_key(call), place, start
        )
        return cls(call, reading, normalized, start, place)

    @property
    def messages(self) -> Sequence[NormalizedMessage]:
        """Its normalized messages."""
        return self.normalized.messages

    @property
    def instructions_digest(self) -> bytes:
        """Identifies the instructions for this request alone."""
        return b"".join(one.content.digest for one in self.messages[: self.normalized.own])

    @property
    def instructions(self) -> str:
        """The text of the instructions with which it begins."""
        messages = self.reading.messages
        end = next((at for at, message in enumerate(messages) if not is_instruction(message)), len(messages))
        return "\n".join(map(text_of, messages[:end]))

    def answer_prefix(self, answer: Message, normalizer: MessageNormalizer) -> AnswerPrefix:
        """Return the prefix that ends with an answer, in the form in which an agent sends it back.

        If the prompt ends with the beginning of the answer, both form one message.
        """
        messages, normalized = self.reading.messages, self.messages[self.normalized.own :]
        is_begun = (
            bool(normalized) and normalized[-1].content.role == "assistant" and normalized[-1].end == len(messages)
        )
        begin, before = (normalized[-1].begin, normalized[:-1]) if is_begun else (len(messages), normalized)
        content = normalizer.content_of([*messages[begin:], answer])
        start, place = (
            self.normalized.prefixes[len(before) - 1] if before else self.start_sum,
            self.start_count + len(before),
        )
        if content is None:
            return AnswerPrefix(start, None, place)
        [after] = prefix_sums([NormalizedMessage(begin, begin + 1, content)], place, start)
        return AnswerPrefix(after, content, place + 1)

    def appended_messages(self, continued: Continuation) -> tuple[Message, ...]:
        """Return the messages after the answer that the request continues.

        Results have the ids of its recorded calls.
        """
        messages = self.reading.messages[continued.prefix_length :]
        place = max(continued.answers, default=None)
        if continued.previous is None or place is None:
            return tuple(messages)
        sent, recorded = self.messages[place].content.calls, continued.previous.answer(continued.choice).tool_calls
        ids = {own.call_id: call.call_id for own, call in zip(sent, recorded, strict=False)}
        return tuple(_with_call_id(message, ids) for message in messages)

    def new_messages(
        self, continued: Continuation, appended: Sequence[Message], known: KnownMessages
    ) -> tuple[tuple[Message, ...], range]:
        """Return the messages that no earlier prompt had, and the positions of those before the previous answer.

        The results of that answer are first, then the messages from before the answer, then the rest.
        """
        new = {*self._new_places(continued, known)}
        after = [message for place, message in enumerate(appended, start=continued.prefix_length) if place in new]
        results = next((number for number, message in enumerate(after) if message.role != "tool"), len(after))
        before = [self.reading.messages[place] for place in sorted(new) if place < continued.prefix_length]
        return (*after[:results], *before, *after[results:]), range(results, results + len(before))

    def _new_places(self, continued: Continuation, known: KnownMessages) -> Iterator[int]:
        """Yield the positions of new messages. In the first prompt of a chain, empty messages count too."""
        for one in known.unknown(self.messages):
            yield from range(one.begin, one.end)
        if continued.relation == "begins":
            covered = {place for one in self.messages for place in range(one.begin, one.end)}
            yield from (place for place in range(len(self.reading.messages)) if place not in covered)


def _with_call_id(message: Message, ids: dict[str, str]) -> Message:
    identity = ids.get(message.call_id or "") if message.role == "tool" else None
    return message if identity in {None, message.call_id} else replace(message, call_id=identity, given=None)
