"""A run as a log of Inspect AI, version 2: an evaluation of one sample, as JSON or as the archive `.eval`.

https://inspect.aisi.org.uk/eval-logs.html. This module writes the format without Inspect's library, because Inspect
also reads logs of its older versions. The events name each distinct message by its position in `events_data`, as
Inspect 0.3.285 does. The sample's `messages` repeat the last conversation.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from trace_recorder.dialects.json_access import as_text
from trace_recorder.figures.call_figures import made_calls, sum_known
from trace_recorder.figures.content.chat_form import utf8_text
from trace_recorder.figures.content.kinds import INTERLEAVING, THOUGHTS
from trace_recorder.formats.format_writer import LeftOut, OutputPlace, Piece, view
from trace_recorder.formats.inspect_ai.writing_events import InspectEvents, score_of
from trace_recorder.formats.inspect_ai.writing_messages import log_message, log_usage, output_of
from trace_recorder.formats.left_out import SIDES, ContentSupport, FormatSupport, count_unsupported_contents
from trace_recorder.formats.spans.writing.genai import text_of_value
from trace_recorder.formats.spans.writing.span import iso, nanoseconds
from trace_recorder.formats.spans.writing.tree import SpanTree
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.trajectory import Reward, Status, Trajectory
from trace_recorder.version import __version__

InspectForm = Literal["json", "eval"]
_STATUS: Mapping[Status, str] = {
    "running": "started",
    "unknown": "started",
    "completed": "success",
    "failed": "error",
    "interrupted": "cancelled",
}
_SUPPORTED: FormatSupport = {
    **dict.fromkeys(SIDES, ContentSupport.of(THOUGHTS, locations=("part", "images"))),
    "answers": ContentSupport.of(THOUGHTS, INTERLEAVING, locations=("part", "images")),
}
_SUMMARY_MEMBERS = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "error", "total_time")
_TOKEN_COUNTS = ("prompt", "completion", "cache_read", "cache_write", "reasoning")
_MAX_ID = 1000
"""Longer ids of runs are cut to this many characters, because an id is part of a file name in the archive."""


@view
def to_inspect(left_out: LeftOut, trajectory: Trajectory, form: InspectForm = "json") -> Payload:
    """Return a run as a log of Inspect: a JSON object, or the bytes of the archive if `form` is "eval"."""
    count_unsupported_contents(turns_of(trajectory), left_out, _SUPPORTED)
    log = _log(trajectory)
    if form == "eval":
        return _archive(log)
    return log


def _log(run: Trajectory) -> dict[str, Payload]:
    identity = utf8_text(run.trajectory_id or "run")[:_MAX_ID]
    scores = _scores(run)
    sample = _sample(run, identity, scores)
    times = without_none(started_at=_time(run.start_time), completed_at=_time(run.end_time))
    model = run.model or "unknown"
    if run.provider and run.model:
        model = f"{run.provider}/{run.model}"
    head = {
        "version": 2,
        "status": _STATUS[run.status],
        "eval": {
            "eval_id": identity,
            "run_id": identity,
            "created": _time(run.start_time) or iso(0),
            "task": _name_in_metadata(run, "task_name") or "trajectory",
            "task_id": identity,
            "dataset": {"name": "trace_recorder", "samples": 1, "sample_ids": [identity]},
            "model": model,
            "config": {"epochs": 1},
            "packages": {"trace_recorder": __version__},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": 1,
            "completed_samples": int(run.status == "completed"),
            "scores": [_result_of_score(name, score) for name, score in scores.items()],
        },
        "stats": {**times, "model_usage": sample["model_usage"]},
    }
    return head | without_none(error=_error(run)) | {"samples": [sample]}


def _name_in_metadata(run: Trajectory, member: str) -> str | None:
    """Return a member of the run's metadata that is a text, or None."""
    return as_text(run.metadata.get(member))


def _sample(run: Trajectory, identity: str, scores: dict[str, Payload]) -> dict[str, Payload]:
    tree = SpanTree.of(run)
    events = InspectEvents(tree)
    all_events = events.all(_name_in_metadata(run, "agent") or "agent")
    messages, output = last_conversation(tree.calls)
    question: Payload = [message for message in messages if message["role"] == "user"][:1] or ""
    if run.task is not None:
        question = text_of_value(run.task)
    return {
        "id": identity,
        "epoch": 1,
        "input": question,
        "target": "",
        "messages": messages,
        **without_none(output=output),
        "scores": scores,
        "metadata": _metadata(run),
        "store": {},
        "events": all_events,
        "events_data": {"messages": events.pool.messages, "calls": []},
        "model_usage": _usage_by_model(run),
        **without_none(
            started_at=_time(run.start_time),
            completed_at=_time(run.end_time),
            total_time=run.execution_time,
            working_time=run.execution_time,
            error=_error(run),
        ),
        "uuid": identity,
    }


def last_conversation(calls: Sequence[LLMInteraction]) -> tuple[list[Payload], Payload]:
    """Return the messages and the Inspect output (`output_of`) of the main agent's last answered call.

    The messages are the prompt and the first answer of that call. If the main agent has no answered call, the last call
    of the run is used.
    """
    main = [call for call in calls if call.answered and key_of_agent(call) is None] or [*calls]
    if not main:
        return [], None
    last, output = main[-1], output_of(main[-1])
    messages: list[Payload] = []
    if last.source.has_request():
        messages += map(log_message, last.input_messages)
    return [*messages, *(choice["message"] for choice in output["choices"][:1])], output


def _scores(run: Trajectory) -> dict[str, Payload]:
    """Return the rewards and the success of the run as scores, by their names.

    The name of a step's reward includes the number of the step.
    """
    scores: dict[str, Payload] = {}
    rewards = [*run.rewards]
    if run.success is not None:
        rewards.append(Reward("success", float(run.success)))
    for reward in rewards:
        name = text_of_value(reward.name)
        if reward.step_number is not None:
            name = f"{name} (step {reward.step_number})"
        if reward.name != "success" or name not in scores:
            scores[name] = score_of(reward)
    return scores


def _result_of_score(name: str, score: Mapping[str, Payload]) -> dict[str, Payload]:
    value = score["value"]
    if not isinstance(value, int | float):
        value = 0
    metrics: Payload = {"mean": {"name": "mean", "value": value, "params": {}}}
    return {"name": name, "scorer": name, "scored_samples": 1, "unscored_samples": 0, "params": {}, "metrics": metrics}


def _metadata(run: Trajectory) -> dict[str, Payload]:
    """Return the facts of the run for which a sample has no member."""
    members = {
        "parent": run.parent,
        "session": run.session,
        "metadata": run.metadata,
        "annotations": run.annotations,
        "status": run.status,
        "final_result": run.final_result,
        "max_steps": run.max_steps,
        "success": run.success,
    }
    return {name: value for name, value in members.items() if value not in ({}, None)}


def _usage_by_model(run: Trajectory) -> dict[str, Payload]:
    by_model: dict[str, list[Counts]] = {}
    for call in made_calls(run.llm_interactions):
        of_model = by_model.setdefault(call.response.model or call.model or "unknown", [])
        counts = counts_of(call)
        if counts is not None:
            of_model.append(counts)
    return {model: log_usage(_total(counts)) for model, counts in by_model.items() if counts}


def _total(all_counts: Sequence[Counts]) -> Counts:
    return Counts(**{name: sum_known(getattr(counts, name) for counts in all_counts) for name in _TOKEN_COUNTS})


def _error(run: Trajectory) -> dict[str, Payload] | None:
    if run.error is None:
        return None
    message = f"{run.error.type}: {run.error.message}"
    return {"message": message, "traceback": message, "traceback_ansi": message}


def _time(timestamp: str | None) -> str | None:
    time = nanoseconds(timestamp)
    if time is None:
        return None
    return iso(time)


def _archive(log: Mapping[str, Payload]) -> bytes:
    """Return a log as Inspect's archive, in which each part of the log is a file."""
    head = {name: value for name, value in log.items() if name != "samples"}
    [sample] = log["samples"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in _files(head, sample):
            entry = zipfile.ZipInfo(name)  # without a time, so that a run always becomes the same bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    return buffer.getvalue()


def _files(head: Mapping[str, Payload], sample: Mapping[str, Payload]) -> Iterator[tuple[str, Payload]]:
    summary = {name: sample[name] for name in _SUMMARY_MEMBERS if name in sample}
    if "error" in summary:
        summary["error"] = summary["error"]["message"]
    summaries = [summary]
    yield "_journal/start.json", {"version": head["version"], "eval": head["eval"], "plan": head["plan"]}
    yield f"samples/{sample['id']}_epoch_1.json", sample
    yield "_journal/summaries/1.json", summaries
    yield "summaries.json", summaries
    yield "header.json", head


def pieces(log: Payload, place: OutputPlace) -> Iterator[Piece]:
    """Yield the file of a log: a zip file or JSON."""
    suffix = ".json"
    if isinstance(log, bytes):
        suffix = ".eval"
    yield f"{place.name}{suffix}", log
