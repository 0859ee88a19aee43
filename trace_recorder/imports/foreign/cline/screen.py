"""The messages that Cline and Roo show of a task, `ui_messages.json`: a list of `{"ts", "type", "text"}`.

The member that `type` names, `say` or `ask`, is the kind of a message.

Source: `ClineMessage` in both projects, and `ClineApiReqInfo`. `api_req_started` is a request to the model. Its text is
JSON with the prompt's last message, and after the answer with the counts of tokens, or with why there was none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, json_value
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.run import Members
from trace_recorder.values.messages import Payload, Usage

_REQUEST = "api_req_started"
_TOOLS = {"tool": "tool", "command": "execute_command", "use_mcp_server": "use_mcp_tool"}
"""Under which name each kind of these messages is a tool that was used."""
_OUTPUTS = ("command_output", "mcp_server_response")


@dataclass(slots=True)
class Tool:
    """A tool that was shown, and what it printed."""

    name: str
    arguments: Payload
    time: str
    outputs: list[str] = field(default_factory=list)
    ended: str | None = None


@dataclass(slots=True)
class Request:
    """A request to the model, and the texts and tools that were shown until the next request."""

    started: int
    time: str
    prompt: str | None
    usage: Members
    failure: Members | None
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)


@dataclass(slots=True)
class Screen:
    """The requests of a task, as they were shown. `result` is the last result of the task, if no request followed."""

    requests: list[Request] = field(default_factory=list)
    task: str | None = None
    result: str | None = None


def is_shown(value: Payload) -> bool:
    """Whether a document is such a list."""
    messages = [as_dict(message) for message in as_list(value)]
    return bool(messages) and all(
        "ts" in message and message.get("type") in ("say", "ask") and message.get("type") in message
        for message in messages
    )


def read_screen(messages: list[Payload]) -> Screen:
    """Read the messages that were shown."""
    screen = Screen()
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


def _request(message: Members, time: str) -> Request:
    started = message.get("ts")
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
    failure: Members | None = None if why is None else {"type": "error", "message": why}
    return Request(started if type(started) is int else 0, time, prompt, usage.to_document(), failure)


def _add_shown(request: Request, kind: str, text: str | None, time: str) -> None:
    if text and kind == "text":
        request.texts.append(text)
    elif text and kind == "reasoning":
        request.thoughts.append(text)
    elif text and kind in _TOOLS:
        shown = as_dict(json_value(text))
        name = as_text(shown.get("tool")) or as_text(shown.get("toolName")) or _TOOLS[kind]
        arguments = {key: value for key, value in shown.items() if key != "tool"} or {kind: text}
        if not any(one.arguments == arguments for one in request.tools[-1:]):  # it was asked for before it was said
            request.tools.append(Tool(name, arguments, time))
    elif text and kind in _OUTPUTS and request.tools:
        request.tools[-1].outputs.append(text)
        request.tools[-1].ended = time


def with_answers(requests: list[Request], times: list[int]) -> Iterator[tuple[Request | None, int | None]]:
    """Yield each request with the place of its answer, in order; either may be None.

    `times` are those of the answers. The request of an answer is the last one that had begun by then.
    """
    begun = 0
    for place, time in enumerate(times):
        latest: Request | None = None
        while begun < len(requests) and requests[begun].started <= time:
            if latest is not None:
                yield latest, None
            latest, begun = requests[begun], begun + 1
        yield latest, place
    for request in requests[begun:]:
        yield request, None
