"""Keeps the open tool calls of a run: calls for which a tool may still run, and calls that a request may still answer.

`match` finds the model's tool call for a tool that runs. If the agent states the id of the call, this id decides.
Otherwise the tool belongs to one of the agent's calls for which no tool ran, and which no request answered. Calls of
the tool's step are tried first, and calls of newer responses before calls of older ones. The first call with the same
name and arguments is taken, or else the only call with the same name. If a tool fails, another execution may belong to
the same call. The tools of a joined session file state the interaction of their call. `tool_executions.py` does not
call `match` for them. A tool that is known only by the messages of an MCP server (`mcp_calls.py`) needs the id, or the
name and equal arguments.

`match_results` finds the tool call that a tool result in a request answers. If the provider gives no ids, they are made
up, and are unique only within one conversation. So a result belongs to the newest call with the same id, and calls of
the same agent come first. An agent may give its own id to a call with a made-up id. So a result with an unknown id
belongs to the first open call with the same tool name in the newest response with made-up ids.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain

from trace_recorder.facts import ToolCallFact
from trace_recorder.reading.steps import ToolExecution, agent_key
from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.structs import Struct, field, replace


class AskedTools(Struct, frozen=True, gc=False):
    """The tool calls of a response. `first_seq` is the number of the interaction's first record."""

    interaction_id: str
    agent: str | None
    first_seq: int
    calls: tuple[ToolCall, ...]


class _Response(Struct, eq=False, gc=False):
    """The tool calls of one response.

    - `first_seq`: the number of the interaction's first record
    - `step`: the `step_id` of the `with` block in which the interaction was made
    - `without_tool`: the calls for which a tool may still run, by call id
    - `without_id`: the calls with made-up ids that no result has answered, by call id
    - `agent_ids`: the ids that the agent gave to calls with made-up ids, by the made-up id
    """

    interaction_id: str
    agent: Hashable
    first_seq: int
    step: str | None
    calls: tuple[ToolCall, ...]
    without_tool: dict[str, ToolCall]
    without_id: dict[str, ToolCall]
    agent_ids: dict[str, str] = field(default_factory=dict)


class OpenCalls:
    """The open tool calls of a run. Call the methods in the order of the records."""

    def __init__(self) -> None:
        self._responses: dict[str, _Response] = {}
        self._by_id: dict[tuple[Hashable, str], tuple[_Response, ToolCall]] = {}
        self._without_tool: dict[Hashable, dict[str, _Response]] = {}
        self._without_id: dict[Hashable, dict[str, _Response]] = {}
        self._latest: dict[Hashable, str] = {}

    def add(self, asked: AskedTools, step: str | None) -> None:
        """Add the calls of a response. `step` is the `step_id` of the `with` block that the response is in."""
        agent, identity, calls = asked.agent, asked.interaction_id, asked.calls
        self._latest[agent] = identity
        if not calls:
            return
        without_tool = {call.call_id or f"#{number}": call for number, call in enumerate(calls)}
        before = self._responses.get(identity)
        if before is not None:  # a poll got the final response; tools may already have run for some of its calls
            ran = {call.call_id for call in before.calls} - before.without_tool.keys()
            without_tool = {key: call for key, call in without_tool.items() if key not in ran}
        without_id = {call.call_id: call for call in calls if call.call_id_made_up}
        response = _Response(identity, agent, asked.first_seq, step, calls, without_tool, without_id)
        self._responses[identity] = response
        self._without_tool.setdefault(agent, {})[identity] = response
        if without_id:
            self._without_id.setdefault(agent, {})[identity] = response
        for call in calls:
            for key in ((agent, call.call_id), (None, call.call_id)):
                self._by_id[key] = response, call

    # ── tools that run ───────────────────────────────────────────────────────────────────────────────────────────────

    def match(self, execution: ToolExecution) -> None:
        """Find the call that a tool runs for, and set it in `execution`. No later tool is matched to the same call."""
        call_id = execution.begun.call_id
        if call_id is not None:
            match = self._find_by_id(execution, call_id)
        elif execution.is_at_server:
            match = self._find_of_server(execution)
        else:
            match = self._find_by_name(execution)
        if match is not None:
            response, key = match
            execution.joined_by = "name" if call_id is None else "id"
            execution.requested_by, execution.requested_call = response.interaction_id, response.without_tool.pop(key)

    def reopen(self, execution: ToolExecution) -> None:
        """Open the call of a failed tool again, so that another execution can be matched to the call."""
        of_agent = self._without_tool.get(agent_key(execution.begun), {})
        response = of_agent.get(execution.requested_by or "")
        if response is not None and execution.requested_call is not None:
            response.without_tool[execution.requested_call.call_id] = execution.requested_call

    def latest(self, execution: ToolExecution) -> str | None:
        """Return the id of the last interaction of a tool's agent, or None if the agent has no interaction."""
        return self._latest.get(agent_key(execution.begun))

    def close(self, interaction_id: str, call_id: str | None = None) -> None:
        """Close a call because the model got its result. If `call_id` is None, close all calls of the interaction.

        No later tool is matched to a closed call.
        """
        response = self._responses.get(interaction_id)
        if response is None:
            return
        if call_id is not None:
            response.without_tool.pop(call_id, None)
        if call_id is None or not response.without_tool:
            _remove(self._without_tool, response)

    def _find_by_id(self, execution: ToolExecution, key: str) -> tuple[_Response, str] | None:
        of_all_agents = chain.from_iterable(reversed(of_agent.values()) for of_agent in self._without_tool.values())
        candidates = chain(self._candidates(execution), of_all_agents)
        return next(((response, key) for response in candidates if key in response.without_tool), None)

    def _find_by_name(self, execution: ToolExecution) -> tuple[_Response, str] | None:
        arguments = execution.arguments
        same_name = [
            (response, key)
            for response in self._candidates(execution)
            for key, call in response.without_tool.items()
            if call.name == execution.name
        ]
        if isinstance(execution.begun, ToolCallFact):
            for response, key in same_name:
                if response.without_tool[key].arguments == arguments:
                    return response, key
        if len(same_name) == 1:
            return same_name[0]
        return None

    def _find_of_server(self, execution: ToolExecution) -> tuple[_Response, str] | None:
        """Find the call of a tool at an MCP server: the newest with its name and equal arguments.

        The messages of a server may name no agent. Then the call must be the only such call of all agents.
        """
        [at_server], begun = execution.mcp, execution.begun
        agents: list[Hashable] = [agent_key(begun)]
        if begun.agent is None and begun.agent_id is None:
            agents = [*self._without_tool]
        newest_equal = []
        for agent in agents:
            for response in reversed(self._without_tool.get(agent, {}).values()):
                equal = (
                    (response, key)
                    for key, call in response.without_tool.items()
                    if at_server.is_named(call.name) and call.arguments == execution.arguments
                )
                first = next(equal, None) if response.first_seq < execution.first_seq else None
                if first is not None:
                    newest_equal.append(first)
                    break
        return newest_equal[0] if len(newest_equal) == 1 else None

    def _candidates(self, execution: ToolExecution) -> list[_Response]:
        """Return the responses that have open calls, came before a tool, and belong to the tool's agent.

        Responses of the tool's step come first, and newer responses come before older ones.
        """
        of_agent = reversed(self._without_tool.get(agent_key(execution.begun), {}).values())
        newest_first = [response for response in of_agent if response.first_seq < execution.first_seq]
        step = execution.begun.step_id
        return sorted(newest_first, key=lambda response: response.step != step)

    # ── results in later requests ────────────────────────────────────────────────────────────────────────────────────

    def match_results(self, agent: Hashable, results: Iterable[ToolResult]) -> Iterator[tuple[str | None, ToolResult]]:
        """Yield each tool result in an agent's request, with the id of an interaction.

        The result answers a tool call of this interaction. The id is None if no known call matches.
        """
        for result in results:
            keys = (agent, result.call_id), (None, result.call_id)
            match = next((self._by_id[key] for key in keys if key in self._by_id), None)
            if match is None:
                match = self._match_id_of_agent(agent, result)
            if match is None:
                yield None, result
                continue
            response, call = match
            if response.without_id.pop(call.call_id, None) is not None and not response.without_id:
                _remove(self._without_id, response)
            yield response.interaction_id, replace(result, call_id=call.call_id, name=call.name)

    def _match_id_of_agent(self, agent: Hashable, result: ToolResult) -> tuple[_Response, ToolCall] | None:
        """Find the open call with a made-up id that a result with an unknown id answers.

        Remember the result's id as the agent's own id of the call. Return the call with its response, or None.
        """
        if not result.call_id:
            return None
        newest_first = reversed(self._without_id.get(agent, {}).values())
        same_name = (
            (response, call)
            for response in newest_first
            for call in response.without_id.values()
            if result.name in {None, call.name}
        )
        match = next(same_name, None)
        if match is not None:
            response, call = match
            response.agent_ids[call.call_id] = result.call_id
            self._by_id[agent, result.call_id] = self._by_id[None, result.call_id] = match
        return match


def _remove(responses: dict[Hashable, dict[str, _Response]], response: _Response) -> None:
    """Remove a response from the responses of its agent."""
    of_agent = responses.get(response.agent, {})
    if of_agent.pop(response.interaction_id, None) is not None and not of_agent:
        del responses[response.agent]
