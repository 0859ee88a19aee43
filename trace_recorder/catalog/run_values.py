"""Reads the values of a run for queries and statistics: single values, names such as models and tools, and texts.

A file may have values of any type. A number that SQLite cannot store becomes None. A lone surrogate in a text becomes a
question mark.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from trace_recorder.catalog.searched_values import (
    MAX_INTEGER,
    Named,
    RunValues,
    Single,
    TextInRun,
    is_storable,
    storable,
)
from trace_recorder.catalog.texts import texts_of
from trace_recorder.clocks import parse_time
from trace_recorder.figures.call_figures import made_calls
from trace_recorder.figures.conversations.run_agents import agent_names
from trace_recorder.figures.cost import RunCosts, costs_of_calls
from trace_recorder.figures.rewards import rewards_of
from trace_recorder.values.content_parts import plain_text
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.origins import ForkedFrom, run_origin_of
from trace_recorder.values.tool_uses import tool_uses_of
from trace_recorder.values.trajectory import Trajectory


def values_of(run: Trajectory, *, with_texts: bool = True, costs: RunCosts | None = None) -> RunValues:
    """Return the values of a run.

    All calls and steps of the run are read. If `with_texts` is False, the values have no texts. `costs` are the costs
    of the run's calls, if the caller has them.
    """
    costs = costs or costs_of_calls(run.llm_interactions)
    metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
    began, exact_time = seconds_of(run.start_time)
    ended, _ = seconds_of(run.end_time)
    success = None
    if isinstance(run.success, bool):
        success = int(run.success)
    single: tuple[Single, ...] = (
        *(plain_text(value) or None for value in (run.trajectory_id, run.parent, run.session, run.task)),
        plain_text(run.status),
        *(success, began, ended),
        _error_text(run.error),
        *_numbers_of(run, metrics, costs),
        *(text_or_none(value) for value in (run.model, run.provider)),
        sum_of_numbers(rewards_of(run).values()),
        *origin_texts(run.metadata),
    )
    named = tuple(_named(run))
    texts: tuple[TextInRun, ...] = ()
    if with_texts:
        texts = tuple(texts_of(run))
    stored = (
        tuple(map(storable_value, single)),
        tuple(map(_storable_fact, named)),
        tuple(map(_storable_text, texts)),
    )
    return RunValues(*stored, is_exact=exact_time and stored == (single, named, texts))


def text_or_none(value: Payload) -> str | None:
    """Return the value if it is a text, and None otherwise."""
    if isinstance(value, str):
        return value
    return None


def origin_texts(metadata: Payload) -> tuple[str | None, str | None, str | None]:
    """Return the ids of the run that a run continues, and of the run that it repeats, and the name of its file."""
    origin = run_origin_of(metadata)
    if origin is None:
        return None, None, None
    if isinstance(origin, ForkedFrom):
        return origin.trajectory_id, None, origin.file
    return None, origin.trajectory_id, origin.file


def storable_value(value: Single) -> Single:
    """Return a value that SQLite can store: a text without lone surrogates, or any other value unchanged."""
    if isinstance(value, str):
        return storable(value)
    return value


def _storable_fact(fact: Named) -> Named:
    if is_storable(fact.name) and is_storable(fact.text or ""):
        return fact
    return replace(fact, name=storable(fact.name), text=fact.text and storable(fact.text))


def _storable_text(text: TextInRun) -> TextInRun:
    if (text.text.isascii() and text.kind.isascii()) or (is_storable(text.text) and is_storable(text.kind)):
        return text  # most texts are in ASCII
    return text._replace(kind=storable(text.kind), text=storable(text.text))


def _numbers_of(run: Trajectory, metrics: Mapping[str, Payload], costs: RunCosts) -> Iterator[float | None]:
    for name in ("agent_steps", "llm_calls", "failed_llm_calls", "tool_calls", "failed_tool_calls"):
        yield number_of_value(metrics.get(name))
    tokens = metrics.get("total_input_tokens", metrics.get("input_tokens")), metrics.get("output_tokens")
    yield sum_of_numbers(tokens)
    yield from map(number_of_value, tokens)
    yield costs.amount
    yield number_of_value(run.execution_time)


def _named(run: Trajectory) -> Iterator[Named]:
    calls = run.llm_interactions
    served = {(plain_text(run.provider), plain_text(run.model))} | {
        (plain_text(call.provider), plain_text(call.model or call.response.model)) for call in made_calls(calls)
    }
    yield from (Named("model", f"{provider}/{model}") for provider, model in sorted(served - {("", "")}))
    yield from (Named("provider", provider) for provider in sorted({provider for provider, _ in served} - {""}))
    names = {plain_text(name) for agent in agent_names(run) for name in agent}
    yield from (Named("agent", name) for name in sorted(names - {""}))
    yield from _tools(run)
    yield from (
        Named("reward", plain_text(name), number=number_of_value(value)) for name, value in rewards_of(run).items()
    )
    for kind, members in (("meta", run.metadata), ("annotation", run.annotations)):
        if isinstance(members, dict):
            yield from (Named(kind, plain_text(name), plain_text(value)) for name, value in members.items())
    yield from (Named("tag", tag) for tag in dict.fromkeys(_tags(run)))
    errors = [*dict.fromkeys(_error_text(call.error) for call in calls), _error_text(run.error)]
    yield from (Named("error", text) for text in errors if text)


def _tags(run: Trajectory) -> Iterator[str]:
    """Yield the tags that the metadata and the annotations state as `tag` or `tags`.

    A text is one tag. Of a list, each text is a tag, and of an object, each key: MLflow's tags have values.
    """
    stated: list[Payload] = []
    for members in (run.metadata, run.annotations):
        if isinstance(members, dict):
            stated += [members.get("tag"), members.get("tags")]
    for tags in stated:
        if isinstance(tags, list | dict):
            yield from (tag for tag in tags if isinstance(tag, str) and tag)
        elif isinstance(tags, str) and tags:
            yield tags


def _tools(run: Trajectory) -> Iterator[Named]:
    """Yield a fact for each tool that the run used: how often it was used, and how often it failed."""
    uses: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for _, use in tool_uses_of(run):
        name = plain_text(use.name)
        uses[name] += 1
        failed[name] += use.failed
    for name in sorted(uses):
        yield Named("tool", name, number=uses[name], failed=failed[name])


def _error_text(error: ErrorInfo | None) -> str | None:
    if error is None:
        return None
    return f"{plain_text(error.type)}: {plain_text(error.message)}"


def number_of_value(value: Payload) -> float | None:
    """Return the value if it is a number that SQLite can store, and None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or abs(value) >= MAX_INTEGER:
        return None
    return value


def sum_of_numbers(values: Iterable[Payload]) -> float | None:
    """Return the sum of the values that are numbers, or None if none of them is a number."""
    numbers = [number for value in values if (number := number_of_value(value)) is not None]
    if not numbers:
        return None
    return number_of_value(sum(numbers))


def seconds_of(timestamp: Payload) -> tuple[float | None, bool]:
    """Return a timestamp as seconds since 1970.

    The second value is False if the timestamp has no time zone, and is therefore local time.
    """
    time = parse_time(timestamp)
    if time is None:
        return None, True
    try:
        return time.astimezone().timestamp(), time.tzinfo is not None
    except (OverflowError, ValueError, OSError):
        return None, True
