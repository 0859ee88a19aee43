"""The framing of a stream: server-sent events, JSON lines, and the lines of AWS's frames, cut out of the whole text.

Events follow the WHATWG rules (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream)
as far as the SDKs do: lines end with LF, CR or CRLF, comments are skipped, the data lines of an event are joined with
LF, one space after the colon is not part of the value, and an event without a data line is no event. Unlike in a
browser, the last event counts even if the connection ended before its empty line: some servers end in that way. Nothing
here raises, also if the text was cut off. The dialects know the meaning of an event's data.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from trace_recorder.background_work import current_yield, yield_to_others
from trace_recorder.dialects.event_stream import LINE_BEGINS, frame_events
from trace_recorder.dialects.json_access import as_dict, json_value
from trace_recorder.values.messages import JoinedStream

SPLIT_AT_ONCE = 64 * 1024
"""About how many characters are split into lines at once."""


def events(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield each event of a stream: its name or None, and its data."""
    if text.startswith(LINE_BEGINS):
        yield from frame_events(text)
        return
    name: str | None = None
    data: list[str] = []
    let_others_run = current_yield.get()
    for line in chain.from_iterable(_line_blocks(text.removeprefix("\ufeff"))):
        if line.startswith("data:"):
            data.append(line[6:] if line.startswith(" ", 5) else line[5:])
        elif line.startswith("event:"):
            name = line[6:].removeprefix(" ") or None
        elif line == "data":
            data.append("")
        elif not line:
            if data:
                if let_others_run is not None:
                    let_others_run()
                yield name, data[0] if len(data) == 1 else "\n".join(data)
            name, data = None, []
    if data:
        yield name, "\n".join(data)


def json_lines(text: str) -> Iterator[str]:
    """Yield each line of a stream of JSON lines (NDJSON) that is not blank."""
    for line in chain.from_iterable(_line_blocks(text.removeprefix("\ufeff"))):
        if line.strip():
            yield_to_others()
            yield line


def unstreamed(text: str) -> JoinedStream:
    """Read an answer that is one JSON body instead of a stream, such as an error. It may also be empty."""
    body = json_value(text)
    if body is None:
        return JoinedStream(body={}, ended=False, events=0)
    return JoinedStream(body=body, ended=True, events=0, error=as_dict(body).get("error"))


def _line_blocks(text: str) -> Iterator[list[str]]:
    """Split at LF, CR and CRLF only: `str.splitlines` also splits at U+2028, which JSON strings may contain.

    The lines come in blocks, because no other thread runs during `str.split`.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    begin = 0
    while (end := text.find("\n", begin + SPLIT_AT_ONCE)) >= 0:
        yield text[begin:end].split("\n")
        begin = end + 1
    yield text[begin:].split("\n")
