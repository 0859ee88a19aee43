"""The measures of one run that groups of runs need: what the run is grouped by, its success, and its figures.

`measures_of` takes the figures from `Stats`, so that a group and the command `stats` count in the same way. The index
keeps the measures of each run as JSON. A long name is shortened, so the measures do not grow with the texts of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec import Struct

from trace_recorder.clocks import parse_time
from trace_recorder.figures.conversations.run_agents import agent_names
from trace_recorder.figures.stats import Stats, mean_list_tokens
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import ForkedFrom, ReplayOf, run_origin_of
from trace_recorder.values.trajectory import Trajectory

MAX_NAME_CHARACTERS = 200
"""A longer name of a group is cut here. A digest of the whole name keeps different names apart."""
MAX_FIGURE = 2.0**53
"""A larger figure is unknown: nobody measured it, and sums of such figures are not finite."""
FigureName = Literal["cost", "tokens", "seconds", "calls", "tool_calls", "tool_errors", "list_tokens"]


class ServerMeasures(Struct, frozen=True, array_like=True):
    """What a run did with an MCP server.

    `seconds` is the time of the calls. `list_tokens` is an estimate of the tokens that the server's list of tools takes
    of each prompt. Each is None if it is unknown, in whole or in part.
    """

    calls: float = 0
    errors: float = 0
    seconds: float | None = None
    list_tokens: float | None = None

    @classmethod
    def of(cls, server: Counter[str]) -> ServerMeasures:
        """Return the measures of a server from its figures in the `Stats` of one run."""
        seconds = None
        if server["timed"] == server["calls"]:
            seconds = server["seconds"]
        return cls(server["calls"], server["failed"], _figure(seconds), _figure(mean_list_tokens(server)))


class RunMeasures(Struct, frozen=True, array_like=True):
    """The measures of one run. A figure is None if it is unknown, in whole or in part.

    `cost` is in US dollars, and `seconds` is the time by the clock. `tokens` are those that went into models and came
    out of them. Calls and tools that a recording answered are not counted. `tools` has the numbers of calls and of
    errors of each tool. `servers` has the MCP servers, and `list_tokens` is the sum over all of them. `day` is in UTC.
    """

    status: str
    success: bool | None = None
    task: str | None = None
    day: str | None = None
    models: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tools: dict[str, tuple[int, int]] = {}
    metadata: dict[str, str] = {}
    cost: float | None = None
    tokens: float | None = None
    seconds: float | None = None
    calls: float = 0
    tool_calls: float = 0
    tool_errors: float = 0
    is_cost_estimated: bool = False
    is_replay: bool = False
    is_fork: bool = False
    servers: dict[str, ServerMeasures] = {}
    list_tokens: float | None = None

    def to_text(self) -> str:
        """Return the measures as JSON, which `measures_from` reads."""
        return msgspec.json.encode(self).decode()


_DECODER = msgspec.json.Decoder(RunMeasures)


def measures_from(text: str) -> RunMeasures:
    """Read the measures that `RunMeasures.to_text` wrote."""
    return _DECODER.decode(text)


def measures_of(run: Trajectory, stats: Stats | None = None) -> RunMeasures:
    """Return the measures of a run. `stats` are the figures of this run alone, if the caller has them."""
    if stats is None:
        stats = Stats()
        stats.add(run)
    calls, origin = stats.every, run_origin_of(run.metadata)
    cost = tokens = None
    if calls.costs.stated_calls + calls.costs.estimated_calls and not calls.counted["without_price"]:
        cost = round(calls.costs.stated + calls.costs.estimated, 9)
    if calls.counted["with_prompt"] and not calls.counted["answered_without_tokens"]:
        tokens = calls.tokens["prompt"] + calls.tokens["completion"]
    tools = {name: (int(tool["calls"]), int(tool["failed"])) for name, tool in stats.tools.items() if tool["calls"]}
    servers = {name_of_value(name) or "": ServerMeasures.of(server) for name, server in stats.servers.items()}
    list_tokens = [server.list_tokens for server in servers.values() if server.list_tokens is not None]
    success = None
    if isinstance(run.success, bool):
        success = run.success
    return RunMeasures(
        status=_text_of(run.status),
        success=success,
        task=name_of_value(run.task),
        day=_day_of(run.start_time),
        models=_names(f"{provider}/{model}" for provider, model in stats.models),
        providers=_names(provider for provider, _ in stats.models),
        agents=_names(name for name, _ in agent_names(run)),
        tools={name_of_value(name) or "": counts for name, counts in tools.items()},
        metadata=_metadata_of(run.metadata),
        cost=_figure(cost),
        tokens=_figure(tokens),
        seconds=_figure(stats.time.get("total")),
        calls=calls.counted["calls"],
        tool_calls=sum(tool_calls for tool_calls, _ in tools.values()),
        tool_errors=sum(errors for _, errors in tools.values()),
        is_cost_estimated=calls.costs.estimated_calls > 0,
        is_replay=isinstance(origin, ReplayOf),
        is_fork=isinstance(origin, ForkedFrom),
        servers=servers,
        list_tokens=_figure(sum(list_tokens)) if list_tokens else None,
    )


def _figure(value: float | None) -> float | None:
    """Return a figure, or None if it is too large to be one."""
    if value is None or not abs(value) <= MAX_FIGURE:
        return None
    return value


def name_of_value(value: Payload) -> str | None:
    """Return a value as the name of a group, or None if the value is missing or empty.

    A name with more than `MAX_NAME_CHARACTERS` is cut, and ends with a digest of the whole name.
    """
    text = _text_of(value)
    if len(text) > MAX_NAME_CHARACTERS:
        digest = blake2b(text.encode(), digest_size=4).hexdigest()
        text = f"{text[:MAX_NAME_CHARACTERS]}... #{digest}"
    return text or None


def _text_of(value: Payload) -> str:
    """Return a value as text that UTF-8 can encode."""
    if isinstance(value, str) and value.isascii():
        return value
    return plain_text(value).encode(errors="replace").decode()


def _names(values: Iterable[Payload]) -> tuple[str, ...]:
    """Return the distinct names of values, in order. Empty values have no name."""
    names = {name_of_value(value) for value in values if value is not None}
    return tuple(sorted(name for name in names if name is not None))


def _day_of(timestamp: str | None) -> str | None:
    """Return the date of a timestamp in UTC. A timestamp without a time zone is local time."""
    time = parse_time(timestamp)
    if time is None:
        return None
    try:
        return time.astimezone(UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _metadata_of(metadata: Payload) -> dict[str, str]:
    """Return the metadata that have a name, with their names as texts."""
    if not isinstance(metadata, dict):
        return {}
    names = {_text_of(key): name_of_value(value) for key, value in metadata.items()}
    return {key: name for key, name in names.items() if name is not None}
