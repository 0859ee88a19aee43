"""Agent Lightning's events, as its store answers them: a JSON list, or an event in each line.

An event has `event_type`, `rollout_id`, `attempt_id`, `timestamp` (in seconds since 1970) and `data`. The gateway
writes a `model_request` for each call, with the request and the response as they were, ids of tokens among them. A
`reward` has a value. All other events are the user's own. Each attempt of a rollout is a run.

Source: `agentlightning/schemas.py` and `server/proxy.py` of 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.exchanges import model_endpoint
from trace_recorder.formats.foreign_runs.run import ForeignRun, HttpExchange, Members, TimedFact
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.token_counts import WHOLE

_EVENT = Signs(members=("event_type", "rollout_id", "attempt_id", "data"))
_PATHS = {"messages": "/v1/chat/completions", "prompt": "/v1/completions"}
"""The path of a call by a member of its request. An event does not state the path."""
_HOST = "http://gateway.invalid"
_READ = {"request", "response", "http_status", "latency_ms"}
_OK = 200


def recognizes(source: Source) -> bool:
    """Return whether the first line, or the first element of the document, is an event."""
    values = [*(line.value for line in source.first_lines[:1]), *as_list(source.document)[:1]]
    return any(_EVENT.match(as_dict(value)) for value in values)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each attempt of a rollout."""
    runs: dict[tuple[str, str], ForeignRun] = {}
    missing: list[TimedFact] = []
    lines: Iterable[Line] = source.each_line()
    if source.document is not None:
        lines = [Line(number, value) for number, value in enumerate(as_list(source.document), start=1)]
    for line in lines:
        event = as_dict(line.value)
        if line.why is not None or not _EVENT.match(event):
            missing.append(TimedFact.gap(what=f"line {line.number}", why=line.why or "it is not an event"))
            continue
        rollout, attempt = (as_text(event.get(name)) or "" for name in ("rollout_id", "attempt_id"))
        if (rollout, attempt) not in runs:
            metadata: Members = {"rollout": rollout, "attempt": attempt}
            runs[rollout, attempt] = ForeignRun(identity=f"{rollout}-{attempt}", metadata=metadata)
        _add(runs[rollout, attempt], event)
    for run in runs.values():
        run.events += missing
        missing = []
        yield run


def _add(run: ForeignRun, event: Members) -> None:
    """Add an event to the run of its attempt."""
    kind, data, time = as_text(event.get("event_type")), as_dict(event.get("data")), stated_time(event.get("timestamp"))
    value = as_number(data.get("value"))
    if kind == "model_request":
        _add_call(run, data, time)
    elif kind == "reward" and value is not None:
        run.events.append(TimedFact.reward(name="reward", value=value, time=time))
        rest = {name: member for name, member in data.items() if name != "value"}
        if rest:
            run.events.append(TimedFact.unread(what="reward", value=rest, time=time))
    else:
        run.events.append(TimedFact.unread(what=kind or "event", value=data, time=time))


def _add_call(run: ForeignRun, data: Members, time: str) -> None:
    """Add the exchange of a call, and what the gateway says of it beside."""
    request, response = as_dict(data.get("request")), data.get("response")
    path = next((path for member, path in _PATHS.items() if member in request), "")
    endpoint = model_endpoint("POST", _HOST + path)
    if endpoint is None:
        run.events.append(TimedFact.unread(what="model_request", value=data, time=time))
        return
    exchange = HttpExchange(
        time=time,
        endpoint=endpoint,
        url=_HOST + path,
        request=to_json(request).encode("utf-8", "replace"),
        headers=[(b"content-type", b"application/json")],
        status=as_int(data.get("http_status")) or (None if data.get("status") == "error" else _OK),
        response_headers=[(b"content-type", b"application/json")],
    )
    if exchange.status is None:
        exchange.error = {"type": "error", "message": to_json(response)}
    elif response is not None:
        exchange.response = to_json(response).encode("utf-8", "replace")
    latency = as_number(data.get("latency_ms"))
    if latency is not None:
        exchange.duration_seconds = max(0.0, latency / 1000)
    rest = {name: member for name, member in data.items() if name not in _READ}
    run.model = run.model or as_text(data.get("model"))
    run.events += [exchange, TimedFact.unread(what="model_request", value=rest, time=time)]


FORMAT = Format(name="agent-lightning", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
