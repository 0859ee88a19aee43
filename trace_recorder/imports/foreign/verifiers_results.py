"""Results of verifiers before version 1 (`results.jsonl`): a row for each rollout, with its prompt and completion.

Source: https://docs.primeintellect.ai/verifiers, and rows that were published. Messages are in OpenAI's chat form.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text, json_value
from trace_recorder.imports.foreign.block_messages import first_text
from trace_recorder.imports.foreign.chat_messages import events_of
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import ForeignRun, Members, Missing, Score
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_ROW = {"prompt", "completion", "reward"}
_IDS = ("example_id", "id")


def recognizes(source: Source) -> bool:
    """Whether the first row has a prompt, a completion of messages or a text, and a reward."""
    row = as_dict(source.first_lines[0].value) if source.first_lines else {}
    return row.keys() >= _ROW and any(name in row for name in _IDS) and isinstance(row["completion"], list | str)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each row."""
    name = source.path.name.partition(".")[0]
    for line in source.each_line():
        yield _run(f"{name}-{line.number}", line)


def _run(name: str, line: Line) -> ForeignRun:
    row = as_dict(line.value)
    prompt, completion = _messages(row.get("prompt"), "user"), _messages(row.get("completion"), "assistant")
    info = as_dict(row.get("info"))
    tools = as_list(row.get("tool_defs")) or as_list(info.get("oai_tools"))
    users = [as_dict(message) for message in prompt if as_dict(message).get("role") == "user"]
    reward, error = as_number(row.get("reward")), row.get("error")
    finished = row.get("is_completed")
    run = ForeignRun(
        identity=name,
        events=[*events_of([*prompt, *completion], tools, prompt_length=len(prompt))],
        task=first_text(users[-1].get("content")) or None if users else None,
        status="failed" if error else "completed" if finished is True else "unknown",
        error=_error(error) if error else None,
        source=without_none(example_id=row.get("example_id", row.get("id")), task=row.get("task")),
        metadata={"row": {key: value for key, value in row.items() if key not in {"prompt", "completion"}}},
    )
    run.events += [] if reward is None else [Score(name="reward", value=reward)]
    if line.why is not None:
        run.events.append(Missing(what=f"line {line.number}", why=line.why))
    return run


def _messages(value: Payload, role: str) -> list[Payload]:
    """Return the messages of a prompt or a completion. Calls of tools may be the texts of their JSON."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return [_with_calls(message) for message in as_list(value)]


def _with_calls(message: Payload) -> Payload:
    calls = as_list(as_dict(message).get("tool_calls"))
    if not any(isinstance(call, str) for call in calls):
        return message
    return {**message, "tool_calls": [json_value(call) if isinstance(call, str) else call for call in calls]}


def _error(error: Payload) -> Members:
    about = as_dict(error)
    text = as_text(error) or as_text(about.get("message")) or as_text(about.get("error_chain_str")) or ""
    return {"type": as_text(about.get("type")) or as_text(about.get("error")) or "error", "message": text}


FORMAT = ImportFormat(name="verifiers-results", recognizes=recognizes, read=read, counting=WHOLE)
