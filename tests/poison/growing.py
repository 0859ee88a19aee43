"""Texts, JSON, streams and journals of any length that are slow to read, and the operations on each.

The work must grow with their length, and not with its square. `test_growth.py` counts the executed lines of our code.
The work within regular expressions and other built-in code can only be timed: `python -m benchmarks.growth`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping

from tests.poison.mutations import APIS
from tests.secrets.corpus import keys
from trace_recorder.dialects.dialect import join_stream
from trace_recorder.dialects.stream_framing import events, json_lines
from trace_recorder.storage.items.encoder import ItemEncoder
from trace_recorder.storage.journal_reader import read_records
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.json_text import NotJsonError, one_line, parse, split_members
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.messages import Payload

UNITS = (
    *(
        "{",
        "[",
        "[{",
        '{"a":',
        '"',
        "\\",
        '\\"',
        '"\\',
        "\\u",
        "\\ud800",
        "\\ud83d\\ude00",
        " ",
        "\t",
        "\n",
        "\r",
        "\r\n",
    ),
    *("data:", "data: x\n", "data:\n\n", "data: {}\n\n", "event: x\n", ":\n", "data: [", 'data: "\n'),
    *(
        "eyJ-",
        "-eyJaaaaaaaa",
        "eyJaaaaaaaa.",
        ".eyJ",
        "sk-",
        "sk-ant-",
        "-sk-a1",
        "sk-a-",
        "xoxb-",
        "xox",
        "AIza",
        "-AIza",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "-----BEGIN A",
        "-----END PRIVATE KEY-----\n",
        "A",
        "a",
        "a1",
        "-",
        "_",
    ),
    *(
        "://",
        "://a:",
        "://a:a",
        ":\\/\\/a:",
        "a:b@",
        "@",
        "?key=a",
        "&key=",
        "KEY=",
        "API_KEY=a",
        "TOKEN=\\",
        "A_",
        "Bearer ",
    ),
    *(
        '"api_key": "',
        '"a_password":',
        '"api_key": ',
        "api_",
        '\\"api_key\\"',
        "uthorization: basic ",
        "Bearer a",
        "[REDACTED:",
    ),
    *(
        "gh",
        "ghp_a",
        "hf_",
        "r8_a",
        "fw_A1",
        "dapi",
        "SG.a",
        "SG.aaaaaaaaaaaaaaaaaaaaaa.",
        "hooks.slack.com/services/A/",
    ),
)
TEXTS = {
    **{f"many {unit!r}": lambda size, unit=unit: (unit * size)[:size] for unit in UNITS},
    **{
        f"many of {key.service}": lambda size, key=key: (key.text[: len(key.text) * 2 // 3] * size)[:size]
        for key in keys(1)
    },
}
JSONS: dict[str, Callable[[int], str]] = {
    "members with secret names": lambda size: json.dumps([{"api_key": "a1b2c3d4"}] * (size // 30)),
    "a secret name, then space": lambda size: f'{{"api_key":{" " * size}"a1b2c3d4"}}',
    "names with space behind": lambda size: "{" + ",".join(f'"password{n}" : "x"' for n in range(size // 20)) + "}",
    "escapes": lambda size: json.dumps(['ü\n\\"sk-' * (size // 20)]),
    "escapes that spell keys": lambda size: '["' + "\\u0073\\u006b-a1" * (size // 16) + '"]',
    "brackets in texts": lambda size: json.dumps(["[{" * (size // 2)] * 2),
    "numbers": lambda size: json.dumps(list(range(size // 6))),
    "one text": lambda size: json.dumps("x" * size),
    "small texts": lambda size: json.dumps([""] * (size // 4)),
}


def chat(choice: Payload) -> str:
    """Return a chunk of a chat."""
    return f"data: {json.dumps({'choices': [{'index': 0, **choice}]})}\n\n"


def said(text: str) -> str:
    """Return a chunk of a chat with a text."""
    return chat({"delta": {"content": text}})


def called(number: int) -> str:
    """Return a chunk of a chat that begins a tool call."""
    return chat({"delta": {"tool_calls": [{"index": number, "id": f"c{number}", "function": {"name": "f"}}]}})


def block(number: int) -> str:
    """Return an event that begins a block of a message."""
    event = {"type": "content_block_start", "index": number, "content_block": {"type": "text", "text": ""}}
    return f"data: {json.dumps(event)}\n\n"


DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
OUTPUT = {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "x"}
PART = {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}
LINE = {"message": {"content": "x", "tool_calls": [{"function": {"name": "f"}}]}}
STREAMS: dict[str, Callable[[int], str]] = {
    "letters": lambda size: said("s") * (size // 70),
    "keys, letter by letter": lambda size: "".join(map(said, ("sk-a1b2c3d4e5f6g7h8i9j0k1 " * size)[: size // 70])),
    "calls": lambda size: "".join(map(called, range(size // 150))),
    "blocks": lambda size: "".join(map(block, range(size // 120))),
    "one block": lambda size: f"data: {json.dumps(DELTA)}\n\n" * (size // 120),
    "output": lambda size: f"data: {json.dumps(OUTPUT)}\n\n" * (size // 120),
    "parts": lambda size: f"data: {json.dumps(PART)}\n\n" * (size // 70),
    "lines": lambda size: f"{json.dumps(LINE)}\n" * (size // 80),
}
JOURNALS: dict[str, Callable[[int], bytes]] = {
    "beginnings": lambda size: b'{"seq":1,"time":"","kind":"' * (size // 27),
    "ends": lambda size: b',"crc":"00000000"}' * (size // 18),
    "beginnings and ends": lambda size: b'{"seq":1,"time":"","kind":"","data":{},"crc":"00000000"}' * (size // 55),
    "a beginning, then ends": lambda size: b'{"seq":1,"time":"","kind":"' + b',"crc":"00000000"}' * (size // 18),
    "quotes": lambda size: b'{"seq":1,"time":"' * (size // 17),
    "digits": lambda size: b'{"seq":' + b"1" * size,
    "NULs": lambda size: b"\0" * size,
    "empty lines": lambda size: b"\n" * size,
    "short lines": lambda size: b"{\n" * (size // 2),
}


def redaction() -> Redaction:
    return Redaction(default_redactor, {"A_TOKEN": "hunter2hunter2", "B_TOKEN": "aaaaaaaaaaaaaaaa"})


def look(text: str) -> None:
    """Pass a text through the functions that read streams and bodies."""
    masking = redaction()
    default_redactor(text)
    masking.mask_plain(text)
    masking.mask_stream(text.encode(), last=False)
    one_line(text)
    list(events(text)), list(json_lines(text))
    with contextlib.suppress(NotJsonError):
        parse(text)
    split_members(text)


def take(text: str) -> None:
    """Pass a JSON text through the functions that read JSON."""
    parse(text)
    redaction().mask(text)
    redaction().mask_stream(f"data: {text}\n\n".encode())
    to_jsonable(json.loads(text))
    ItemEncoder().encode(f'{{"messages":[{text}],"x":{text}}}'.encode())


def join(text: str) -> None:
    redaction().mask_stream(text.encode(), last=False)
    for api in APIS:
        join_stream(api, text.encode())


def split(data: bytes) -> None:
    list(read_records(data))


WORKS: dict[str, tuple[Callable[..., None], Mapping[str, Callable[[int], str | bytes]]]] = {
    "text": (look, TEXTS),
    "JSON": (take, JSONS),
    "stream": (join, STREAMS),
    "journal": (split, JOURNALS),
}
"""The operations on each kind of text."""


def work(kind: str, name: str, size: int) -> Callable[[], None]:
    """Prepare a text of a size, and return the work on it, which may refuse a text that is not JSON."""
    act, made = WORKS[kind]
    text = made[name](size)

    def done() -> None:
        with contextlib.suppress(NotJsonError):
            act(text)

    return done
