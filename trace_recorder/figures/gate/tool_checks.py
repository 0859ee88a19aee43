"""The rules about tools: which are called, in which order, how often, and with which arguments.

The assertions of a test (`figures/assertions.py`) and the gate call the same functions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import NamedTuple

from trace_recorder.figures.gate.checked_run import CheckedRun, StepCall
from trace_recorder.figures.gate.rules import EVERY_TOOL, ArgumentRule, CountRange, ToolComparison, times
from trace_recorder.figures.gate.violations import RuleViolation, change_lines, of_agent, value_text
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.messages import Payload
from trace_recorder.values.value_changes import changed_ranges, equal_json, marked_words


def check_exact_calls(run: CheckedRun, names: Sequence[str]) -> Iterator[RuleViolation]:
    """Yield a violation unless exactly these tools are called, in this order, and no other tool."""
    called = [made.call.name for made in run.calls]
    if called != [*names]:
        expected = f"{[*names]} (the exact list of calls, in this order)"
        yield RuleViolation("tools", f"tools called: {called}\n  expected:     {expected}")


def check_in_order(run: CheckedRun, names: Sequence[str]) -> Iterator[RuleViolation]:
    """Yield a violation unless these tools are called in this order. Other calls may be between them."""
    remaining = iter([made.call.name for made in run.calls])
    for position, name in enumerate(names):
        if name not in remaining:  # this takes the names up to the first equal one
            after = ""
            if position:
                after = f" after {', '.join(names[:position])}"
            called = [made.call.name for made in run.calls]
            message = f"{', '.join(names)} must be called in this order; {name} is not called{after}: {called}"
            yield RuleViolation("tools.in_order", message)
            return


def check_forbidden(run: CheckedRun, names: Sequence[str]) -> Iterator[RuleViolation]:
    """Yield a violation for each of these tools that is called, with its first call."""
    for name in names:
        calls = run.calls_of(name)
        if calls:
            message = (
                f"{name} is called {times(len(calls))}, and must not be called: {value_text(calls[0].call.arguments)}"
            )
            yield RuleViolation("tools.forbidden", message, calls[0].step)


def check_counts(run: CheckedRun, counts: Mapping[str, CountRange]) -> Iterator[RuleViolation]:
    """Yield a violation for each tool that is called more often or less often than it must be."""
    for name, allowed in counts.items():
        count = len(run.calls_of(name))
        if count not in allowed:
            yield RuleViolation("tools.counts", f"{name} is called {times(count)}, and must be called {allowed}")


class AgentPair(NamedTuple):
    """The calls of an agent in a good run and in a live run."""

    name: str | None
    golden: Sequence[StepCall]
    live: Sequence[StepCall]


def agent_pairs(golden: CheckedRun, live: CheckedRun) -> Iterator[AgentPair]:
    """Yield the agents of two runs in pairs of one name.

    If several agents have the name, agents with equal calls are a pair, then agents that call the same tools, also in
    another order within an answer. All others are paired in their order.
    """
    for name in dict.fromkeys([*golden.calls_by_agent, *live.calls_by_agent]):
        before, after = [*golden.calls_by_agent.get(name, ())], [*live.calls_by_agent.get(name, ())]
        for key in (_arguments_key, _names_key, _answers_key):
            yield from (AgentPair(name, *pair) for pair in _take_equal(before, after, key))
        yield from (AgentPair(name, *pair) for pair in zip_longest(before, after, fillvalue=()))


Calls = Sequence[StepCall]


def _take_equal(
    before: list[list[StepCall]], after: list[list[StepCall]], key: Callable[[Calls], bytes]
) -> Sequence[tuple[Calls, Calls]]:
    """Take the elements with equal keys out of two lists, and return them in pairs."""
    by_key: dict[bytes, list[list[StepCall]]] = defaultdict(list)
    for calls in after:
        by_key[key(calls)].append(calls)
    pairs = [(calls, same.pop(0)) for calls in before if (same := by_key[key(calls)])]
    taken = {id(calls) for pair in pairs for calls in pair}
    for agents in (before, after):
        agents[:] = [calls for calls in agents if id(calls) not in taken]
    return pairs


def _arguments_key(calls: Calls) -> bytes:
    return json_digest([[made.call.name, made.call.arguments] for made in calls])


def _names_key(calls: Calls) -> bytes:
    return json_digest([made.call.name for made in calls])


def _answers_key(calls: Calls) -> bytes:
    """Return a key of the names in which the calls of one answer are sorted, because a model asks for them at once."""
    names: list[str] = []
    for _, group in groupby(calls, key=lambda made: made.step):
        of_step = [*group]
        if of_step[0].is_of_one_answer:
            of_step.sort(key=lambda made: made.call.name)
        names += [made.call.name for made in of_step]
    return json_digest(names)


def compare_tools(golden: CheckedRun, live: CheckedRun, comparison: ToolComparison) -> Iterator[RuleViolation]:
    """Yield how the tools of a run differ from those of a good run."""
    if comparison == "order":
        for pair in agent_pairs(golden, live):
            yield from _other_order(pair)
        return
    before, after = (Counter(made.call.name for made in run.calls) for run in (golden, live))
    if comparison == "nothing":
        return
    for name in dict.fromkeys([*before, *after]):
        if comparison == "counts" and before[name] != after[name]:
            message = f"{name} is called {times(after[name])}, and {times(before[name])} in the golden run"
            yield RuleViolation("tools", message, _first_step(live, name))
        elif comparison == "set" and bool(before[name]) != bool(after[name]):
            message = f"{name} is called, but not in the golden run"
            if not after[name]:
                message = f"{name} is not called, but in the golden run"
            yield RuleViolation("tools", message, _first_step(live, name))


def _first_step(run: CheckedRun, name: str) -> int | None:
    return next((made.step for made in run.calls_of(name)), None)


def _other_order(pair: AgentPair) -> Iterator[RuleViolation]:
    before = [made.call.name for made in pair.golden]
    after = [made.call.name for made in pair.live]
    if before == after or _answers_key(pair.golden) == _answers_key(pair.live):
        return
    how = "other calls"
    if Counter(before) == Counter(after):
        how = "another order"
    first = next(changed_ranges(before, after))[2]
    step = None
    if first < len(after):
        step = pair.live[first].step
    marked = marked_words(" ".join(before), " ".join(after))
    yield RuleViolation("tools", f"{of_agent(pair.name)}{how} than in the golden run: {marked}", step)


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────────────────


def values_at(value: Payload, pointer: str) -> list[Payload]:
    """Return a list with the value at a JSON pointer (RFC 6901), or an empty list if there is no such value."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return []
    return [value]


def check_arguments(run: CheckedRun, rule: ArgumentRule, golden: CheckedRun | None = None) -> Iterator[RuleViolation]:
    """Yield how the arguments of a tool's calls break a rule.

    `golden` is the good run. It is needed only by a rule that compares.
    """
    if rule.is_compared:
        if golden is not None:
            yield from _compare_arguments(golden, run, rule)
        return
    calls = run.calls_of(rule.tool)
    if rule.call is not None:
        calls = calls[rule.call - 1 : rule.call]
    if not calls:
        name = rule.tool
        if rule.call is not None:
            name = f"call {rule.call} of {rule.tool}"
        yield RuleViolation("arguments", f"{name} is missing, so its arguments cannot be checked")
    for made in calls:
        for reason in _broken_condition(made.call.arguments, rule):
            yield RuleViolation("arguments", f"{made.call.name} {rule.pointer or 'arguments'}: {reason}", made.step)


def _broken_condition(arguments: Payload, rule: ArgumentRule) -> Iterator[str]:
    values = values_at(arguments, rule.pointer)
    if not values:
        yield f"there is no such argument in {value_text(arguments)}"
    for value in values:
        text = value
        if not isinstance(value, str):
            text = value_text(value)
        if rule.one_of is not None and not any(equal_json(value, allowed) for allowed in rule.one_of):
            expected = " or ".join(map(value_text, rule.one_of))
            yield f"{value_text(value)}, and must be {expected}"
        if rule.matches is not None and not rule.matches.search(text):
            yield f"{value_text(value)}, and must match {rule.matches.pattern!r}"


def _compare_arguments(golden: CheckedRun, live: CheckedRun, rule: ArgumentRule) -> Iterator[RuleViolation]:
    """Yield the arguments that differ from those of the same call in the good run.

    A call that only one of the runs has is left out, because the rule about tools reports it.
    """
    for pair in agent_pairs(golden, live):
        names = {rule.tool}
        if rule.tool == EVERY_TOOL:
            names = {made.call.name for made in pair.live}
        for name in sorted(names):
            before, after = _calls_of(pair.golden, name, rule), _calls_of(pair.live, name, rule)
            values_before = [_stripped(golden, made, rule) for made in before]
            values_after = [_stripped(live, made, rule) for made in after]
            keys = [*map(json_digest, values_before)], [*map(json_digest, values_after)]
            for start, end, now, until in changed_ranges(*keys):
                for offset in range(min(end - start, until - now)):
                    value_before, value_after = values_before[start + offset], values_after[now + offset]
                    yield from (
                        RuleViolation("arguments", f"{of_agent(pair.name)}{line}", after[now + offset].step)
                        for line in change_lines(value_before, value_after, f"{name} {rule.pointer or 'arguments'}")
                    )


def _calls_of(calls: Calls, name: str, rule: ArgumentRule) -> list[StepCall]:
    of_tool = [made for made in calls if made.call.name == name]
    if rule.call is None:
        return of_tool
    return of_tool[rule.call - 1 : rule.call]


def _stripped(run: CheckedRun, made: StepCall, rule: ArgumentRule) -> Payload:
    """Return the value that is compared. A value that is missing is None."""
    values = values_at(made.call.arguments, rule.pointer)
    if not values:
        return None
    return run.stripper.without(values[0], of_tool=True)
