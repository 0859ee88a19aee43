"""The header of a run: its task, how it ended, what it cost, and what is missing.

Unknown facts are left out. `show.py` uses the functions of this file for the errors and tokens of steps too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trace_recorder.cli.text_layout import Entry, heading, local_time, number, pluralize, seconds, shown_text
from trace_recorder.dialects.dialect import USAGE_ADVICE
from trace_recorder.figures.call_figures import is_usage_left_out, made_calls
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction, Websocket
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.origins import RunOrigin, name_of, run_origin_of
from trace_recorder.values.trajectory import Gap, Removal, Reward, Trajectory


def header_entries(trajectory: Trajectory, name: str) -> Iterator[Entry]:
    """Yield the entries about the run as a whole. An entry about an unknown fact has no text."""
    metrics = trajectory.metrics or metrics_of(trajectory.llm_interactions, trajectory.agent_steps)
    origin = run_origin_of(trajectory.metadata)
    in_origin = origin.in_metadata() if origin else {}
    yield heading(name)
    yield Entry("task", shown_text(trajectory.task))
    status_style = ""
    if trajectory.success is False:
        status_style = "red"
    yield Entry("status", status_of(trajectory), style=status_style)
    yield Entry("error", text_of_error(trajectory.error), style="red")
    yield Entry("result", shown_text(trajectory.final_result))
    if origin is not None:
        yield Entry("origin", str(origin))
    if origin is None or origin.trajectory_id != trajectory.parent:
        yield Entry("parent", shown_text(trajectory.parent))
    yield Entry("session", shown_text(trajectory.session))
    yield from (Entry("model", model) for model in _models(trajectory))
    yield Entry("time", _time(trajectory))
    yield Entry("calls", _calls(metrics))
    yield from (Entry("websocket", text) for text in _websockets(trajectory.websockets))
    yield Entry("tokens", _tokens(metrics, trajectory))
    if metrics.get("redactions"):
        yield Entry("masked", pluralize(metrics["redactions"], "secret"))
    metadata = {key: value for key, value in trajectory.metadata.items() if in_origin.get(key, ...) != value}
    yield from (Entry("metadata", f"{key}: {shown_text(value)}") for key, value in metadata.items())
    yield from (Entry("annotation", f"{key}: {shown_text(value)}") for key, value in trajectory.annotations.items())
    yield from (Entry("reward", _reward(reward)) for reward in trajectory.rewards)
    yield from (Entry("removed", _removal(removal), style="yellow") for removal in trajectory.removals)
    yield from (Entry("gap", _gap(gap), style="yellow") for gap in trajectory.gaps)


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
    return ", ".join(filter(None, (shown_text(provider), shown_text(model))))


def status_of(trajectory: Trajectory) -> str:
    """Return how a run ended, and whether the task succeeded, if that is known."""
    if not isinstance(trajectory.success, bool):
        return trajectory.status
    return trajectory.status + (", success" if trajectory.success else ", no success")


def text_of_error(error: ErrorInfo | None) -> str:
    """Return an error as text: its HTTP status if it has one, its class, and its message."""
    if error is None:
        return ""
    text = str(error.type)
    if error.status:
        text = f"HTTP {error.status}, {text}"
    message = shown_text(error.message)
    if message:
        text += f": {message}"
    return text


def replayed_text(call: LLMInteraction, origin: RunOrigin | None) -> str:
    """Return the name of the recorded call that gave the answer, or "" if the call was not replayed.

    `origin` is the run of which this run is a replay or a fork.
    """
    source = call.replayed_from
    if source is None:
        return ""
    run = source.trajectory_id
    if origin is not None and origin.trajectory_id == source.trajectory_id:
        run = name_of(origin)
    recorded = " of ".join(filter(None, (source.interaction_id, run))) or "another run"
    if source.by_hand:
        return f"answered by hand, in place of {recorded}"
    return f"from {recorded}"


def text_of_tokens(counts: Mapping[str, Payload]) -> str:
    """Return the known token counts and the cost that the provider stated, as text. Details that are 0 are left out."""
    parts = [f"{number(counts[name])} {word}" for name, word in _TOKENS if counts.get(name) is not None]
    parts += [f"{number(counts[name])} {word}" for name, word in _DETAILS if counts.get(name)]
    if counts.get("cost") is not None:
        parts.append(f"{number(counts['cost'])} USD")
    return ", ".join(parts)


_TOKENS = (("total_input_tokens", "in"), ("output_tokens", "out"))
_DETAILS = (
    ("cache_read_input_tokens", "read from the cache"),
    ("cache_creation_input_tokens", "written to the cache"),
    ("reasoning_tokens", "for reasoning"),
    ("input_audio_tokens", "of audio in"),
    ("output_audio_tokens", "of audio out"),
)


def _time(trajectory: Trajectory) -> str:
    words = [local_time(trajectory.start_time)]
    if trajectory.execution_time is not None:
        words.append(f"took {seconds(trajectory.execution_time)}")
    return ", ".join(filter(None, words))


def _websockets(websockets: Sequence[Websocket]) -> Iterator[str]:
    """Yield a line for each websocket, and a line with the number of those that are left out."""
    for websocket in websockets[:_MOST_WEBSOCKETS]:
        words: list[str | None] = [websocket.url or websocket.connection_id]
        if websocket.error is not None:
            words.append(f"refused: {text_of_error(websocket.error)}")
        if websocket.duration_seconds is not None:
            words.append(f"open for {seconds(websocket.duration_seconds)}")
        if websocket.sent is not None and websocket.received is not None:
            words.append(f"{pluralize(websocket.sent, 'message')} sent and {number(websocket.received)} received")
        if websocket.warm_ups:
            words.append(pluralize(websocket.warm_ups, "warm-up"))
        if websocket.code is not None:
            words.append(f"closed with code {websocket.code} {shown_text(websocket.reason)}".strip())
        words.append(shown_text(websocket.ended_by))
        yield ", ".join(filter(None, words))
    if len(websockets) > _MOST_WEBSOCKETS:
        yield f"{number(len(websockets) - _MOST_WEBSOCKETS)} more"


_MOST_WEBSOCKETS = 10


def _calls(metrics: Mapping[str, Payload]) -> str:
    """Return how much was done, as text: 9 LLM calls (1 failed, 10 attempts, 8.10 s), 8 tool calls (1 failed), 9 steps.

    Replayed calls are counted separately, after the calls that were made.
    """
    count = metrics.get("llm_calls", 0)
    calls = pluralize(count, "LLM call")
    details = []
    if metrics.get("failed_llm_calls"):
        details.append(f"{number(metrics['failed_llm_calls'])} failed")
    if metrics.get("attempts", 0) > count:
        details.append(f"{metrics['attempts']} attempts")
    if metrics.get("llm_seconds"):
        details.append(seconds(metrics["llm_seconds"]))
    if details:
        calls += f" ({', '.join(details)})"
    words = [calls]
    if metrics.get("replayed_llm_calls"):
        words.append(pluralize(metrics["replayed_llm_calls"], "replayed LLM call"))
    tools = pluralize(metrics.get("tool_calls", 0), "tool call")
    if metrics.get("failed_tool_calls"):
        tools += f" ({number(metrics['failed_tool_calls'])} failed)"
    words += [tools, pluralize(metrics.get("agent_steps", 0), "step")]
    return ", ".join(words)


def _tokens(metrics: Mapping[str, Payload], trajectory: Trajectory) -> str:
    """Return the token counts. If streams do not state them, say how to request the counts."""
    words = [text_of_tokens(metrics)]
    streams = sum(map(is_usage_left_out, trajectory.llm_interactions))
    if streams:
        words.append(f"not stated by {pluralize(streams, 'stream')}: {USAGE_ADVICE}")
    return ", ".join(filter(None, words))


def _reward(reward: Reward) -> str:
    text = f"{shown_text(reward.name)} {shown_text(reward.value)}"
    if reward.weight != 1:
        text += f", weight {shown_text(reward.weight)}"
    if reward.step_number is not None:
        text += f" for step {shown_text(reward.step_number)}"
    if reward.explanation:
        text += f": {shown_text(reward.explanation)}"
    return text


def _removal(removal: Removal) -> str:
    text = f"{pluralize(removal.places, 'place')}, by {', '.join(map(shown_text, removal.rules))}"
    if removal.timestamp:
        text = f"{local_time(removal.timestamp)}: {text}"
    return text


def _gap(gap: Gap) -> str:
    text = f"{shown_text(gap.what)}: {shown_text(gap.why)}"
    if gap.timestamp:
        text = f"{local_time(gap.timestamp)}: {text}"
    return text
