"""Tasks of Cline and Roo.

A task's folder has the history that the model gets, and a list of the messages that the editor's window showed.
`api_conversation_history.json` is a conversation in Anthropic's form, with the time `ts` of each message.
`ui_messages.json` is a list of `{"ts", "type", "text"}`, and has the times, tokens and failures of requests. `type` is
"say" or "ask", and the member `say` or `ask` has the kind of the message. The text of an `api_req_started` message is
JSON with the last message of the prompt. After the answer has come, the JSON also has the token counts or the error.
Both files are read if both exist.

A model without native tool calls asks for tools in XML: `<read_file><path>a.py</path></read_file>`. Results of such
tools are texts that begin with `[read_file for 'a.py'] Result:`.

Source: `ClineMessage` and `ClineApiReqInfo` of both projects.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial

from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, join_texts, json_value
from trace_recorder.formats.foreign_runs.agent_history import first_text
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Members, ToolRun
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.plain_conversations import read_answer, read_prompt
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage

_REQUEST = "api_req_started"
_TOOLS = {"tool": "tool", "command": "execute_command", "use_mcp_server": "use_mcp_tool"}
"""The kinds of messages that show a tool. The value is the tool's name if the message states no name."""
_OUTPUTS = ("command_output", "mcp_server_response")


@dataclass(slots=True)
class ShownTool:
    """A tool call that the window showed, and the tool's output."""

    name: str
    arguments: Payload
    time: str
    outputs: list[str] = field(default_factory=list)
    ended: str | None = None

    def execution(self) -> ToolRun:
        """Return the execution of the tool. Without an output, the execution has no end."""
        run = ToolRun(time=self.time, name=self.name, arguments=self.arguments, ended=self.ended)
        if self.ended is not None:
            run.result = "".join(self.outputs)
        return run


@dataclass(slots=True)
class ShownRequest:
    """A request to the model, and the texts and tools that the window showed until the next request."""

    started: int
    time: str
    prompt: str | None
    usage: Members
    failure: Members | None
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    tools: list[ShownTool] = field(default_factory=list)


@dataclass(slots=True)
class ShownTask:
    """The requests of a task, as the window showed them. `result` is the task's last result if no request followed."""

    requests: list[ShownRequest] = field(default_factory=list)
    task: str | None = None
    result: str | None = None


def is_shown(value: Payload) -> bool:
    """Return whether a document is a list of shown messages."""
    messages = [as_dict(message) for message in as_list(value)]
    return bool(messages) and all(
        "ts" in message and message.get("type") in ("say", "ask") and message.get("type") in message
        for message in messages
    )


def read_screen(messages: list[Payload]) -> ShownTask:
    """Read the messages that the window showed."""
    screen = ShownTask()
    for message in map(as_dict, messages):
        kind = as_text(message.get(as_text(message.get("type")) or "")) or ""
        text, time = as_text(message.get("text")), stated_time(message.get("ts"))
        if kind == _REQUEST:
            screen.requests.append(_request(message, time))
            screen.result = None
        elif kind == "completion_result" and text:
            screen.result = text
        elif screen.requests:
            _add_shown(screen.requests[-1], kind, text, time)
        elif kind in ("task", "text"):
            screen.task = screen.task or text
    return screen


def _request(message: Members, time: str) -> ShownRequest:
    started = 0
    if type(message.get("ts")) is int:
        started = message["ts"]
    details = Remaining(json_value(as_text(message.get("text")) or ""))
    prompt = details.text("request")
    usage = Usage(
        details.integer("tokensIn"),
        details.integer("tokensOut"),
        details.integer("cacheWrites"),
        details.integer("cacheReads"),
        cost=details.number("cost"),
    )
    why = details.text("streamingFailedMessage") or details.text("cancelReason")
    failure: Members | None = None
    if why is not None:
        failure = {"type": "error", "message": why}
    return ShownRequest(started, time, prompt, usage.to_document(), failure)


def _add_shown(request: ShownRequest, kind: str, text: str | None, time: str) -> None:
    if text and kind == "text":
        request.texts.append(text)
    elif text and kind == "reasoning":
        request.thoughts.append(text)
    elif text and kind in _TOOLS:
        shown = as_dict(json_value(text))
        name = as_text(shown.get("tool")) or as_text(shown.get("toolName")) or _TOOLS[kind]
        arguments = {key: value for key, value in shown.items() if key != "tool"} or {kind: text}
        is_repeated = bool(request.tools) and request.tools[-1].arguments == arguments
        if not is_repeated:  # an `ask` and a `say` may show the same tool
            request.tools.append(ShownTool(name, arguments, time))
    elif text and kind in _OUTPUTS and request.tools:
        request.tools[-1].outputs.append(text)
        request.tools[-1].ended = time


def with_answers(requests: list[ShownRequest], times: list[int]) -> Iterator[tuple[ShownRequest | None, int | None]]:
    """Yield pairs of a request and the position of its answer, in order.

    Either member of a pair may be None. `times` are the times of the answers. An answer belongs to the last request
    that began before the answer's time.
    """
    next_request = 0
    for position, time in enumerate(times):
        latest: ShownRequest | None = None
        while next_request < len(requests) and requests[next_request].started <= time:
            if latest is not None:
                yield latest, None
            latest, next_request = requests[next_request], next_request + 1
        yield latest, position
    for request in requests[next_request:]:
        yield request, None


_HEADING = re.compile(r"\[(\w{1,100})(?: for '[^\n]{0,2000}?'|[^\]\n]{0,2000})\] Result:\n?")
_PARAMETER = re.compile(r"<(\w{1,50})>")


def text_tool_runs(message: Members, call: Call | None, time: str) -> Iterator[ToolRun]:
    """Yield the executions whose results are texts in a user's message.

    The results belong to the tool calls of the previous call, in order.
    """
    response: Members = {}
    started = time
    if call is not None:
        response, started = as_dict(call.response), call.time
    calls: dict[str, deque[Members]] = defaultdict(deque)
    for tool_call in map(as_dict, as_list(response.get("tool_calls"))):
        calls[as_text(tool_call.get("name")) or ""].append(tool_call)
    in_text = cache(partial(arguments_in, as_text(response.get("content")) or ""))
    for block in as_list(message.get("content")):
        text = as_text(as_dict(block).get("text")) or ""
        heading = _HEADING.match(text)
        if heading is None:
            continue
        name = heading[1]
        execution = ToolRun(time=started, name=name, ended=time, result=text[heading.end() :])
        if calls[name] and (tool_call := calls[name].popleft()):
            execution.arguments, execution.call_id = tool_call.get("arguments"), as_text(tool_call.get("call_id"))
        else:
            execution.arguments = in_text(name)
        yield execution


def arguments_in(text: str, name: str) -> Payload:
    """Return the parameters of a tool that a text asks for in XML, or None if the text does not ask for the tool."""
    begin, end = text.find(f"<{name}>"), text.rfind(f"</{name}>")
    if begin < 0 or end < begin:
        return None
    inside = text[begin + len(name) + 2 : end]
    parameters: Members = {}
    position = 0
    while parameter := _PARAMETER.search(inside, position):
        close = inside.find(f"</{parameter[1]}>", parameter.end())
        if close < 0:
            break
        parameters[parameter[1]] = inside[parameter.end() : close].strip("\n")
        position = close + len(parameter[1]) + 3
    return parameters


_HISTORY, _SHOWN = "api_conversation_history.json", "ui_messages.json"


def recognizes(source: Source) -> bool:
    """Return whether the document is a list of shown messages, or a history with times."""
    if source.head.lstrip()[:1] != b"[":
        return False
    return is_shown(source.document) or _is_history(source)


def _is_history(source: Source) -> bool:
    messages = [as_dict(message) for message in as_list(source.document)]
    if not messages:
        return False
    if not all("ts" in message and message.get("role") in ("user", "assistant") for message in messages):
        return False
    return "<task>" in first_text(messages[0].get("content"))[:20] or _neighbour(source, _SHOWN) is not None


def _neighbour(source: Source, name: str) -> Source | None:
    """Return the file with this name in the same directory.

    Return None if it does not exist, or if its content is not what the name says.
    """
    path = source.path.with_name(name)
    if path == source.path or not path.is_file():
        return None
    other = source.neighbour(path)
    is_right = is_shown(other.document) if name == _SHOWN else _is_history(other)
    if not is_right:
        return None
    return other


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a task's folder. `source` may be either of the folder's two files."""
    if is_shown(source.document):
        shown: Source | None = source
        sent = other = _neighbour(source, _HISTORY)
    else:
        sent = source
        shown = other = _neighbour(source, _SHOWN)
    if other is not None:
        source.read_too.add(other.path)
    screen = ShownTask()
    if shown is not None:
        screen = read_screen(as_list(shown.document))
    identity = source.path.name.partition(".")[0]
    if source.path.name in (_HISTORY, _SHOWN):
        identity = source.path.absolute().parent.name or identity
    reader = _ClineReader(ForeignRun(identity=identity, task=screen.task))
    if sent is None:
        reader.read_shown(screen)
    else:
        reader.read_sent(as_list(sent.document), screen)
    if screen.result is not None:
        reader.run.status, reader.run.final_result = "completed", screen.result
    yield reader.finish()


class _ClineReader(SessionReader):
    """Reads one task, from the messages that were sent or from those that the window showed."""

    def read_sent(self, messages: list[Payload], screen: ShownTask) -> None:
        answers = [as_dict(message) for message in messages if as_dict(message).get("role") == "assistant"]
        pairs = with_answers(screen.requests, _times(answers, screen))
        call: Call | None = None
        for number, message in enumerate(map(as_dict, messages), start=1):
            if message.get("role") == "assistant":
                request = self._next_answered(pairs)
                call = read_answer(self, message, [])
                if request is not None:
                    _add_request(call, request)
            elif message.get("role") == "user":
                self.run.events.extend(text_tool_runs(message, call, stated_time(message.get("ts"))))
                read_prompt(self, message)
                call = None
            else:
                self.add_gap(f"message {number}", "it has no role")
        for request, _ in pairs:
            if request is not None:
                self._fail(request)

    def _next_answered(self, pairs: Iterator[tuple[ShownRequest | None, int | None]]) -> ShownRequest | None:
        """Return the request of the next answer. Add a failed call for each earlier request that had no answer."""
        for request, position in pairs:
            if position is not None:
                return request
            if request is not None:
                self._fail(request)
        return None

    def _fail(self, request: ShownRequest) -> None:
        call = self.history.failed_call(request.time, request.failure)
        if request.failure is None:
            call.complete, call.ended_by = False, "no answer follows"

    def read_shown(self, screen: ShownTask) -> None:
        """Read a task from its shown messages alone, which have only the last message of each prompt."""
        for request in screen.requests:
            if request.prompt:
                self.history.add(Message("user", request.prompt), request.time)
            self.run.task = self.run.task or request.prompt
            if request.failure is not None and not request.texts:
                self._fail(request)
                continue
            response = LLMResponse(join_texts(request.texts, "\n\n"), reasoning=join_texts(request.thoughts, "\n\n"))
            _add_request(self.history.call(request.time, response), request)
            self.run.events.extend(tool.execution() for tool in request.tools)


def _times(answers: list[Members], screen: ShownTask) -> list[int]:
    """Return the times of all answers.

    If any answer lacks a time, return the start times of the first requests that did not fail, at most one for each
    answer.
    """
    times = [time for answer in answers if type(time := answer.get("ts")) is int]
    if len(times) == len(answers):
        return times
    return [request.started for request in screen.requests if request.failure is None][: len(answers)]


def _add_request(call: Call, request: ShownRequest) -> None:
    """Add the shown details of a request to its call. Token counts of the history are not replaced."""
    call.time = request.time or call.time
    if call.response is not None and not call.response.get("usage") and request.usage:
        call.response["usage"] = request.usage
    if request.failure is not None:
        call.complete, call.ended_by = False, as_text(request.failure.get("message"))
