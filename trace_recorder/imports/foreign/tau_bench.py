"""tau-bench's results: a list of `{"task_id", "trial", "reward", "info", "traj"}`, or one of these. Each is a run.

Source: `tau_bench/run.py` and `tau_bench/types.py` (`EnvRunResult`). `traj` is the conversation in OpenAI's chat form.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.imports.foreign.chat_messages import events_of
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import Annotation, ForeignRun, Members, Missing, Score
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_RESULT = {"task_id", "reward", "info", "traj"}
_SOLVED = 1e-6
"""A task is solved if its reward differs from 1 by no more (`is_successful` there)."""


def recognizes(source: Source) -> bool:
    """Whether the document is such a result, or a list that begins with one."""
    document = source.document
    return any(as_dict(one).keys() >= _RESULT for one in [document, *as_list(document)[:1]])


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each result."""
    document = source.document
    name = source.path.name.removesuffix(".json")
    for number, result in enumerate(document if isinstance(document, list) else [document], start=1):
        yield _run(f"{name}-{number}", result)


def _run(name: str, value: Payload) -> ForeignRun:
    result = as_dict(value)
    info = as_dict(result.get("info"))
    reward = as_number(result.get("reward"))
    error = as_text(info.get("error"))
    missing = [] if isinstance(result.get("traj"), list) else [Missing(what="a result", why="it has no list `traj`")]
    return ForeignRun(
        identity=name,
        events=[
            *missing,
            *events_of(as_list(result.get("traj"))),
            *([] if reward is None else [Score(name="reward", value=reward)]),
            *([Annotation(key="info", value=info)] if info else []),
        ],
        task=as_text(as_dict(info.get("task")).get("instruction")),
        status="failed" if error else "unknown" if missing else "completed",
        success=None if reward is None else abs(reward - 1) <= _SOLVED,
        error=_failure(error, info) if error else None,
        source=without_none(task_id=result.get("task_id"), trial=result.get("trial")),
    )


def _failure(error: str, info: Members) -> Members:
    return {"type": "error", "message": error} | without_none(traceback=as_text(info.get("traceback")))


FORMAT = ImportFormat(name="tau-bench", recognizes=recognizes, read=read, counting=WHOLE)
