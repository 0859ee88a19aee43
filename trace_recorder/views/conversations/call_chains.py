"""Turns: the LLM interactions of a run, and which earlier call each of them continues.

A request `extends` an earlier call if its messages begin with the messages of that call and its recorded answer. It
`refers` to an earlier call if it names the call instead of repeating it: by `previous_response_id`, by the message that
a thread of Anthropic's continues, or because an agent records only its newest messages. White space, thoughts that are
not sent back, cache marks, made-up call ids and leftovers of a server's own tools are ignored
(`normalized_messages.py`).

If a history was changed, each of its messages is looked up in the earlier ones. The request `edits` the history if all
answers of the model are still there, but other messages were shortened, replaced, added or removed. It `rewrites` the
history if answers are gone, as after compaction. A request with no answer of its agent and with other instructions
`begins` its own chain, next to the agent's others. So does a prompt of unclear origin that the agent did not continue,
if the agent later continued what came before. That is known only when all calls have been read.

In memory are a digest for each distinct message, and the new messages of each prompt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import compress, count

from trace_recorder.dialects.dialect import is_embedding
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import SharedSequence
from trace_recorder.values.messages import Message, Payload, RequestReading
from trace_recorder.values.prompt_relation import Relation
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.conversations.chained_call import Turn, agent_key, answer_of
from trace_recorder.views.conversations.normalized_messages import MessageNormalizer
from trace_recorder.views.conversations.normalized_prompts import PromptNormalizer, is_instruction
from trace_recorder.views.conversations.prompt import AnswerPrefix, Continuation, Prompt
from trace_recorder.views.conversations.prompt_matching import AgentHistory, AnswerRef, KnownMessages, TurnRecord
from trace_recorder.views.conversations.steps_as_calls import call_of_step

__all__ = ["Turn", "agent_key", "answer_of", "interactions_of", "turns_of"]

_PREVIOUS = ("previous_response_id", "previous_interaction_id")


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """Return the turns of a run in the order of time. If no calls were recorded, they are made from its steps."""
    calls = interactions_of(trajectory)
    turns = [*map(CallChains().add, calls)]
    separate_calls = _separate_calls(turns)
    return [*map(CallChains(separate_calls).add, calls)] if separate_calls else turns


class TurnsOnDemand:
    """Returns the same turn of a call as `turns_of`, but reads only the calls up to it.

    Whether a call of unclear origin is a separate call depends on later calls. So all calls are read at the first such
    call.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        calls = interactions_of(trajectory)
        self._ids = {call.interaction_id for call in calls}
        self._remaining = iter(calls)
        self._chains = CallChains()
        self._turns: dict[str, Turn] = {}

    def __call__(self, call: LLMInteraction) -> Turn | None:
        """Return the turn of a call, or None if the call is in no conversation."""
        if call.interaction_id not in self._ids:
            return None
        while call.interaction_id not in self._turns:
            turn = self._chains.add(next(self._remaining))
            turns = turns_of(self._trajectory) if _is_unclear(turn) else [turn]
            self._turns |= {one.interaction.interaction_id: one for one in turns}
            self._remaining = iter(()) if _is_unclear(turn) else self._remaining
        return self._turns[call.interaction_id]


def interactions_of(trajectory: Trajectory) -> list[LLMInteraction]:
    """Return the calls that belong to conversations. If no calls were recorded, each step counts as a call."""
    embeddings = {*filter(is_embedding, {one.api for one in trajectory.llm_interactions})}
    calls = [one for one in trajectory.llm_interactions if one.api not in embeddings]
    if calls or trajectory.llm_interactions:
        return calls
    steps = enumerate(trajectory.agent_steps, start=1)
    return [call_of_step(number, step) for number, step in steps if not step.derived]


def _separate_calls(turns: Sequence[Turn]) -> frozenset[str]:
    """Find calls of unclear origin that continue nothing: the agent later continued what came before them."""
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
    return turn.relation in {"edits", "rewrites"} and (turn.previous is None or turn.instructions_changed)


class CallChains:
    """Finds what each call continues, call by call. `separate_calls` are ids of calls known to continue nothing.

    An answer is found by its instructions, the sum of everything up to it, and its agent, because several agents may
    get the same prompt and answer. It is also found without the agent, for an agent that continues the history of
    another.
    """

    def __init__(self, separate_calls: Collection[str] = ()) -> None:
        self.normalizer = MessageNormalizer()
        self._prompts = PromptNormalizer(self.normalizer)
        self._separate_calls = separate_calls
        self._answers: dict[bytes, dict[int, AnswerRef]] = defaultdict(dict)
        self._answers_of_agents: dict[tuple[str | None, bytes], dict[int, AnswerRef]] = defaultdict(dict)
        self._records: dict[Turn, TurnRecord] = {}
        self._by_response_id: dict[str, Turn] = {}
        self._histories: dict[str | None, AgentHistory] = {}

    def add(self, call: LLMInteraction) -> Turn:
        """Return the turn of the next call, and remember it for the calls after it."""
        reading = call.source.request()
        history = self._histories.setdefault(agent_key(call), AgentHistory(self._records))
        referred = self._referred_by_id(call, reading) or _referred_by_hand(call, reading.messages, history)
        prompt = Prompt.of(call, reading, self._prompts, self._records[referred] if referred else None)
        continued = self._continuation(prompt, referred, history)
        known = _known_messages(prompt, continued, history)
        answers = [prompt.answer_prefix(message, self.normalizer) for message in _answers(call)]
        turn = _turn(prompt, continued, history, known, answers)
        history.has_instructions = history.has_instructions or prompt.normalized.has_instructions
        history.add_prompt(turn, prompt.normalized, known, continued.answers)
        if turn.answered:
            self._add_answers(turn, prompt, continued, answers)
            history.add_answers(turn, prompt.normalized, known, None if turn.exact else prompt.instructions)
        prompt.normalized.before = None  # otherwise all prompts of the run stay in memory
        return turn

    # ── what a request continues ─────────────────────────────────────────────────────────────────────────────────────

    def _continuation(self, prompt: Prompt, referred: Turn | None, history: AgentHistory) -> Continuation:
        if referred:
            return self._continue_by_reference(prompt, referred)
        return self._extend(prompt, history) or self._continue_changed(prompt, history)

    def _referred_by_id(self, call: LLMInteraction, reading: RequestReading) -> Turn | None:
        """Return the turn with the response id that a request names."""
        if call.api is None:
            return None
        ids = (one for one in _named_responses(reading.parameters) if isinstance(one, str))
        return next((self._by_response_id[one] for one in ids if one in self._by_response_id), None)

    def _continue_by_reference(self, prompt: Prompt, previous: Turn) -> Continuation:
        same_instructions = self._records[previous].instructions_digest == prompt.instructions_digest
        return Continuation(
            "refers",
            previous,
            exact=prompt.call.api is None or same_instructions,
            prefix_length=prompt.reading.instructions,
            chain_start=previous.chain_start,
        )

    def _extend(self, prompt: Prompt, history: AgentHistory) -> Continuation | None:
        """Continue the turn whose prompt and answer begin the prompt, if no later answer follows them."""
        answers = self._answers[prompt.instructions_digest]
        later = next(compress(count(), map(answers.get, reversed(prompt.normalized.prefixes))), None)
        if later is None:
            return None
        at = len(prompt.normalized.prefixes) - 1 - later
        of_agent = self._answers_of_agents[agent_key(prompt.call), prompt.instructions_digest]
        answer = of_agent.get(prompt.normalized.prefixes[at]) or answers[prompt.normalized.prefixes[at]]
        place = prompt.normalized.own + at
        if history.has_answer(prompt.messages, place + 1):
            return None
        end = prompt.messages[place].end
        return Continuation("extends", *answer, True, end, {place: answer}, answer[0].chain_start)

    def _continue_changed(self, prompt: Prompt, history: AgentHistory) -> Continuation:
        """Continue the turn with the last answer in a prompt, if the history of the prompt was changed."""
        if history.last is None:
            return Continuation("begins")
        answers, unbroken = history.find_answers(prompt.normalized)
        if prompt.call.interaction_id in self._separate_calls:
            return Continuation("begins", answers=answers)
        if not answers:
            start = history.chain_of(prompt.messages, prompt.instructions)
            return Continuation("rewrites", chain_start=start) if start else Continuation("begins")
        last = max(answers)
        turn, choice = answers[last]
        relation: Relation = "edits" if unbroken >= self._records[turn].answer_count else "rewrites"
        return Continuation(relation, turn, choice, False, prompt.messages[last].end, answers, turn.chain_start)

    # ── what later requests may continue ─────────────────────────────────────────────────────────────────────────────

    def _add_answers(
        self, turn: Turn, prompt: Prompt, continued: Continuation, answers: Sequence[AnswerPrefix]
    ) -> None:
        instructions, first = prompt.instructions_digest, answers[0]
        is_whole = turn.previous is not None and turn.relation != "rewrites"
        seen = self._records[turn.previous].answer_count if turn.previous and is_whole else len(continued.answers)
        earlier, keys = self._earlier_answers(turn)
        self._records[turn] = TurnRecord(
            number=len(self._records) + 1,
            prefix_sum=first.sum,
            message_count=first.message_count,
            answers=tuple(answer.content for answer in answers),
            instructions_digest=instructions,
            answer_count=seen + (first.content is not None),
            earlier_answers=earlier,
            earlier_keys=keys,
        )
        for choice, answer in reversed([*enumerate(answers)]):
            self._answers[instructions][answer.sum] = turn, choice
            self._answers_of_agents[agent_key(prompt.call), instructions][answer.sum] = turn, choice
        if prompt.call.response.id:
            self._by_response_id[prompt.call.response.id] = turn

    def _earlier_answers(self, turn: Turn) -> tuple[SharedSequence[AnswerRef], SharedSequence[Hashable]]:
        """Return the answers of the turns before a turn in its chain, and their keys."""
        if turn.previous is None:
            return SharedSequence([]), SharedSequence([])
        before, choice = self._records[turn.previous], turn.choice
        content = before.answers[choice if choice < len(before.answers) else 0]
        if content is None:  # an empty answer is in no prompt
            return before.earlier_answers, before.earlier_keys
        answers = before.earlier_answers.extended([(turn.previous, choice)])
        return answers, before.earlier_keys.extended([content.identity])


def _turn(
    prompt: Prompt,
    continued: Continuation,
    history: AgentHistory,
    known: KnownMessages,
    answers: Sequence[AnswerPrefix],
) -> Turn:
    reading, previous = prompt.reading, continued.previous
    length = answers[0].message_count if answers else prompt.start_count + len(prompt.normalized.prefixes)
    appended = prompt.appended_messages(continued)
    new, before_answer = prompt.new_messages(continued, appended, known)
    return Turn(
        prompt.call,
        continued.relation,
        previous,
        continued.choice,
        continued.exact,
        prefix_length=continued.prefix_length,
        prompt_length=len(reading.messages),
        instructions=reading.instructions,
        normalized_length=prompt.normalized.own + length,
        appended=appended,
        new_messages=new,
        new_before_answer=before_answer,
        tools=tuple(reading.tools),
        parameters=reading.parameters,
        instructions_changed=previous is not None
        and not continued.exact
        and not history.has_similar_instructions(previous, prompt.instructions),
        in_chain_of=continued.chain_start,
    )


def _known_messages(prompt: Prompt, continued: Continuation, history: AgentHistory) -> KnownMessages:
    """Find the normalized messages of a prompt that an earlier prompt had."""
    previous, messages, own = continued.previous, prompt.messages, prompt.normalized.own
    if previous is None or continued.relation in {"edits", "rewrites"}:
        return history.known_messages(prompt.normalized, previous, continued.answers)
    if continued.relation == "extends":
        places = range(max(continued.answers) + 1, len(messages))
        after = history.are_known_after(previous, messages[places.start :], continued.prefix_length)
        return KnownMessages(places, after)
    known = history.are_known_after(previous, messages, continued.prefix_length)
    instructions = [True] * own if continued.exact else history.are_known(messages, range(own), {})
    return KnownMessages(range(len(messages)), instructions + known[own:])


def _named_responses(parameters: Mapping[str, Payload]) -> list[Payload]:
    """Return the ids of the responses that a request names. The server keeps these responses and continues them."""
    return [
        *(parameters.get(name) for name in _PREVIOUS),
        as_dict(parameters.get("thread")).get("previous_message_id"),  # Anthropic's threads
    ]


def _referred_by_hand(call: LLMInteraction, messages: Sequence[Message], history: AgentHistory) -> Turn | None:
    """Return the turn that a call recorded by hand continues, if the agent passed only its new messages.

    This is so if the messages begin with the result of a tool call. It is also so if the last turn made no tool call,
    the agent had instructions before, and the messages have neither instructions nor an answer of the model.
    """
    if call.api is not None or not messages or any(message.role == "assistant" for message in messages):
        return None
    if messages[0].role == "tool":
        return history.callers.get(messages[0].call_id or "")
    if history.last is None or history.last.answer().tool_calls:
        return None
    return history.last if history.has_instructions and not any(map(is_instruction, messages)) else None


def _answers(call: LLMInteraction) -> list[Message]:
    if not call.answered:
        return []
    return [answer_of(call.response, number) for number in range(max(1, len(call.response.choices)))]
