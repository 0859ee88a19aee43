"""Tolerant access to JSON: a value of the wrong type raises no error, and is not lost."""

from __future__ import annotations

import pytest

from trace_recorder.dialects import json_access
from trace_recorder.dialects.json_access import Members
from trace_recorder.values.messages import Payload

VALUES: list[Payload] = [None, True, 0, 12.0, 1.5, float("inf"), "", "text", [], [1], {}, {"a": 1}]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (json_access.as_dict, [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {"a": 1}]),
        (json_access.as_list, [[], [], [], [], [], [], [], [], [], [1], [], []]),
        (json_access.as_text, [None] * 6 + ["", "text"] + [None] * 4),
        (json_access.as_int, [None, None, 0, 12] + [None] * 8),
        (json_access.as_number, [None, None, 0, 12.0, 1.5, float("inf")] + [None] * 6),
    ],
)
def test_a_value_of_a_wrong_type_is_empty(read, expected):
    """Each `as_` function returns a value of its type, and the empty value in place of any other."""
    assert [read(value) for value in VALUES] == expected


@pytest.mark.parametrize(
    ("text", "expected"), [('{"a": 1}', {"a": 1}), ("[]", []), ("", None), ("{", None), ("[" * 100_000, None)]
)
def test_a_text_that_is_not_json_is_none(text, expected):
    """A JSON text is parsed. A text that is cut off, or nested too deep, becomes None."""
    assert json_access.json_value(text) == expected


def test_members_of_the_right_type_are_taken():
    """A taken member is missing from the rest, and the given object is unchanged."""
    given = {"t": "x", "i": 3, "n": 0.5, "l": [1], "o": {"k": 1}, "any": True, "left": "over"}
    members = Members(given)
    taken = [members.text("t"), members.integer("i"), members.number("n"), members.array("l"), members.object("o")]
    assert ([*taken, members.take("any")], members.rest(), len(given)) == (
        ["x", 3, 0.5, [1], {"k": 1}, True],
        {"left": "over"},
        7,
    )


def test_members_of_a_wrong_type_stay_in_the_rest():
    """A member whose type differs from the requested type is not taken."""
    members = Members({"t": 1, "i": "3", "n": [], "l": {}, "o": "x"})
    taken = [members.text("t"), members.integer("i"), members.number("n"), members.array("l"), members.object("o")]
    assert (taken, members.rest()) == ([None, None, None, [], {}], {"t": 1, "i": "3", "n": [], "l": {}, "o": "x"})


def test_untaken_inner_members_stay_in_the_rest():
    """An opened member stays at its place with its remaining contents, and is dropped if it is empty."""
    members = Members({"half": {"a": 1, "b": 2}, "whole": {"a": 1}, "text": "x"})
    taken = [members.nested(key).integer("a") for key in ("half", "whole", "text", "absent")]
    assert (taken, members.rest()) == ([1, 1, None, None], {"half": {"b": 2}, "text": "x"})


def test_an_inner_number_is_taken_from_the_first_object_that_has_it():
    """The other members stay without nulls, and an object without other members is dropped."""
    first, second = {"n": None, "a": 1}, {"n": 0, "b": None}
    members = Members({"first": first, "second": second, "third": {"n": 2}, "text": "x"})
    taken = members.integers_inside(("n", ("absent", "first", "second", "third")), ("m", ("text",)))
    assert (taken, members.rest()) == ([0, None], {"first": {"a": 1}, "third": {"n": 2}, "text": "x"})
    assert (first, second) == ({"n": None, "a": 1}, {"n": 0, "b": None})


def test_nulls_are_dropped_except_in_parameters():
    """`rest` drops nulls. `all` keeps them, because a client sends a null parameter on purpose."""
    members = Members({"stop": None, "n": 2})
    assert (members.rest(), members.all()) == ({"n": 2}, {"stop": None, "n": 2})


@pytest.mark.parametrize("value", [None, 3, "text", [{"a": 1}]])
def test_a_value_that_is_not_an_object_has_no_members(value):
    """A value that is not an object has no members."""
    members = Members(value)
    assert (members.take("a"), members.rest()) == (None, {})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        (None, {}),
        (" ", {}),
        ('{"a": ', '{"a": '),
        ("[1]", "[1]"),
        ("null", "null"),
        ([1], [1]),
        (7, 7),
    ],
)
def test_arguments_are_an_object_or_unchanged(raw, expected):
    """Arguments that are a JSON object are parsed, and absent arguments are {}. All others stay unchanged."""
    assert json_access.arguments_of(raw) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (None, None),
        ("", ""),
        ([], None),
        ([{"type": "text", "text": "hi"}], "hi"),
        ([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],) * 2,
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],) * 2,
        ([{"type": "text", "text": None}],) * 2,
        ([{"type": "image_url"}],) * 2,
        ({"type": "image_url"}, [{"type": "image_url"}]),
        (7, [7]),
    ],
)
def test_content_is_a_text_or_a_list_of_parts(parts, expected):
    """A single plain text part becomes its text, no part becomes None, and anything else becomes the list of parts."""
    assert json_access.content_of(parts) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("model", "assistant"), ("function", "tool"), ("developer", "developer"), (None, "user"), (3, "user")],
)
def test_roles_are_in_the_common_words(value, expected):
    """Providers' words for roles become the common words. A missing role is the user's."""
    assert json_access.role_of(value) == expected


@pytest.mark.parametrize(("texts", "expected"), [([], None), ([None], None), (["", None], ""), (["a", "b"], "ab")])
def test_no_texts_are_joined_to_none(texts, expected):
    """Texts are joined. If there is no text, None is returned."""
    assert json_access.join_texts(texts) == expected
