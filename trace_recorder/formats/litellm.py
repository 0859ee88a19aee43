"""LiteLLM's standard logging payloads, one for each call.

LiteLLM gives them to callbacks, and its loggers write them to buckets.

Source: `StandardLoggingPayload` in `litellm/types/utils.py`, version 1.110. `messages` and `response` are in OpenAI's
form for every provider. `startTime` and other times count seconds since 1970. LiteLLM computes `response_cost` from its
table of prices. A file has one payload, a list of payloads, or a payload in each line. Payloads with the same
`session_id` are one run. Payloads without a `session_id` are one run if they have the same `trace_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Histories, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.spans.reading.payloads import read_input, read_output
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_SIGNS = {"call_type", "startTime", "endTime", "model_parameters", "messages", "response"}
_READ = {
    *("messages", "response", "model_parameters", "startTime", "endTime", "completionStartTime", "error_str"),
    *("prompt_tokens", "completion_tokens"),
}


def recognizes(source: Source) -> bool:
    """Return whether the first line, the document, or the document's first element is a payload of LiteLLM."""
    document = source.document
    first = [line.value for line in source.first_lines[:1]]
    return any(as_dict(value).keys() >= _SIGNS for value in [*first, document, *as_list(document)[:1]])


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each session or trace."""
    runs: dict[str, tuple[ForeignRun, Histories]] = {}
    missing: list[TimedFact] = []
    for line in _payloads(source):
        payload = as_dict(line.value)
        if line.why is not None or not payload:
            missing.append(TimedFact.gap(what=f"line {line.number}", why=line.why or "it is not an object"))
            continue
        identity = next(filter(None, (as_text(payload.get(name)) for name in ("session_id", "trace_id", "id"))), "")
        if identity not in runs:
            runs[identity] = ForeignRun(identity=identity or source.path.name.partition(".")[0]), Histories()
        _add(*runs[identity], payload)
    for run, _ in runs.values():
        calls = [event for event in run.events if isinstance(event, Call)]
        run.provider, run.model = calls[0].provider, calls[0].model
        run.events = [*sorted(run.events, key=lambda event: event.time), *missing]
        missing = []
        yield run


def _payloads(source: Source) -> Iterable[Line]:
    document = source.document
    if document is None:
        return source.lines()
    if not isinstance(document, list):
        document = [document]
    return [Line(number, value) for number, value in enumerate(document, start=1)]


def _add(run: ForeignRun, histories: Histories, payload: Members) -> None:
    """Add the call of a payload to the run. Keep the payload's members that a call does not have."""
    parameters, began = as_dict(payload.get("model_parameters")), as_number(payload.get("startTime"))
    prompt = read_input({"messages": payload.get("messages"), "tools": as_list(parameters.get("tools"))})
    if prompt.messages is None:
        prompt = read_input(payload.get("messages"))
    call = Call(
        time=stated_time(began),
        conversation=None,
        response=_response(payload),
        provider=as_text(payload.get("custom_llm_provider")),
        model=as_text(payload.get("model")),
        tools=prompt.tools or (),
        parameters={name: value for name, value in parameters.items() if name not in {"tools", "stream"}},
        interaction_id=as_text(payload.get("litellm_call_id")) or as_text(payload.get("id")),
        duration_seconds=_seconds(began, payload.get("endTime")),
    )
    if prompt.messages:
        call.conversation, call.length = histories.add([message.to_document() for message in prompt.messages])
    if payload.get("status") == "failure":
        call.error = _error(payload)
    if isinstance(payload.get("stream"), bool):
        call.stream = payload["stream"]
    if call.stream:
        call.time_to_first_token_seconds = _seconds(began, payload.get("completionStartTime"))
    if run.task is None:
        users = (message for message in prompt.messages or () if message.role == "user")
        run.task = next((message.content for message in users if isinstance(message.content, str)), None)
    rest = {name: value for name, value in payload.items() if name not in _READ}
    run.events += [call, TimedFact.unread(what="payload", value=rest, time=call.time)]


def _seconds(began: float | None, ended: Payload) -> float | None:
    end = as_number(ended)
    if began is None or end is None:
        return None
    return max(0.0, end - began)


def _response(payload: Members) -> Members | None:
    """Return the answer. A token count that the response lacks is taken from the payload."""
    output = read_output(payload.get("response"))
    if output is None:
        return None
    response = output.to_document()
    usage = as_dict(response.get("usage"))
    names = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
    counts = {name: count for name, member in names if (count := as_int(payload.get(member)))}
    known = counts | usage
    if not payload.get("response_cost_failure_debug_info"):
        known |= without_none(cost=as_number(payload.get("response_cost")))
    if known:
        response["usage"] = known
    return response


def _error(payload: Members) -> Members:
    details = as_dict(payload.get("error_information"))
    text = as_text(details.get("error_message")) or as_text(payload.get("error_str")) or ""
    error: Members = {"type": as_text(details.get("error_class")) or "error", "message": text}
    code = as_text(details.get("error_code")) or ""
    if code.isascii() and code.isdecimal() and len(code) == 3:  # noqa: PLR2004 - HTTP
        error["status"] = int(code)
    return error


FORMAT = Format(name="litellm", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
