"""Journals of a malicious writer: any order of records, with a valid CRC, whose members have any type.

The records are made from the schema of the journal, so a new kind or member is tried without a change here. Most
members have the type of the schema, because a reader leaves out a record with a wrong id. There are few ids and
numbers, so that most records belong together.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.journals import TIME, journal_of
from tests.poison.retyped_runs import OTHERS
from trace_recorder.facts import KINDS
from trace_recorder.reading.schemas.json_schema import journal_schema
from trace_recorder.storage.journal_reader import SCHEMA, VERSION

Payload = Any

_DEFINITIONS = journal_schema()["$defs"]
_WRONG = st.sampled_from(OTHERS).map(lambda make: make())
_TEXTS = st.sampled_from(["a", "b", "openai-chat", "anthropic-messages", "openai", "assistant", "user", "tool", TIME])
_MESSAGE: Payload = {
    "role": "assistant",
    "content": [{"type": "text", "text": "a"}],
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
}
_ANSWER: Payload = {"id": "a", "model": "b", "choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}]}
_BODIES = st.sampled_from(
    [
        {"model": "a", "messages": [_MESSAGE, {"role": "tool", "tool_call_id": "a", "content": "b"}]},
        {**_ANSWER, "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        [_MESSAGE],
        {"content": "a", "tool_calls": [{"call_id": "a", "name": "b", "arguments": {}}]},
        {"call_id": "a", "result": "b", "success": True},
    ]
)

_ANY = st.one_of(_BODIES, _TEXTS, _WRONG)
_SCALARS = {
    "string": _TEXTS,
    "integer": st.integers(0, 4),
    "number": st.sampled_from([0, 0.5, 2]),
    "boolean": st.booleans(),
    "null": st.none(),
}


def _values(schema: dict[str, Payload]) -> st.SearchStrategy[Payload]:
    """Return a strategy for values of a JSON Schema, whose members may have other types."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: _values(_DEFINITIONS[name]))
    if "anyOf" in schema:
        return st.one_of(*map(_values, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return _values_of_type(schema)


def _values_of_type(schema: dict[str, Payload]) -> st.SearchStrategy[Payload]:
    kind = schema.get("type")
    if kind == "array":
        return st.lists(_or_wrong(_values(schema.get("items", {}))), max_size=3)
    if kind == "object" and "properties" in schema:
        members = {name: _or_wrong(_values(inner)) for name, inner in schema["properties"].items()}
        required = {name: members.pop(name) for name in schema["required"]}
        return st.fixed_dictionaries(required, optional=members)
    if kind == "object":
        inner = _or_wrong(_values(schema.get("additionalProperties", {})))
        return st.dictionaries(st.sampled_from(["messages", "input", "tools", "a"]), inner, max_size=2)
    if "[0-9a-f]" in schema.get("pattern", ""):
        return st.just("00000000")
    return _SCALARS.get(kind, _ANY)


def _or_wrong(right: st.SearchStrategy[Payload]) -> st.SearchStrategy[Payload]:
    return st.sampled_from([right] * 7 + [_WRONG]).flatmap(lambda strategy: strategy)


_RECORDS = st.one_of(
    *(st.tuples(st.just(kind), _values(_DEFINITIONS[shape.__name__])) for kind, shape in KINDS.items())
)


def journals() -> st.SearchStrategy[bytes]:
    """Return a strategy for journals of at most 12 records."""
    frame = {"schema": SCHEMA, "version": VERSION}
    first = _values(_DEFINITIONS["StartFact"]).map(lambda data: ("start", {**data, **frame}))
    return st.tuples(first, st.lists(_RECORDS, max_size=12)).map(lambda parts: journal_of(parts[0], *parts[1]))
