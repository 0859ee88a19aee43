"""The one relation of each prompt to the earlier prompts of its run: what it continues, keeps, adds and lacks.

All code that shortens, compares, shows or exports conversations asks `relations_of`. The relations of a run are
computed once, call by call, when they are first asked for, and stay with the `Trajectory`. There are two equalities
(`values/message_equality.py`):

- Which call a call continues is decided by *says the same* (`call_chains.py`). The result is a `Turn`.
- Which messages are new, kept or gone is decided by *the same JSON*, apart from cache marks. `_ComparedCalls` chooses
  the earlier prompt:
  - the prompt of the call that this call continues. A request that names that call repeats at most its instructions, so
    only these are compared
  - a recent prompt of the agent, such as the prompt of a failed call, if this prompt begins with all of it, and so
    shares more messages
  - the most similar recent prompt, if the call continues no call. Its history counts as changed only if answers of the
    model are gone, because independent calls share their instructions
  - no prompt, if the call begins a conversation, such as a request for a title, and extends no earlier prompt

It may be unclear which call a call continues, until a later call shows it (`_separate_calls`). Then all calls of the
run are read. If a run grows, `update` keeps the relations of the calls that are already known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from trace_recorder.dialects.dialect import is_turn
from trace_recorder.locks import new_lock
from trace_recorder.reading.relations.call_chains import AskedCall, CallChains, Continuation, digest_of
from trace_recorder.reading.relations.calls_of_run import calls_of
from trace_recorder.reading.relations.normalized_messages import MessageNormalizer, PlacedMessages
from trace_recorder.reading.relations.normalized_prompts import NormalizedPrompt
from trace_recorder.reading.relations.turn import Turn, answer_of, key_of_agent
from trace_recorder.reading.steps_and_calls import steps_and_calls
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import says_key, shown_key
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.messages import LLMResponse, Message
from trace_recorder.values.prompt_comparison import (
    MAX_EARLIER_PROMPTS,
    Comparison,
    EarlierPrompts,
    Numbers,
    Relation,
    SharedNumbers,
    compare_prompts,
)
from trace_recorder.values.structs import Struct, field, replace
from trace_recorder.values.trajectory import AgentStep, Trajectory, made_once, set_made_once

Name = TypeVar("Name")


class PromptRelation(Struct, frozen=True, eq=False):
    """The relation of a prompt to an earlier prompt of its run.

    - `turn`: the place of the call in its chain of calls, or None for a call outside of them, such as an embedding
    - `kind`: what this prompt is to the earlier one
    - `base`: the name of the earlier prompt: the id of its call, or "step 3" for a step that the agent recorded. It is
      None if no earlier prompt shares a message with this prompt
    - `comparison`: the messages that are kept, new and gone
    - `count`: how many messages the prompt has
    - `answers`: the positions of inserted messages that repeat recorded answers of the model, each with the name of the
      prompt that got the answer
    """

    turn: Turn | None
    kind: Relation
    base: str | None
    comparison: Comparison
    count: int
    answers: Mapping[int, str] = field(default_factory=dict)

    @property
    def gone(self) -> int:
        """The number of messages of the history that were removed or changed."""
        if self.kind in {"begins", "refers"}:
            return 0
        return len(self.comparison.gone)


def relations_of(trajectory: Trajectory) -> PromptRelations:
    """Return the relations of the calls of a run. If no calls were recorded, the agent's own steps are the calls."""
    return made_once(trajectory, _relations)


def continue_relations(relations: PromptRelations, trajectory: Trajectory) -> None:
    """Let a newer state of a growing run continue the relations of its earlier states."""
    relations.update(trajectory)
    set_made_once(trajectory, _relations, relations)


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """Return the turns of a run in the order of time. If no calls were recorded, the turns are made from the steps."""
    return relations_of(trajectory).turns()


def _relations(trajectory: Trajectory) -> PromptRelations:
    relations = PromptRelations()
    relations.update(trajectory)
    return relations


class PromptRelations:
    """The relations of the calls of one run, which may grow. Several threads may ask.

    `messages` gives equal messages equal numbers, in the order in which they were first sent.
    """

    def __init__(self) -> None:
        self.messages = EqualMessages(shown_key)
        self._lock = new_lock()
        self._normalizer = MessageNormalizer()
        self._calls: Sequence[LLMInteraction] = ()
        self._places: dict[str, int] = {}
        self._is_decided = False
        self._begin_again()

    def _begin_again(self) -> None:
        self._separate: frozenset[str] = frozenset()
        self._undecided = self._decided = _ComparedCalls(self.messages, self._normalizer)

    def update(self, trajectory: Trajectory) -> None:
        """Set the newest state of the run.

        A call that got its answer keeps its relation. If a request changed, all prompts are compared again.
        """
        calls = calls_of(trajectory)
        with self._lock:
            is_same = len(calls) >= len(self._undecided.relations)
            walks = {id(walk): walk for walk in (self._undecided, self._decided)}
            if not is_same or not all(walk.update(calls) for walk in walks.values()):
                self._begin_again()
            self._calls, self._is_decided = calls, False
            self._places = {call.interaction_id: place for place, call in reversed([*enumerate(calls)])}

    def of(self, call: LLMInteraction) -> PromptRelation:
        """Return the relation of a call of the run.

        Only the calls up to this call are read, unless a later call decides what one of them continues.
        """
        with self._lock:
            place = self._places[call.interaction_id]
            while place >= len(self._decided.relations) and not self._undecided.has_unclear:
                self._decided.add(self._calls[len(self._decided.relations)])
            if self._undecided.has_unclear:
                self._decide()
            return self._decided.relations[place]

    def all(self) -> Sequence[PromptRelation]:
        """Return the relations of all calls, in the order of the calls."""
        with self._lock:
            return [*self._decide()]

    def turns(self) -> list[Turn]:
        """Return the turns of all calls that are in a conversation."""
        return [relation.turn for relation in self.all() if relation.turn is not None]

    def _decide(self) -> Sequence[PromptRelation]:
        """Compare all prompts, and find the calls that continue no other call."""
        if self._is_decided:
            return self._decided.relations
        self._is_decided = True
        self._undecided.add_all(self._calls)
        if not self._undecided.has_unclear:
            return self._undecided.relations
        separate = _separate_calls([relation.turn for relation in self._undecided.relations if relation.turn])
        if separate != self._separate:
            self._separate = separate
            self._decided = self._undecided
            if separate:
                self._decided = _ComparedCalls(self.messages, self._normalizer, separate)
        self._decided.add_all(self._calls)
        return self._decided.relations

    def normalize(self, messages: Sequence[Message]) -> PlacedMessages:
        """Normalize messages that begin a prompt. What was normalized for the relations is not normalized again."""
        with self._lock:
            return self._normalizer.normalize(messages)

    def numbers_of(self, call: LLMInteraction) -> Numbers:
        """Return the numbers of the messages in the prompt of a call."""
        with self._lock:
            return self.messages.numbers_of(call.input_messages)

    def of_step(self, trajectory: Trajectory, step: AgentStep) -> PromptRelation:
        """Return the relation of the messages that the agent recorded in a step without a call.

        They are compared with the newest prompts of the agent's calls and steps before this step.
        """
        prompts = made_once(trajectory, _RecordedPrompts)
        place = prompts.places[_key_of_step(step)]
        before = prompts.of_agents[key_of_agent(step)][max(0, place - MAX_EARLIER_PROMPTS) : place]
        messages = step.llm_messages or ()
        with self._lock:
            earlier: EarlierPrompts[int] = EarlierPrompts()
            for number, prompt in enumerate(before):
                earlier.add(number, self.messages.shared_numbers_of(prompt.messages))
            numbers = self.messages.shared_numbers_of(messages)
            compared = _compare_with_similar(earlier, numbers, self.messages, may_rewrite=True)
            has_history = any(self.messages.messages[number].role == "assistant" for number in numbers)
        kind, comparison = compared.kind, compared.comparison
        if kind == "begins" and comparison.gone and has_history:
            kind = "edits"
        if compared.base is None:
            return PromptRelation(None, kind, None, comparison, len(messages))
        base = before[compared.base]
        answers: dict[int, str] = {}
        if base.response is not None:
            answer = says_key(answer_of(base.response))
            assistants = [place for place in comparison.inserted_places() if messages[place].role == "assistant"]
            answers = {place: base.name for place in assistants if says_key(messages[place]) == answer}
        return PromptRelation(None, kind, base.name, comparison, len(messages), answers)


class _ComparedCalls:
    """The relations of the first calls of a run. `separate` are the ids of calls that continue no other call."""

    def __init__(self, messages: EqualMessages, normalizer: MessageNormalizer, separate: Collection[str] = ()) -> None:
        self.relations: list[PromptRelation] = []
        self.has_unclear = False
        self._calls: list[LLMInteraction] = []
        self._sent: list[Sequence[Message]] = []
        self._messages = messages
        self._digests: dict[int, bytes | None] = {}
        """The digest of each message for the equality *says the same*, or None for an empty answer."""
        self._chains = CallChains(separate, normalizer)
        self._earlier: dict[str | None, EarlierPrompts[str]] = defaultdict(EarlierPrompts)
        self._referring: dict[Turn, EarlierPrompts[str]] = defaultdict(EarlierPrompts)
        self._numbers: dict[Turn, SharedNumbers] = {}
        """The numbers of the newest prompts, because the next call mostly continues one of them."""

    def add_all(self, calls: Sequence[LLMInteraction]) -> None:
        """Add the calls that were not added yet."""
        for call in calls[len(self.relations) :]:
            self.add(call)

    def add(self, call: LLMInteraction) -> PromptRelation:
        """Return the relation of the next call."""
        numbers = self._messages.shared_numbers_of(call.input_messages)
        earlier = self._earlier[key_of_agent(call)]
        if is_turn(call.api):
            asked = self._chains.ask(call)
            compared = self._compare_turn(call.interaction_id, asked.continued, earlier, numbers)
            answers = self._repeated_answers(asked.prompt.normalized, compared)
            comparison = compared.comparison
            if asked.continued.relation == "begins":  # what another conversation has is not added again
                comparison = _compare_with_similar(earlier, numbers, self._messages, may_rewrite=False).comparison
            turn = self._chains.add(asked, self._added_places(asked, numbers, comparison, answers))
            earlier.add(call.interaction_id, numbers)
            self._numbers[turn] = numbers
            if len(self._numbers) > MAX_EARLIER_PROMPTS:
                del self._numbers[next(iter(self._numbers))]
            self.has_unclear = self.has_unclear or _is_unclear(turn)
            relation = PromptRelation(turn, compared.kind, compared.base, compared.comparison, len(numbers), answers)
        else:
            compared = _compare_with_similar(earlier, numbers, self._messages, may_rewrite=False)
            relation = PromptRelation(None, compared.kind, compared.base, compared.comparison, len(numbers))
        self.relations.append(relation)
        self._calls.append(call)
        self._sent.append(call.source.request().messages)
        return relation

    def update(self, calls: Sequence[LLMInteraction]) -> bool:
        """Add the answers that calls got since they were added. Return False if any other part of a call changed."""
        for place, (before, call) in enumerate(zip(self._calls, calls, strict=False)):
            if before is call:
                continue
            if call.source.request().messages is not self._sent[place]:
                return False
            self._calls[place] = call
            if is_turn(call.api):
                turn = self._chains.answer(call)
                if turn is None:
                    return False
                self.relations[place] = replace(self.relations[place], turn=turn)
        return True

    def _compare_turn(
        self, name: str, continued: Continuation, earlier: EarlierPrompts[str], numbers: SharedNumbers
    ) -> _Compared[str]:
        if continued.previous is not None and continued.relation == "refers":
            return self._compare_with_referred(name, continued.previous, numbers)
        if continued.previous is not None:
            return self._compare_with_continued(continued.previous, continued.relation, earlier, numbers)
        may_rewrite = continued.relation == "rewrites"
        compared = _compare_with_similar(earlier, numbers, self._messages, may_rewrite=may_rewrite)
        if continued.relation == "begins" and not compared.comparison.extends:
            return _Compared("begins", None, compare_prompts(numbers.first(0), numbers))
        return compared

    def _compare_with_continued(
        self, previous: Turn, relation: Relation, earlier: EarlierPrompts[str], numbers: SharedNumbers
    ) -> _Compared[str]:
        """Compare a prompt with the prompt of the call that it continues."""
        before = self._numbers.get(previous)
        if before is None:
            before = self._messages.shared_numbers_of(previous.interaction.input_messages)
        comparison = compare_prompts(before, numbers)
        extended = earlier.extended_by(numbers, comparison.kept + 1)
        if extended is not None:
            return _Compared("extends", *extended)
        return _Compared(relation, previous.interaction.interaction_id, comparison)

    def _compare_with_referred(self, name: str, previous: Turn, numbers: SharedNumbers) -> _Compared[str]:
        """Compare a prompt with the instructions of the call to which it refers, because it repeats nothing else.

        If the prompt extends an earlier prompt that refers to the same call, such as that of a failed call, these two
        are compared.
        """
        referring = self._referring[previous]
        extended = referring.extended_by(numbers, 1)
        referring.add(name, numbers)
        if extended is not None:
            return _Compared("extends", *extended)
        before = self._messages.shared_numbers_of(previous.interaction.input_messages).first(previous.instructions)
        return _Compared("refers", previous.interaction.interaction_id, compare_prompts(before, numbers))

    def _repeated_answers(self, prompt: NormalizedPrompt, compared: _Compared[str]) -> dict[int, str]:
        """Return the positions of the inserted messages that repeat answers of the model, with the calls' ids.

        An agent may send one answer back as several messages.
        """
        answers = {}
        end = 0
        of_span: Sequence[str] = ()
        for place in compared.comparison.inserted_places():
            if not prompt.is_assistant(place):
                continue
            if place >= end:
                begin, end = _span(prompt, place)
                of_span = self._chains.calls_that_answered(prompt, begin, end)
            calls = of_span or self._chains.calls_that_answered(prompt, place, place + 1)
            if compared.base is not None and compared.base in calls:
                answers[place] = compared.base
            elif calls:
                answers[place] = calls[-1]
        return answers

    def _added_places(
        self, asked: AskedCall, numbers: SharedNumbers, comparison: Comparison, answers: Collection[int]
    ) -> Sequence[int]:
        """Return the positions of the new messages that say something new.

        A new message does not count if it repeats an answer of the model, if it says the same as a gone message, or if
        it is the changed result of a tool, before the continued answer, whose earlier result is gone.
        """
        messages, prompt = asked.prompt.reading.messages, asked.prompt.normalized
        for place in comparison.new:
            number = numbers[place]
            if number not in self._digests:
                content = self._chains.normalizer.content_of(prompt.table, prompt.source.copy(place, place + 1))
                self._digests[number] = digest_of(content)
        results, gone_digests = set(), defaultdict[bytes | None, int](int)
        for number in comparison.gone:
            message = self._messages.messages[number]
            if message.role == "tool":
                results.add(message.call_id)
            if number not in self._digests:
                self._digests[number] = digest_of(self._chains.normalizer.content_of_new([message]))
            gone_digests[self._digests[number]] += 1
        added = []
        for place in comparison.new:
            digest = self._digests[numbers[place]]
            is_changed_result = False
            if results and place < asked.continued.prefix_length:
                message = messages[place]
                is_changed_result = message.role == "tool" and message.call_id in results
            is_empty_answer = digest is None and asked.continued.relation != "begins"
            if is_changed_result or is_empty_answer or place in answers or asked.is_answer(place):
                continue
            if gone_digests[digest] > 0:
                gone_digests[digest] -= 1
            else:
                added.append(place)
        return added


def _span(prompt: NormalizedPrompt, place: int) -> tuple[int, int]:
    """Return the begin and the end of the neighbouring messages of the assistant around a position."""
    begin, end = place, place + 1
    while prompt.is_assistant(begin - 1):
        begin -= 1
    while prompt.is_assistant(end):
        end += 1
    return begin, end


class _Compared(Struct, Generic[Name], frozen=True, gc=False):
    """What a prompt is to the earlier prompt `base`, and the comparison of the two."""

    kind: Relation
    base: Name | None
    comparison: Comparison


def _compare_with_similar(
    earlier: EarlierPrompts[Name], numbers: SharedNumbers, messages: EqualMessages, *, may_rewrite: bool
) -> _Compared[Name]:
    """Compare a prompt with the most similar earlier prompt, because the prompt continues no call."""
    similar = earlier.most_similar(numbers)
    if similar is None:
        return _Compared("begins", None, compare_prompts(numbers.first(0), numbers))
    base, comparison = similar
    if comparison.extends:
        return _Compared("extends", base, comparison)
    if may_rewrite and any(messages.messages[number].role == "assistant" for number in comparison.gone):
        return _Compared("rewrites", base, comparison)
    return _Compared("begins", base, comparison)


def _separate_calls(turns: Sequence[Turn]) -> frozenset[str]:
    """Return the ids of the unclear calls (`_is_unclear`) that belong to no chain.

    An unclear call belongs to no chain if a later call continues the call before the unclear call.
    """
    numbers = {turn: number for number, turn in enumerate(turns)}
    continued_at = {turn.previous: number for turn, number in numbers.items() if turn.exact and turn.previous}
    latest: dict[Turn, Turn] = {}
    separate = set()
    for turn, number in numbers.items():
        before = turn.previous or latest.get(turn.chain_start)
        if _is_unclear(turn) and before is not None and continued_at.get(before, -1) > number:
            separate.add(turn.interaction.interaction_id)
        elif turn.answered:
            latest[turn.chain_start] = turn
    return frozenset(separate)


def _is_unclear(turn: Turn) -> bool:
    """Whether it is unclear which earlier turn a turn continues.

    The earlier turn is unclear if the history and the instructions were changed, or if the history was changed and the
    turn continues no answer.
    """
    return turn.relation in {"edits", "rewrites"} and (turn.previous is None or turn.instructions_changed)


# ── prompts with steps ───────────────────────────────────────────────────────────────────────────────────────────────


class _RecordedPrompt(NamedTuple):
    """A prompt of a call or of a step, under the name by which it is shown, and the answer to it."""

    name: str
    messages: Sequence[Message]
    response: LLMResponse | None


class _RecordedPrompts:
    """The prompts of each agent in the order of time, from calls and from steps without a call.

    `places` has the position of the prompt of each step.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self.of_agents: dict[str | None, list[_RecordedPrompt]] = defaultdict(list)
        self.places: dict[Hashable, int] = {}
        for part in steps_and_calls(trajectory):
            call, step = part.call, part.step
            if call is not None and is_turn(call.api):
                prompt = _RecordedPrompt(call.interaction_id, call.input_messages, call.response)
                self.of_agents[key_of_agent(call)].append(prompt)
            elif call is None and step is not None and step.llm_messages is not None:
                prompts = self.of_agents[key_of_agent(step)]
                self.places.setdefault(_key_of_step(step), len(prompts))
                prompts.append(_RecordedPrompt(f"step {step.step_number}", step.llm_messages, step.llm_response))


def _key_of_step(step: AgentStep) -> Hashable:
    return key_of_agent(step), step.step_number, step.timestamp
