"""The header of a run: its task, how it ended, what it cost, and what is missing.

Unknown facts are left out. `show.py` uses the functions of this file for the errors and tokens of steps too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from trace_recorder.cli.text_layout import Entry, heading, local_time, number, pluralize, seconds, text_of
from trace_recorder.dialects.dialect import USAGE_ADVICE
from trace_recorder.figures.call_figures import is_usage_left_out, made_calls
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.origins import RunOrigin, name_of, run_origin_of
from trace_recorder.values.trajectory import Gap, Reward, Trajectory

_SUCCESS = {True: ", success", False: ", no success"}


def head(trajectory: Trajectory, name: str) -> Iterator[Entry]:
    """Yield the entries about the run as a whole. An entry about an unknown fact has no text."""
    metrics = trajectory.metrics or metrics_of(trajectory.llm_interactions, trajectory.agent_steps)
    origin = run_origin_of(trajectory.metadata)
    in_origin = origin.in_metadata() if origin else {}
    yield heading(name)
    yield Entry("task", text_of(trajectory.task))
    yield Entry("status", status_of(trajectory), style="" if trajectory.success is not False else "red")
    yield Entry("error", error_of(trajectory.error), style="red")
    yield Entry("result", text_of(trajectory.final_result))
    yield Entry("origin", "" if origin is None else str(origin))
    if origin is None or origin.trajectory_id != trajectory.parent:
        yield Entry("parent", text_of(trajectory.parent))
    yield from (Entry("model", model) for model in _models(trajectory))
    yield Entry("time", _time(trajectory))
    yield Entry("calls", _calls(metrics))
    yield Entry("tokens", ", ".join(filter(None, (tokens_of(metrics), _not_stated(trajectory)))))
    yield Entry("masked", pluralize(metrics["redactions"], "secret") if metrics.get("redactions") else "")
    metadata = {key: value for key, value in trajectory.metadata.items() if in_origin.get(key, ...) != value}
    yield from (Entry("metadata", f"{key}: {text_of(value)}") for key, value in metadata.items())
    yield from (Entry("annotation", f"{key}: {text_of(value)}") for key, value in trajectory.annotations.items())
    yield from (Entry("reward", _reward(reward)) for reward in trajectory.rewards)
    yield from _gaps(trajectory.gaps)


def _models(trajectory: Trajectory) -> list[str]:
    """Return the model of a run. If its calls named several models, return each model with the number of its calls.

    Calls that a recording answered are not counted.
    """
    calls = made_calls(trajectory.llm_interactions)
    requested = Counter(_model(call.provider, call.model or call.response.model) for call in calls)
    if len(requested) > 1:
        return [f"{model or 'unknown'} ({pluralize(times, 'call')})" for model, times in requested.items()]
    return [_model(trajectory.provider, trajectory.model) or next(iter(requested), "")]


def _model(provider: Payload, model: Payload) -> str:
    return ", ".join(filter(None, (text_of(provider), text_of(model))))


def status_of(trajectory: Trajectory) -> str:
    """Return how a run ended, and whether the task succeeded, if that is known."""
    return trajectory.status + (_SUCCESS[trajectory.success] if isinstance(trajectory.success, bool) else "")


def error_of(error: ErrorInfo | None) -> str:
    """Return an error as text: its HTTP status if it has one, its class, and its message."""
    if error is None:
        return ""
    status = f"HTTP {error.status}, " if error.status else ""
    return f"{status}{error.type}" + (f": {message}" if (message := text_of(error.message)) else "")


def replayed_text(call: LLMInteraction, origin: RunOrigin | None) -> str:
    """Return the name of the recorded call that gave the answer, or "" if the call was not replayed.

    `origin` is the run of which this run is a replay or a fork.
    """
    source = call.replayed_from
    if source is None:
        return ""
    is_of_origin = origin is not None and origin.trajectory_id == source.trajectory_id
    run = name_of(origin) if origin is not None and is_of_origin else source.trajectory_id
    recorded = " of ".join(filter(None, (source.interaction_id, run))) or "another run"
    return f"answered by hand, in place of {recorded}" if source.by_hand else f"from {recorded}"


def tokens_of(counts: Mapping[str, Payload]) -> str:
    """Return the known token counts and the cost that the provider stated, as text. Details that are 0 are left out."""
    parts = [f"{number(counts[name])} {word}" for name, word in _TOKENS if counts.get(name) is not None]
    parts += [f"{number(counts[name])} {word}" for name, word in _DETAILS if counts.get(name)]
    return ", ".join(parts + ([f"{number(counts['cost'])} USD"] if counts.get("cost") is not None else []))


_TOKENS = (("total_input_tokens", "in"), ("output_tokens", "out"))
_DETAILS = (
    ("cache_read_input_tokens", "read from the cache"),
    ("cache_creation_input_tokens", "written to the cache"),
    ("reasoning_tokens", "for reasoning"),
)


def _time(trajectory: Trajectory) -> str:
    took = f"took {seconds(trajectory.execution_time)}" if trajectory.execution_time is not None else ""
    return ", ".join(filter(None, (local_time(trajectory.start_time), took)))


def _calls(metrics: Mapping[str, Payload]) -> str:
    """Return how much was done, as text: 9 LLM calls (1 failed, 10 attempts, 8.10 s), 8 tool calls (1 failed), 9 steps.

    Replayed calls are counted separately, after the calls that were made.
    """
    calls, attempts, spent = metrics.get("llm_calls", 0), metrics.get("attempts", 0), metrics.get("llm_seconds")
    details = [_failed(metrics.get("failed_llm_calls")), f"{attempts} attempts" if attempts > calls else ""]
    replayed = metrics.get("replayed_llm_calls")
    words = (
        pluralize(calls, "LLM call") + _in_brackets([*details, seconds(spent) if spent else ""]),
        pluralize(replayed, "replayed LLM call") if replayed else "",
        pluralize(metrics.get("tool_calls", 0), "tool call")
        + _in_brackets([_failed(metrics.get("failed_tool_calls"))]),
        pluralize(metrics.get("agent_steps", 0), "step"),
    )
    return ", ".join(filter(None, words))


def _not_stated(trajectory: Trajectory) -> str:
    """Return how many streams do not state their token counts, and how to request the counts."""
    streams = sum(map(is_usage_left_out, trajectory.llm_interactions))
    return f"not stated by {pluralize(streams, 'stream')}: {USAGE_ADVICE}" if streams else ""


def _failed(count: Payload) -> str:
    return f"{number(count)} failed" if count else ""


def _in_brackets(parts: Iterable[str]) -> str:
    text = ", ".join(filter(None, parts))
    return f" ({text})" if text else ""


def _reward(reward: Reward) -> str:
    of = "" if reward.step_number is None else f" for step {text_of(reward.step_number)}"
    weight = "" if reward.weight == 1 else f", weight {text_of(reward.weight)}"
    why = f": {text_of(reward.explanation)}" if reward.explanation else ""
    return f"{text_of(reward.name)} {text_of(reward.value)}{weight}{of}{why}"


def _gaps(gaps: Iterable[Gap]) -> Iterator[Entry]:
    for gap in gaps:
        time = f"{local_time(gap.timestamp)}: " if gap.timestamp else ""
        yield Entry("gap", f"{time}{text_of(gap.what)}: {text_of(gap.why)}", style="yellow")
