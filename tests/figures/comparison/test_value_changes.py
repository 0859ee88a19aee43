"""The differences between two JSON values and between two texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.json_strategies import json_values
from trace_recorder.values.messages import Payload
from trace_recorder.values.value_changes import (
    Fragment,
    ValueChange,
    changes,
    equal_json,
    marked_words,
    word_changes,
)


def test_each_change_has_its_path() -> None:
    """Each removed, added or changed member or element is named by its path."""
    before = {"role": "user", "content": [{"text": "one"}, {"text": "two"}], "n": 1}
    after = {"role": "user", "content": [{"text": "one"}, {"text": "three"}, 4], "m": 1}

    assert [*changes(before, after, "messages[2]")] == [
        ValueChange("changed", "messages[2].content[1].text", "two", "three"),
        ValueChange("added", "messages[2].content[2]", after=4),
        ValueChange("removed", "messages[2].n", before=1),
        ValueChange("added", "messages[2].m", after=1),
    ]


def test_an_inserted_element_shifts_no_other() -> None:
    """Elements that both lists have are no changes, wherever they are in the lists."""
    assert [*changes([1, 2, 3], [1, 9, 2, 3])] == [ValueChange("added", "[1]", after=9)]
    assert [*changes([1, 9, 2, 3], [1, 2, 3])] == [ValueChange("removed", "[1]", before=9)]


def test_numbers_of_different_types_are_different_values() -> None:
    """1, 1.0 and true are equal in Python, but are different JSON."""
    assert [change.after for change in changes({"a": 1}, {"a": 1.0})] == [1.0]
    assert not equal_json(1, True)


def test_a_changed_text_is_compared_by_word() -> None:
    """Removed and added words are shown among the words around them. Values other than two texts are not compared by
    word.
    """
    [change] = changes({"q": "fix the failing test"}, {"q": "fix one failing test now"})

    assert change.words() == [
        Fragment("same", "fix"),
        Fragment("removed", " the"),
        Fragment("added", " one"),
        Fragment("same", " failing test"),
        Fragment("added", " now"),
    ]
    assert change.to_dict()["words"][1] == {"kind": "removed", "text": " the"}
    assert "words" not in ValueChange("changed", "q", "1", 1).to_dict()
    assert "after" not in ValueChange("removed", "q", "1").to_dict()


def test_a_change_in_a_long_text_is_shown_with_the_words_around_it() -> None:
    """Six words on each side are shown. A long change is shown without its middle."""
    words = [f"w{number}" for number in range(100)]
    changed = [*words[:50], "x" * 1000, *words[51:]]

    marked = marked_words(" ".join(words), " ".join(changed))

    assert marked.startswith("… w44 w45 w46 w47 w48 w49[- w50-]{+ x")
    assert marked.endswith("x+} w51 w52 w53 w54 w55 w56…")
    assert len(marked) < 500


def test_long_texts_without_common_words_replace_each_other() -> None:
    """The search for common words in long texts does not take time that grows with the product of their lengths."""
    one, other = (" ".join(f"{name}{n % 5}" for n in range(2000)) for name in "ab")

    assert word_changes(f"{one} end", f"{other} end") == [
        Fragment("removed", one),
        Fragment("added", other),
        Fragment("same", " end"),
    ]


@given(json_values, json_values)
def test_different_values_have_changes(before: Payload, after: Payload) -> None:
    """Equal values have no changes, and different values have at least one change."""
    assert bool([*changes(before, after)]) == (not equal_json(before, after))
    assert [*changes(before, before)] == []


@given(st.text("ab \n.", max_size=30), st.text("ab \n.", max_size=30))
def test_words_reproduce_both_texts(before: str, after: str) -> None:
    """All parts except the added ones make the first text. All parts except the removed ones make the second text."""
    words = word_changes(before, after)

    assert "".join(word.text for word in words if word.kind != "added") == before
    assert "".join(word.text for word in words if word.kind != "removed") == after
