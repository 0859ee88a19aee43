"""The corpus: real exchanges with real LLM APIs, recorded by others, read in place.

`load()` gives every exchange in a fixed order. An exchange's number is its position there, and names it in URLs. The
corpus is not part of the project: where it is absent, `load()` is empty, and the tests that need it are skipped with a
message.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

Payload = Any

DIRECTORY = Path(os.environ.get("TRACE_RECORDER_WIRE", Path(__file__).parents[3] / "shared" / "wire"))


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """A request with the response of a provider.

    `stream` says whether `response_text` is a stream. An exchange equals only itself, so it can be a key.
    """

    number: int
    source: str
    dialect: str
    host: str
    path: str
    query: str
    request: dict[str, Payload]
    status: int
    content_type: str | None
    response_text: str
    stream: bool

    @property
    def media_type(self) -> str:
        """Return the response's content type, or the provider's usual one if the recording has lost the header."""
        if self.content_type:
            return self.content_type
        if not self.stream:
            return "application/json"
        return "application/x-ndjson" if self.dialect.startswith("ollama") else "text/event-stream; charset=utf-8"


@cache
def load() -> tuple[Exchange, ...]:
    """Return the corpus in the order of its files and lines, or an empty list if there is no corpus."""
    rows: list[dict[str, Payload]] = []
    for path in sorted(DIRECTORY.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows += map(json.loads, lines)
    known = [field.name for field in fields(Exchange) if field.name != "number"]
    return tuple(Exchange(number, **{name: row[name] for name in known}) for number, row in enumerate(rows))


@cache
def kinds_of(exchange: Exchange) -> frozenset[Hashable]:
    """Return what is special in an exchange: its host and status, and the members of the request and the response.

    A member of the request with no value is a kind of its own. Each kind is a different one for another dialect, and
    for a stream.
    """
    kinds = {("host", exchange.host, exchange.path), ("status", exchange.status), *_members(exchange.request)}
    kinds |= {("response", name) for name in re.findall(r'"(\w{1,40})"\s*:', exchange.response_text)}
    return frozenset((exchange.dialect, exchange.stream, kind) for kind in kinds)


def _members(value: Payload) -> Iterator[tuple[str, str, bool]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield "request", name, not member
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _members(inner)
