"""Rows for training, in ShareGPT's form and as Harbor's `traces export` writes them.

A row in ShareGPT's form is a run: `{"conversations": [{"from": "human", "value": …}, {"from": "gpt", …}]}`. Training
programs add messages whose `from` is "function_call" or "observation". They also add the members `system` and `tools`
to the row. A tool call is written as JSON, or as tagged text in an answer.

A row of Harbor has all messages of one call, and the answer. The rows of a trial are one run. Results of tools are
messages of the user. `result` is a reward, or the name of the error that ended the trial. Source:
`harbor/utils/traces_utils.py`.

In both forms, an answer may have thoughts and tool calls as tagged text: `<think>…</think> … <tool_call>{"name": …,
"arguments": …}</tool_call>`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from math import isfinite

from trace_recorder.dialects.call_ids import number_messages
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, json_value
from trace_recorder.dialects.openai_chat import read_message
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Histories, Members, TimedFact
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.plain_conversations import (
    MEMBERS,
    add_row,
    begins_with,
    events_of,
    messages_in,
    named_conversations,
)
from trace_recorder.values.message_equality import says_key
from trace_recorder.values.messages import Payload, without_none

_ANSWERS = {"gpt", "assistant", "chatgpt", "bing", "bard", "model"}
_RESULTS = {"observation", "tool", "function_response", "function-response", "tool_response", "function"}
_CALLS = {"function_call", "tool_call", "function-call"}
_ROLES = {"human": "user", "user": "user", "system": "system"}
_ROW_MEMBERS = {*MEMBERS, "tools", "system", "model", "id"}


_MESSAGE = Signs(members=("from", "value"))


def recognizes(source: Source) -> bool:
    """Return whether the first conversation has messages with `from` and `value`."""
    return begins_with(source, _is_conversation)


def _is_conversation(value: Payload) -> bool:
    messages = messages_in(value)
    return bool(messages) and all(map(_MESSAGE.match, messages))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each row."""
    for name, line in named_conversations(source):
        yield _run_of_row(name, line)


def _run_of_row(name: str, line: Line) -> ForeignRun:
    members = as_dict(line.value)
    model = as_text(members.get("model"))
    messages = [as_dict(message) for message in messages_in(line.value)]
    users = (message.get("value") for message in messages if _ROLES.get(as_text(message.get("from")) or "") == "user")
    sent = [_message(message) for message in messages]
    if system := as_text(members.get("system")):
        sent.insert(0, {"role": "system", "content": system})
    run = ForeignRun(
        identity=as_text(members.get("id")) or name,
        events=[*events_of(sent, tools_in(members.get("tools")), model)],
        task=as_text(next(users, None)),
        model=model,
    )
    add_row(run, line, _ROW_MEMBERS)
    return run


def _message(members: Members) -> Members:
    """Return a message in OpenAI's chat form."""
    sender, value = as_text(members.get("from")) or "", members.get("value")
    text = as_text(value)
    if sender in _CALLS and (calls := calls_in(text or "")):
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if sender in _ANSWERS | _CALLS:
        if text is not None:
            return chat_answer(text)
        return {"role": "assistant", "content": value}
    if sender in _RESULTS:
        return {"role": "tool", "content": value}
    return {"role": _ROLES.get(sender, sender or "user"), "content": value}


_ROW = Signs(members=("conversations", "agent", "episode", "trial_name"))
_HARBOR_MEMBERS = {*MEMBERS, "model", "model_provider", "date", "tool_definitions", "result", "instruction", "episode"}


def recognizes_trials(source: Source) -> bool:
    """Return whether the first row has the members of a row of Harbor."""
    return begins_with(source, _ROW.match)


def read_trials(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each trial. The rows of a trial are consecutive."""
    for (_, trial), rows in groupby(named_conversations(source), key=lambda named: _trial(named[1])):
        yield _run_of_trial(trial, [*rows])


def _trial(line: Line) -> tuple[str, str]:
    row = as_dict(line.value)
    return as_text(row.get("run_id")) or "", as_text(row.get("trial_name")) or ""


def _run_of_trial(trial: str, rows: list[tuple[str, Line]]) -> ForeignRun:
    name, first = rows[0]
    row = as_dict(first.value)
    run = ForeignRun(
        identity=trial or name,
        task=as_text(row.get("instruction")) or as_text(row.get("task")),
        model=as_text(row.get("model")),
        provider=as_text(row.get("model_provider")),
        start_time=stated_time(row.get("date")),
        source={key: value for key, value in row.items() if key not in _HARBOR_MEMBERS and value is not None},
    )
    histories, answered = Histories(), Counter[bytes]()
    for _, line in rows:
        if line.why is not None:
            run.events.append(TimedFact.gap(what=f"line {line.number}", why=line.why))
        else:
            _read_row(run, histories, answered, as_dict(line.value))
    _add_result(run, row.get("result"))
    return run


def _read_row(run: ForeignRun, histories: Histories, answered: Counter[bytes], row: Members) -> None:
    """Add the calls of a row that are not in earlier rows.

    `answered` counts the answers in earlier rows. A row after a compaction may repeat earlier answers. Such answers are
    left out, but the row's last answer is always a new call.
    """
    sent = [_chat_message(as_dict(message)) for message in messages_in(row)]
    numbered = [*number_messages(message for element in sent for message in read_message(element))]
    messages = [message.to_document() for message in numbered]
    conversation, added = histories.add_counted(messages)
    known, last = len(messages) - added, len(messages) - 1
    repeated = Counter[bytes]()
    if known < last:
        repeated = answered.copy()
    for position, message in enumerate(messages[known:], start=known):
        if message["role"] != "assistant":
            continue
        key = says_key(numbered[position])
        if position != last and repeated[key] > 0:
            repeated[key] -= 1
            continue
        answered[key] += 1
        call = Call(time="", conversation=conversation, length=position)
        call.response = {name: value for name, value in message.items() if name != "role"}
        call.tools, call.model, call.provider = tools_in(row.get("tool_definitions")), run.model, run.provider
        run.events.append(call)


def _chat_message(message: Members) -> Members:
    text = as_text(message.get("content"))
    if message.get("role") == "assistant" and text is not None:
        return chat_answer(text)
    return message


def _add_result(run: ForeignRun, result: Payload) -> None:
    """Add the result of a trial.

    A number is the reward. Any other text is the name of the error that ended the trial.
    """
    text = as_text(result) or ""
    if isinstance(result, int | float) and not isinstance(result, bool):
        text = str(result)
    try:
        reward = float(text)
    except ValueError:
        if text:
            run.status, run.error = "failed", {"type": text, "message": text}
        return
    if isfinite(reward):
        run.events.append(TimedFact.reward(name="reward", value=reward))


_THOUGHT, _THOUGHT_END = "<think>", "</think>"
_CALL, _CALL_END = "<tool_call>", "</tool_call>"


def chat_answer(text: str) -> Members:
    """Return an answer as a message in OpenAI's chat form.

    If the text between tags is not a call, the tags and the text remain in the answer.
    """
    thought, rest = _thought_in(text)
    parts: list[str] = []
    calls: list[Payload] = []
    for part, is_call in _parts(rest):
        if not is_call:
            parts.append(part)
        elif part_calls := calls_in(part):
            calls += part_calls
        else:
            parts.append(f"{_CALL}{part}{_CALL_END}")
    content = text
    if calls or thought:
        content = "".join(parts).strip("\n")
    return {"role": "assistant", "content": content or None} | without_none(
        reasoning_content=thought, tool_calls=calls or None
    )


def calls_in(text: str) -> list[Payload]:
    """Return the tool calls in the JSON text of a call or of a list of calls. Return [] for any other text."""
    value = json_value(text.strip())
    if not isinstance(value, list):
        value = [value]
    calls = [as_dict(call) for call in value]
    if not all(as_text(call.get("name")) for call in calls):
        return []
    return [
        {
            "type": "function",
            "function": {"name": call["name"], "arguments": call.get("arguments", call.get("parameters"))},
        }
        for call in calls
    ]


def tools_in(value: Payload) -> list[Payload]:
    """Return the tools of a row, which are a list or a JSON text of a list."""
    if isinstance(value, str):
        value = json_value(value)
    return as_list(value)


def _thought_in(text: str) -> tuple[str | None, str]:
    before, tag, rest = text.partition(_THOUGHT_END)
    if not tag or not before.lstrip().startswith(_THOUGHT):
        return None, text
    return before.lstrip().removeprefix(_THOUGHT).strip("\n") or None, rest


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each part of a text, and whether the part is between the tags of a call."""
    position = 0
    while (begin := text.find(_CALL, position)) >= 0 and (end := text.find(_CALL_END, begin)) >= 0:
        yield text[position:begin], False
        yield text[begin + len(_CALL) : end], True
        position = end + len(_CALL_END)
    yield text[position:], False
