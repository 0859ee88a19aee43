"""Rows that Harbor's `traces export` makes of the trajectories of trials: an episode in each, a run for each trial.

Source: `harbor/utils/traces_utils.py`. `conversations` has messages with a role and a text: what the model saw at an
answer, with the answer. Thoughts and calls of tools are tagged text in the answers, and results of tools are messages
of the user. `result` is a reward, or the name of the error that ended the trial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from math import isfinite

from trace_recorder.dialects.call_ids import number_messages
from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.dialects.openai_chat import read_message
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.conversations import MEMBERS, begins_with, conversations, messages_of
from trace_recorder.imports.foreign.histories import Histories
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import Call, ForeignRun, Members, Missing, Score
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.imports.foreign.tagged_text import chat_answer, tools_in
from trace_recorder.values.message_equality import says_key
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_ROW = {"conversations", "agent", "episode", "trial_name"}
_OF_THE_RUN = {*MEMBERS, "model", "model_provider", "date", "tool_definitions", "result", "instruction", "episode"}


def recognizes(source: Source) -> bool:
    """Whether the first row has the members of such an export."""
    return begins_with(source, lambda value: as_dict(value).keys() >= _ROW)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each trial, whose rows follow one another."""
    for (_, trial), rows in groupby(conversations(source), key=lambda named: _trial(named[1])):
        yield _run(trial, [*rows])


def _trial(line: Line) -> tuple[str, str]:
    row = as_dict(line.value)
    return as_text(row.get("run_id")) or "", as_text(row.get("trial_name")) or ""


def _run(trial: str, rows: list[tuple[str, Line]]) -> ForeignRun:
    name, first = rows[0]
    row = as_dict(first.value)
    run = ForeignRun(
        identity=trial or name,
        task=as_text(row.get("instruction")) or as_text(row.get("task")),
        model=as_text(row.get("model")),
        provider=as_text(row.get("model_provider")),
        start_time=stated_time(row.get("date")),
        source={key: value for key, value in row.items() if key not in _OF_THE_RUN and value is not None},
    )
    histories, answered = Histories(), Counter[bytes]()
    for _, line in rows:
        if line.why is not None:
            run.events.append(Missing(what=f"line {line.number}", why=line.why))
        else:
            _read_row(run, histories, answered, as_dict(line.value))
    _add_result(run, row.get("result"))
    return run


def _read_row(run: ForeignRun, histories: Histories, answered: Counter[bytes], row: Members) -> None:
    """Add the calls of a row that no row before it has. `answered` counts the answers of earlier rows.

    After a compaction a row begins anew, and may repeat answers: only its last answer is surely a call of its own.
    """
    sent = [_chat_message(as_dict(message)) for message in messages_of(row)]
    numbered = [*number_messages(message for element in sent for message in read_message(element))]
    messages = [message.to_document() for message in numbered]
    conversation, added = histories.add_counted(messages)
    known = len(messages) - added
    repeated, last = answered.copy() if known < len(messages) - 1 else Counter[bytes](), len(messages) - 1
    for place, message in enumerate(messages[known:], start=known):
        if message["role"] == "assistant":
            key = says_key(numbered[place])
            if place != last and repeated[key] > 0:
                repeated[key] -= 1
                continue
            answered[key] += 1
            call = Call(time="", conversation=conversation, length=place)
            call.response = {key: value for key, value in message.items() if key != "role"}
            call.tools, call.model, call.provider = tools_in(row.get("tool_definitions")), run.model, run.provider
            run.events.append(call)


def _chat_message(message: Members) -> Members:
    text = as_text(message.get("content"))
    return chat_answer(text) if message.get("role") == "assistant" and text is not None else message


def _add_result(run: ForeignRun, result: Payload) -> None:
    """Read the result of a trial: a number is its reward, any other text the error that ended it."""
    text = as_text(result) or (str(result) if isinstance(result, int | float) and not isinstance(result, bool) else "")
    try:
        reward = float(text)
    except ValueError:
        if text:
            run.status, run.error = "failed", {"type": text, "message": text}
        return
    if isfinite(reward):
        run.events.append(Score(name="reward", value=reward))


FORMAT = ImportFormat(name="harbor-traces", recognizes=recognizes, read=read, counting=WHOLE)
