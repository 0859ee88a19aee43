"""Traces of claude-tap, a proxy for the programs that call models: lines, or a compact bundle.

Source: claude-tap 0.1.146. A record has `request` (`method`, `path`, `headers`, `body` as JSON), `response` (`status`,
`headers`, `body`), `timestamp`, which is the time of its end, `duration_ms`, and `upstream_base_url`. The body of a
stream is the answer that it makes; its events are in `sse_events` if `--tap-store-stream-events` was given. A bundle
has `records`, and `blobs` to which values in them refer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, map_inside
from trace_recorder.imports.foreign.clocks import later, stated_time
from trace_recorder.imports.foreign.run import Event, Exchange, ForeignRun, Members, Missing
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.imports.foreign.wire import header_pairs, model_endpoint, other_requests
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload, without_none

_BUNDLE, _RECORD, _BLOB = "__claude_tap_compact_trace__", "__claude_tap_compact_record__", "__claude_tap_blob_ref__"
_INSIDE = 4
"""How deep in a record a blob may be: in an element of a list of a body."""


def recognizes(source: Source) -> bool:
    """Whether the first line is such a record, or the document such a bundle."""
    first = as_dict(next((line.value for line in source.first_lines), None))
    if {"request", "response", "duration_ms", "timestamp"} <= first.keys() and "path" in as_dict(first["request"]):
        return True
    return _BUNDLE in as_dict(
        source.document if source.head[:40].lstrip(b"{ \r\n\t").startswith(b'"__claude') else None
    )


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the calls of a trace as one run."""
    run = ForeignRun(identity=source.path.name.partition(".")[0])
    others, left = 0, source.max_run_bytes
    for line in _records(source):
        event = _event(line)
        if isinstance(event, Exchange):
            left -= len(event.request)
            run.source |= without_none(**_client(as_dict(line.value)))
        if left < 0:
            run.events.append(
                Missing(what=f"record {line.number} and those after it", why="they are too large together")
            )
            break
        others += event is None
        run.events += [] if event is None else [event]
    run.events += other_requests(others)
    yield run


def _client(record: Members) -> dict[str, str | None]:
    return {"tool": as_text(as_dict(record.get("capture")).get("client"))}


def _records(source: Source) -> Iterable[Line]:
    document = source.document
    if not (isinstance(document, dict) and _BUNDLE in document):
        yield from source.lines()
        return
    blobs = as_dict(document.get("blobs"))
    for number, record in enumerate(as_list(document.get("records")), start=1):
        inner = as_dict(record).get("record") if _RECORD in as_dict(record) else record
        yield Line(number, _with_blobs(inner, blobs, _INSIDE))


def _with_blobs(value: Payload, blobs: Mapping[str, Payload], depth: int) -> Payload:
    """Return a value with the blobs that it refers to in their places."""
    if isinstance(value, dict) and _BLOB in value:
        return as_dict(blobs.get(as_text(as_dict(value[_BLOB]).get("hash")) or "")).get("payload", value)
    return map_inside(lambda one: _with_blobs(one, blobs, depth - 1), value) if depth else value


def _event(line: Line) -> Event | None:
    """Return the exchange of a record; None if it is no call to a model."""
    record = as_dict(line.value)
    if line.why is not None or not isinstance(record.get("request"), dict):
        return Missing(what=f"line {line.number}", why=line.why or "it has no request")
    request, response = record["request"], as_dict(record.get("response"))
    url = (as_text(record.get("upstream_base_url")) or "").rstrip("/") + (as_text(request.get("path")) or "")
    endpoint = model_endpoint(request.get("method"), url)
    if endpoint is None:
        return None
    ended, milliseconds = stated_time(record.get("timestamp")), as_number(record.get("duration_ms"))
    seconds = None if milliseconds is None or milliseconds < 0 else milliseconds / 1000
    status, body, events = as_int(response.get("status")), response.get("body"), as_list(response.get("sse_events"))
    is_stream = as_dict(request.get("body")).get("stream") is True and isinstance(body, dict) and (status or 0) < 400
    if events:
        data: bytes | None = "".join(map(_event_text, map(as_dict, events))).encode("utf-8", "replace")
    else:
        data = None if is_stream or body is None else _as_sent(body)
    return Exchange(
        time=(later(ended, -seconds) if seconds else "") or ended,
        endpoint=endpoint,
        url=url,
        request=_as_sent(request.get("body")),
        headers=header_pairs(as_dict(request.get("headers")).items()),
        status=status,
        response_headers=header_pairs(as_dict(response.get("headers")).items()),
        response=data,
        answer=body if is_stream else None,
        duration_seconds=seconds,
        ended=ended,
    )


def _as_sent(body: Payload) -> bytes:
    return body.encode("utf-8", "replace") if isinstance(body, str) else to_json(body).encode("utf-8", "replace")


def _event_text(event: Members) -> str:
    name, data = as_text(event.get("event")), event.get("data")
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "") + "".join(f"data: {line}\n" for line in text.split("\n")) + "\n"
