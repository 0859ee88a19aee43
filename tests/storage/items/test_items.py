"""Items: a request that was split into items is restored, and repeated elements cost their bytes once."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.counting import kept_by
from tests.json_strategies import exactly, json_objects, json_texts, json_values
from tests.searching import IS_SEARCH
from tests.storage.items.store import LARGE, Store, records
from tests.wire.corpus import DIRECTORY, load
from trace_recorder.storage.items.conversation_prefix import MAX_PREFIX_BYTES, MIN_COMPARED_BYTES
from trace_recorder.storage.items.encoder import MAX_KNOWN_ITEMS, ItemEncoder
from trace_recorder.values.json_text import NotJsonError, parse
from trace_recorder.values.messages import Payload

EXCHANGES = load()
LONG = "y" * MIN_COMPARED_BYTES
"""Shorter requests are not compared with earlier ones."""


def both_ways(*texts: str, max_known_items: int = MAX_KNOWN_ITEMS) -> list[Payload]:
    store = Store(max_known_items=max_known_items)
    store.add(*texts)
    return store.expanded()


@given(st.lists(json_texts(json_objects), max_size=4))
def test_encode_then_expand_is_the_identity(texts: list[str]) -> None:
    """A sequence of any JSON objects, encoded and expanded, is read back equal."""
    assert exactly(both_ways(*texts)) == exactly([json.loads(text) for text in texts])


PIECES = st.sampled_from([LARGE, "@string:0", "@string:1", '"', "\\", "é", "\n", "a"])
STRINGS = st.lists(PIECES, max_size=3).map("".join)
ELEMENTS = st.recursive(
    STRINGS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3)
)


@settings(max_examples=60 if IS_SEARCH else 20)
@given(st.lists(json_texts(st.fixed_dictionaries({"list": st.lists(st.dictionaries(STRINGS, ELEMENTS), max_size=3)}))))
@example(['{"list":[{"a":"' + LARGE + '","b":"\\u0040string:0"}]}'])
def test_large_strings_are_restored(texts: list[str]) -> None:
    """A large string, and a string that looks like the reference to one, are both restored."""
    assert exactly(both_ways(*texts)) == exactly([json.loads(text) for text in texts])


@given(st.lists(st.lists(st.integers(0, 60), max_size=40), max_size=8), st.integers(0, 4))
@example([list(range(0, 60, 2)), list(range(1, 60, 2)), [*range(0, 30, 2), 7, *range(30, 60, 2)]], 0)
def test_lists_that_shrink_repeat_and_interleave_are_restored(lists: list[list[int]], forgets: int) -> None:
    """Requests are restored whatever lists they repeat, in any order, even if few items are remembered."""
    texts = [json.dumps({"messages": [{"content": number} for number in numbers]}) for numbers in lists]

    known = both_ways(*texts, max_known_items=forgets * 10 or MAX_KNOWN_ITEMS)

    assert known == [json.loads(text) for text in texts]


SAID = st.sampled_from(['{"a":1}', ' {"a": [2]}', '"x"', "1", "12", '{"a":"],"}', '{"c":{}}', "[]"])
AFTER = st.sampled_from(
    ["", ',"stream":true', ',"tools":[{"t":1}]', ',"tools":[{"t":1},{"a":1}],"stream":true', ',"a":[{"c":{}}]']
)


@st.composite
def conversations(draw: st.DrawFn) -> list[str]:
    """Return requests of a conversation whose list grows or goes back. The members after the list change."""
    texts, messages = [], draw(st.lists(SAID, min_size=1, max_size=4))
    for _ in range(draw(st.integers(1, 6))):
        messages = messages[: draw(st.integers(1, len(messages)))] + draw(st.lists(SAID, max_size=3))
        texts.append(
            f'{{"model":"{LONG}","messages":['
            + ",".join(messages)
            + "]"
            + draw(AFTER)
            + draw(st.sampled_from(["}", "\n}"]))
        )
    return texts


@given(conversations())
@example([f'{{"l":"{LONG}","m":[{{"a":1}}],"s":1}}', f'{{"l":"{LONG}","m":[{{"a":1}}],"tools":[{{"t":1}}],"s":1}}'])
@example([f'{{"l":"{LONG}","m":[{{"a":1}},1]}}', f'{{"l":"{LONG}","m":[{{"a":1}},12]}}'])
@example(
    [f'{{"l":"{LONG}","a":[{{"x":1}}],"\\u0061":[{{"y":2}}{more}]}}' for more in ("", ',{"z":3}', ',{"z":3},{"z":4}')]
)
def test_requests_that_continue_each_other_are_restored(texts: list[str]) -> None:
    """A request that shares its beginning and end with earlier requests is restored."""
    assert exactly(both_ways(*texts)) == exactly([json.loads(text) for text in texts])


@pytest.mark.parametrize(
    "added", ['{"b":1}', ',{"b":NaN}', ",", ',{"b":1},', ',{"b":1', ',"b":1', "]", ',{"b":"\\ud800"}']
)
def test_a_continuation_that_is_not_json_is_refused(added: str) -> None:
    """Text that follows the beginning of an earlier request is refused if it is not JSON, as in a first request."""
    store = Store()
    store.add(f'{{"l":"{LONG}","list":[{{"a":1}}],"s":1}}')

    with pytest.raises(NotJsonError):
        store.add(f'{{"l":"{LONG}","list":[{{"a":1}}{added}],"s":1}}')

    assert store.kinds() == ["item", "item", "llm_request"]


def test_a_request_after_a_failed_one_is_complete() -> None:
    """If the system refuses a record in the middle of a request, the next request is complete."""
    texts = [json.dumps({"list": [{"n": number} for number in range(length)], "l": LONG}) for length in (2, 5, 6)]
    for refused in range(1, 12):
        store = Store(refused)
        for text in texts:
            with contextlib.suppress(OSError):
                store.add(text)
        assert store.expanded() == [json.loads(text) for text in texts if text not in store.lost], refused


def test_the_last_of_two_members_with_one_name_counts() -> None:
    """If a name occurs twice in an object, its last value is restored, as by other JSON readers."""
    texts = ['{"a":[{"x":1}],"a":5,"b":5,"b":[{"x":1}]}', '{"a":[{"x":1}],"\\u0061":[{"y":2}]}']

    assert both_ways(*texts) == [json.loads(text) for text in texts]


INNER = '{"list":[{"a":1},{"b":[{"c":2}]}],"text":"' + LONG + '","n":1}'


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(f'{{"a":{INNER},"m":1}}', ["/a/list", "/a/text"], id="an object with a list"),
        pytest.param(f'{{"a":{{"b":{INNER}}}}}', ["a"], id="only at the first level"),
        pytest.param(f'{{"a":{INNER},"/a/list":"{LONG}"}}', ["a", "/a/list"], id="a member with that name"),
        pytest.param(f'{{"a/b":{INNER}}}', ["a/b"], id="a name with a slash"),
        pytest.param(f'{{"a":{INNER[:-1]},"c/d":1}}}}', ["a"], id="an inner name with a slash"),
        pytest.param(f'{{"a":{INNER[:-1]},"n":2}}}}', ["a"], id="two inner members with one name"),
        pytest.param(f'{{"a":{{"text":"{LONG}"}}}}', ["a"], id="no list"),
        pytest.param(f'{{"password":{INNER}}}', [], id="a secret's name"),
        pytest.param(f'{{"a":{INNER},"a":{INNER[:-1]},"m":3}}}}', ["/a/list", "/a/text"], id="two members"),
    ],
)
def test_the_lists_of_an_object_are_taken_apart_too(text: str, names: list[str]) -> None:
    """An object with a list of objects is taken apart if its members have unambiguous paths."""
    store = Store()
    store.add(text, text)

    record = json.loads(store.lines[-1])["data"]
    assert exactly(store.expanded()) == exactly([json.loads(text)] * 2)
    assert [*record.get("items", {})] == names


def test_large_strings_of_a_list_in_an_object_are_stored_once() -> None:
    """Also if the large strings are taken out before the request is encoded."""
    text = json.dumps({"a": {"list": [{"n": number, "url": LARGE} for number in range(9)], "text": "é" * 40_000}})
    encoder = ItemEncoder()
    for prepared in (None, encoder.prepare(text.encode())):
        store = Store()
        encoded = ItemEncoder().encode(text.encode(), prepared)
        store.lines = [f'{{"kind":"{kind}","data":{data}}}'.encode() for kind, data in records(encoded)]
        assert store.expanded() == [json.loads(text)]
        assert sum(line.count(LARGE.encode()) for line in store.lines) == 1


def test_a_list_in_an_object_grows_in_place() -> None:
    """A request that continues another is compared with it, also if its list is in an object."""
    texts = [
        f'{{"m":"{LONG}","a":{{"list":[{",".join(json.dumps({"n": number}) for number in range(length))}],"x":"é"}}}}'
        for length in (*range(1, 20), 7, 30)
    ]
    store = Store()
    store.add(*texts)

    assert store.expanded() == [json.loads(text) for text in texts]
    assert store.kinds().count("item") == 31


def test_values_that_are_equal_only_in_python_are_different_items() -> None:
    """Elements with different JSON are different items: 0, 0.0, false and -0.0 are four items."""
    text = '{"list":[{"a":0},{"a":0.0},{"a":false},{"a":-0.0},{"a":0}]}'
    store = Store()
    store.add(text)

    assert (exactly(store.expanded()), store.kinds().count("item")) == (exactly([json.loads(text)]), 4)


def test_a_large_string_is_stored_once_wherever_it_is() -> None:
    """An image that is sent in different messages, and as a member of a request, is stored once."""
    texts = [json.dumps({"list": [{"n": number, "deep": [{"url": LARGE}]}]}) for number in range(5)]
    store = Store()

    store.add(*texts, json.dumps({"input": LARGE}))

    assert sum(line.count(LARGE.encode()) for line in store.lines) == 1


def test_the_memory_of_requests_has_a_limit() -> None:
    """The memory for earlier requests stays within its limit, even for many bytes after a request's longest list."""
    encoder = ItemEncoder()
    for number in range(20):
        request = f'{{"list":[{{"n":{number}}}],"image":"{number}{"x" * (MAX_PREFIX_BYTES // 8)}"}}'.encode()
        encoded = encoder.encode(request)
        records(encoded)
        encoded.mark_written(number * 3 + 3)

    assert MAX_PREFIX_BYTES // 4 < kept_by(encoder).characters < 1.5 * MAX_PREFIX_BYTES


NO_OBJECTS = (
    *("", "[1]", "5", '{"a":1', '{"a":1}x', '{"a":1,}', '{"a":[{},]}', "{,}", '{"a" 1}', "{a:1}", '{"a":[{"b":01}]}'),
    *('{"a":NaN}', '{"a":[{"b":-Infinity}]}', '{"a":"\n"}', "\ufeff{}", '{"a":' + "1" * 5000 + "}"),
    '{"a":' + "[" * 5000 + "]" * 5000 + "}",
)


@pytest.mark.parametrize("text", NO_OBJECTS, ids=lambda text: text[:20])
def test_text_that_is_not_a_json_object_is_refused(text: str) -> None:
    """Text that is not a strict JSON object is not split, and nothing is written."""
    store = Store()

    with pytest.raises(NotJsonError):
        store.add(text)

    assert store.lines == []


@pytest.mark.parametrize("text", ['{"a":[{"b":"\\ud800"}]}', '{"a":"\\udc00"}', '{"\\ud83d":1}'])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    """A request with a lone surrogate is not split, because UTF-8 cannot encode the surrogate."""
    store = Store()

    with pytest.raises(NotJsonError):
        store.add(text)

    assert store.lines == []


@pytest.mark.parametrize("read_strictly", [parse, lambda text: Store().add(text)], ids=["parse", "encode"])
def test_a_number_beyond_every_float_is_refused(read_strictly: object) -> None:
    """A request with 1e999 is not split, because Python would read it as an infinity."""
    with pytest.raises(NotJsonError):
        read_strictly('{"a":1e999}')  # type: ignore[operator]


def test_an_encoded_request_can_be_read_from_any_stack_depth() -> None:
    """Every request that the encoder accepts can be read by a reader with 300 frames on its stack."""
    accepted = []
    for depth in range(100, 1000, 50):
        store = Store()
        try:
            store.add('{"a":' + "[" * depth + "]" * depth + "}")
        except NotJsonError:
            continue
        accepted.append((depth, readable(store, frames=300)))

    assert [depth for depth, is_read in accepted if not is_read] == []


def readable(store: Store, frames: int) -> bool:
    if frames:
        return readable(store, frames - 1)
    try:
        return len(store.expanded()) == 1
    except RecursionError:
        return False


@pytest.mark.skipif(not EXCHANGES, reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")
def test_requests_of_real_agents_are_restored() -> None:
    """Each request of the corpus, all through the same encoder, is restored as it was sent."""
    texts = [json.dumps(exchange.request, ensure_ascii=exchange.number % 2 == 0) for exchange in EXCHANGES]

    assert exactly(both_ways(*texts)) == exactly([json.loads(text) for text in texts])


@given(json_texts(json_values))
def test_parse_reads_the_same_as_python(text: str) -> None:
    """`parse` reads any JSON as Python's own reader does."""
    assert exactly(parse(text)) == exactly(json.loads(text))
