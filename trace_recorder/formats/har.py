"""The calls to models in HAR files (HTTP Archive 1.2), as browsers, mitmproxy and other proxies write them.

Source: http://www.softwareishard.com/blog/har-12-spec/. An entry in `log.entries` has `startedDateTime`, `time` in
milliseconds, `request.postData.text` and `response.content.text`. The text is base64 if `encoding` is "base64". Bodies
are already decompressed. A `status` of 0 means that no response came. Chrome writes the reason to `_error`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.exchanges import (
    as_bytes,
    from_base64,
    header_pairs,
    model_endpoint,
    other_requests,
    with_gap,
)
from trace_recorder.formats.foreign_runs.run import Event, ForeignRun, HttpExchange, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time, time_after
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE


def recognizes(source: Source) -> bool:
    """Return whether the document is a log with entries."""
    log = as_dict(as_dict(source.document).get("log"))
    return isinstance(log.get("entries"), list) and "version" in log


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the calls to models in a log as one run, in the order in which they began."""
    log = as_dict(as_dict(source.document)["log"])
    events: list[Event] = []
    other_count = 0
    for number, entry in enumerate(as_list(log.get("entries")), start=1):
        exchange = _events(as_dict(entry), number)
        other_count += not exchange
        events += exchange
    creator = as_dict(log.get("creator"))
    yield ForeignRun(
        identity=source.path.name.removesuffix(".har"),
        events=[*sorted(events, key=lambda event: event.time), *other_requests(other_count)],
        source=without_none(tool=as_text(creator.get("name")), version=as_text(creator.get("version"))),
    )


def _events(entry: Members, number: int) -> list[Event]:
    """Return the exchange of an entry, and gaps for its unreadable parts.

    Return [] if the entry is not a call to a model.
    """
    request, response = as_dict(entry.get("request")), as_dict(entry.get("response"))
    url = as_text(request.get("url")) or ""
    endpoint = model_endpoint(request.get("method"), url)
    if endpoint is None:
        return []
    time, milliseconds = stated_time(entry.get("startedDateTime")), as_number(entry.get("time"))
    request_body = _body(as_dict(request.get("postData")))
    if request_body is None:
        return [TimedFact.gap(what=f"the request of entry {number}", why="its body is not in the file", time=time)]
    seconds = None
    if milliseconds is not None and milliseconds >= 0:
        seconds = milliseconds / 1000
    exchange = HttpExchange(
        time=time,
        endpoint=endpoint,
        url=url,
        request=request_body,
        headers=_headers(request),
        status=as_int(response.get("status")) or None,
        response_headers=_headers(response),
        duration_seconds=seconds,
        ended=time_after(time, seconds),
    )
    if exchange.status is None:
        exchange.error = {"type": "no response", "message": as_text(response.get("_error")) or ""}
    else:
        exchange.response = _response_body(as_dict(response.get("content")))
    return with_gap(exchange, f"entry {number}")


def _headers(message: Members) -> list[tuple[bytes, bytes]]:
    pairs = map(as_dict, as_list(message.get("headers")))
    return header_pairs((pair.get("name"), pair.get("value")) for pair in pairs)


def _response_body(content: Members) -> bytes | None:
    """Return the body of a response, or None if it is not in the file.

    If there is no text and the size is 0, return b"", because browsers write only the size of an empty body.
    """
    if "text" not in content and as_int(content.get("size")) == 0:
        return b""
    return _body(content)


def _body(content: Members) -> bytes | None:
    text: Payload = content.get("text")
    if not isinstance(text, str):
        return None
    if content.get("encoding") == "base64":
        return from_base64(text)
    return as_bytes(text)


FORMAT = Format(name="har", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
