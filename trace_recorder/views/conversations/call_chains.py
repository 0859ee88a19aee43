"""Turns: the LLM interactions of a run, and which of them goes on from which.

The rule. A request goes on from an earlier call where its messages begin with those of that call, followed by the
recorded answer (`extends`), or where it names that call instead of repeating it (`refers`: `previous_response_id`, or
an agent that records only its newest messages). Ids of tool calls that an agent gave itself, white space, thoughts
that are not sent back, marks for a cache and what a server's own tools left behind make no difference
(`normalized_messages.py`).

A history that was changed on the way is not given up: each of its messages is looked for in what was said before. It
`edits` where all that the model said before is still there, and other messages were shortened, replaced, added or
removed; it `rewrites` where answers are gone, as after compaction. What has neither an answer of its agent's nor the
same instructions `begins` a run of its own, which stands beside the agent's others. So does a prompt of unclear origin
from which the agent did not go on, but from what came before it: that is known in hindsight.

Kept are a digest for each distinct message, and of each prompt what was new in it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace

from trace_recorder.values.messages import Message, RequestReading
from trace_recorder.values.trajectory import LLMInteraction, Trajectory
from trace_recorder.views.content.parts import text_of
from trace_recorder.views.conversations.chained_call import Relation, Turn, agent_key, answer_of
from trace_recorder.views.conversations.normalized_messages import (
    EMPTY_PREFIX,
    MessageNormalizer,
    NormalizedContent,
    NormalizedMessage,
    prefix_digests,
)
from trace_recorder.views.conversations.prompt_matching import AgentHistory, AnswerRef, RepeatedAnswers, TurnRecord
from trace_recorder.views.conversations.steps_as_calls import call_of_step

__all__ = ["Relation", "Turn", "agent_key", "answer_of", "interactions_of", "turns_of"]

_PREVIOUS = ("previous_response_id", "previous_interaction_id")


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """Give the turns of a run in the order of time; of one that recorded no calls, those that its steps tell of."""
    calls = interactions_of(trajectory)
    turns = [*map(CallChains().add, calls)]
    beside = _side_calls(turns)
    return [*map(CallChains(beside).add, calls)] if beside else turns


def interactions_of(trajectory: Trajectory) -> list[LLMInteraction]:
    """Give the calls that are conversations. Where none was recorded, each step is taken for one."""
    calls = [one for one in trajectory.llm_interactions if one.api != "embeddings"]
    if calls or trajectory.llm_interactions:
        return calls
    told = enumerate(trajectory.agent_steps, start=1)
    return [call_of_step(number, step) for number, step in told if not step.derived]


def _side_calls(turns: Sequence[Turn]) -> frozenset[str]:
    """The calls that are known in hindsight to be no continuation: the agent went on from what came before them."""
    place = {turn: number for number, turn in enumerate(turns)}
    followed = {turn.previous: number for turn, number in place.items() if turn.exact and turn.previous is not None}
    latest: dict[Turn, Turn] = {}
    beside = set()
    for turn, number in place.items():
        unclear = turn.relation in {"edits", "rewrites"} and (turn.previous is None or turn.instructions_changed)
        before = turn.previous or latest.get(turn.chain_start)
        if unclear and before is not None and followed.get(before, -1) > number:
            beside.add(turn.interaction.interaction_id)
        elif turn.answered:
            latest[turn.chain_start] = turn
    return frozenset(beside)


# ── which goes on from which ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Continuation:
    """What a request goes on from. `repeats` says which of its utterances are recorded answers."""

    relation: Relation
    previous: Turn | None = None
    choice: int = 0
    exact: bool = False
    prefix_length: int = 0
    answers: RepeatedAnswers = field(default_factory=dict)
    chain_start: Turn | None = None


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A request as it is looked at: its utterances, of which the first `own` are instructions for it alone.

    `prefix_digests` are those after each of the others; where it refers to a turn, `start` and `count` are what that one ends
    with.
    """

    one: LLMInteraction
    reading: RequestReading
    messages: Sequence[NormalizedMessage]
    instruction_count: int
    start_digest: bytes
    start_count: int
    prefix_digests: Sequence[bytes]

    @property
    def instructions_digest(self) -> bytes:
        """What tells its own instructions from others."""
        return b"".join(one.content.digest for one in self.messages[: self.instruction_count])

    @property
    def instructions(self) -> str:
        """The text of the instructions with which it begins."""
        messages = self.reading.messages
        end = next((at for at, message in enumerate(messages) if not _is_instruction(message)), len(messages))
        return "\n".join(map(text_of, messages[:end]))


@dataclass(frozen=True, slots=True)
class _AnswerPrefix:
    """An answer: what was said up to it, its words, and how many utterances these are in all."""

    digest: bytes
    content: NormalizedContent | None
    message_count: int


class CallChains:
    """Places interactions one after another. `beside` are those of which it is known that they continue nothing.

    `_answers_by_digest` finds an answer by its agent and what was said so far; by None and that, an answer of any: agents at once
    may be asked the same and say the same, and another that goes on from an agent's answer has its history.
    """

    def __init__(self, side_calls: Collection[str] = ()) -> None:
        self.normalizer = MessageNormalizer()
        self._side_call_ids = side_calls
        self._answers_by_digest: dict[Hashable, AnswerRef] = {}
        self._records: dict[Turn, TurnRecord] = {}
        self._by_id: dict[str, Turn] = {}
        self._histories: dict[str | None, AgentHistory] = {}
        self._number = 0

    def add(self, one: LLMInteraction) -> Turn:
        """Say what an interaction goes on from, and remember it for those that come."""
        reading = one.source.request()
        history = self._histories.setdefault(agent_key(one), AgentHistory(self._records))
        referred = self._previous_by_id(one, reading) or _previous_by_hand(one, reading.messages, history)
        prompt = self._prompt(one, reading, referred)
        found = (
            self._continue_by_reference(prompt, referred)
            if referred
            else self._extend(prompt, history) or self._continue_changed(prompt, history)
        )
        known = self._known(prompt, found, history)
        spoken = [self._answer_prefix(prompt, message) for message in _answers(one)]
        shown = _appended(prompt, found)
        turn = Turn(
            one,
            found.relation,
            found.previous,
            found.choice,
            found.exact,
            prefix_length=found.prefix_length,
            prompt_length=len(reading.messages),
            instructions=reading.instructions,
            normalized_length=prompt.instruction_count
            + (spoken[0].message_count if spoken else prompt.start_count + len(prompt.prefix_digests)),
            appended=shown,
            new_messages=_new_messages(prompt, found, shown, known),
            tools=tuple(reading.tools),
            parameters=reading.parameters,
            instructions_changed=found.previous is not None
            and not found.exact
            and not history.has_similar_instructions(found.previous, prompt.instructions),
            in_chain_of=found.chain_start,
        )
        self._remember(turn, prompt, found, known, spoken)
        return turn

    def _prompt(self, one: LLMInteraction, reading: RequestReading, referred: Turn | None) -> _Prompt:
        before = self._records[referred] if referred else None
        said = self.normalizer.normalize(reading.messages, before.answers[0] if before else None)
        own = sum(utterance.begin < reading.instructions for utterance in said)
        start, count = (before.prefix_digest, before.message_count) if before else (EMPTY_PREFIX, 0)
        return _Prompt(one, reading, said, own, start, count, [*prefix_digests(said[own:], start)])

    def _previous_by_id(self, one: LLMInteraction, reading: RequestReading) -> Turn | None:
        """The turn that a request names as the one that it goes on from."""
        if one.api is None:
            return None
        names = [name for key, name in reading.parameters.items() if key in _PREVIOUS and isinstance(name, str)]
        return next((self._by_id[name] for name in names if name in self._by_id), None)

    def _continue_by_reference(self, prompt: _Prompt, before: Turn) -> _Continuation:
        exact = prompt.one.api is None or self._records[before].instructions_digest == prompt.instructions_digest
        return _Continuation(
            "refers", before, exact=exact, prefix_length=prompt.reading.instructions, chain_start=before.chain_start
        )

    def _extend(self, prompt: _Prompt, history: AgentHistory) -> _Continuation | None:
        """The turn whose whole prompt and answer stand at the beginning, if no later answer follows them."""
        agent, instructed = agent_key(prompt.one), prompt.instructions_digest
        for at in reversed(range(len(prompt.prefix_digests))):
            key = instructed, prompt.prefix_digests[at]
            answer = self._answers_by_digest.get((agent, *key)) or self._answers_by_digest.get(key)
            if answer is not None:
                turn, choice = answer
                place = prompt.instruction_count + at
                if history.has_answer(prompt.messages, place + 1):
                    return None
                repeats = {place: answer}
                return _Continuation(
                    "extends", turn, choice, True, prompt.messages[place].end, repeats, turn.chain_start
                )
        return None

    def _continue_changed(self, prompt: _Prompt, history: AgentHistory) -> _Continuation:
        """The turn whose answer is the last one in a prompt that was changed on the way."""
        if history.last is None:
            return _Continuation("begins")
        repeats, unbroken = history.find_answers(prompt.messages)
        if prompt.one.interaction_id in self._side_call_ids:
            return _Continuation("begins", answers=repeats)
        if not repeats:
            began = history.chain_of(prompt.messages, prompt.instructions)
            return _Continuation("rewrites", chain_start=began) if began else _Continuation("begins")
        last = max(repeats)
        turn, choice = repeats[last]
        relation: Relation = "edits" if unbroken >= self._records[turn].answer_count else "rewrites"
        return _Continuation(relation, turn, choice, False, prompt.messages[last].end, repeats, turn.chain_start)

    def _known(self, prompt: _Prompt, found: _Continuation, history: AgentHistory) -> list[bool]:
        """Of each utterance whether it was told before."""
        if found.previous is None or found.relation in {"edits", "rewrites"}:
            return history.are_known(prompt.messages, found.answers)
        known = history.are_known_after(found.previous, prompt.messages, found.prefix_length)
        own = (
            [True] * prompt.instruction_count
            if found.exact
            else history.are_known(prompt.messages[: prompt.instruction_count], {})
        )
        return own + known[prompt.instruction_count :]

    def _answer_prefix(self, prompt: _Prompt, answer: Message) -> _AnswerPrefix:
        """An answer as it is sent back; where it was begun for the model, with its beginning."""
        messages, said = prompt.reading.messages, prompt.messages[prompt.instruction_count :]
        is_begun = bool(said) and said[-1].content.role == "assistant" and said[-1].end == len(messages)
        begin, before = (said[-1].begin, said[:-1]) if is_begun else (len(messages), said)
        words = self.normalizer.content_of([*messages[begin:], answer])
        state = prompt.prefix_digests[len(before) - 1] if before else prompt.start_digest
        if words is None:
            return _AnswerPrefix(state, None, prompt.start_count + len(before))
        [after] = prefix_digests([NormalizedMessage(begin, begin + 1, words)], state)
        return _AnswerPrefix(after, words, prompt.start_count + len(before) + 1)

    def _remember(
        self, turn: Turn, prompt: _Prompt, found: _Continuation, known: Sequence[bool], spoken: Sequence[_AnswerPrefix]
    ) -> None:
        one, agent = turn.interaction, agent_key(turn.interaction)
        history = self._histories[agent]
        history.has_instructions = history.has_instructions or any(map(_is_instruction, prompt.reading.messages))
        history.add_prompt(turn, prompt.messages, known, found.answers)
        if not turn.answered:
            return
        self._number += 1
        first = spoken[0]
        seen = (
            self._records[turn.previous].answer_count
            if turn.previous and turn.relation != "rewrites"
            else len(found.answers)
        )
        words = tuple(answer.content for answer in spoken)
        depth = seen + (first.content is not None)
        self._records[turn] = TurnRecord(
            self._number, first.digest, first.message_count, words, prompt.instructions_digest, depth
        )
        news = [one for one, is_known in zip(prompt.messages, known, strict=True) if not (turn.exact and is_known)]
        history.add_answers(turn, news, None if turn.exact else prompt.instructions)
        for choice, answer in reversed([*enumerate(spoken)]):
            key = prompt.instructions_digest, answer.digest
            self._answers_by_digest[key] = self._answers_by_digest[agent, *key] = turn, choice
        if one.response.id:
            self._by_id[one.response.id] = turn


def _previous_by_hand(one: LLMInteraction, messages: Sequence[Message], history: AgentHistory) -> Turn | None:
    """The turn that an agent goes on from which records by hand, and gave only what is new.

    That is so where it begins with the answer to a tool call; or, where the last turn made none, has neither
    instructions, though there were some at the beginning, nor anything that the model said.
    """
    if one.api is not None or not messages or any(message.role == "assistant" for message in messages):
        return None
    if messages[0].role == "tool":
        return history.callers.get(messages[0].call_id or "")
    last = history.last
    if last is None or last.answer().tool_calls or not history.has_instructions or any(map(_is_instruction, messages)):
        return None
    return last


def _appended(prompt: _Prompt, found: _Continuation) -> tuple[Message, ...]:
    """What follows the answer that a prompt goes on from; results have the ids of that answer's own calls."""
    messages = prompt.reading.messages[found.prefix_length :]
    place = max(found.answers, default=None)
    if found.previous is None or place is None:
        return tuple(messages)
    sent, recorded = prompt.messages[place].content.calls, found.previous.answer(found.choice).tool_calls
    names = {own.call_id: call.call_id for own, call in zip(sent, recorded, strict=False)}
    return tuple(_with_call_id(message, names) for message in messages)


def _with_call_id(message: Message, names: dict[str, str]) -> Message:
    name = names.get(message.call_id or "") if message.role == "tool" else None
    return message if name in {None, message.call_id} else replace(message, call_id=name, given=None)


def _new_messages(
    prompt: _Prompt, found: _Continuation, shown: Sequence[Message], known: Sequence[bool]
) -> tuple[Message, ...]:
    """What was not told before: results of the calls that it goes on from, what is new in front of them, the rest."""
    spans = [(one.begin, one.end) for one, is_known in zip(prompt.messages, known, strict=True) if not is_known]
    fresh = {at for begin, end in spans for at in range(begin, end)}
    if found.relation == "begins":
        silent = {at for one in prompt.messages for at in range(one.begin, one.end)}.symmetric_difference
        fresh |= silent(range(len(prompt.reading.messages)))
    after = [(at, message) for at, message in enumerate(shown, start=found.prefix_length) if at in fresh]
    results = next((number for number, (_, message) in enumerate(after) if message.role != "tool"), len(after))
    before = [message for at, message in enumerate(prompt.reading.messages[: found.prefix_length]) if at in fresh]
    told = [message for _, message in after]
    return (*told[:results], *before, *told[results:])


def _answers(one: LLMInteraction) -> list[Message]:
    if not one.answered:
        return []
    return [answer_of(one.response, number) for number in range(max(1, len(one.response.choices)))]


def _is_instruction(message: Message) -> bool:
    return message.role in {"system", "developer"}
