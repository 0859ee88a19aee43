"""OpenHands' completion logs: one request to a model with its response, in a file of its own.

Source: `openhands/sdk/llm/utils/telemetry.py`. `messages` and `kwargs` are the request in OpenAI's chat form,
`response` is the answer, `cost` is in dollars, `latency_sec` in seconds. `timestamp` is when the answer was there.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import Call, Conversation, ForeignRun, Members
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.token_counts import WHOLE

_KNOWN = {"messages", "tools", "kwargs", "response", "cost", "timestamp", "latency_sec"}


def recognizes(source: Source) -> bool:
    """Whether the document has the messages of a request, a response with choices, and a latency."""
    document = as_dict(source.document)
    return {"messages", "response", "latency_sec"} <= document.keys() and "choices" in as_dict(document["response"])


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run with one call."""
    document = as_dict(source.document)
    rest = {name: value for name, value in document.items() if name not in _KNOWN}
    call = _call(document)
    yield ForeignRun(
        identity=source.path.name.removesuffix(".json"),
        model=call.model,
        events=[call],
        metadata={"log": rest} if rest else {},
    )


def _call(document: Members) -> Call:
    conversation = Conversation()
    for message in as_list(document.get("messages")):
        for part in openai_chat.read_message(as_dict(message)):
            conversation.add(part.to_document())
    response = openai_chat.read_response(as_dict(document["response"])).to_document()
    if (cost := as_number(document.get("cost"))) is not None:
        response["usage"] = as_dict(response.get("usage")) | {"cost": cost}
    parameters = as_dict(document.get("kwargs"))
    answered, seconds = as_number(document.get("timestamp")), as_number(document.get("latency_sec"))
    requested = answered if answered is None or seconds is None else answered - seconds
    return Call(
        time=stated_time(requested),
        conversation=conversation,
        length=len(conversation),
        response=response,
        model=as_text(response.get("model")),
        tools=as_list(document.get("tools")) or as_list(parameters.get("tools")),
        parameters={name: value for name, value in parameters.items() if name != "tools"},
        duration_seconds=seconds,
    )


FORMAT = ImportFormat(name="openhands-completions", recognizes=recognizes, read=read, counting=WHOLE)
