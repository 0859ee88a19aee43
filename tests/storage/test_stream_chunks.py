"""The chunks of a stream, stored as two short texts, are read back unchanged, and in order even after masking."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.facts import LLMStreamFact
from trace_recorder.storage.stream_chunks import TimedBytes, describe_chunks, read_chunks, split_at
from trace_recorder.values.messages import Payload

TEXTS = st.lists(st.sampled_from([b"\n", b"\n\n", b"a", b"data: {}", b"\xff", b"sk-1", b"data: {}\n\n"]), max_size=4)
CAME = st.lists(st.tuples(st.integers(0, 5000), TEXTS.map(b"".join).filter(bool)), max_size=12).map(
    lambda found: [(at / 1000, data) for at, (_, data) in zip(accumulate(at for at, _ in found), found, strict=True)]
)


def test_chunks_of_whole_events_take_few_bytes() -> None:
    """Fifty chunks of an event each are stored as one word, with one or two digits for each time."""
    came = [(0.2 + number / 50, b"data: {}\n\n") for number in range(50)]

    said = describe_chunks(came, 0.0, b"".join(data for _, data in came))

    assert said == {"chunk_ends": "2*50", "chunk_times": "oG" + "U" * 49}


def test_the_texts_have_the_documented_form() -> None:
    """The two texts have the form that docs/format.md describes, with lines, bytes, runs and long numbers."""
    came = [(1.5, b"a\nb"), (1.5, b"c"), (1.531, b"\n"), (3.0, b"\n"), (3.0, b"\n\nx")]

    said = describe_chunks(came, 0.5, b"a\nbc\n\n\n\nx")

    assert said == {"chunk_ends": "1+1,+1,1*2,2+1", "chunk_times": "ofAf9tBA"}


def stream_part(**members: Payload) -> LLMStreamFact:
    """Return the fact of a part of a stream with these members."""
    return LLMStreamFact(
        interaction_id="llm_1",
        attempt=0,
        status=200,
        time_to_first_token_seconds=None,
        bytes=0,
        zlib="",
        headers={},
        **members,
    )


@given(CAME, st.lists(st.integers(0, 60), max_size=4).map(sorted))
def test_chunks_are_read_back_unchanged(came: list[TimedBytes], cuts: list[int]) -> None:
    """The chunks of a stream are read back unchanged, wherever its recorded parts end."""
    parts = []
    continues, left, written = False, came, 0
    for cut in [*cuts, sum(len(data) for _, data in came)]:
        end = min(max(cut - written, 0), sum(len(data) for _, data in left))
        before, left, goes_on = split_at(left, end)
        text = b"".join(data for _, data in before)
        if text:
            parts.append((text, stream_part(continues=continues, **describe_chunks(before, 0.0, text))))
            continues = goes_on
        written += end

    assert read_chunks(parts) == tuple(came)


MASKS = st.sampled_from([b"", b"*", b"[REDACTED:key]", b"s", b"1"])


@given(CAME, MASKS, st.booleans())
def test_chunks_of_a_masked_text_give_the_whole_text(came: list[TimedBytes], mask: bytes, lines: bool) -> None:
    """After masking, even if it removed lines, the chunks give the masked text in order, at their times."""
    masked = b"".join(data for _, data in came).replace(b"sk-1", mask)
    masked = masked.replace(b"\n\n", b"\n") if lines else masked

    found = read_chunks([(masked, stream_part(**describe_chunks(came, 0.0, masked)))])

    assert b"".join(data for _, data in found) == masked
    assert [at for at, _ in found] == [at for at, _ in came]


def test_a_chunk_that_ends_within_a_mask_ends_after_it() -> None:
    """A chunk that ended within a masked text ends after the mask, and all others end where they did."""
    came = [(0.0, b"data: a"), (0.1, b'"sk-'), (0.2, b'12" b'), (0.3, b"c\nd"), (0.4, b"\n")]

    found = read_chunks([(text := b'data: a"[KEY]" bc\nd\n', stream_part(**describe_chunks(came, 0.0, text)))])

    assert [data for _, data in found] == [b"data: a", b'"[KEY]', b'" b', b"c\nd", b"\n"]


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"chunk_ends": "1"},
        {"chunk_ends": "9", "chunk_times": "A"},
        {"chunk_ends": "1", "chunk_times": "AA"},
        {"chunk_ends": "1+1", "chunk_times": "A"},
        {"chunk_ends": "x", "chunk_times": "A"},
        {"chunk_ends": "1", "chunk_times": "?"},
        {"chunk_ends": "1", "chunk_times": "2"},
    ],
)
def test_texts_that_contradict_the_stream_are_refused(said: dict[str, str]) -> None:
    """A part without the two texts, or with texts that do not fit the stream, raises an error."""
    with pytest.raises((ValueError, KeyError)):
        read_chunks([(b"a\n", stream_part(**said))])


@pytest.mark.parametrize(
    "said",
    [
        {"chunk_ends": "0*999999999999", "chunk_times": "A"},
        {"chunk_ends": "1,0*999999999999", "chunk_times": "AA"},
        {"chunk_ends": "+-1*999999999999", "chunk_times": "A"},
        {"chunk_ends": "*999999999999", "chunk_times": "A"},
        {"chunk_ends": "1", "chunk_times": ""},
        {"chunk_ends": "1", "chunk_times": "g" * 400 + "A"},
    ],
    ids=["run", "run-behind", "backwards", "nothing", "no-times", "endless-time"],
)
def test_hostile_chunk_texts_are_refused_in_bounded_memory(said: dict[str, str]) -> None:
    """Texts with huge runs or huge numbers raise an ordinary error, without using much memory."""
    whole = stream_part(chunk_ends="1", chunk_times="A")
    with pytest.raises(ValueError, match=r"number|time|chunk|count"):
        read_chunks([(b"a\n", whole), (b"a\n", stream_part(continues=True, **said))])
