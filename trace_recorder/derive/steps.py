"""Derived steps: where a loop marks none, each LLM call is a step.

The tool results are found in the requests that follow, by call id; ids that were made up because the provider gives
none count within one conversation, so the newest open call of that id, of the same agent where possible, is the one
that was answered. An agent may give such a call an id of its own: a result of an id that nobody knows is that of the
first open call of its name in the newest response whose ids were made up. Steps are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from trace_recorder.derive.tool_matching import Answers, ToolUse, tools_in
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep

FORGOTTEN = 4096
"""Of so many calls that were forgotten it is known that they were made."""


class OpenCalls:
    """The tool calls of a run that may still be answered. It is told of requests and responses in their order."""

    def __init__(self) -> None:
        self._asked: dict[tuple[Hashable, str], tuple[Hashable, str, ToolCall]] = {}
        self._unnamed: dict[tuple[Hashable, str, str], ToolCall] = {}
        self._names: dict[tuple[Hashable, str, str], str] = {}
        self._forgotten: dict[tuple[Hashable, str], None] = {}

    def answer(self, agent: Hashable, results: Iterable[ToolResult]) -> Iterator[tuple[str | None, ToolResult]]:
        """Of results that an agent's request brings back: the interactions that asked for them; None where none has.

        What answers a call that was forgotten is passed over.
        """
        for result in results:
            keys = (agent, result.call_id), (None, result.call_id)
            key = next((key for key in keys if key in self._asked or key in self._forgotten), None)
            if key in self._forgotten:
                continue
            found = self._named_by_agent(agent, result) if key is None else self._asked[key]
            if found is None:
                yield None, result
                continue
            of_agent, identity, call = found
            self._unnamed.pop((of_agent, identity, call.call_id), None)
            yield identity, replace(result, call_id=call.call_id, name=call.name)

    def _named_by_agent(self, agent: Hashable, result: ToolResult) -> tuple[Hashable, str, ToolCall] | None:
        """The call without an id of its provider's that an agent has given one: it has that from now on."""
        same = [key for key, call in self._unnamed.items() if key[0] == agent and result.name in {None, call.name}]
        if not same or not result.call_id:
            return None
        key = next(key for key in same if key[1] == same[-1][1])
        self._names[key] = result.call_id
        self._asked[agent, result.call_id] = self._asked[None, result.call_id] = found = (
            agent,
            key[1],
            self._unnamed[key],
        )
        return found

    def ask(self, interaction_id: str, agent: Hashable, calls: Iterable[ToolCall]) -> None:
        """Take the calls of an interaction's response."""
        for call in calls:
            for asker in (agent, None):
                self._asked[asker, call.call_id] = agent, interaction_id, call
                self._forgotten.pop((asker, call.call_id), None)
            if call.call_id_made_up:
                self._unnamed[agent, interaction_id, call.call_id] = call

    def forget(self, interaction_id: str, agent: Hashable, calls: Iterable[ToolCall]) -> None:
        """Take an interaction's calls for answered; a result that comes again is no other call's."""
        keys = [(agent, interaction_id, call.call_id) for call in calls]
        names = [self._names.pop(key) for key in keys if key in self._names]
        for _, _, call_id in keys:
            self._unnamed.pop((agent, interaction_id, call_id), None)
        for key in [(asker, name) for name in (*names, *(key[2] for key in keys)) for asker in (agent, None)]:
            if key in self._asked and self._asked[key][1] == interaction_id:
                del self._asked[key]
                self._forgotten[key] = None
        while len(self._forgotten) > FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]


def derive_steps(interactions: Sequence[LLMInteraction]) -> list[AgentStep]:
    """Make the steps of interactions of which each had ended before the next began."""
    open_calls = OpenCalls()
    answers: dict[str, dict[str, ToolResult]] = {one.interaction_id: {} for one in interactions}
    for one in interactions:
        for asker, result in open_calls.answer(one.agent, one.source.new_tool_results):
            if asker is not None:
                answers[asker].setdefault(result.call_id, result)
        open_calls.ask(one.interaction_id, one.agent, one.response.tool_calls)
    deciding = filter(is_step, interactions)
    return [step_of(number, one, answers[one.interaction_id]) for number, one in enumerate(deciding, start=1)]


def is_step(one: LLMInteraction) -> bool:
    """Whether a call is a decision of an agent."""
    return one.api != "embeddings"


def step_of(number: int, one: LLMInteraction, answers: Answers, uses: Iterable[ToolUse] = ()) -> AgentStep:
    """Make the step of one interaction; `uses` are the executions of tools after it."""
    calls, results = tools_in([one], {one.interaction_id: answers}, uses)
    return AgentStep(
        step_number=number,
        timestamp=one.timestamp,
        state=_state(one, asks=bool(calls)),
        llm_response=one.response if one.answered else None,
        tool_calls=calls,
        tool_results=results,
        error=f"{one.error.type}: {one.error.message}" if one.error else None,
        agent=one.agent,
        agent_id=one.agent_id,
        parent_agent_id=one.parent_agent_id,
        interaction=one,
        derived=True,
    )


def _state(one: LLMInteraction, *, asks: bool) -> str:
    if one.error:
        return "error"
    if not one.answered or not one.complete:
        return "thinking"
    return "calling_tool" if asks else "completed"
