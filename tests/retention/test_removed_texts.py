"""What is removed from one text: texts, matches and what functions change. JSON stays JSON, and masks stay."""

from __future__ import annotations

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.json_strategies import json_texts
from trace_recorder import RedactionRuleError
from trace_recorder.retention.removed_texts import MASK, RemovedTexts
from trace_recorder.storage.text_edits import TextPlace, apply_edits, edit_json

PLACE = TextPlace("tool_result", ("result",))
NAME = TextPlace("tool_result", ("result", "name"), is_name=True)


def changed(removed: RemovedTexts, text: str, place: TextPlace = PLACE) -> str:
    """Return a text after the removal."""
    return apply_edits(text, removed.edits(text, place))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("by Ann Lee.", f"by {MASK}."),
        ("Ann Lee and Ann Lee", f"{MASK} and {MASK}"),
        ('{"by": "Ann Lee"}', f'{{"by": "{MASK}"}}'),
        ('{"Ann Lee": [1, "x"]}', f'{{"{MASK}": [1, "x"]}}'),
        ('{"n": "{\\"who\\": \\"Ann\\u0020Lee\\"}"}', f'{{"n": "{{\\"who\\": \\"{MASK}\\"}}"}}'),
        ("path/Ann%20Lee/x", f"path/{MASK}/x"),
        (f"{MASK}", f"{MASK}"),
        ("Anne Lee", "Anne Lee"),
    ],
)
def test_a_text_is_removed(text: str, expected: str) -> None:
    """A text is removed wherever it is, also in JSON that is a text."""
    assert changed(RemovedTexts(["Ann Lee"]), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"phone": 4915112345678}', f'{{"phone": "{MASK}"}}'),
        ('{"a": [1, 4915112345678], "b": 49151123456789}', f'{{"a": [1, "{MASK}"], "b": "{MASK}"}}'),
        ("call 4915112345678 now", f"call {MASK} now"),
    ],
)
def test_a_number_in_json_becomes_a_string(text: str, expected: str) -> None:
    """JSON with a removed number stays JSON. A number that only contains the text is removed as a whole."""
    assert changed(RemovedTexts(["4915112345678"]), text) == expected


@pytest.mark.parametrize("text", ['"who": "Ann", "city": "Bern"', '{"who": "Ann", "city"', '"Ann", "city": "Be'])
def test_a_text_with_signs_of_json_leaves_json(text: str) -> None:
    """If a text extends over several strings of JSON, each of the strings loses its part."""
    whole = '{"who": "Ann", "city": "Bern"}'

    result = changed(RemovedTexts([text]), whole)

    assert [*json.loads(result)] != []
    assert "Ann" not in result


JSON = st.recursive(
    st.text() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


PATTERNS = [re.compile(r"\ba\w*"), re.compile("^b|b$"), re.compile(r"\\d{2}|\n")]


@given(st.sampled_from(PATTERNS), st.lists(json_texts(JSON), min_size=1, max_size=4))
def test_json_that_may_not_change_has_no_edits(pattern: re.Pattern[str], texts: list[str]) -> None:
    """One object searches several texts, and keeps which short strings do not change."""
    removed = RemovedTexts(["Ann"], [pattern], whole_texts={"b", "12345"})
    for text in texts:
        edits = edit_json(text, "item", removed, lambda _, __: False).edits
        assert removed.may_change(text) or not edits


def test_json_without_a_match_is_not_edited() -> None:
    """A pattern is searched in each string alone: a match over two strings, or in a number, changes nothing."""
    removed = RemovedTexts((), [re.compile("^b$|a.*c|12345")])
    assert not removed.may_change('{"a": ["c", "bb", 12345]}')
    assert [*map(removed.may_change, ['["b"]', '["a\\nbc"]', '["\\u0062"]', '{"abc": 1}'])] == [True, False, True, True]


@given(json_texts(st.lists(JSON, max_size=2)))
def test_json_stays_json(text: str) -> None:
    """A text that is JSON is JSON after any removal, and a second removal finds nothing."""
    removed = RemovedTexts(["aaa", "0,0", '": "'], [re.compile("[a-f]+"), re.compile(r"\d")])

    result = changed(removed, text)

    json.loads(result)
    assert changed(removed, result) == result


@given(st.text('abc [REDACTED:removed]%5C\\"0'), st.sampled_from(["removed", "abc", "ED:", "a b", "REDACTED"]))
def test_what_was_removed_is_not_found_again(text: str, removed_text: str) -> None:
    """A second removal changes nothing, also if the text is a part of the mask."""
    removed = RemovedTexts([removed_text], [re.compile("[bc]+ ?"), re.compile("RED")])
    once = changed(removed, text)

    assert changed(removed, once) == once


def test_patterns_see_decoded_texts() -> None:
    """A pattern is searched in each text without escapes, in words in base64, and in words of a URL."""
    removed = RemovedTexts(patterns=[re.compile(r"[\w.]+@[\w.]+")])
    word = base64.b64encode(b"the address is ann@example.org, you know").decode()

    assert changed(removed, '{"a": "to \\u0061nn@example.org"}') == f'{{"a": "to {MASK}"}}'
    assert changed(removed, "mailto:?to=ann%40example.org&x=12345678") == f"mailto:?to={MASK}&x=12345678"
    assert base64.b64decode(changed(removed, word)) == f"the address is {MASK}, you know".encode()


def test_short_texts_are_found_in_encoded_words() -> None:
    """A text that is too short to be looked for in any base64 is found in words that encode a text."""
    word = base64.b64encode(b"this was said by Ann on the phone").decode()

    assert base64.b64decode(changed(RemovedTexts(["Ann"]), word)) == f"this was said by {MASK} on the phone".encode()


def test_functions_get_each_text_and_no_names() -> None:
    """A function sees the strings of JSON, not its names, and what it returns is written."""
    seen = []

    def upper(text: str) -> str:
        seen.append(text)
        return text.upper()

    removed = RemovedTexts(["Ann"], functions=[upper])

    assert changed(removed, '{"name of": "Ann says \\"hi\\""}') == f'{{"name of": "{MASK.upper()} SAYS \\"HI\\""}}'
    assert changed(removed, "name of", NAME) == "name of"
    assert seen == [f'{MASK} says "hi"']


def test_a_function_that_returns_no_text_is_refused() -> None:
    """The message names the function."""

    def nothing(_: str) -> object:
        return None

    with pytest.raises(RedactionRuleError, match=r"nothing returned NoneType, and must return a str"):
        changed(RemovedTexts(functions=[nothing]), "a text")  # type: ignore[list-item]


@pytest.mark.parametrize("word", ["assistant", "tool_calls", "content", "tool_use"])
def test_words_of_the_formats_stay(word: str) -> None:
    """A text that is a word of a format is structure. It cannot be removed, but a text around it can."""
    assert changed(RemovedTexts([word[:3]], [re.compile(word)]), word) == word
    assert changed(RemovedTexts([word[:3]]), f"my {word}") != f"my {word}"
    with pytest.raises(RedactionRuleError, match="a word of the formats"):
        RemovedTexts([word])


@pytest.mark.parametrize("text", ["", "ab"])
def test_a_text_that_is_everywhere_is_refused(text: str) -> None:
    """A text needs three characters."""
    with pytest.raises(RedactionRuleError, match="in nearly every text"):
        RemovedTexts([text])


def test_a_damaged_line_may_be_cut_inside_a_text() -> None:
    """The beginning and the end of a damaged line may be a part of the text."""
    place = TextPlace("damaged", ())

    assert changed(RemovedTexts(["Ann Lee"]), "nn Lee was here, and Ann L", place) == f"{MASK} was here, and {MASK}"


def test_a_whole_text_is_removed_only_as_a_whole() -> None:
    """A short text at an address is removed where nothing else is in a string."""
    removed = RemovedTexts(whole_texts=["yes"])

    assert [changed(removed, text) for text in ("yes", "yes!", '{"a": "yes", "yes": 1}')] == [
        *(MASK, "yes!"),
        f'{{"a": "{MASK}", "{MASK}": 1}}',
    ]
