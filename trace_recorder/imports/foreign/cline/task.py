"""A task of Cline or Roo as a run: the history of what was sent to the model, with what was shown next to it.

`api_conversation_history.json` is a conversation in Anthropic's form, with the time `ts` of each message.
`ui_messages.json` in the same folder states the requests, with their times, tokens and failures. Both files are read if
both are there. `ui_messages.json` alone makes a run too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.agent_history import AgentHistory
from trace_recorder.imports.foreign.anthropic_history import read_message
from trace_recorder.imports.foreign.block_messages import first_text
from trace_recorder.imports.foreign.cline.screen import Request, Screen, is_shown, read_screen, with_answers
from trace_recorder.imports.foreign.cline.text_results import tools_run
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.run import Call, ForeignRun, Members, Missing, ToolRun
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.messages import LLMResponse, Message, Payload

_HISTORY, _SHOWN = "api_conversation_history.json", "ui_messages.json"


def recognizes(source: Source) -> bool:
    """Whether the document is what was shown of a task, or a history with times that begins with a task."""
    if source.head.lstrip()[:1] != b"[":
        return False
    return is_shown(source.document) or _is_history(source)


def _is_history(source: Source) -> bool:
    messages = [as_dict(message) for message in as_list(source.document)]
    are_timed = bool(messages) and all("ts" in one and one.get("role") in ("user", "assistant") for one in messages)
    return are_timed and ("<task>" in first_text(messages[0].get("content"))[:20] or _other(source, _SHOWN) is not None)


def _other(source: Source, name: str) -> Source | None:
    """Return the file with this name next to a file, if it has what its name says."""
    path = source.path.with_name(name)
    if path == source.path or not path.is_file():
        return None
    other = source.neighbour(path)
    is_right = is_shown(other.document) if name == _SHOWN else _is_history(other)
    return other if is_right else None


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one task of a folder, whichever of its two files was given."""
    is_screen = is_shown(source.document)
    other = _other(source, _HISTORY if is_screen else _SHOWN)
    if other is not None:
        source.read_too.add(other.path)
    shown, sent = (source, other) if is_screen else (other, source)
    screen = read_screen(as_list(shown.document)) if shown else Screen()
    run = ForeignRun(identity=_name(source.path), task=screen.task)
    if sent is None:
        _read_shown(run, screen)
    else:
        _read_sent(run, as_list(sent.document), screen)
    if screen.result is not None:
        run.status, run.final_result = "completed", screen.result
    yield run


def _name(path: Path) -> str:
    is_named = path.name in (_HISTORY, _SHOWN)
    return (path.absolute().parent.name if is_named else "") or path.name.partition(".")[0]


def _read_sent(run: ForeignRun, messages: list[Payload], screen: Screen) -> None:
    history = AgentHistory(run.events)
    answers = [as_dict(one) for one in messages if as_dict(one).get("role") == "assistant"]
    pairs = with_answers(screen.requests, _times(answers, screen))
    call: Call | None = None
    for number, message in enumerate(map(as_dict, messages), start=1):
        time = stated_time(message.get("ts"))
        if message.get("role") == "assistant":
            request = _next_answered(history, pairs)
            read_message(run, history, message, [])
            call = next(event for event in reversed(run.events) if isinstance(event, Call))
            if request is not None:
                _add_request(call, request)
        elif message.get("role") == "user":
            run.events.extend(tools_run(message, call, time))
            read_message(run, history, message, [])
            call = None
        else:
            run.events.append(Missing(what=f"message {number}", why="it has no role"))
    for request, _ in pairs:
        if request is not None:
            _fail(history, request)
    history.finish()


def _times(answers: list[Members], screen: Screen) -> list[int]:
    """Return the times of the answers. If some have none, return those of the requests that did not fail."""
    times = [time for one in answers if type(time := one.get("ts")) is int]
    if len(times) == len(answers):
        return times
    return [request.started for request in screen.requests if request.failure is None][: len(answers)]


def _next_answered(history: AgentHistory, pairs: Iterator[tuple[Request | None, int | None]]) -> Request | None:
    """Return the request of the next answer, and add those before it that had no answer."""
    for request, place in pairs:
        if place is not None:
            return request
        if request is not None:
            _fail(history, request)
    return None


def _fail(history: AgentHistory, request: Request) -> None:
    call = history.failed_call(request.time, request.failure)
    if request.failure is None:
        call.complete, call.ended_by = False, "no answer follows"


def _add_request(call: Call, request: Request) -> None:
    """Add the shown details of a request to its call. Counts of tokens that the history states stay."""
    call.time = request.time or call.time
    if call.response is not None and not call.response.get("usage") and request.usage:
        call.response["usage"] = request.usage
    if request.failure is not None:
        call.complete, call.ended_by = False, as_text(request.failure.get("message"))


def _read_shown(run: ForeignRun, screen: Screen) -> None:
    """Read a task that is known only as it was shown. A prompt there is the last message of the real prompt."""
    history = AgentHistory(run.events)
    for request in screen.requests:
        if request.prompt:
            history.add(Message("user", request.prompt), request.time)
        run.task = run.task or request.prompt
        if request.failure is not None and not request.texts:
            _fail(history, request)
            continue
        text, thought = "\n\n".join(request.texts) or None, "\n\n".join(request.thoughts) or None
        _add_request(history.call(request.time, LLMResponse(text, reasoning=thought)), request)
        for tool in request.tools:
            outputs = "".join(tool.outputs) if tool.ended is not None else None
            run.events.append(
                ToolRun(time=tool.time, name=tool.name, arguments=tool.arguments, ended=tool.ended, result=outputs)
            )
    history.finish()
