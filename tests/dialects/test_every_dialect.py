"""The rule for all dialects: no reader refuses any JSON or text from a provider.

The values are drawn by `Random`, because Hypothesis takes many times as long to draw them. A failure names the seed.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from random import Random, randrange

import pytest
from hypothesis import settings

from trace_recorder.dialects.dialect import DIALECTS, Dialect
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading

SHARED = """
    role content name type text function arguments tool_calls tool_call_id id index delta message finish_reason usage
    error thinking thought reasoning reasoning_content parts summary status output {"a {}
"""
"""Words that readers take from shared functions, and texts that are arguments."""
LEAVES: tuple[Payload, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**70, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "x", " ", "ä\n\u2028", "\0", "\ud800", "[1", "1e999"),
)
STARTS = ("data: ", "event: error\ndata: ", "event: response.x_y.delta\ndata: ", ": ", "")
LETTERS = 'data: event{}[]",:\\\r\n0.5eä\u2028\ufeff\0'


@cache
def words_of(name: str) -> list[str]:
    """Return every string in the source of a dialect, and the shared words."""
    source = inspect.getsource(sys.modules[DIALECTS[name].read_request.__module__])
    return sorted({*re.findall(r'"([\w.]+)"', source), *SHARED.split()})


def seeds() -> Iterator[int]:
    """Yield three seeds for each example of a property, the same each time, or in a search ten new ones."""
    profile = settings()
    first, each = (0, 3) if profile.derandomize else (randrange(2**32), 10)
    yield from range(first, first + each * profile.max_examples)


def any_json(random: Random, words: list[str], depth: int = 5) -> Payload:
    """Return random JSON made of these words."""
    kind = random.randrange(10) if depth else 9
    if kind < 3 and depth < 5:
        return [any_json(random, words, depth - 1) for _ in range(random.randrange(4))]
    if kind < 5 or depth == 5:
        return {random.choice(words): any_json(random, words, depth - 1) for _ in range(random.randrange(4 * depth))}
    return random.choice(words) if kind < 7 else random.choice(LEAVES)


def any_stream(random: Random, words: list[str]) -> str:
    """Return a random text, or events, lines or a list of random JSON."""
    values = [any_json(random, words, random.choice((5, 5, 1))) for _ in range(random.randrange(6))]
    kind = random.randrange(4)
    if kind == 0:
        return "".join(random.choices(LETTERS, k=random.randrange(80)))
    if kind == 1:
        return "".join(f"{random.choice(STARTS)}{json.dumps(value)}\n\n" for value in values)
    return "\n".join(map(json.dumps, values)) if kind == 2 else json.dumps(values)


def read_message(dialect: Dialect, element: Payload) -> list[Message]:
    return dialect.history.read_message(element) if dialect.history else []


@pytest.mark.parametrize("name", DIALECTS)
def test_any_json_is_read(name: str) -> None:
    """A request, a message and a response of any form are read."""
    dialect, words = DIALECTS[name], words_of(name)
    for seed in seeds():
        random = Random(seed)
        body = any_json(random, words, random.choice((5, 5, 5, 1)))

        assert isinstance(dialect.read_request(body), RequestReading), seed
        assert isinstance(dialect.read_response(body, random.randrange(4)), LLMResponse), seed
        assert all(isinstance(message, Message) for message in read_message(dialect, body)), seed


@pytest.mark.parametrize("name", DIALECTS)
def test_any_text_is_joined(name: str) -> None:
    """Any text is joined as a stream, and the result is read. An error of the stream is in its body."""
    dialect, words = DIALECTS[name], words_of(name)
    for seed in seeds():
        joined = dialect.join_stream(any_stream(Random(seed), words))

        assert (type(joined), type(dialect.read_response(joined.body))) == (JoinedStream, LLMResponse), seed
        assert joined.error is None or as_dict(joined.body).get("error") is not None, seed
