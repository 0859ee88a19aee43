"""Results of tools that Cline and Roo give the model as texts: `[read_file for 'a.py'] Result:`, and what follows.

A model without tools of its own asks for them in XML: `<read_file><path>a.py</path></read_file>`.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cache, partial

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.run import Call, Members, ToolRun
from trace_recorder.values.messages import Payload

_HEADING = re.compile(r"\[(\w{1,100})(?: for '[^\n]{0,2000}?'|[^\]\n]{0,2000})\] Result:\n?")
_PARAMETER = re.compile(r"<(\w{1,50})>")


def tools_run(message: Members, call: Call | None, time: str) -> Iterator[ToolRun]:
    """Yield the executions whose results a user's message has as texts. They answer the call before, in order."""
    response = as_dict(call.response if call else None)
    calls: dict[str, deque[Members]] = defaultdict(deque)
    for tool_call in map(as_dict, as_list(response.get("tool_calls"))):
        calls[as_text(tool_call.get("name")) or ""].append(tool_call)
    in_text = cache(partial(arguments_in, as_text(response.get("content")) or ""))
    for block in as_list(message.get("content")):
        text = as_text(as_dict(block).get("text")) or ""
        heading = _HEADING.match(text)
        if heading is None:
            continue
        name, result = heading[1], text[heading.end() :]
        tool_call = calls[name].popleft() if calls[name] else {}
        yield ToolRun(
            time=call.time if call else time,
            name=name,
            arguments=tool_call.get("arguments") if tool_call else in_text(name),
            call_id=as_text(tool_call.get("call_id")),
            ended=time,
            result=result,
        )


def arguments_in(text: str, name: str) -> Payload:
    """Return the parameters of a tool that a text asks for in XML; None if it does not."""
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
