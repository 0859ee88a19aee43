"""What a run has of MCP servers: the calls of their tools, and what their lists of tools take of each prompt.

A tool belongs to the server that its name states, `mcp__SERVER__TOOL`, or else to the only server that listed its name.
A tool of a server whose messages are not on file is known only by its name. The calls of such a server are the model's.

The characters of a server's tools in a request are known: those of their JSON, without white space. Providers count the
tokens of a whole request only. So the tokens of the tools are an estimate, by the tokens for each character of a
request. One request of each model is measured: the first with such tools whose prompt is known in full, and has texts
alone. In a first request, the tools are most of the prompt. The tokens of an image do not depend on its characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trace_recorder.figures.call_figures import made_calls
from trace_recorder.reading.mcp_calls import name_for_models
from trace_recorder.reading.relations.prompt_relations import relations_of
from trace_recorder.values.content_parts import Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import MCPServer, Payload, Tool, without_none
from trace_recorder.values.token_counts import prompt_tokens
from trace_recorder.values.tool_uses import ToolUse
from trace_recorder.values.trajectory import Trajectory

_PREFIX = "mcp__"
MAX_MEASURED = 3
"""At most this many requests of a model are read to find one whose characters can be compared."""


class ServerUse(NamedTuple):
    """A call of a tool at a server: the server's name, whether the tool failed, and the seconds, if they are known."""

    server: str
    failed: bool
    seconds: float | None


class ToolsInPrompt(NamedTuple):
    """The tools of one server in one prompt: the characters of their JSON, and an estimate of their tokens."""

    server: str
    characters: int
    tokens: float | None


class ServersOfRun:
    """The servers of one run."""

    def __init__(self, run: Trajectory) -> None:
        self._run = run
        self._on_file = frozenset(server.server or "unknown" for server in run.mcp_servers)
        self._prefixes = sorted(
            ((name_for_models(name, ""), name) for name in self._on_file), key=lambda pair: -len(pair[0])
        )
        self._listed = _only_servers(run.mcp_servers)

    def server_of(self, tool: str) -> str | None:
        """Return the server that a tool belongs to, or None if no server is known."""
        for prefix, name in self._prefixes:
            if tool.startswith(prefix):
                return name
        if tool.startswith(_PREFIX):
            name, separator, _ = tool.removeprefix(_PREFIX).partition("__")
            return name if name and separator else None
        return self._listed.get(tool)

    def calls(self, use: ToolUse) -> Iterator[ServerUse]:
        """Yield the calls of servers in a tool use."""
        result = use.result
        if result is not None and result.mcp:
            for call in result.mcp:
                yield ServerUse(call.server or "unknown", call.success is False, call.duration_seconds)
            return
        server = self.server_of(use.name)
        if server is not None and server not in self._on_file:
            seconds = None
            if result is not None:
                seconds = result.duration_seconds
            yield ServerUse(server, use.failed, seconds)

    def offers(self) -> Iterator[ToolsInPrompt]:
        """Yield, for each call that was made, the tools of each server in its prompt."""
        offering: list[tuple[LLMInteraction, Mapping[str, int]]] = []
        by_model: dict[str | None, list[LLMInteraction]] = {}
        known: dict[int, tuple[Sequence[Tool], Mapping[str, int]]] = {}  # with the list, so that its id stays its own
        for call in made_calls(self._run.llm_interactions):
            if not call.source.has_request():
                continue
            tools = call.source.request_without_messages().tools
            if id(tools) not in known:
                known[id(tools)] = tools, self._characters_by_server(tools)
            _, characters = known[id(tools)]
            if characters:
                offering.append((call, characters))
                by_model.setdefault(call.model, []).append(call)
        rates = {model: self._tokens_for_each_character(calls[:MAX_MEASURED]) for model, calls in by_model.items()}
        for call, characters in offering:
            rate = rates[call.model]
            for server, count in characters.items():
                yield ToolsInPrompt(server, count, rate and rate * count)

    def _characters_by_server(self, tools: Sequence[Tool]) -> Mapping[str, int]:
        """Return the characters of each server's tools in a list of tools."""
        characters: dict[str, int] = {}
        for tool in tools:
            server, definition = self.server_of(tool.name), tool.raw
            if server is None:
                continue
            if definition is None:
                definition = without_none(name=tool.name, description=tool.description, parameters=tool.parameters)
            characters[server] = characters.get(server, 0) + _characters(definition)
        return characters

    def _tokens_for_each_character(self, calls: Sequence[LLMInteraction]) -> float | None:
        """Return the tokens for each character of the first request that can be compared, or None."""
        for call in calls:
            tokens, request = prompt_tokens(call), call.raw_request
            if tokens is None or not isinstance(request, dict):
                continue
            refers = relations_of(self._run).of(call).kind == "refers"
            if not refers and all(isinstance(part, Text) for one in call.input_messages for part in parts_of(one)):
                return tokens / _characters(request)
        return None


def _only_servers(servers: Sequence[MCPServer]) -> dict[str, str]:
    """Return, by the name of each listed tool, the server that listed it. Names of several servers are left out."""
    listed: dict[str, set[str]] = {}
    for server in servers:
        for tool in server.tools:
            listed.setdefault(tool, set()).add(server.server or "unknown")
    return {tool: names.pop() for tool, names in listed.items() if len(names) == 1}


def _characters(value: Payload) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
