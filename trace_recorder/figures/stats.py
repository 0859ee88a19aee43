"""Figures over runs: tokens, cache, tools, failures, retries, rewards, time and cost, in total and by model.

`Stats` takes one run after another and keeps only sums, so the number of runs is not limited. A sum leaves out the
calls for which no provider stated the figure, and the result has the number of these calls. Time is wall-clock time: if
models and tools work at once, that time counts once. Calls whose answers a replay or a fork gave are counted
separately, and are in no other sum.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trace_recorder.figures.call_figures import is_usage_left_out, made_calls
from trace_recorder.figures.conversations.side_calls import side_calls_of
from trace_recorder.figures.cost import Cost, Costs, CostSums, Price, cost_of, lacks_price
from trace_recorder.figures.rewards import rewards_of
from trace_recorder.figures.servers import ServersOfRun
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, ToolResult, without_none
from trace_recorder.values.origins import ReplayOf, run_origin_of
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.tool_uses import ToolUse, tool_uses_of
from trace_recorder.values.trajectory import Trajectory

TimeSpan = tuple[float, float]
_COUNTS = ("prompt", "completion", "cache_read", "cache_write", "reasoning")
_WITH = {name: f"with_{name}" for name in _COUNTS}


@dataclass(slots=True)
class CallSums:
    """Sums over the calls of all models, or of one model."""

    price: Price | None = None
    counted: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    cacheable: int = 0
    seconds: float = 0.0
    first_token_seconds: float = 0.0
    costs: Costs = field(init=False)

    def __post_init__(self) -> None:
        self.costs = Costs(_price=self.price)

    def add(self, call: LLMInteraction, cost: Cost | None) -> None:
        """Add a call with its cost, as `cost_of` returns it."""
        counted, attempts = self.counted, len(call.attempts)
        counted["calls"] += 1
        if call.error is not None:
            counted["failed"] += 1
        elif not call.complete:
            counted["incomplete"] += 1
        counted["attempts"] += attempts or 1
        if attempts > 1:
            counted["retries"] += attempts - 1
        if call.duration_seconds is not None:
            counted["timed"] += 1
            self.seconds += call.duration_seconds
        if call.time_to_first_token_seconds is not None:
            counted["streamed"] += 1
            self.first_token_seconds += call.time_to_first_token_seconds
        if is_usage_left_out(call):
            counted["streams_without_include_usage"] += 1
        counts = counts_of(call)
        self._count(counts)
        self.costs.add(cost)
        is_answered = call.complete and call.error is None
        if is_answered and (counts is None or counts.prompt is None):
            counted["answered_without_tokens"] += 1
        if lacks_price(call, cost) or (is_answered and cost is None):
            counted["without_price"] += 1

    def merge(self, other: CallSums) -> None:
        """Add the sums over the calls in `other`."""
        self.counted.update(other.counted)
        self.tokens.update(other.tokens)
        self.cacheable += other.cacheable
        self.seconds += other.seconds
        self.first_token_seconds += other.first_token_seconds
        self.costs.merge(other.costs)

    def _count(self, counts: Counts | None) -> None:
        if counts is None or counts.prompt is None:
            self.counted["without_tokens"] += 1
        if counts is None:
            return
        for name in _COUNTS:
            count = getattr(counts, name)
            if count is not None:
                self.tokens[name] += count
                self.counted[_WITH[name]] += 1
        if counts.cache_read is not None:
            self.cacheable += counts.prompt or 0

    def to_json(self) -> dict[str, Payload]:
        """Return the sums.

        The hit rate is the share of input tokens that came from a cache, over the calls that state both numbers.
        """
        tokens: dict[str, Payload] = {name: self.tokens[name] for name in _COUNTS if self.counted[_WITH[name]]}
        if self.cacheable:
            tokens["cache_hit_rate"] = round(self.tokens["cache_read"] / self.cacheable, 4)
        tokens |= without_none(
            calls_without=self.counted["without_tokens"] or None,
            streams_without_include_usage=self.counted["streams_without_include_usage"] or None,
        )
        times = _times(self.seconds, self.counted["timed"], self.counted["calls"])
        if self.counted["streamed"]:
            mean = self.first_token_seconds / self.counted["streamed"]
            times["mean_time_to_first_token_seconds"] = round(mean, 6)
        return {
            **{name: self.counted[name] for name in ("calls", "failed", "incomplete", "attempts", "retries")},
            "tokens": tokens,
            **times,
            "cost": self.costs.to_json(),
        }


def _times(seconds: float, timed: int, calls: int) -> dict[str, Payload]:
    """Return the sum and the mean of the known durations, in seconds.

    Also return how many calls have no known duration.
    """
    times: dict[str, Payload] = {}
    if timed:
        times = {"seconds": round(seconds, 6), "mean_seconds": round(seconds / timed, 6)}
    if calls > timed:
        times["calls_without_time"] = calls - timed
    return times


@dataclass(slots=True)
class Spread:
    """The values of one reward in several runs: the number of runs, the sum, the minimum and the maximum."""

    runs: int = 0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    def merge(self, other: Spread) -> None:
        """Add the values of the runs in `other`."""
        self.runs += other.runs
        self.total += other.total
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)

    def to_json(self) -> dict[str, Payload]:
        """Return the mean, the minimum and the maximum."""
        return {"runs": self.runs, "mean": round(self.total / self.runs, 6), "least": self.least, "most": self.most}


def accuracy_of(succeeded: int, not_succeeded: int) -> dict[str, Payload]:
    """Return the share of successful runs among the judged runs, and the number of judged runs.

    Returns an empty dict if no run was judged.
    """
    judged = succeeded + not_succeeded
    if not judged:
        return {}
    return {"accuracy": round(succeeded / judged, 4), "accuracy_runs": judged}


@dataclass(slots=True)
class Stats:
    """The figures of the runs that were added. `price` replaces the table of genai-prices."""

    price: Price | None = None
    runs: Counter[str] = field(default_factory=Counter)
    models: dict[tuple[str, str], CallSums] = field(default_factory=dict)
    tools: dict[str, Counter[str]] = field(default_factory=dict)
    servers: dict[str, Counter[str]] = field(default_factory=dict)
    """The calls of tools at MCP servers, and the tools of servers in prompts, by the name of the server."""
    rewards: dict[str, Spread] = field(default_factory=dict)
    time: Counter[str] = field(default_factory=Counter)
    replayed_calls: int = 0
    side_calls: int = 0

    @property
    def every(self) -> CallSums:
        """The sums over the calls of all models."""
        if len(self.models) == 1:
            [every] = self.models.values()
            return every
        every = CallSums(self.price)
        for calls in self.models.values():
            every.merge(calls)
        return every

    def add(self, trajectory: Trajectory, known: Iterable[Cost | None] | None = None) -> None:
        """Add a run. `known` are the costs of its calls in their order, if the caller has them."""
        self.runs["runs"] += 1
        self.runs[trajectory.status] += 1
        self.runs["succeeded"] += trajectory.success is True
        self.runs["not_succeeded"] += trajectory.success is False
        self.runs["replays"] += isinstance(run_origin_of(trajectory.metadata), ReplayOf)
        self.runs["steps"] += len(trajectory.agent_steps)
        calls = trajectory.llm_interactions
        for call, cost in zip(calls, known or (cost_of(call, self.price) for call in calls), strict=True):
            if call.is_replayed:
                self.replayed_calls += 1
            else:
                self._calls_of(call.provider, call.model or call.response.model).add(call, cost)
        self.side_calls += len(side_calls_of(trajectory))
        self._add_tools(trajectory)
        for name, value in rewards_of(trajectory).items():
            self.rewards.setdefault(name, Spread()).merge(Spread(1, value, value, value))
        for name, seconds in time_of(trajectory).items():
            self.time[name] += seconds  # type: ignore[assignment]  # a Counter adds floats as well

    def merge(self, other: Stats) -> None:
        """Add the figures of the runs in `other`."""
        self.runs.update(other.runs)
        self.replayed_calls += other.replayed_calls
        self.side_calls += other.side_calls
        for key, calls in other.models.items():
            self._calls_of(*key).merge(calls)
        for name, counted in other.tools.items():
            self._tool(name).update(counted)
        for name, counted in other.servers.items():
            self._server(name).update(counted)
        for name, spread in other.rewards.items():
            self.rewards.setdefault(name, Spread()).merge(spread)
        self.time.update(other.time)

    def to_text(self) -> str:
        """Return the sums as JSON, which `from_text` reads."""
        models = [
            [
                *key,
                calls.counted,
                calls.tokens,
                calls.cacheable,
                calls.seconds,
                calls.first_token_seconds,
                *calls.costs.sums(),
            ]
            for key, calls in self.models.items()
        ]
        rewards = {
            name: [spread.runs, spread.total, spread.least, spread.most] for name, spread in self.rewards.items()
        }
        calls = [self.replayed_calls, self.side_calls]
        return json.dumps([self.runs, models, self.tools, self.servers, rewards, self.time, calls])

    @classmethod
    def from_text(cls, text: str) -> Stats:
        """Read the sums that `to_text` wrote."""
        runs, models, tools, servers, rewards, time, (replayed_calls, side_calls) = json.loads(text)
        stats = cls(
            runs=Counter(runs),
            tools={name: Counter(tool) for name, tool in tools.items()},
            servers={name: Counter(server) for name, server in servers.items()},
            rewards={name: Spread(*spread) for name, spread in rewards.items()},
            time=Counter(time),
            replayed_calls=replayed_calls,
            side_calls=side_calls,
        )
        for provider, model, counted, tokens, cacheable, seconds, first_token_seconds, *sums in models:
            calls = stats.models[provider, model] = CallSums(
                None, Counter(counted), Counter(tokens), cacheable, seconds, first_token_seconds
            )
            calls.costs.add_sums(CostSums(*sums))
        return stats

    def _calls_of(self, provider: Payload, model: Payload) -> CallSums:
        key = _name(provider), _name(model)
        calls = self.models.get(key)
        if calls is None:
            calls = self.models[key] = CallSums(self.price)
        return calls

    def _add_tools(self, trajectory: Trajectory) -> None:
        servers = ServersOfRun(trajectory)
        for tools in servers.offers():
            server = self._server(tools.server)
            server.update(prompts=1, list_characters=tools.characters)
            if tools.tokens is not None:
                server.update(estimated_prompts=1, list_tokens=tools.tokens)  # type: ignore[call-overload]  # as of seconds
        for _, use in tool_uses_of(trajectory):
            tool, result = self._tool(use.name), use.result
            if result is None:
                tool["calls"] += 1
                tool["unanswered"] += 1
                self._add_calls_of_servers(servers, use)
            elif result.replayed:
                tool["replayed"] += 1
            else:
                tool["calls"] += 1  # `update` would be slower
                tool["failed"] += use.failed
                tool["outcome_unknown"] += result.success is None
                _add_time(tool, result.duration_seconds)
                self._add_calls_of_servers(servers, use)

    def _add_calls_of_servers(self, servers: ServersOfRun, use: ToolUse) -> None:
        for call in servers.calls(use):
            server = self._server(call.server)
            server.update(calls=1, failed=call.failed)
            _add_time(server, call.seconds)

    def _tool(self, name: str) -> Counter[str]:
        return self.tools.setdefault(name, Counter())

    def _server(self, name: str) -> Counter[str]:
        return self.servers.setdefault(name, Counter())

    def to_json(self) -> dict[str, Payload]:
        """Return all figures. Models, tools and servers are sorted by the number of calls."""
        by_calls = sorted(self.models.items(), key=lambda pair: (-pair[1].counted["calls"], pair[0]))
        tools, servers = _by_calls(self.tools), _by_calls(self.servers)
        counted = ("calls", "failed", "unanswered", "outcome_unknown")
        return {
            "runs": {**self.runs, **accuracy_of(self.runs["succeeded"], self.runs["not_succeeded"])},
            "llm": self.every.to_json()
            | without_none(replayed=self.replayed_calls or None, side_calls=self.side_calls or None),
            "models": [
                {"provider": provider, "model": model, **calls.to_json()} for (provider, model), calls in by_calls
            ],
            "tools": [
                {"name": name}
                | {key: tool[key] for key in counted}
                | without_none(replayed=tool["replayed"] or None)
                | _times(tool["seconds"], tool["timed"], tool["calls"] - tool["unanswered"])
                for name, tool in tools
            ],
            "servers": [
                {"name": name, "calls": server["calls"], "failed": server["failed"]}
                | _times(server["seconds"], server["timed"], server["calls"])
                | _lists(server)
                for name, server in servers
            ],
            "rewards": [{"name": name, **self.rewards[name].to_json()} for name in sorted(self.rewards)],
            "seconds": {name: round(seconds, 6) for name, seconds in self.time.items()},
        }


def _lists(server: Counter[str]) -> dict[str, Payload]:
    """Return how many prompts had tools of a server, and the mean of their characters and of their estimated tokens."""
    if not server["prompts"]:
        return {}
    lists: dict[str, Payload] = {
        "prompts": server["prompts"],
        "list_characters": round(server["list_characters"] / server["prompts"]),
    }
    tokens = mean_list_tokens(server)
    if tokens is not None:
        lists["estimated_list_tokens"] = round(tokens)
    return lists


def mean_list_tokens(server: Counter[str]) -> float | None:
    """Return an estimate of the tokens that a server's list of tools takes in each prompt, or None."""
    if not server["estimated_prompts"]:
        return None
    return server["list_tokens"] / server["estimated_prompts"]


def _by_calls(counted: Mapping[str, Counter[str]]) -> list[tuple[str, Counter[str]]]:
    return sorted(counted.items(), key=lambda pair: (-pair[1]["calls"], pair[0]))


def _add_time(counted: Counter[str], seconds: float | None) -> None:
    if seconds is not None:
        counted["timed"] += 1
        counted["seconds"] += seconds  # type: ignore[assignment]  # a Counter adds floats as well


def _name(value: Payload) -> str:
    """Return a name as text, even if the name in the file is not a text."""
    if not value:
        return "unknown"
    if isinstance(value, str):
        return value
    return json.dumps(value)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def time_of(trajectory: Trajectory) -> dict[str, float]:
    """Return the seconds of a run by the clock: `total`, and its parts `llm`, `tool` and `idle`.

    Unknown parts are absent. The time of tools does not include the time in which models worked. `idle` is known if all
    calls and all tools with a result have a known duration.
    """
    results = [result for step in trajectory.agent_steps for result in step.tool_results if not result.replayed]
    llm, all_calls = _spans(made_calls(trajectory.llm_interactions))
    tool, all_tools = _spans(results)
    total = _total_seconds(trajectory, llm)
    if total is None:
        return {}
    of_llm = _length(llm)
    of_both = _length(_merge_spans([*llm, *tool]))
    times = {"total": total}
    if llm:
        times["llm"] = of_llm
    if tool or (llm and all_tools):
        times["tool"] = of_both - of_llm
    if llm and all_calls and all_tools:
        times["idle"] = max(0.0, total - of_both)
    return times


def _spans(timed: Iterable[LLMInteraction | ToolResult]) -> tuple[list[TimeSpan], bool]:
    """Return the time spans in which calls or tools worked, with overlaps merged.

    Also return whether every span is known.
    """
    spans, all_known = [], True
    for source in timed:
        begin = _seconds(source.timestamp)
        if begin is None or source.duration_seconds is None:
            all_known = False
        else:
            spans.append((begin, begin + source.duration_seconds))
    return _merge_spans(spans), all_known


def _total_seconds(trajectory: Trajectory, llm: Sequence[TimeSpan]) -> float | None:
    """Return the duration of a run: the stated duration, or else the time from its start to its end or last answer."""
    begin, end = _seconds(trajectory.start_time), _seconds(trajectory.end_time)
    if trajectory.execution_time is not None or begin is None:
        return trajectory.execution_time
    return max([end or begin, *(finish for _, finish in llm)]) - begin


def _merge_spans(spans: Iterable[TimeSpan]) -> list[TimeSpan]:
    joined: list[TimeSpan] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _length(spans: Iterable[TimeSpan]) -> float:
    return sum(end - begin for begin, end in spans)


def _seconds(timestamp: str | None) -> float | None:
    try:
        return datetime.fromisoformat(timestamp or "").timestamp()
    except (ValueError, TypeError):
        return None
