"""Large strings are extracted from a request before it is parsed, which does not change the records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.written import Writing
from tests.storage.items.store import LARGE, records
from trace_recorder import load
from trace_recorder.facts import ItemFact
from trace_recorder.storage.items.encoder import ItemEncoder, Prepared
from trace_recorder.storage.items.large_strings import MIN_STRING_CHARACTERS, reduce_json, restore
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.values.json_text import NotJsonError
from trace_recorder.values.messages import Payload

IMAGE = "iVBORw0KGgo" * 6000


def message(text: str, *images: str) -> Payload:
    return {"role": "user", "content": [{"type": "text", "text": text}, *({"image": image} for image in images)]}


CALLS: list[Payload] = [
    {"model": "m", "messages": [message("see", IMAGE)]},
    {"model": "m", "messages": [message("see", IMAGE), message("and", IMAGE + "a", IMAGE)]},
    {"model": "m", "messages": [message("see", IMAGE), message("and", IMAGE + "a", IMAGE), message(LARGE * 9)]},
    {"prompt": IMAGE, "api_key": IMAGE, "notes": [IMAGE, 1], "tools": [{"name": "f"}], IMAGE: IMAGE, "z": {"a": LARGE}},
    {"model": "m", "messages": [message('quoted " and \\ and é and \n ' * 3000)], "tail": [{"image": IMAGE}]},
    {
        "model": "m",
        "messages": [message('quoted " and \\ and é and \n ' * 3000), message("x")],
        "tail": [{"image": IMAGE}],
    },
    {
        "model": "m",
        "messages": [message(text) for text in ('quoted " and \\ and é and \n ' * 3000, "x", 'a "part"\n' * 1500)],
        "tail": [{"image": IMAGE}],
    },
]


def lines_of(requests: list[bytes], prepare: Callable[[ItemEncoder, bytes], object]) -> list[list[tuple[str, str]]]:
    """Return the records of requests, each encoded with the preparation that `prepare` returns."""
    encoder, seq, by_request = ItemEncoder(), 0, []
    for request in requests:
        encoded = encoder.encode(request, prepare(encoder, request))  # type: ignore[arg-type]
        by_request.append(records(encoded))
        seq += len(by_request[-1])
        encoded.mark_written(seq)
    return by_request


@pytest.mark.parametrize("ascii_only", [True, False])
def test_records_are_the_same_with_and_without_preparation(*, ascii_only: bool) -> None:
    """The records of a request are the same whether or not its large strings were extracted beforehand."""
    requests = [json.dumps(call, ensure_ascii=ascii_only).encode() for call in CALLS]
    prepared: list[Prepared] = []

    def prepare(encoder: ItemEncoder, request: bytes) -> object:
        part = encoder.prepare(request)
        assert part is not None
        prepared.append(part)
        return part

    assert lines_of(requests, prepare) == lines_of(requests, lambda *_: None)
    assert [one.strings is not None for one in prepared] == [True] * 5 + [False, True]
    assert [one.changes is not None for one in prepared] == [False, True, True, False, False, True, True]


def test_an_outdated_preparation_does_no_damage() -> None:
    """A preparation for an earlier state of the encoder is ignored, and the records are correct."""
    requests = [json.dumps(call).encode() for call in CALLS]
    stale = [ItemEncoder().prepare(request) for request in requests]

    assert lines_of(requests, lambda _, request: stale[requests.index(request)]) == lines_of(requests, lambda *_: None)


PIECES = st.sampled_from(
    ['"', "\\", "\\\\", '\\"', "\\u00e9", "\\ud83d\\ude00", "é", "a", ":", ", ", "{", "}", "[", " "]
)


@given(st.lists(st.one_of(PIECES, st.just("A" * MIN_STRING_CHARACTERS)), max_size=30))
def test_extracted_strings_are_restored(pieces: list[str]) -> None:
    """The bytes of a request are the same after its large strings were extracted and restored."""
    text = "".join(pieces)
    reduced = reduce_json(text.encode())

    assert restore(reduced.text, reduced.strings) == text


BROKEN = ["\n", "\t", "\x00", "\\x", "\\u12", "\\ud800", "\\", "\udc80"]


@pytest.mark.parametrize("broken", BROKEN, ids=ascii)
@pytest.mark.parametrize("place", [0, 5_000, 40_000])
def test_a_large_string_that_is_not_json_is_refused(broken: str, place: int) -> None:
    """The extraction refuses every large string that the JSON parser refuses."""
    body = '{"messages":[{"role":"user","content":"' + "A" * place + broken + '" ,"more":"' + "B" * 40_000 + '"}]}'
    request = body.encode("utf-8", "surrogateescape")
    encoder = ItemEncoder()

    with pytest.raises(NotJsonError):
        encoder.encode(request, encoder.prepare(request))


def _with_references(count: int) -> ItemTable:
    """Return an item that contains a string of a megabyte this many times."""
    table = ItemTable()
    table.add(ItemFact(s=0, value="x" * 1_000_000))
    content = [{"type": "text", "text": "@s"}] * count
    table.add(ItemFact(n=0, value={"role": "user", "content": content}, strings={"@s": 0}))
    return table


def test_an_item_that_repeats_a_string_too_often_is_missing() -> None:
    assert len(_with_references(200).element(0)["content"]) == 200
    with pytest.raises(KeyError):
        _with_references(20_000).element(0)


def test_a_string_that_many_items_have_once_is_not_a_repetition() -> None:
    table = ItemTable()
    table.add(ItemFact(s=0, value="x" * 1_000_000))
    for number in range(2000):
        table.add(ItemFact(n=number, value=["@s", number], strings={"@s": 0}))
    assert table.element(1999)[1] == 1999


def test_a_journal_that_repeats_a_string_too_often_has_a_gap(tmp_path: Path) -> None:
    """If 1 MB of a file would expand to a message of 20 GB, `load` adds a gap instead, and needs little memory."""
    path = tmp_path / "run.jsonl"
    writing = Writing(path)
    writing.add("item", s=0, value="x" * 1_000_000)
    content = [{"type": "text", "text": "@s"}] * 20_000
    writing.add("item", n=0, value={"role": "user", "content": content}, strings={"@s": 0})
    writing.add(
        "llm_request",
        interaction_id="llm_1",
        attempt=0,
        api="openai-chat",
        provider="openai",
        method="POST",
        url="https://api.openai.com/v1/chat/completions",
        headers=[],
        body={"model": "m"},
        items={"messages": [[0, 0]]},
        check={"messages": "00000000"},
    )
    writing.journal.close()
    run = load(path)
    assert [(call.interaction_id, [*call.input_messages]) for call in run.llm_interactions] == [("llm_1", [])]
    assert len(run.gaps) >= 1
