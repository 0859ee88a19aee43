"""Call chains: which earlier call each LLM interaction continues, and which messages of the interaction are new.

A request `extends` an earlier call if the messages of the request begin with the messages and the recorded answer of
that call. A request `refers` to an earlier call if the request names the call instead of repeating its messages.
OpenAI's requests name the call by `previous_response_id`, and Anthropic's threads by the id of a message. An agent that
records only its newest messages also refers to its last call. Messages are compared after `normalized_messages.py`
has normalized them.

If the agent changed its history, each message of the request is looked up in the earlier histories. The request `edits`
the history if all answers of the model are still there, but other messages were shortened, replaced, added or removed.
The request `rewrites` the history if answers are gone, as after compaction. A request `begins` a new chain if it has no
recorded answer, and its instructions differ from those of the earlier chains. If a request changes the history and the
instructions, its origin is unclear. If a later request continues the call before the unclear request, the unclear
request begins a new chain too. `prompt_relations.py` reads all calls to find such requests.

A digest of each distinct message, and the new messages of each prompt, stay in memory.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import compress, count, takewhile
from operator import eq

from trace_recorder.dialects.dialect import is_in_progress
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.dialects.message_text import text_of
from trace_recorder.reading.relations.agent_history import (
    NO_ANSWERS,
    AgentMessages,
    AnswerRef,
    RepeatedAnswers,
    TurnRecord,
)
from trace_recorder.reading.relations.normalized_messages import (
    MessageNormalizer,
    NormalizedMessage,
    is_instruction,
    sum_of_messages,
)
from trace_recorder.reading.relations.normalized_prompts import NormalizedPrompt, PromptNormalizer, ReferredTurn
from trace_recorder.reading.relations.turn import Turn, answer_of, key_of_agent
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import NormalizedContent
from trace_recorder.values.message_table import SharedSequence
from trace_recorder.values.messages import Message, RequestReading
from trace_recorder.values.prompt_comparison import Relation, SharedNumbers
from trace_recorder.values.structs import Struct, replace


class Continuation(Struct, frozen=True, eq=False, gc=False):
    """The relation of a request to the earlier calls, and the turn that the request continues, if any.

    `prefix_length` is the number of messages up to the continued answer. `answers` are the recorded answers in the
    request.
    """

    relation: Relation
    previous: Turn | None = None
    choice: int = 0
    exact: bool = False
    prefix_length: int = 0
    answers: RepeatedAnswers = NO_ANSWERS
    chain_start: Turn | None = None


class AnswerPrefix(Struct, frozen=True, eq=False, gc=False):
    """An answer and all messages before it.

    `sum` identifies all these messages (`sum_of_messages`), and `message_count` is their number. `content` is the
    content of the answer, or None if the answer is empty.
    """

    sum: int
    content: NormalizedContent | None
    message_count: int


class RequestPrompt(Struct, eq=False, gc=False):
    """A request with its normalized prompt.

    `instructions_digest` is a digest of the instructions that apply to this request only.
    """

    call: LLMInteraction
    reading: RequestReading
    normalized: NormalizedPrompt
    instructions_digest: bytes
    _instructions: str | None = None

    @classmethod
    def of(
        cls, call: LLMInteraction, reading: RequestReading, prompts: PromptNormalizer, referred: TurnRecord | None
    ) -> RequestPrompt:
        """Normalize a request. `referred` is the record of the turn that the request refers to, if any."""
        agent = key_of_agent(call)
        if referred is None:
            normalized = prompts.normalize(reading.messages, reading.instructions, agent)
        else:
            turn = ReferredTurn(referred.answers[0], referred.message_count, referred.prefix_sum)
            normalized = prompts.normalize_after(turn, reading.messages, reading.instructions, agent)
        own = normalized.messages(0, normalized.own)
        return cls(call, reading, normalized, b"".join([message.content.digest for message in own]))

    @property
    def instructions(self) -> str:
        """The text of the instructions at the beginning of the request."""
        if self._instructions is None:
            self._instructions = "\n".join(map(text_of, takewhile(is_instruction, self.reading.messages)))
        return self._instructions

    def answer_prefix(self, answer: Message, normalizer: MessageNormalizer) -> AnswerPrefix:
        """Return an answer and the messages before it, in the form in which an agent sends them back.

        The prompt may end with a message of the assistant, which the model completes. That message and the answer then
        form one message.
        """
        prompt = self.normalized
        begin = end = len(prompt.shape)
        if end > prompt.own and prompt.is_answer(end - 1):
            while begin > prompt.own and prompt.is_assistant(begin - 1):
                begin -= 1
        merged = [answer]
        if begin < end:  # mostly not, and a slice of messages costs several calls
            merged = [*self.reading.messages[begin:], answer]
        content = normalizer.content_of_new(merged)
        place, before = prompt.count_before(begin), prompt.sum_before(begin)
        if content is None:
            return AnswerPrefix(before, None, place)
        return AnswerPrefix(sum_of_messages([NormalizedMessage(content)], place, before), content, place + 1)

    def appended_messages(self, continued: Continuation) -> Sequence[Message]:
        """Return the messages after the answer that the request continues.

        Tool results get the call ids of the recorded answer.
        """
        messages = self.reading.messages[continued.prefix_length :]
        place = continued.answers.last
        if continued.previous is None or place < 0:
            return messages
        sent = self.normalized.message_at(place).content.calls
        recorded = continued.previous.answer(continued.choice).tool_calls
        ids = {own.call_id: call.call_id for own, call in zip(sent, recorded, strict=False)}
        if all(map(eq, ids, ids.values())):
            return messages
        return tuple(_with_call_id(message, ids) for message in messages)

    def added_messages(
        self, continued: Continuation, appended: Sequence[Message], added: Sequence[int]
    ) -> tuple[tuple[Message, ...], range]:
        """Return the messages at the positions `added`, and the range of those that precede the continued answer.

        The returned messages begin with the results of the continued answer's tools. Then come the messages from before
        that answer, and then the rest.
        """
        length = continued.prefix_length
        after = [appended[place - length] for place in added if place >= length]
        results = next((number for number, message in enumerate(after) if message.role != "tool"), len(after))
        before = [self.reading.messages[place] for place in added if place < length]
        return (*after[:results], *before, *after[results:]), range(results, results + len(before))


def _with_call_id(message: Message, ids: dict[str, str]) -> Message:
    if message.role != "tool":
        return message
    identity = ids.get(message.call_id or "")
    if identity in {None, message.call_id}:
        return message
    return replace(message, call_id=identity, given=None)


class AskedCall(Struct, frozen=True, eq=False, gc=False):
    """A request, the earlier call that it continues, and the messages of its agent so far."""

    prompt: RequestPrompt
    continued: Continuation
    history: AgentMessages

    @property
    def appended_from(self) -> int:
        """The position from which on the request adds messages to the turn that it continues.

        It is only known if the request did not change the history.
        """
        if self.continued.relation == "extends":
            return self.continued.answers.last + 1
        return self.prompt.normalized.own

    def is_answer(self, position: int) -> bool:
        """Whether the message at a position of the prompt is one in which the agent sent an answer back."""
        prompt, answers = self.prompt.normalized, self.continued.answers
        while prompt.is_silent(position):
            position += 1
        is_among = answers.first <= position <= answers.last or position in answers.others
        return is_among and prompt.is_answer(position)


MAX_UNANSWERED = 256
"""`CallChains` remembers at most this many calls whose answer may still come."""
_PREVIOUS = ("previous_response_id", "previous_interaction_id")
_REFERRING = frozenset({*_PREVIOUS, "thread"})
"""The members of requests that may name an earlier response."""


class CallChains:
    """Makes the turn of each call, call by call. `separate_calls` are ids of calls that continue no other call.

    An answer is looked up by its agent, its instructions, and the sum (`sum_of_messages`) of the messages up to it.
    The agent is part of the key, because several agents may get the same prompt and answer. A second lookup leaves out
    the agent, because an agent may continue the history of a different agent.
    """

    def __init__(self, separate_calls: Collection[str] = (), normalizer: MessageNormalizer | None = None) -> None:
        self.normalizer = normalizer or MessageNormalizer()
        self._prompts = PromptNormalizer(self.normalizer)
        self._separate_calls = separate_calls
        self._answers: dict[bytes, dict[int, AnswerRef]] = defaultdict(dict)
        self._answers_of_agents: dict[tuple[str | None, bytes], dict[int, AnswerRef]] = defaultdict(dict)
        self._records: dict[Turn, TurnRecord] = {}
        self._by_response_id: dict[str, Turn] = {}
        self._histories: dict[str | None, AgentMessages] = {}
        self._unanswered: dict[str, tuple[Turn, AskedCall]] = {}
        self._calls_by_answer: dict[bytes | None, list[str]] = defaultdict(list)
        """The ids of the calls by the digests of their answers. An empty answer has no digest."""

    def ask(self, call: LLMInteraction) -> AskedCall:
        """Find the call that a call continues. `add` adds the call. Calls are asked in the order of time."""
        reading = call.source.request()
        agent = key_of_agent(call)
        history = self._histories.get(agent)
        if history is None:
            history = self._histories[agent] = AgentMessages(self._records)
        referred = self._referred_by_id(call, reading) or _referred_by_hand(call, reading.messages, history)
        if referred is not None:
            prompt = RequestPrompt.of(call, reading, self._prompts, self._records[referred])
            return AskedCall(prompt, self._continue_by_reference(prompt, referred), history)
        prompt = RequestPrompt.of(call, reading, self._prompts, None)
        last = history.last_answer(prompt.normalized)
        continued = self._extend(prompt, last) or self._continue_changed(prompt, history, last)
        return AskedCall(prompt, continued, history)

    def add(self, asked: AskedCall, added: Sequence[int]) -> Turn:
        """Return the turn of a call, and remember it for later calls.

        `added` are the positions of the messages that are new in the conversation. If the call is in flight or has
        failed, `answer` may add its answer later.
        """
        prompt, history = asked.prompt, asked.history
        history.has_instructions = history.has_instructions or prompt.normalized.has_instructions
        answers = self._answer_prefixes(prompt.call, prompt)
        turn = _turn(asked, added, _normalized_length(prompt, answers))
        self._add_turn(turn, asked, answers)
        prompt.normalized.before = None  # otherwise all prompts of the run stay in memory
        return turn

    def answer(self, call: LLMInteraction) -> Turn | None:
        """Return the turn of a call that was added before, with the answer that the call has got since.

        Return None if the call was added with its final answer, or was not added.
        """
        before = self._unanswered.pop(call.interaction_id, None)
        if before is None:
            return None
        turn, asked = before
        answers = self._answer_prefixes(call, asked.prompt)
        turn = replace(turn, interaction=call, normalized_length=_normalized_length(asked.prompt, answers))
        self._add_turn(turn, asked, answers)
        return turn

    def _answer_prefixes(self, call: LLMInteraction, prompt: RequestPrompt) -> list[AnswerPrefix]:
        return [prompt.answer_prefix(message, self.normalizer) for message in _answers(call)]

    def _add_turn(self, turn: Turn, asked: AskedCall, answers: Sequence[AnswerPrefix]) -> None:
        """Remember the answers of a turn, and the turn itself if its answer may still come."""
        call = turn.interaction
        if turn.answered:
            self._add_answers(turn, asked, answers)
        if not (call.answered and call.complete and call.error is None) or is_in_progress(call.response):
            self._unanswered[call.interaction_id] = turn, asked
            if len(self._unanswered) > MAX_UNANSWERED:
                del self._unanswered[next(iter(self._unanswered))]

    def calls_that_answered(self, prompt: NormalizedPrompt, begin: int, end: int) -> Sequence[str]:
        """Return the ids of the calls whose answer says the same as the messages from `begin` to before `end`."""
        content = self.normalizer.content_of(prompt.table, prompt.source.copy(begin, end))
        return self._calls_by_answer.get(digest_of(content), ())

    # ── what a request continues ─────────────────────────────────────────────────────────────────────────────────────

    def _referred_by_id(self, call: LLMInteraction, reading: RequestReading) -> Turn | None:
        """Return the turn whose response a request names, or None.

        The server has stored that response and continues it.
        """
        if call.api is None or _REFERRING.isdisjoint(reading.parameters):
            return None
        thread = as_dict(reading.parameters.get("thread"))  # Anthropic's threads
        names = [*map(reading.parameters.get, _PREVIOUS), thread.get("previous_message_id")]
        turns = (self._by_response_id.get(name) for name in names if isinstance(name, str))
        return next(filter(None, turns), None)

    def _continue_by_reference(self, prompt: RequestPrompt, previous: Turn) -> Continuation:
        same_instructions = self._records[previous].instructions_digest == prompt.instructions_digest
        return Continuation(
            "refers",
            previous,
            exact=prompt.call.api is None or same_instructions,
            prefix_length=prompt.reading.instructions,
            chain_start=previous.chain_start,
        )

    def _extend(self, prompt: RequestPrompt, last: tuple[int, AnswerRef] | None) -> Continuation | None:
        """Continue the turn whose prompt and answer are the beginning of this prompt.

        `last` is the last recorded answer in this prompt. Return None if there is no such turn, or if the last recorded
        answer comes after that beginning.
        """
        normalized = prompt.normalized
        begin = normalized.own
        if last is not None:
            begin = max(last[0], begin)
        answers = self._answers[prompt.instructions_digest]
        of_agent = self._answers_of_agents[normalized.agent, prompt.instructions_digest]
        sums = normalized.sums_from(begin)
        later = next(compress(count(), map(answers.get, reversed(sums))), None)
        if later is None:
            return None
        total = sums[len(sums) - 1 - later]
        answer = of_agent.get(total) or answers[total]
        position = normalized.position_from_end(later)
        repeated = RepeatedAnswers(position, position, 1)
        return Continuation("extends", *answer, True, position + 1, repeated, answer[0].chain_start)

    def _continue_changed(
        self, prompt: RequestPrompt, history: AgentMessages, last: tuple[int, AnswerRef] | None
    ) -> Continuation:
        """Continue the turn whose answer comes last in a prompt with a changed history."""
        if history.last is None:
            return Continuation("begins")
        answers, unbroken = NO_ANSWERS, 0
        if last is not None:
            answers, unbroken = history.find_answers(prompt.normalized, *last)
        if prompt.call.interaction_id in self._separate_calls:
            return Continuation("begins", answers=answers)
        if last is None:
            start = history.chain_of(prompt.normalized, prompt.instructions)
            if start is None:
                return Continuation("begins")
            return Continuation("rewrites", chain_start=start)
        position, (turn, choice) = last
        relation: Relation = "rewrites"
        if unbroken >= self._records[turn].answer_count:
            relation = "edits"
        return Continuation(relation, turn, choice, False, position + 1, answers, turn.chain_start)

    # ── what later requests may continue ─────────────────────────────────────────────────────────────────────────────

    def _add_answers(self, turn: Turn, asked: AskedCall, answers: Sequence[AnswerPrefix]) -> None:
        prompt, continued = asked.prompt, asked.continued
        instructions, first = prompt.instructions_digest, answers[0]
        seen = continued.answers.size
        if turn.previous is not None and turn.relation != "rewrites":
            seen = self._records[turn.previous].answer_count
        earlier, numbers = self._earlier_answers(turn)
        self._records[turn] = TurnRecord(
            number=len(self._records) + 1,
            prefix_sum=first.sum,
            message_count=first.message_count,
            answers=tuple(answer.content for answer in answers),
            instructions_digest=instructions,
            answer_count=seen + (first.content is not None),
            earlier_answers=earlier,
            earlier_numbers=numbers,
        )
        for choice, answer in reversed([*enumerate(answers)]):
            self._answers[instructions][answer.sum] = turn, choice
            self._answers_of_agents[key_of_agent(turn.interaction), instructions][answer.sum] = turn, choice
            self._calls_by_answer[digest_of(answer.content)].append(turn.interaction.interaction_id)
        if turn.interaction.response.id:
            self._by_response_id[turn.interaction.response.id] = turn
        changed_instructions = ""
        if not turn.exact:
            changed_instructions = prompt.instructions
        asked.history.claim(turn, prompt.normalized, asked.appended_from, changed_instructions)
        asked.history.add_answers(turn)

    def _earlier_answers(self, turn: Turn) -> tuple[SharedSequence[AnswerRef], SharedNumbers]:
        """Return the answers that precede a turn in its chain, and the numbers of these answers."""
        if turn.previous is None:
            return SharedSequence([]), SharedNumbers(array("q"))
        before, choice = self._records[turn.previous], turn.choice
        content = before.answer(choice)
        answers, numbers = before.earlier_answers, before.earlier_numbers
        if content is None:  # an empty answer is in no prompt
            return answers, numbers
        number = self.normalizer.number_of_answer(content)
        return answers.extended([(turn.previous, choice)]), numbers.continued(len(numbers), array("q", [number]))


def digest_of(content: NormalizedContent | None) -> bytes | None:
    """Return the digest of a message's content, or None for an empty answer."""
    if content is None:
        return None
    return content.digest


def _normalized_length(prompt: RequestPrompt, answers: Sequence[AnswerPrefix]) -> int:
    """Return how many normalized messages a prompt and its answer have."""
    normalized = prompt.normalized
    count = normalized.message_count
    if answers:
        count = answers[0].message_count
    return normalized.own_count + count


def _turn(asked: AskedCall, added: Sequence[int], normalized_length: int) -> Turn:
    prompt, continued, previous = asked.prompt, asked.continued, asked.continued.previous
    appended = prompt.appended_messages(continued)
    new, before_answer = prompt.added_messages(continued, appended, added)
    return Turn(
        prompt.call,
        continued.relation,
        previous,
        continued.choice,
        continued.exact,
        prefix_length=continued.prefix_length,
        prompt_length=len(prompt.reading.messages),
        instructions=prompt.reading.instructions,
        normalized_length=normalized_length,
        appended=appended,
        new_messages=new,
        new_before_answer=before_answer,
        tools=tuple(prompt.reading.tools),
        parameters=prompt.reading.parameters,
        instructions_changed=previous is not None
        and not continued.exact
        and not asked.history.has_similar_instructions(previous, prompt.instructions),
        in_chain_of=continued.chain_start,
    )


def _referred_by_hand(call: LLMInteraction, messages: Sequence[Message], history: AgentMessages) -> Turn | None:
    """Return the turn that a call continues, if the call was recorded by hand and has only the agent's new messages.

    A call has only new messages if its first message is the result of a tool call. A call also has only new messages if
    the last turn made no tool call, the agent had instructions before, and no message of the call is an instruction. A
    call with an answer of the model among its messages does not have only new messages.
    """
    if call.api is not None or not messages or any(message.role == "assistant" for message in messages):
        return None
    if messages[0].role == "tool":
        return history.callers.get(messages[0].call_id or "")
    if history.last is None or history.last.answer().tool_calls:
        return None
    if not history.has_instructions or any(map(is_instruction, messages)):
        return None
    return history.last


def _answers(call: LLMInteraction) -> list[Message]:
    if not call.answered:
        return []
    return [answer_of(call.response, number) for number in range(max(1, len(call.response.choices)))]
