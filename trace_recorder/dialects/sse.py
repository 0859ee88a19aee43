"""The frames of a stream: server-sent events and JSON lines, cut out of the whole text.

Events follow the WHATWG rules (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream)
as far as the SDKs do: lines end with LF, CR or CRLF, comments are passed over, the data lines of an event are joined
with LF, one space after the colon is no part of the value, an event without a data line is none. Unlike a browser,
the text's last event counts even where the connection ended before its empty line, since that is how some servers
end. Nothing here raises, wherever the text was cut off.

What an event's data means is for the dialects.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.background_work import breathing
from trace_recorder.dialects.json_access import as_dict, json_value
from trace_recorder.values.messages import JoinedStream

SPLIT_AT_ONCE = 64 * 1024
"""So many characters are cut into lines at once, or up to the end of the line that is longer."""


def events(text: str) -> Iterator[tuple[str | None, str]]:
    """Give each event of a stream: its name, None where it has none, and its data."""
    name: str | None = None
    data: list[str] = []
    breathe = breathing.get() or _work_on
    for line in _lines(text.removeprefix("\ufeff")):
        if line.startswith("data:"):
            data.append(line[6:] if line.startswith(" ", 5) else line[5:])
        elif line.startswith("event:"):
            name = line[6:].removeprefix(" ") or None
        elif line == "data":
            data.append("")
        elif not line:
            if data:
                breathe()
                yield name, data[0] if len(data) == 1 else "\n".join(data)
            name, data = None, []
    if data:
        yield name, "\n".join(data)


def json_lines(text: str) -> Iterator[str]:
    """Give each line of a stream of JSON lines (NDJSON) that is not blank."""
    breathe = breathing.get() or _work_on
    for line in _lines(text.removeprefix("\ufeff")):
        if line.strip():
            breathe()
            yield line


def _work_on() -> None:
    """Take no breath: somebody waits."""


def unstreamed(text: str) -> JoinedStream:
    """Read a text that was to be a stream but is one JSON body, as an error answer is, or nothing at all."""
    body = json_value(text)
    if body is None:
        return JoinedStream(body={}, ended=False, events=0)
    return JoinedStream(body=body, ended=True, events=0, error=as_dict(body).get("error"))


def _lines(text: str) -> Iterator[str]:
    """Cut at LF, CR and CRLF only: `str.splitlines` would also cut at U+2028 inside a JSON string.

    It is cut bit by bit: no other thread runs while a text is split.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    begin = 0
    while (end := text.find("\n", begin + SPLIT_AT_ONCE)) >= 0:
        yield from text[begin:end].split("\n")
        begin = end + 1
    yield from text[begin:].split("\n")
