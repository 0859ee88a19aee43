"""Derived steps: if the agent records no steps, each LLM call is a step.

Tool results are found in later requests by call id. Ids that were made up, because the provider gives none, count
within one conversation; so a result belongs to the newest open call of its id, of the same agent where possible. An
agent may give such a call an id of its own: a result with an unknown id belongs to the first open call of its name in
the newest response with made-up ids. Derived steps are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator

from trace_recorder.derive.tool_matching import Answers, ToolExecution, tool_calls_and_results
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep

MAX_FORGOTTEN_CALLS = 4096
"""The ids of this many forgotten calls are remembered."""


class OpenCalls:
    """The tool calls of a run that may still be answered. Methods are called in the order of requests and responses."""

    def __init__(self) -> None:
        self._calls: dict[tuple[Hashable, str], tuple[Hashable, str, ToolCall]] = {}
        self._without_id: dict[tuple[Hashable, str, str], ToolCall] = {}
        self._agent_ids: dict[tuple[Hashable, str, str], str] = {}
        self._forgotten: dict[tuple[Hashable, str], str | None] = {}

    def match_results(self, agent: Hashable, results: Iterable[ToolResult]) -> Iterator[tuple[str | None, ToolResult]]:
        """Yield each result that an agent's request carries, with the id of the interaction that asked for it.

        The id is None if no known call matches. Results for forgotten calls that were answered are skipped.
        """
        for result in results:
            keys = (agent, result.call_id), (None, result.call_id)
            key = next((key for key in keys if key in self._calls or key in self._forgotten), None)
            if key in self._forgotten:
                if (unanswered := self._forgotten[key]) is not None:
                    yield unanswered, result
                continue
            found = self._match_id_of_agent(agent, result) if key is None else self._calls[key]
            if found is None:
                yield None, result
                continue
            of_agent, identity, call = found
            self._without_id.pop((of_agent, identity, call.call_id), None)
            yield identity, replace(result, call_id=call.call_id, name=call.name)

    def _match_id_of_agent(self, agent: Hashable, result: ToolResult) -> tuple[Hashable, str, ToolCall] | None:
        """Find the call without an id of the provider to which the agent gave this id. The call keeps that id."""
        same = [key for key, call in self._without_id.items() if key[0] == agent and result.name in {None, call.name}]
        if not same or not result.call_id:
            return None
        key = next(key for key in same if key[1] == same[-1][1])
        self._agent_ids[key] = result.call_id
        self._calls[agent, result.call_id] = self._calls[None, result.call_id] = found = (
            agent,
            key[1],
            self._without_id[key],
        )
        return found

    def add(self, interaction_id: str, agent: Hashable, calls: Iterable[ToolCall]) -> None:
        """Add the calls of an interaction's response."""
        for call in calls:
            for of_agent in (agent, None):
                self._calls[of_agent, call.call_id] = agent, interaction_id, call
                self._forgotten.pop((of_agent, call.call_id), None)
            if call.call_id_made_up:
                self._without_id[agent, interaction_id, call.call_id] = call

    def unanswered(self) -> set[str]:
        """Return the ids of the interactions that were forgotten before each of their calls was answered."""
        return {identity for identity in self._forgotten.values() if identity is not None}

    def forget(
        self, interaction_id: str, agent: Hashable, calls: Iterable[ToolCall], answered: Collection[str] = ()
    ) -> None:
        """Drop an interaction's calls. A result that is sent again is not matched with another call.

        `answered` are the ids of those that have been answered.
        """
        keys = [(agent, interaction_id, call.call_id) for call in calls]
        names = [self._agent_ids.pop(key) for key in keys if key in self._agent_ids]
        for _, _, call_id in keys:
            self._without_id.pop((agent, interaction_id, call_id), None)
        for call_id in (*names, *(key[2] for key in keys)):
            waiting = None if call_id in answered or call_id in names else interaction_id
            self._forget_id((agent, call_id), interaction_id, waiting)
            self._forget_id((None, call_id), interaction_id, waiting)
        while len(self._forgotten) > MAX_FORGOTTEN_CALLS:
            del self._forgotten[next(iter(self._forgotten))]

    def _forget_id(self, key: tuple[Hashable, str], interaction_id: str, waiting: str | None) -> None:
        if key in self._calls and self._calls[key][1] == interaction_id:
            del self._calls[key]
            self._forgotten[key] = waiting


def is_step(one: LLMInteraction) -> bool:
    """Whether an interaction is a decision of an agent."""
    return one.api != "embeddings"


def step_of(number: int, one: LLMInteraction, answers: Answers, executions: Iterable[ToolExecution] = ()) -> AgentStep:
    """Make the step of one interaction. `executions` are the executions of tools that are attached to it."""
    calls, results = tool_calls_and_results([one], {one.interaction_id: answers}, executions)
    return AgentStep(
        step_number=number,
        timestamp=one.timestamp,
        state=_state(one, calls_tools=bool(calls)),
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


def _state(one: LLMInteraction, *, calls_tools: bool) -> str:
    if one.error:
        return "error"
    if not one.answered or not one.complete:
        return "thinking"
    return "calling_tool" if calls_tools else "completed"
