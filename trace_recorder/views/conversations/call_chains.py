"""Turns: the LLM interactions of a run, and which of them goes on from which.

The rule. A request goes on from an earlier call where its messages begin with those of that call, followed by the
recorded answer (`extends`), or where it names that call instead of repeating it (`refers`: `previous_response_id`, or
an agent that records only its newest messages). Ids of tool calls that an agent gave itself, white space, thoughts
that are not sent back, marks for a cache and what a server's own tools left behind make no difference
(`utterances.py`).

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

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, RequestReading
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.content.parts import text_of
from trace_recorder.views.conversations.chained_call import Relation, Turn, agent_of, answer_of
from trace_recorder.views.conversations.prompt_matching import Answer, Heard, Place, Repeats
from trace_recorder.views.conversations.steps_as_calls import call_of_step
from trace_recorder.views.conversations.utterances import START, Utterance, Vocabulary, Words, states

__all__ = ["Relation", "Turn", "agent_of", "answer_of", "interactions_of", "turns_of"]

_PREVIOUS = ("previous_response_id", "previous_interaction_id")


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """Give the turns of a run in the order of time; of one that recorded no calls, those that its steps tell of."""
    calls = interactions_of(trajectory)
    turns = [*map(Placing().place, calls)]
    beside = _beside(turns)
    return [*map(Placing(beside).place, calls)] if beside else turns


def interactions_of(trajectory: Trajectory) -> list[LLMInteraction]:
    """Give the calls that are conversations. Where none was recorded, each step is taken for one."""
    calls = [one for one in trajectory.llm_interactions if one.api != "embeddings"]
    if calls or trajectory.llm_interactions:
        return calls
    told = enumerate(trajectory.agent_steps, start=1)
    return [call_of_step(number, step) for number, step in told if not step.derived]


def _beside(turns: Sequence[Turn]) -> frozenset[str]:
    """The calls that are known in hindsight to be no continuation: the agent went on from what came before them."""
    place = {turn: number for number, turn in enumerate(turns)}
    followed = {turn.before: number for turn, number in place.items() if turn.exact and turn.before is not None}
    latest: dict[Turn, Turn] = {}
    beside = set()
    for turn, number in place.items():
        unclear = turn.relation in {"edits", "rewrites"} and (turn.before is None or turn.other_instructions)
        before = turn.before or latest.get(turn.began)
        if unclear and before is not None and followed.get(before, -1) > number:
            beside.add(turn.interaction.interaction_id)
        elif turn.answered:
            latest[turn.began] = turn
    return frozenset(beside)


# ── which goes on from which ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Found:
    """What a request goes on from. `repeats` says which of its utterances are recorded answers."""

    relation: Relation
    before: Turn | None = None
    choice: int = 0
    exact: bool = False
    kept: int = 0
    repeats: Repeats = field(default_factory=dict)
    began: Turn | None = None


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A request as it is looked at: its utterances, of which the first `own` are instructions for it alone.

    `states` are those after each of the others; where it refers to a turn, `start` and `count` are what that one ends
    with.
    """

    one: LLMInteraction
    reading: RequestReading
    said: Sequence[Utterance]
    own: int
    start: bytes
    count: int
    states: Sequence[bytes]

    @property
    def instructed(self) -> bytes:
        """What tells its own instructions from others."""
        return b"".join(one.words.digest for one in self.said[: self.own])

    @property
    def instructions(self) -> str:
        """The text of the instructions with which it begins."""
        messages = self.reading.messages
        end = next((at for at, message in enumerate(messages) if not _instructs(message)), len(messages))
        return "\n".join(map(text_of, messages[:end]))


@dataclass(frozen=True, slots=True)
class _Spoken:
    """An answer: what was said up to it, its words, and how many utterances these are in all."""

    state: bytes
    words: Words | None
    count: int


class Placing:
    """Places interactions one after another. `beside` are those of which it is known that they continue nothing.

    `_ends` finds an answer by its agent and what was said so far; by None and that, an answer of any: agents at once
    may be asked the same and say the same, and another that goes on from an agent's answer has its history.
    """

    def __init__(self, beside: Collection[str] = ()) -> None:
        self.vocabulary = Vocabulary()
        self._beside = beside
        self._ends: dict[Hashable, Answer] = {}
        self._places: dict[Turn, Place] = {}
        self._by_id: dict[str, Turn] = {}
        self._agents: dict[str | None, Heard] = {}
        self._number = 0

    def place(self, one: LLMInteraction) -> Turn:
        """Say what an interaction goes on from, and remember it for those that come."""
        reading = one.source.request()
        heard = self._agents.setdefault(agent_of(one), Heard(self._places))
        referred = self._named(one, reading) or _handed(one, reading.messages, heard)
        prompt = self._prompt(one, reading, referred)
        found = (
            self._referred(prompt, referred)
            if referred
            else self._extended(prompt, heard) or self._changed(prompt, heard)
        )
        known = self._known(prompt, found, heard)
        spoken = [self._spoken(prompt, message) for message in _answers(one)]
        shown = _shown(prompt, found)
        turn = Turn(
            one,
            found.relation,
            found.before,
            found.choice,
            found.exact,
            kept=found.kept,
            size=len(reading.messages),
            instructions=reading.instructions,
            end=prompt.own + (spoken[0].count if spoken else prompt.count + len(prompt.states)),
            shown=shown,
            news=_news(prompt, found, shown, known),
            tools=tuple(reading.tools),
            parameters=reading.parameters,
            other_instructions=found.before is not None
            and not found.exact
            and not heard.is_instructed_so(found.before, prompt.instructions),
            began_with=found.began,
        )
        self._remember(turn, prompt, found, known, spoken)
        return turn

    def _prompt(self, one: LLMInteraction, reading: RequestReading, referred: Turn | None) -> _Prompt:
        before = self._places[referred] if referred else None
        said = self.vocabulary.utterances(reading.messages, before.words[0] if before else None)
        own = sum(utterance.begin < reading.instructions for utterance in said)
        start, count = (before.state, before.count) if before else (START, 0)
        return _Prompt(one, reading, said, own, start, count, [*states(said[own:], start)])

    def _named(self, one: LLMInteraction, reading: RequestReading) -> Turn | None:
        """The turn that a request names as the one that it goes on from."""
        if one.api is None:
            return None
        names = [name for key, name in reading.parameters.items() if key in _PREVIOUS and isinstance(name, str)]
        return next((self._by_id[name] for name in names if name in self._by_id), None)

    def _referred(self, prompt: _Prompt, before: Turn) -> _Found:
        exact = prompt.one.api is None or self._places[before].instructed == prompt.instructed
        return _Found("refers", before, exact=exact, kept=prompt.reading.instructions, began=before.began)

    def _extended(self, prompt: _Prompt, heard: Heard) -> _Found | None:
        """The turn whose whole prompt and answer stand at the beginning, if no later answer follows them."""
        agent, instructed = agent_of(prompt.one), prompt.instructed
        for at in reversed(range(len(prompt.states))):
            key = instructed, prompt.states[at]
            answer = self._ends.get((agent, *key)) or self._ends.get(key)
            if answer is not None:
                turn, choice = answer
                place = prompt.own + at
                if heard.has_answer(prompt.said, place + 1):
                    return None
                repeats = {place: answer}
                return _Found("extends", turn, choice, True, prompt.said[place].end, repeats, turn.began)
        return None

    def _changed(self, prompt: _Prompt, heard: Heard) -> _Found:
        """The turn whose answer is the last one in a prompt that was changed on the way."""
        if heard.last is None:
            return _Found("begins")
        repeats, unbroken = heard.repeated(prompt.said)
        if prompt.one.interaction_id in self._beside:
            return _Found("begins", repeats=repeats)
        if not repeats:
            began = heard.same_run(prompt.said, prompt.instructions)
            return _Found("rewrites", began=began) if began else _Found("begins")
        last = max(repeats)
        turn, choice = repeats[last]
        relation: Relation = "edits" if unbroken >= self._places[turn].depth else "rewrites"
        return _Found(relation, turn, choice, False, prompt.said[last].end, repeats, turn.began)

    def _known(self, prompt: _Prompt, found: _Found, heard: Heard) -> list[bool]:
        """Of each utterance whether it was told before."""
        if found.before is None or found.relation in {"edits", "rewrites"}:
            return heard.has_heard(prompt.said, found.repeats)
        known = heard.has_heard_after(found.before, prompt.said, found.kept)
        own = [True] * prompt.own if found.exact else heard.has_heard(prompt.said[: prompt.own], {})
        return own + known[prompt.own :]

    def _spoken(self, prompt: _Prompt, answer: Message) -> _Spoken:
        """An answer as it is sent back; where it was begun for the model, with its beginning."""
        messages, said = prompt.reading.messages, prompt.said[prompt.own :]
        is_begun = bool(said) and said[-1].words.role == "assistant" and said[-1].end == len(messages)
        begin, before = (said[-1].begin, said[:-1]) if is_begun else (len(messages), said)
        words = self.vocabulary.words([*messages[begin:], answer])
        state = prompt.states[len(before) - 1] if before else prompt.start
        if words is None:
            return _Spoken(state, None, prompt.count + len(before))
        [after] = states([Utterance(begin, begin + 1, words)], state)
        return _Spoken(after, words, prompt.count + len(before) + 1)

    def _remember(
        self, turn: Turn, prompt: _Prompt, found: _Found, known: Sequence[bool], spoken: Sequence[_Spoken]
    ) -> None:
        one, agent = turn.interaction, agent_of(turn.interaction)
        heard = self._agents[agent]
        heard.is_instructed = heard.is_instructed or any(map(_instructs, prompt.reading.messages))
        heard.hear(turn, prompt.said, known, found.repeats)
        if not turn.answered:
            return
        self._number += 1
        first = spoken[0]
        seen = self._places[turn.before].depth if turn.before and turn.relation != "rewrites" else len(found.repeats)
        words = tuple(answer.words for answer in spoken)
        depth = seen + (first.words is not None)
        self._places[turn] = Place(self._number, first.state, first.count, words, prompt.instructed, depth)
        news = [one for one, is_known in zip(prompt.said, known, strict=True) if not (turn.exact and is_known)]
        heard.answered(turn, news, None if turn.exact else prompt.instructions)
        for choice, answer in reversed([*enumerate(spoken)]):
            key = prompt.instructed, answer.state
            self._ends[key] = self._ends[agent, *key] = turn, choice
        if one.response.id:
            self._by_id[one.response.id] = turn


def _handed(one: LLMInteraction, messages: Sequence[Message], heard: Heard) -> Turn | None:
    """The turn that an agent goes on from which records by hand, and gave only what is new.

    That is so where it begins with the answer to a tool call; or, where the last turn made none, has neither
    instructions, though there were some at the beginning, nor anything that the model said.
    """
    if one.api is not None or not messages or any(message.role == "assistant" for message in messages):
        return None
    if messages[0].role == "tool":
        return heard.asked.get(messages[0].call_id or "")
    last = heard.last
    if last is None or last.answer().tool_calls or not heard.is_instructed or any(map(_instructs, messages)):
        return None
    return last


def _shown(prompt: _Prompt, found: _Found) -> tuple[Message, ...]:
    """What follows the answer that a prompt goes on from; results have the ids of that answer's own calls."""
    messages = prompt.reading.messages[found.kept :]
    place = max(found.repeats, default=None)
    if found.before is None or place is None:
        return tuple(messages)
    sent, recorded = prompt.said[place].words.calls, found.before.answer(found.choice).tool_calls
    names = {own.call_id: call.call_id for own, call in zip(sent, recorded, strict=False)}
    return tuple(_renamed(message, names) for message in messages)


def _renamed(message: Message, names: dict[str, str]) -> Message:
    name = names.get(message.call_id or "") if message.role == "tool" else None
    return message if name in {None, message.call_id} else replace(message, call_id=name, given=None)


def _news(prompt: _Prompt, found: _Found, shown: Sequence[Message], known: Sequence[bool]) -> tuple[Message, ...]:
    """What was not told before: results of the calls that it goes on from, what is new in front of them, the rest."""
    spans = [(one.begin, one.end) for one, is_known in zip(prompt.said, known, strict=True) if not is_known]
    fresh = {at for begin, end in spans for at in range(begin, end)}
    if found.relation == "begins":
        silent = {at for one in prompt.said for at in range(one.begin, one.end)}.symmetric_difference
        fresh |= silent(range(len(prompt.reading.messages)))
    after = [(at, message) for at, message in enumerate(shown, start=found.kept) if at in fresh]
    results = next((number for number, (_, message) in enumerate(after) if message.role != "tool"), len(after))
    before = [message for at, message in enumerate(prompt.reading.messages[: found.kept]) if at in fresh]
    told = [message for _, message in after]
    return (*told[:results], *before, *told[results:])


def _answers(one: LLMInteraction) -> list[Message]:
    if not one.answered:
        return []
    return [answer_of(one.response, number) for number in range(max(1, len(one.response.choices)))]


def _instructs(message: Message) -> bool:
    return message.role in {"system", "developer"}
