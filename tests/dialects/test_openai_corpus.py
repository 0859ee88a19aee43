"""The corpus's exchanges of the OpenAI dialects: read as the SDK reads them, completely, and for streams that are cut
anywhere.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec import to_builtins

from tests.dialects.table_openai import DIALECTS, EXCEPTIONS, differences, exchanges
from tests.searching import covering
from tests.wire.corpus import DIRECTORY, kinds_of, load
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.values.messages import Payload

pytestmark = pytest.mark.skipif(not load(), reason=f"no corpus of real exchanges in {DIRECTORY}")

CUTS = 50
# Words that only name the kind of a thing, which the values express by their type.
KINDS = {
    "function",
    "text",
    "function_call",
    "function_call_output",
    "input_text",
    "output_text",
    "message",
    "assistant",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_we_read_the_same_as_the_sdk(dialect):
    """Content, reasoning, calls, finish reason, usage, id and model equal the SDK's, with named exceptions."""
    assert differences(covering(exchanges(dialect), kinds_of, 2)).keys() - EXCEPTIONS.keys() == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_text_or_number_is_lost(dialect):
    """Every text and number of a request or a response is in its reading, except the vectors of embeddings."""
    reader = dialect_of(dialect)
    lost: Counter[Payload] = Counter()
    for exchange in exchanges(dialect):
        text = exchange.response_text
        body = reader.join_stream(text).body if exchange.stream else json.loads(text or "{}")
        came = {
            key: value for key, value in body.items() if key not in {"data", "embedding"} or dialect != "embeddings"
        }
        if isinstance(usage := came.get("usage"), dict) and usage.get("is_byok"):  # our cost adds the upstream bill
            came = {**came, "usage": {name: value for name, value in usage.items() if name != "cost"}}
        lost |= Counter(leaves(exchange.request)) - Counter(leaves(to_builtins(reader.read_request(exchange.request))))
        lost |= Counter(leaves(came)) - Counter(leaves(to_builtins(reader.read_response(body))))
    assert set(lost) - KINDS == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_incomplete_stream_can_be_joined(dialect):
    """A stream is cut at many random places. Its content is a beginning of the whole content. CI has two streams of
    each kind.
    """
    reader, chance = dialect_of(dialect), random.Random(8)
    for exchange in covering([exchange for exchange in exchanges(dialect) if exchange.stream], kinds_of, 2):
        text = exchange.response_text
        whole = content_of(reader, text)
        cuts = [chance.randrange(len(text) + 1) for _ in range(CUTS)]
        assert [cut for cut in cuts if not whole.startswith(content_of(reader, text[:cut]))] == []


def content_of(reader: Payload, text: str) -> str:
    """Join a stream and return its content."""
    return reader.read_response(reader.join_stream(text).body).content or ""


def leaves(value: Payload) -> Iterator[Payload]:
    """Return the texts and numbers in a JSON value. A text that is a JSON object, such as arguments, counts as one
    text.
    """
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            yield value
            return
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)
    elif value is not None:
        yield value
