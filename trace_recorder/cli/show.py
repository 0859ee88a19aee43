"""Makes the text of a run for people, step by step: the new messages, the answer of the model, and the tools' results.

Steps and LLM calls are in the order of time. A derived step is shown together with its call. Steps that the agent
recorded itself, and calls that belong to no step, are shown alone. Nothing is shown twice.

Each prompt repeats the conversation, but people want to read each message once. Therefore only the new messages of a
prompt are shown. `reading/relations/prompt_relations.py` says which messages an earlier prompt has. The model's own
answer and the tool results in a prompt have been shown before too. All other messages of the prompt are new.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trace_recorder.cli.run_header import replayed_text, text_of_error, text_of_tokens
from trace_recorder.cli.text_layout import Entry, compact, heading, local_time, pluralize, seconds, shown_text
from trace_recorder.dialects.dialect import USAGE_ADVICE, is_turn
from trace_recorder.figures.billed_units import with_billed_units
from trace_recorder.figures.call_figures import (
    counted_usage,
    incomplete_reason,
    is_usage_left_out,
    time_to_first_audio,
)
from trace_recorder.figures.content.kinds import (
    AUDIO,
    INTERLEAVING,
    REFUSALS,
    SIGNATURES,
    THOUGHTS,
    contents_of_answer,
    kind_of_part,
    text_beside,
)
from trace_recorder.figures.conversations.run_agents import run_agents_of
from trace_recorder.figures.conversations.side_calls import side_calls_of
from trace_recorder.figures.conversations.steps_of_turns import is_tools_only
from trace_recorder.reading.relations.prompt_relations import PromptRelation, relations_of
from trace_recorder.reading.relations.turn import Turn, answer_of, key_of_agent
from trace_recorder.reading.steps_and_calls import StepOrCall
from trace_recorder.values.llm_interaction import Attempt, LLMInteraction, pause_between
from trace_recorder.values.message_equality import says_key
from trace_recorder.values.messages import LLMResponse, MCPCall, Message, Payload, ToolCall, ToolResult
from trace_recorder.values.origins import run_origin_of
from trace_recorder.values.prompt_comparison import MAX_EARLIER_PROMPTS
from trace_recorder.values.structs import Struct
from trace_recorder.values.token_counts import Counts
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import AgentStep, Trajectory

_SHOWN_ELSEWHERE = frozenset({THOUGHTS, SIGNATURES, INTERLEAVING})
"""Kinds of content that are not listed under "beside": they are shown elsewhere, or people cannot read them."""
_MAX_INLINE_ARGUMENTS = 100
"""Arguments of up to this many characters are shown on the line of the tool's name."""


class Show:
    """Makes the text entries of the steps and calls of a run, one after another."""

    def __init__(self, trajectory: Trajectory, *, full: bool) -> None:
        self._full = full
        self._prompts = ShownPrompts()
        self.update(trajectory)

    def update(self, trajectory: Trajectory) -> None:
        """Update to the current state of the run. Messages that were shown before are not shown again."""
        self._run = trajectory
        self._running = trajectory.status == "running"
        self._origin = run_origin_of(trajectory.metadata)
        self._shared_names = _shared_names(trajectory)
        self._side_calls = side_calls_of(trajectory)
        self._agents = run_agents_of(trajectory)

    def part(self, part: StepOrCall) -> Iterator[Entry]:
        """Yield the entries of a step or a call. The caller must pass all steps and calls, in order."""
        yield heading(self._title(part))
        if part.call:
            yield from self._call(part.call)
        if part.step:
            yield from self._step(part.step)
        elif part.call:
            yield from self._tools(part.call.response.tool_calls, ())

    def _title(self, part: StepOrCall) -> str:
        step, call = part.step, part.call
        words: list[str | None] = []
        if step and is_tools_only(step):
            words.append(f"step {step.step_number} (tools)")
        elif step:
            words.append(f"step {step.step_number}")
        if call:
            words.append(call.interaction_id)
            if call.interaction_id in self._side_calls:
                words.append("side call")
            if not step and call.step_number is not None:
                words.append(f"in step {call.step_number}")
        if step:
            words.append(step.state)
        words += [self._agent(part), local_time(part.timestamp, "%H:%M:%S")]
        return ", ".join(filter(None, words))

    def _agent(self, part: StepOrCall) -> str:
        """Return "agent" and the agent's name, with its id if several agents have this name.

        An inferred agent has the call that started it instead of an id. Return "" for an unknown agent.
        """
        agent = self._agents.of_part(part)
        if not agent.name:
            return ""
        if agent.inferred is not None:
            return f"agent {agent.name}, started by {agent.inferred.started_by}"
        if agent.agent_id and agent.name in self._shared_names:
            return f"agent {agent.name} ({agent.agent_id})"
        return f"agent {agent.name}"

    def _call(self, call: LLMInteraction) -> Iterator[Entry]:
        response = call.response
        yield Entry("call", _describe_call(call))
        yield Entry("replayed", replayed_text(call, self._origin), style="cyan")
        if call.run_inferred:
            yield Entry("run", "inferred, because the call had no context", style="cyan")
        if len(call.attempts) > 1:
            pairs = zip(call.attempts, [None, *call.attempts], strict=False)
            yield from (Entry("attempt", _attempt(attempt, before)) for attempt, before in pairs)
        input_ = _embedded_input(call)
        if input_ is not None:
            yield Entry("input", shown_text(input_, full=self._full))
        else:
            yield from self._prompt(self._prompts.of_call(call, relations_of(self._run).of(call)))
        if call.answered:
            if is_usage_left_out(call):
                yield Entry("tokens", f"not stated: {USAGE_ADVICE}")
            usage = counted_usage(call) | dict(with_billed_units(call, Counts()).units)
            yield from self._answer(response, usage, replayed=call.is_replayed)
            for number in range(1, len(response.choices)):
                yield from self._choice(response, number)
            yield Entry("not read", _unread(call), style="yellow")
        yield Entry("error", text_of_error(call.error), style="red")
        yield Entry("incomplete", incomplete_reason(call, is_running=self._running) or "", style="yellow")

    def _step(self, step: AgentStep) -> Iterator[Entry]:
        if step.interaction is None:
            response = step.llm_response
            agent = key_of_agent(step)
            shown_with = None
            if response:
                shown_with = self._prompts.find_prompt_with_answer(agent, response)
            if step.llm_messages is not None:
                relation = relations_of(self._run).of_step(self._run, step)
                yield from self._prompt(self._prompts.of_step(step, relation))
            if shown_with:
                yield Entry("answer", f"as in {shown_with}")
            elif response:
                yield from self._answer(response, response.usage.to_document())
        yield from self._tools(step.tool_calls, step.tool_results)
        if not step.derived:
            yield Entry("reflection", shown_text(step.reflection))
            yield Entry("error", shown_text(step.error), style="red")
        yield from (Entry(name, shown_text(value, full=self._full)) for name, value in step.extra.items())

    def _prompt(self, new_messages: NewMessages) -> Iterator[Entry]:
        yield Entry("prompt", new_messages.summary)
        for message in new_messages.messages:
            yield Entry("thought", message.reasoning or "", indent=4, style="italic")
            yield Entry(message.role, shown_text(_with_transcripts(message.content), full=self._full), indent=4)
            for call in message.tool_calls:
                yield from self._tool(call, indent=4)

    def _answer(
        self, response: LLMResponse, usage: Mapping[str, Payload], *, replayed: bool = False
    ) -> Iterator[Entry]:
        """Yield the entries of an answer. `usage` has the token counts and the stated cost, by a document's names."""
        tokens = text_of_tokens({**usage, "total_input_tokens": usage.get("input_tokens")})
        if tokens and replayed:
            tokens += ", when it was recorded"
        yield Entry("tokens", tokens)
        yield Entry("thought", response.reasoning or "", style="italic")
        yield Entry("answer", response.content or "", style="green")
        if response.audio_end_ms is not None:
            yield Entry("heard", f"the first {response.audio_end_ms} ms, then the user interrupted", style="yellow")
        yield from self._other_contents(response)

    def _other_contents(self, response: LLMResponse, number: int = 0) -> Iterator[Entry]:
        """Yield the contents of an answer besides its text.

        Refusals, transcripts, and contents of an unknown kind are shown with their texts. Other contents are counted.
        """
        contents = [content for content in contents_of_answer(response, number) if content.kind not in _SHOWN_ELSEWHERE]
        for content in contents:
            if content.kind != REFUSALS:
                text = text_beside(content)
                if text not in (response.content or ""):  # the transcript of speech may be the answer
                    yield Entry(content.kind, shown_text(text, full=self._full), style="green")
                continue
            refusal = content.raw
            if isinstance(refusal, dict):
                refusal = refusal.get("refusal")
            yield Entry("refusal", shown_text(refusal, full=self._full), style="yellow")
        kinds = Counter(content.kind for content in contents if content.kind != REFUSALS)
        yield Entry("beside", ", ".join(f"{count} x {kind}" for kind, count in kinds.items()))

    def _choice(self, response: LLMResponse, number: int) -> Iterator[Entry]:
        choice = response.choices[number]
        yield Entry("thought", choice.reasoning or "", style="italic")
        yield Entry(f"choice {choice.index}", choice.content or "", style="green")
        yield from self._other_contents(response, number)
        for call in choice.tool_calls:
            yield from self._tool(call)

    def _tools(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Iterator[Entry]:
        self._prompts.add_shown_results(results)
        for _, call, result in tool_uses(calls, results):
            if call is not None:
                yield from self._tool(call)
            if result is not None and call is not None:
                yield from self._result(result, indent=4)
            elif result is not None:
                yield from self._result(result, indent=2)

    def _tool(self, call: ToolCall, indent: int = 2) -> Iterator[Entry]:
        """Yield a tool call on one line, or with a line for each argument."""
        arguments = call.arguments
        if isinstance(arguments, str):
            yield Entry("tool", f"{call.name} {shown_text(arguments)}", indent)
            return
        short = compact(arguments, full=True)
        if not isinstance(arguments, dict) or len(short) <= _MAX_INLINE_ARGUMENTS:
            yield Entry("tool", f"{call.name} {short}", indent)
            return
        yield Entry("tool", call.name, indent)
        yield from (Entry(name, shown_text(value, full=self._full), indent + 2) for name, value in arguments.items())

    def _result(self, result: ToolResult, indent: int) -> Iterator[Entry]:
        why = shown_text(result.error)
        if result.success is False:
            why = why or "no reason given"
        yield Entry("failed", why, indent, style="red")
        yield Entry("result", shown_text(result.result, full=self._full), indent)
        for call in result.mcp:
            yield Entry("server", _describe_server_call(call), indent, style="cyan")
        if result.mcp and result.sent is not None:
            yield Entry(
                "seen",
                f"the model got another text: {shown_text(result.sent, full=self._full)}",
                indent,
                style="yellow",
            )
        if result.replayed:
            yield Entry("replayed", "the tool did not run", indent, style="cyan")


def _with_transcripts(content: Payload) -> Payload:
    """Return the content of a message with the transcripts of speech as texts."""
    if not isinstance(content, list):
        return content
    shown = []
    for part in content:
        is_spoken = kind_of_part(part) == AUDIO and not {"data", "input_audio", "audio_url"} & part.keys()
        if is_spoken and isinstance(part.get("transcript"), str):
            shown.append(f"(spoken) {part['transcript']}")
        elif is_spoken:
            shown.append("(spoken, without a transcript)")
        else:
            shown.append(part)
    return shown


def _describe_server_call(call: MCPCall) -> str:
    """Describe a call of an MCP server on one line."""
    words = [" ".join(filter(None, (call.server or "unknown", call.version)))]
    if call.joined_by == "execution":
        words += [call.tool or "", seconds(call.duration_seconds)]
        if call.success is False:
            words.append("failed")
    elif call.joined_by == "name":
        words.append("joined by name and arguments")
    return ", ".join(filter(None, words))


def _shared_names(trajectory: Trajectory) -> frozenset[str | None]:
    """Return the names that several agents of a run share."""
    ids: dict[str | None, set[str | None]] = defaultdict(set)
    agents = [(call.agent, call.agent_id) for call in trajectory.llm_interactions]
    for name, identity in [*agents, *((step.agent, step.agent_id) for step in trajectory.agent_steps)]:
        ids[name] |= {identity} - {None}
    return frozenset(name for name, known in ids.items() if len(known) > 1)


def _describe_call(call: LLMInteraction) -> str:
    """Describe a call on one line: the provider and model, the dialect, the duration, the finish reason."""
    response = call.response
    model = " ".join(filter(None, (shown_text(call.provider), call.model)))
    if response.model and response.model != call.model:
        model += f" (as {response.model})"
    duration = seconds(call.duration_seconds)
    if len(call.attempts) > 1:
        duration = f"{duration} in {len(call.attempts)} attempts".strip()
    words = [model, call.api or "recorded by hand", duration]
    if call.time_to_first_token_seconds is not None:
        words.append(f"first token after {seconds(call.time_to_first_token_seconds)}")
    first_audio = time_to_first_audio(call)
    if first_audio is not None:
        words.append(f"first audio after {seconds(first_audio)}")
    words.append(response.finish_reason or _status_without_answer(response))
    return ", ".join(filter(None, words))


def _status_without_answer(response: LLMResponse) -> str:
    """Return the state of a response that the provider makes in the background, such as "queued".

    Return "" for any other response.
    """
    status = response.extra.get("status")
    if isinstance(status, str) and status != "completed":
        return status
    return ""


def _embedded_input(call: LLMInteraction) -> Payload:
    """Return the input of an embedding call, which is a parameter. Return None for any other call."""
    if is_turn(call.api):
        return None
    return next((call.parameters[name] for name in _EMBEDDED if name in call.parameters), None)


_EMBEDDED = ("input", "prompt", "texts", "inputs", "inputText", "content", "requests", "instances")
"""The names that providers give to the input of embeddings."""


def _unread(call: LLMInteraction) -> str:
    """Return the text of an answer that is not JSON, such as the error page of a proxy.

    Return "" for any other answer.
    """
    response = call.response
    if call.api is None or response.content or response.tool_calls or response.choices:
        return ""
    raw = call.raw_response
    if isinstance(raw, str):
        return raw
    return ""


def _attempt(attempt: Attempt, before: Attempt | None) -> str:
    """Return an attempt as text: its number (from 1), the pause before it, its duration, and its status or error."""
    words = [str(attempt.number + 1)]
    pause = before and pause_between(before, attempt)
    if pause:
        words.append(f"after a pause of {seconds(pause)}")
    words.append(seconds(attempt.duration_seconds))
    if attempt.inferred:
        words.append("inferred")
    status = f"HTTP {attempt.status}" if attempt.status else "no answer"
    words.append(text_of_error(attempt.error) or status)
    return ", ".join(filter(None, words))


_NamedAnswers = deque[tuple[str, LLMResponse]]
"""The answers of calls and steps, each with the name of its prompt, such as "llm_7" or "step 3"."""


class NewMessages(Struct, frozen=True, gc=False):
    """The new messages of a prompt.

    `summary` says how many messages the prompt has, and where its old messages were shown.
    """

    summary: str
    messages: list[Message]


class ShownPrompts:
    """The prompts of a run that were shown so far.

    It finds the messages of the next prompt that were not shown before.
    """

    def __init__(self) -> None:
        self._newest: dict[str | None, _NamedAnswers] = defaultdict(lambda: deque(maxlen=MAX_EARLIER_PROMPTS))
        self._results: set[tuple[str, str]] = set()

    def add_shown_results(self, results: Iterable[ToolResult]) -> None:
        """Remember tool results that have been shown."""
        self._results.update((result.call_id, shown_text(result.error or result.result)) for result in results)

    def find_prompt_with_answer(self, agent: str | None, answer: LLMResponse) -> str | None:
        """Return the name of the agent's recent prompt that got this answer, or None."""
        key = says_key(answer_of(answer))
        answers = reversed(self._newest[agent])
        return next((name for name, other in answers if says_key(answer_of(other)) == key), None)

    def of_call(self, call: LLMInteraction, relation: PromptRelation) -> NewMessages:
        """Return the new messages of a call."""
        new_messages = self._new_messages(relation, call.input_messages, _stored_call_continued_by(relation.turn))
        if call.answered:
            self._newest[key_of_agent(call)].append((call.interaction_id, call.response))
        return new_messages

    def of_step(self, step: AgentStep, relation: PromptRelation) -> NewMessages:
        """Return the new messages of a step without a call."""
        new_messages = self._new_messages(relation, step.llm_messages or ())
        if step.llm_response is not None:
            self._newest[key_of_agent(step)].append((f"step {step.step_number}", step.llm_response))
        return new_messages

    def _new_messages(self, relation: PromptRelation, messages: Sequence[Message], continued: str = "") -> NewMessages:
        """Return the messages of a prompt that were not shown before, and a summary of where the others were shown."""
        common, name = relation.comparison.kept, relation.base
        new: list[Message] = []
        answers, results = [], 0
        for place in relation.comparison.new:
            message = messages[place]
            if place in relation.answers:
                answers.append(relation.answers[place])
            elif (message.call_id or "", shown_text(message.content)) in self._results:
                results += 1
            else:
                new.append(message)
        parts = _shown_before(relation, answers, results)
        if new and parts:
            parts.append(f"{len(new)} new")
        summary = pluralize(len(messages), "message")
        if continued:
            summary += f" continuing {continued}"
        if parts:
            summary += f": {', '.join(parts)}"
        if common and relation.gone:
            summary += f"; {relation.gone} of {name} gone"
        return NewMessages(summary, new)


def _shown_before(relation: PromptRelation, answers: Sequence[str], results: int) -> list[str]:
    """Say where the other messages of a prompt were shown.

    `answers` are the names of the prompts whose answers are repeated. `results` is how many tool results are repeated.
    """
    parts = []
    if relation.comparison.kept:
        parts.append(f"{relation.comparison.kept} as in {relation.base}")
    others = sum(name != relation.base for name in answers)
    if len(answers) > others:
        parts.append("its answer" if relation.comparison.kept else f"the answer of {relation.base}")
    if others:
        parts.append(f"{pluralize(others, 'answer')} shown above")
    if results:
        parts.append(f"{pluralize(results, 'result')} shown above")
    return parts


def _stored_call_continued_by(turn: Turn | None) -> str:
    """Return the id of the earlier call whose response a request names, or "".

    The server has stored that response, so the request does not repeat the conversation.
    """
    if turn is None or turn.previous is None:
        return ""
    if turn.relation != "refers" or turn.interaction.api is None:
        return ""
    return turn.previous.interaction.interaction_id
