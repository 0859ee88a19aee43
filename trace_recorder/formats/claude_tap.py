"""Traces of claude-tap, a proxy for programs that call models.

A trace has a record in each line, or is a compact bundle.

Source: claude-tap 0.1.146. A record has `request` (`method`, `path`, `headers`, `body` as JSON), `response` (`status`,
`headers`, `body`), `timestamp`, which is the time of the response's end, `duration_ms`, and `upstream_base_url`. The
body of a streamed response is the joined answer. The stream's events are in `sse_events` if `--tap-store-stream-events`
was given. A bundle has `records` and `blobs`; values in the records refer to blobs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, map_inside
from trace_recorder.formats.foreign_runs.exchanges import header_pairs, model_endpoint, other_requests, with_gap
from trace_recorder.formats.foreign_runs.run import Event, ForeignRun, HttpExchange, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time, time_after
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_BUNDLE, _RECORD, _BLOB = "__claude_tap_compact_trace__", "__claude_tap_compact_record__", "__claude_tap_blob_ref__"
_MAX_LEVELS = 4
"""A record is searched for references to blobs at most this many levels deep.

The elements of a list in a body are at the deepest of these levels.
"""


def recognizes(source: Source) -> bool:
    """Return whether the first line is a record of claude-tap, or the document is a bundle."""
    first = as_dict(next((line.value for line in source.first_lines), None))
    if {"request", "response", "duration_ms", "timestamp"} <= first.keys() and "path" in as_dict(first["request"]):
        return True
    return source.head[:40].lstrip(b"{ \r\n\t").startswith(b'"__claude') and _BUNDLE in as_dict(source.document)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the calls of a trace as one run."""
    run = ForeignRun(identity=source.path.name.partition(".")[0])
    other_count = 0
    for line in _records(source):
        events = _events(line)
        if any(isinstance(event, HttpExchange) for event in events):
            run.source |= without_none(tool=as_text(as_dict(as_dict(line.value).get("capture")).get("client")))
        other_count += not events
        run.events += events
    run.events += other_requests(other_count)
    yield run


def _records(source: Source) -> Iterable[Line]:
    document = source.document
    if not (isinstance(document, dict) and _BUNDLE in document):
        yield from source.lines()
        return
    blobs = _Blobs(as_dict(document.get("blobs")), source.max_run_bytes)
    for number, record in enumerate(as_list(document.get("records")), start=1):
        if _RECORD in as_dict(record):
            record_with_blobs = blobs.put_into(record.get("record"))
        else:
            record_with_blobs = blobs.put_into(record)
        if blobs.remaining < 0:
            yield Line(number, None, "it and all records after it are left out: their blobs are too large together")
            return
        yield Line(number, record_with_blobs)


class _Blobs:
    """The blobs of a bundle. Blobs of `remaining` bytes in total may still be put into records."""

    def __init__(self, blobs: Mapping[str, Payload], limit: int) -> None:
        self.remaining = limit
        self._blobs = blobs
        self._sizes: dict[str, int] = {}

    def put_into(self, value: Payload, depth: int = _MAX_LEVELS) -> Payload:
        """Return a value in which blobs replace the references to them.

        When the blobs exceed `remaining` bytes, references are returned unchanged.
        """
        if isinstance(value, dict) and _BLOB in value:
            return self._payload(value, as_text(as_dict(value[_BLOB]).get("hash")) or "")
        if depth == 0:
            return value
        return map_inside(lambda member: self.put_into(member, depth - 1), value)

    def _payload(self, reference: Payload, name: str) -> Payload:
        payload = as_dict(self._blobs.get(name)).get("payload", reference)
        if name not in self._sizes:
            self._sizes[name] = len(to_json(payload))
        self.remaining -= self._sizes[name]
        if self.remaining < 0:
            return reference
        return payload


def _events(line: Line) -> list[Event]:
    """Return the exchange of a record, and gaps for its unreadable parts.

    Return [] if the record is not a call to a model.
    """
    record = as_dict(line.value)
    if line.why is not None or not isinstance(record.get("request"), dict):
        return [TimedFact.gap(what=f"line {line.number}", why=line.why or "it has no request")]
    request, response = record["request"], as_dict(record.get("response"))
    url = (as_text(record.get("upstream_base_url")) or "").rstrip("/") + (as_text(request.get("path")) or "")
    endpoint = model_endpoint(request.get("method"), url)
    if endpoint is None:
        return []
    ended, milliseconds = stated_time(record.get("timestamp")), as_number(record.get("duration_ms"))
    seconds, time = None, ended
    if milliseconds is not None and milliseconds >= 0:
        seconds = milliseconds / 1000
        time = time_after(ended, -seconds) or ended
    status, body, events = as_int(response.get("status")), response.get("body"), as_list(response.get("sse_events"))
    exchange = HttpExchange(
        time=time,
        endpoint=endpoint,
        url=url,
        request=_as_sent(request.get("body")),
        headers=header_pairs(as_dict(request.get("headers")).items()),
        status=status,
        response_headers=header_pairs(as_dict(response.get("headers")).items()),
        duration_seconds=seconds,
        ended=ended,
    )
    is_stream = as_dict(request.get("body")).get("stream") is True and isinstance(body, dict) and (status or 0) < 400
    if is_stream:
        exchange.answer = body
    if events:
        exchange.response = "".join(map(_event_text, map(as_dict, events))).encode("utf-8", "replace")
    elif not is_stream and body is not None:
        exchange.response = _as_sent(body)
    return with_gap(exchange, f"line {line.number}")


def _as_sent(body: Payload) -> bytes:
    if not isinstance(body, str):
        body = to_json(body)
    data: bytes = body.encode("utf-8", "replace")
    return data


def _event_text(event: Members) -> str:
    name, text = as_text(event.get("event")), event.get("data")
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    lines = [f"data: {line}\n" for line in text.split("\n")]
    if name:
        lines.insert(0, f"event: {name}\n")
    return "".join(lines) + "\n"


FORMAT = Format(name="claude-tap", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
