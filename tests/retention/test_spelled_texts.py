"""A text is found however it is written."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retention.planting import SPELLINGS, TEXT
from trace_recorder.retention.spelled_texts import SpelledText
from trace_recorder.storage.text_edits import apply_edits

TEXTS = st.text(st.characters(codec="utf-8"), min_size=3, max_size=12)
LONG = TEXTS.filter(lambda text: len(text.encode()) > 5)


def mask(length: int) -> bytes:
    """Return a mask of the same number of bytes by three."""
    return b"mask" + b"." * ((length - 4) % 3)


@pytest.mark.parametrize("before", ["", "\\", "%", "+", "x"])
@pytest.mark.parametrize("name", [name for name in SPELLINGS if "base64" not in name])
def test_each_spelling_is_found_as_a_whole(name: str, before: str) -> None:
    """The span of a spelled text begins and ends where its spelling does."""
    spelled = SPELLINGS[name](TEXT)

    spans = {*SpelledText(TEXT).spans(f"{before} {spelled} behind")}

    assert spans == {(len(before) + 1, len(before) + 1 + len(spelled))}


@given(TEXTS, st.integers(0, 4))
def test_any_text_is_found_in_json_in_json(text: str, levels: int) -> None:
    """A text is found in JSON, also if that is a string of JSON, and so on."""
    spelled = text
    for _ in range(levels):
        spelled = json.dumps([spelled])

    assert [*SpelledText(text).spans(spelled)] != []


@given(TEXTS)
def test_any_text_is_found_in_a_url(text: str) -> None:
    """A percent-encoded text is found."""
    assert [*SpelledText(text).spans(f"https://a.b/?c={quote(text, safe='')}&d")] != []


@pytest.mark.parametrize("text", ["line one\nline two", "line one\r\nline two"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_may_differ(text: str, end: str) -> None:
    """A text of several lines is found with each kind of line ends."""
    other = end.join(["line one", "line two"])

    assert [other[start:stop] for start, stop in SpelledText(text).spans(other)] == [other]


@pytest.mark.parametrize("text", ["café au lait", "cafe\u0301 au lait"])
@pytest.mark.parametrize("other", ["café au lait", "cafe\u0301 au lait"])
def test_composed_and_decomposed_letters_are_one(text: str, other: str) -> None:
    """An accent may be a character of its own."""
    assert [*SpelledText(text).spans(other)] == [(0, len(other))]


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@given(
    before=st.binary(max_size=5), behind=st.binary(max_size=5), text=TEXTS.filter(lambda text: len(text.encode()) > 5)
)
def test_a_text_inside_of_base64_is_replaced_there(encode: object, before: bytes, behind: bytes, text: str) -> None:
    """The bytes around the text stay, at each alignment, and with each alphabet."""
    assert callable(encode)
    word = encode(before + text.encode() + behind).decode()

    edits = sorted(SpelledText(text).in_base64(f"data:{word}", mask), key=lambda edit: edit.start)
    changed = apply_edits(f"data:{word}", edits[:1])[5:]

    assert base64.b64decode(changed.translate(str.maketrans("-_", "+/"))) in {
        before + mask(len(form.encode())) + behind for form in SpelledText(text).forms
    }


def test_base64_that_is_cut_off_is_replaced_too() -> None:
    """The last group of letters may be incomplete."""
    word = base64.b64encode(b"a secret thing").decode().rstrip("=")[:-1]

    [edit] = SpelledText("secret").in_base64(word, mask)

    assert base64.b64decode(f"{apply_edits(word, [edit])}==")[:8] == b"a mask.."[:8]


def test_an_image_has_no_short_text_by_chance() -> None:
    """A short text is not looked for in a long run of letters of base64."""
    image = "iVBORw0KGgoAAAANSUhEUg" * 20

    assert [*SpelledText("KGg").spans(image)] == []
    assert [*SpelledText("KGg").spans("the word KGg here")] == [(9, 12)]


def test_a_very_long_text_is_found() -> None:
    """A text that is longer than a pattern may be is compared in parts, and only the whole text counts."""
    text = "".join(f'line {number} of "many"\n' for number in range(2_000))
    spelled = SpelledText(text)

    assert [*spelled.spans(json.dumps(text))] == [(1, len(json.dumps(text)) - 1)]
    assert [*spelled.spans(json.dumps(text[:-5]))] == []
