"""Every kind of secret in every place, through the recorder.

`python -m tests.secrets.everywhere` prints the table. A place is a way into a run, or an encoding of a secret in it.
Each place is one run with a secret of every kind. A secret is missed if any byte of the two files, unpacked or not, has
it, plain or in the place's encoding.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from tests.chat_calls import Answer, asked, call, run_of, said, streamed
from tests.limits import limited
from tests.secrets.corpus import Key, keys
from trace_recorder import TrajectoryRecorder
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.values.messages import Payload

_PACKED = re.compile(rb'"(?:zlib|base64)":"([^"]*)"')
_PIECE = re.compile(rb'"(?:content|arguments|partial_json|text|thinking|delta)": ?"((?:[^"\\]|\\.)*)"')

Say = Callable[[TrajectoryRecorder, Sequence[str]], None]
Encode = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Place:
    """A way into a run, and the form of a secret's text there. `encoded` returns the form of its letters."""

    say: Say
    form: Encode = str
    encoded: Encode = str


def each(say: Callable[[TrajectoryRecorder, str], None]) -> Say:
    """Answer one call with each text."""

    def all_of_them(recorder: TrajectoryRecorder, texts: Sequence[str]) -> None:
        for text in texts:
            say(recorder, text)

    return all_of_them


def once(say: Callable[[TrajectoryRecorder, str], None]) -> Say:
    """Answer one call with all texts."""
    return lambda recorder, texts: say(recorder, "\n\n".join(texts))


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _tokens(text: str) -> list[str]:
    return re.findall(r"\s?[A-Za-z]{1,5}|\d{1,3}|\s?[^A-Za-z\d]", text)


def _spoken(cut: Callable[[str], list[str]]) -> Say:
    return each(lambda r, s: call(r, asked("x", stream=True), streamed("it is ", *cut(s), " so")))


def _called(text: str) -> Answer:
    """Answer with a stream of a tool call's arguments, four characters in each event."""
    arguments = json.dumps({"command": text, "timeout": 5})
    events: list[Payload] = [{"id": "c1", "function": {"name": "bash", "arguments": ""}}]
    events += [{"function": {"arguments": piece}} for piece in _pieces(arguments, 4)]
    chunks = [
        {"id": "s", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **event}]}}]} for event in events
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return Answer(f"{body}data: [DONE]\n\n".encode(), media="text/event-stream")


def _anthropic(text: str) -> Answer:
    events: list[Payload] = [{"type": "message_start", "message": {"id": "m", "content": []}}]
    events += [{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]
    delta = {"type": "content_block_delta", "index": 0}
    events += [{**delta, "delta": {"type": "text_delta", "text": piece}} for piece in _pieces(text, 4)]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Answer(body.encode(), media="text/event-stream")


def _page(text: str) -> Answer:
    return Answer(f"<p>\n{text}\n</p>".encode(), status=502, media="text/html")


_message = each(lambda r, s: r.record_llm_interaction([{"role": "user", "content": s}], "x", "p", "m"))


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def _tool_error(recorder: TrajectoryRecorder, text: str) -> None:
    recorder.record_agent_step(1, "x", tool_results=[{"call_id": "1", "success": False, "error": text}])


PLACES: dict[str, Place] = {
    "messages": Place(_message),
    "responses": Place(each(lambda r, s: r.record_llm_interaction([], {"content": s}, "p", "m"))),
    "task": Place(lambda r, texts: None),
    "metadata": Place(lambda r, texts: None),
    "annotations": Place(each(lambda r, s: r.annotate("a", {"b": [s]}))),
    "final result": Place(lambda r, texts: None),
    "tool arguments": Place(
        each(
            lambda r, s: r.record_agent_step(1, "x", tool_calls=[{"name": "t", "call_id": "1", "arguments": {"a": s}}])
        )
    ),
    "tool results": Place(
        each(lambda r, s: r.record_agent_step(1, "x", tool_results=[{"call_id": "1", "result": f"$ cat f\n{s}\n$ "}]))
    ),
    "tool errors": Place(each(_tool_error)),
    "exceptions": Place(each(lambda r, s: r.record_agent_step(1, "error", error=RuntimeError(f"failed: {s}")))),
    "reflections": Place(each(lambda r, s: r.record_agent_step(1, "x", reflection=f"I saw this: {s}"))),
    "gaps": Place(each(lambda r, s: run_of(r).guard.queue_failure("read it", f"it was {s}"))),
    "captured requests": Place(once(lambda r, s: call(r, asked(s), said("x")))),
    "large messages": Place(each(lambda r, s: call(r, asked(f"{'x ' * 4500}\n{s}\n{'y ' * 50}"), said("x")))),
    "captured responses": Place(once(lambda r, s: call(r, asked("x"), said(s)))),
    "captured tool calls": Place(
        each(lambda r, s: call(r, asked("x"), said(None, calls=[("c", "bash", json.dumps({"command": s}))])))
    ),
    "error bodies": Place(
        each(lambda r, s: call(r, asked("x"), Answer(json.dumps({"error": {"message": s}}).encode(), status=401)))
    ),
    "bodies that are no JSON": Place(
        # In its own context, the call is not a second attempt of the call before.
        each(lambda r, s: copy_context().run(call, r, asked("x"), _page(s)))
    ),
    "streams, whole": Place(_spoken(lambda text: [text])),
    "streams, token by token": Place(_spoken(_tokens)),
    "streams, 4 characters an event": Place(_spoken(lambda text: _pieces(text, 4))),
    "streams of tool calls": Place(each(lambda r, s: call(r, asked("x", stream=True), _called(s)))),
    "streams of blocks": Place(each(lambda r, s: call(r, asked("x", stream=True), _anthropic(s)))),
    "JSON in JSON": Place(_message, lambda s: json.dumps({"output": s}), lambda s: json.dumps(s)[1:-1]),
    "JSON in JSON, twice": Place(
        _message, lambda s: json.dumps({"a": json.dumps({"b": s})}), lambda s: json.dumps(json.dumps(s)[1:-1])[1:-1]
    ),
    "JSON, letters escaped": Place(
        each(
            lambda r, s: call(r, f'{{"model":"m","messages":[{{"role":"user","content":"{_escaped(s)}"}}]}}', said("x"))
        ),
        encoded=_escaped,
    ),
    "URL-encoded": Place(_message, lambda s: f"https://h/?q={quote(s, safe='')}&n=1", lambda s: quote(s, safe="")),
    "base64": Place(
        _message,
        lambda s: f"echo {base64.b64encode(s.encode()).decode()} | base64 -d",
        lambda s: base64.b64encode(s.encode()).decode(),
    ),
    "Python's repr": Place(_message, lambda s: repr({"output": s}), lambda s: repr(s)[1:-1]),
    "Markdown": Place(_message, lambda s: f"Set this:\n\n```\n{s}\n```\nor `{s}`, please."),
    "a diff": Place(
        _message, lambda s: "\n".join(f"+{line}" for line in s.split("\n")), lambda s: s.replace("\n", "\n+")
    ),
    "a log": Place(_message, lambda s: "\n".join(f"2025-06-12T22:05:46Z INFO [app] {line}" for line in s.split("\n"))),
    "colours of a terminal": Place(_message, lambda s: f"\x1b[32m{s}\x1b[0m"),
    "YAML, a block": Place(_message, lambda s: "data: |\n" + "\n".join(f"    {line}" for line in s.split("\n"))),
}


def bytes_of(path: Path) -> bytes:
    """Return every byte of both files, with unpacked contents, and the texts of streams."""
    files = [path.read_bytes(), path.with_suffix(".jsonl").read_bytes()]
    packed = [base64.b64decode(found[1]) for file in files for found in _PACKED.finditer(file)]
    streams = b"".join(zlib.decompress(one) for one in packed if one.startswith(b"\x78"))
    spelled = [bytes_said(piece) for piece in _PIECE.findall(streams)]
    plainer = [json.loads(b'"%s"' % string).encode("utf-8", "replace") for string in set(_strings(files))]
    return b"\n".join([*files, *packed, streams, b"".join(spelled), *plainer])


def bytes_said(piece: bytes) -> bytes:
    """Return a part of a stream's text, without the escapes of JSON."""
    return json.loads(b'"%s"' % piece).encode("utf-8", "replace")


def _strings(files: Sequence[bytes]) -> Iterator[bytes]:
    for file in files:
        yield from re.findall(rb'"((?:[^"\\]|\\.)*)"', file)


_Recorder = limited(document=DocumentLimits(at_once_bytes=0))
"""A recorder whose documents are written by the thread and at the end, and not with each of the hundreds of records."""


@cache
def samples() -> tuple[Key, ...]:
    """Return a secret of every kind."""
    return keys(1)


def missed(name: str, directory: Path, kinds: Sequence[Key] | None = None) -> list[str]:
    """Return the kinds of secret that are not masked in a run with all of them in this place."""
    kinds = samples() if kinds is None else kinds
    place = PLACES[name]
    texts = [place.form(key.text) for key in kinds]
    together = "\n\n".join(texts)
    recorder = _Recorder(
        directory / f"{name.replace(' ', '_').replace(',', '')}.json",
        task=together if name == "task" else "x",
        metadata={"a": texts} if name == "metadata" else None,
    )
    recorder.start()
    place.say(recorder, texts)
    recorder.finalize(success=True, final_result=together if name == "final result" else None)
    there = bytes_of(recorder.trajectory_path)
    return [key.service for key in kinds if any(part in there for part in _parts(place, key))]


def _parts(place: Place, key: Key) -> Iterator[bytes]:
    """Return the part of a secret that must not appear: the longest drawn part, plain and in the place's encoding."""
    yield key.longest.encode()
    encoded = place.encoded(key.text)
    if place.encoded is not str and len(encoded) > 40:
        yield (encoded[12:-12] if place.form is not str else encoded).encode()


def main() -> None:
    """Print the table."""
    total = leaked = 0
    with tempfile.TemporaryDirectory() as directory:
        print(f"{len(samples())} kinds of secrets in {len(PLACES)} places")
        for name in PLACES:
            found = missed(name, Path(directory))
            total, leaked = total + len(samples()), leaked + len(found)
            shown = ", ".join(found[:8]) if "-v" not in sys.argv else ", ".join(found)
            print(f"{name:32} {len(found):4} missed {shown}", flush=True)
    print(f"{leaked} of {total} came through")


if __name__ == "__main__":
    main()
