"""Finds a program's own session file, and adds its contents to a run: the times, exit codes and results of tools.

A call of the session is found among the calls of the run by the id of its response. If the file has no such ids, the
ids of tool calls are compared, and then the texts and the tool calls. For each tool that ran, `tool_call` and
`tool_result` records are written, which name the interaction of the call. A gap reports each disagreement between the
file and the run.

The open run writes all records, and masks secrets in them. Values of the file that JSON cannot express, such as NaN,
become descriptions. The paths of the files are as in Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, opencode
1.18.33, pi 1.6.0, Qwen Code 0.24.4, Kimi Code 2.1.0, Copilot CLI 1.0.102, Cline 3.0.65 and Droid 0.215.0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path

from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.clocks import now, parse_time
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.facts import GapFact, ToolCallFact, ToolResultFact
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Members, ToolRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_seconds
from trace_recorder.formats.recognition import format_of, read_foreign_runs
from trace_recorder.reading.own_files import load_own
from trace_recorder.recording.run import Run
from trace_recorder.registry import IMPORT_FORMATS
from trace_recorder.signal_handlers import ours
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import without_none
from trace_recorder.values.token_counts import Counting, completion_tokens, counting_of, prompt_tokens
from trace_recorder.values.trajectory import Trajectory

JOINED_FROM = "joined_from"
"""The key of the annotation about the session file whose contents were added to the run.

The annotation has the session's file, format and id, how many calls were matched, and how many tools were added.
"""
_CACHED = ("cache_read_input_tokens", "cache_creation_input_tokens")
_MAX_GAPS = 20
_SLACK_SECONDS = 10.0
"""A program may write a line of the session up to this many seconds before the program sends its first request."""


def join_session_file(recorder: TrajectoryRecorder, session: str | None) -> None:
    """Add the contents of a session file to the recorder's run, which is still open.

    `session` is the id of the session, or None if the program does not state the id. If no session fits, only a gap is
    added. The same happens if several sessions fit and the program does not state the id.
    """
    run = recorder._lifecycle.run_in_progress()
    if run is None:
        return
    recorded = load_own(recorder.trajectory_path)
    began = 0.0
    started = parse_time(recorded.start_time or "")
    if started is not None:
        began = started.timestamp()
    fitting = []
    for source in map(Source, session_files(os.environ, session, began - _SLACK_SECONDS)):
        if format_of(source) is None:
            continue
        for foreign_run in read_foreign_runs(source):
            joined = JoinedSession(run, recorded, foreign_run, began)
            if joined.belongs(session):
                fitting.append(joined)
    if len(fitting) == 1 or (fitting and session is not None):
        fitting[0].write()
        recorder.annotate(JOINED_FROM, fitting[0].annotation())
        return
    why = "no session file has calls of this run"
    if fitting:
        why = f"several sessions fit: {', '.join(joined.identity for joined in fitting[:_MAX_GAPS])}"
    _append_gap(run, "join the session file of the program", why)


@dataclass(slots=True)
class _CallPair:
    """A call that the session and the run both have, with the response in the session and the response in the run."""

    of_session: Members
    recorded: LLMInteraction
    of_run: Members


class JoinedSession:
    """A session and the run that it belongs to: the calls that both have, and the tools that the run lacks.

    `began` is the time at which the run began, in seconds since 1970. A session may have begun before, even a moment
    before. So an earlier call that the run lacks is not a disagreement.
    """

    def __init__(self, run: Run, recorded: Trajectory, session: ForeignRun, began: float) -> None:
        self._run = run
        self._session = session
        since = began - _SLACK_SECONDS
        calls = [call for call in session.events if isinstance(call, Call) and call.response and _is_after(call, since)]
        for call in calls:
            # The response is compared with a recorded response, in which secrets are masked.
            call.response = json.loads(run.redaction.mask(json.dumps(call.response))[0])
        calls.sort(key=lambda call: not _is_after(call, began))  # those that surely belong to the run choose first
        self._counting = counting_of(session.format)
        self._pairs, unknown = _pair_calls(calls, recorded.llm_interactions, self._counting)
        self._unknown = [call for call in unknown if _is_after(call, began)]
        executions = [*(event for event in session.events if isinstance(event, ToolRun)), *session.executions]
        self._executions = {
            tool.call_id: tool for tool in executions if tool.call_id and tool.ended and _is_after(tool, since)
        }
        self._tools = 0

    @property
    def identity(self) -> str:
        """The program's id of the session."""
        return self._session.identity

    def belongs(self, session: str | None) -> bool:
        """Return whether this is the session of the run.

        If `session` is None, most calls of the session must be calls of the run, with the same tokens, because two
        conversations may have the same short answer.
        """
        if session is not None:
            return self._session.identity == session
        same = 0
        for pair in self._pairs:
            same += not any(_token_differences(pair.of_session, pair.recorded, self._counting))
        return same > len(self._unknown)

    def annotation(self) -> Members:
        """Return the value of the annotation `joined_from`."""
        counts: Members = {"calls": len(self._pairs), "tools": self._tools}
        source = {name: value for name, value in self._session.source.items() if isinstance(value, str)}
        return {"format": self._session.format, "session_id": self._session.identity, **counts, **source}

    def write(self) -> None:
        """Write the tools that ran, and a gap for each disagreement."""
        for pair in self._pairs:
            for session_call, run_call in _tool_call_pairs(pair):
                execution = self._executions.get(as_text(session_call.get("call_id")) or "")
                if execution is not None:
                    self._tools += 1
                    _append_execution(self._run, execution, pair.recorded, run_call)
        gaps = [*self._disagreements()]
        for what, why in gaps[:_MAX_GAPS]:
            _append_gap(self._run, what, why)
        if len(gaps) > _MAX_GAPS:
            more = f"{len(gaps) - _MAX_GAPS} more gaps like these"
            _append_gap(self._run, "join the session file of the program", more)

    def _disagreements(self) -> Iterator[tuple[str, str]]:
        for call in self._unknown:
            yield f"a call of the session at {call.time}", "only the session file has this call"
        for pair in self._pairs:
            for why in _differences(pair, self._counting):
                yield f"{pair.recorded.interaction_id} and the session file", why


def _is_after(event: Call | ToolRun, since: float) -> bool:
    """Return whether an event may belong to the run. A program may continue a session that began before the run."""
    time = parse_time(event.time)
    return time is None or time.timestamp() >= since


# ── which calls are the same ─────────────────────────────────────────────────────────────────────────────────────────


def _pair_calls(
    calls: list[Call], recorded: Iterable[LLMInteraction], counting: Counting
) -> tuple[list[_CallPair], list[Call]]:
    """Pair calls of a session with calls of a run. Return the pairs, and the calls of the session without a partner.

    Of several calls of the run, the partner is one with the same tokens, and then the nearest in time. `counting` is
    how the file counts tokens.
    """
    answered = [(call, call.response.to_document()) for call in recorded if call.answered]
    pairs: list[_CallPair] = []
    for keys in (_response_id, _call_ids, _texts):
        waiting: dict[str, list[tuple[LLMInteraction, Members]]] = {}
        for candidate in answered:
            for key in keys(candidate[1]):
                waiting.setdefault(key, []).append(candidate)
        unknown = []
        for call in calls:
            response = as_dict(call.response)
            candidates = next((waiting[key] for key in keys(response) if waiting.get(key)), None)
            if candidates is None:
                unknown.append(call)
                continue
            nearest = min(candidates, key=partial(_distance, call, response, counting))
            candidates.remove(nearest)
            answered.remove(nearest)
            pairs.append(_CallPair(response, *nearest))
        calls = unknown
        if pairs and keys is _response_id:
            break  # the file has ids of responses, so a call whose id is not in the run is not a call of the run
    return pairs, calls


def _distance(
    call: Call, response: Members, counting: Counting, candidate: tuple[LLMInteraction, Members]
) -> tuple[int, float]:
    differences = sum(1 for _ in _token_differences(response, candidate[0], counting))
    return differences, _seconds_apart(candidate[0].timestamp, call.time)


def _seconds_apart(first: str, second: str) -> float:
    """Return the seconds between two times, in either order; 0 if a time is not known."""
    return max(stated_seconds(first, second) or 0.0, stated_seconds(second, first) or 0.0)


def _response_id(response: Members) -> list[str]:
    identity = as_text(response.get("id"))
    if not identity:
        return []
    return [identity]


def _call_ids(response: Members) -> list[str]:
    ids = [as_text(call.get("call_id")) for call in _calls(response) if call.get("call_id_made_up") is not True]
    return [call_id for call_id in ids[:1] if call_id]


def _texts(response: Members) -> list[str]:
    contents = [_text(response), *map(_request, _calls(response))]
    if not any(contents):
        return []
    return [json.dumps(contents)]


def _calls(response: Members) -> list[Members]:
    return [as_dict(call) for call in as_list(response.get("tool_calls"))]


def _text(response: Members) -> str:
    return " ".join((as_text(response.get("content")) or "").split())


def _request(call: Members) -> str:
    return json.dumps([call.get("name"), call.get("arguments")], sort_keys=True)


def _differences(pair: _CallPair, counting: Counting) -> Iterator[str]:
    """Yield the differences between two descriptions of one response. `counting` is how the file counts tokens."""
    of_session, of_run = pair.of_session, pair.of_run
    if _text(of_session) != _text(of_run):
        yield "they have different texts"
    if [*map(_request, _calls(of_session))] != [*map(_request, _calls(of_run))]:
        yield "they have different tool calls"
    yield from _token_differences(of_session, pair.recorded, counting)


def _token_differences(response: Members, recorded: LLMInteraction, counting: Counting) -> Iterator[str]:
    """Yield the differences between the token counts of a response in a file and those of a call of the run.

    Files of some programs leave thoughts out of the output in one version, and include them in another.
    """
    usage = as_dict(response.get("usage"))
    prompt, completion = as_int(usage.get("input_tokens")), as_int(usage.get("output_tokens"))
    if prompt is not None and counting.cache_apart:
        prompt += sum(as_int(usage.get(name)) or 0 for name in _CACHED)
    tokens = prompt_tokens(recorded)
    if prompt is not None and tokens not in {None, prompt}:
        yield f"input_tokens is {prompt} in the file, and {tokens} in the run"
    thoughts = as_int(usage.get("reasoning_tokens")) or 0
    tokens = completion_tokens(recorded)
    if completion is not None and tokens not in {None, completion, completion + thoughts}:
        yield f"output_tokens is {completion} in the file, and {tokens} in the run"


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tool_call_pairs(pair: _CallPair) -> Iterator[tuple[Members, Members]]:
    """Yield each tool call of the session with the same tool call of the run.

    The tool call of the run is found by its id, or by its position and name.
    """
    run_calls = _calls(pair.of_run)
    by_id = {call.get("call_id"): call for call in run_calls}
    for place, call in enumerate(_calls(pair.of_session)):
        run_call = by_id.get(call.get("call_id")) or next(iter(run_calls[place : place + 1]), {})
        if run_call.get("name") == call.get("name"):
            yield call, run_call


def _append_execution(run: Run, execution: ToolRun, interaction: LLMInteraction, call: Members) -> None:
    """Write the records of one execution of a tool, `tool_call` and `tool_result`.

    `call` is the tool call that the execution answers.
    """
    agent = without_none(
        agent=interaction.agent, agent_id=interaction.agent_id, parent_agent_id=interaction.parent_agent_id
    )
    common = {"execution_id": run.next_id("tool"), "name": call.get("name"), "call_id": call.get("call_id"), **agent}
    began = ToolCallFact(
        **common,
        interaction_id=interaction.interaction_id,
        began=execution.time or None,
        arguments=to_jsonable(call.get("arguments")),
    )
    run.append(began, at_once=False)
    seconds = execution.duration_seconds
    if seconds is None:
        seconds = stated_seconds(execution.time, execution.ended or "")
    ended = ToolResultFact(
        **common,
        success=execution.success,
        duration_seconds=seconds,
        result=to_jsonable(execution.result),
        error=None if execution.error is None else {"type": "", "message": to_jsonable(execution.error)},
    )
    run.append(ended, at_once=False)


def _append_gap(run: Run, what: str, why: str) -> None:
    run.append(GapFact(time=now(), what=to_jsonable(what), why=to_jsonable(why)), at_once=False)


# ── the session files of programs ────────────────────────────────────────────────────────────────────────────────────


def session_files(environment: Mapping[str, str], session: str | None, since: float) -> Iterator[Path]:
    """Yield the files that may belong to a session.

    `session` is the id of the session, or None if its program does not state an id. Files that were last written before
    `since` (in seconds since 1970) are left out.
    """
    places = [place for name in IMPORT_FORMATS for place in IMPORT_FORMATS.record(name).home]
    for place in places:
        if place.session is not None:
            pattern = place.session.replace("{session}", "*" if session is None else escape(session))
            files = place.root(Path.home(), environment).glob(pattern)
            yield from (path for path in sorted(files) if _written_at(path) >= since)


def _written_at(path: Path) -> float:
    """Return when a file was last written. A database may have its newest pages in the write-ahead log beside it."""
    times = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            times.append(file.stat().st_mtime)
        except ours(OSError):
            continue
    return max(times, default=0.0)
