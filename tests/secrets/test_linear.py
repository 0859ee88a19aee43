"""No pattern takes more than linear time, because the text that a pattern reads before it matches is bounded.

A pattern is tried at each position of a text. If all but its possessive end has bounded width, and the end cannot fail,
a try takes bounded time, or consumes the text that it read. So all tries together take time linear in the text.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from tests.secrets import hostile
from trace_recorder.lazy_patterns import LazyPattern
from trace_recorder.storage.redaction import (
    commands,
    first_look,
    json_members,
    json_strings,
    key_finder,
    name_kinds,
    named_values,
    text_masking,
    urls,
)
from trace_recorder.storage.redaction import encodings as secret_encodings
from trace_recorder.storage.redaction import known_values as secret_values
from trace_recorder.storage.redaction import names as secret_names
from trace_recorder.storage.redaction import partial_secrets as secret_endings
from trace_recorder.storage.redaction import patterns as secret_forms
from trace_recorder.storage.redaction import redactor as redact
from trace_recorder.storage.redaction import split_secrets as spelled
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

MODULES = (
    *(secret_forms, secret_names, secret_values, secret_encodings, secret_endings),
    *(commands, first_look, key_finder, name_kinds, named_values, json_members, text_masking, urls),
)
FULL = {
    "_NAME",
    "_SECRET_NAME",
    "_WEAK",
    "_NO_NAME",
    "_WORDS",
    "_EXPRESSION",
    "_HASH",
    "_TYPE",
    "_DOTTED",
    "_VERSION",
    "_WORD",
    "_STEP",
}
FULL |= {"PLACEHOLDER", "_NO_PASSWORD", "_SCHEME", "_COMPOUND", "_PLACEHOLDER", "COLON"}
"""Patterns that read only a name, or the beginning of a value, both of which are short."""


def patterns() -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes]]]:
    """Return every pattern that is tried on a text of any length, with its name."""
    for module in MODULES:
        for name, value in vars(module).items():
            if isinstance(value, LazyPattern) and name not in FULL:
                yield f"{module.__name__}.{name}", value
            elif name == "_COMMANDS":
                yield from ((f"{module.__name__}.{name} {command.word}", command.flag) for command in value)
                yield from ((f"{module.__name__}.{name} begin {one.word}", one.begin) for one in value if one.begin)
    for form in secret_forms.FORMS:
        yield f"{form.what} {form.literal}", form.pattern
        if form.from_literal:
            yield f"{form.what} behind {form.literal}", form.literal_pattern
        if form.up_to_literal:
            yield f"{form.what} up to {form.literal}", re.compile(form.up_to_literal)
    for literal in key_finder.LITERALS:
        yield f"may begin {literal.text}", literal.may_begin


def unbounded(tree: list[tuple[object, object]], *, is_end: bool) -> list[str]:
    """Return the unbounded repeats that are not at a pattern's end, where nothing can fail any more."""
    repeats: list[str] = []
    for number, one in enumerate(tree):
        last = is_end and all(_cannot_fail(*one) for one in tree[number + 1 :])
        name, arguments = _possessive(*one)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = arguments  # type: ignore[misc]
            is_open = most == re._constants.MAXREPEAT  # type: ignore[attr-defined]
            if is_open and not (last and name == "POSSESSIVE_REPEAT") and not (last and name == "MAX_REPEAT"):
                repeats.append(f"{name} {least}")
            repeats += unbounded(list(inner), is_end=last and (not is_open or name == "POSSESSIVE_REPEAT"))
        elif name == "SUBPATTERN":
            repeats += unbounded(list(arguments[-1]), is_end=last)  # type: ignore[index]
        elif name == "BRANCH":
            for branch in arguments[1]:  # type: ignore[index]
                repeats += unbounded(list(branch), is_end=last)
        elif name in ("ASSERT", "ASSERT_NOT"):
            repeats += unbounded(list(arguments[1]), is_end=False)  # type: ignore[index]
        elif name == "ATOMIC_GROUP":
            repeats += unbounded(list(arguments), is_end=last)  # type: ignore[call-overload]
    return repeats


def _cannot_fail(kind: object, given: object) -> bool:
    name, given = _possessive(kind, given)
    return name in ("MAX_REPEAT", "POSSESSIVE_REPEAT") and given[0] == 0  # type: ignore[index]


def _possessive(kind: object, arguments: object) -> tuple[str, object]:
    """Return whether a node of a parsed pattern is a possessive repeat. Python defines it as an atomic group of one
    repeat.
    """
    name = str(kind)
    if name == "ATOMIC_GROUP" and len(inner := list(arguments)) == 1 and str(inner[0][0]) == "MAX_REPEAT":  # type: ignore[call-overload]
        return "POSSESSIVE_REPEAT", inner[0][1]
    return name, arguments


def parsed(pattern: re.Pattern[str] | re.Pattern[bytes]) -> list[tuple[object, object]]:
    flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    return list(re._parser.parse(pattern.pattern, flags))  # type: ignore[attr-defined]


def test_a_try_of_a_pattern_reads_a_bounded_text() -> None:
    """A try of a pattern reads a bounded part of any text, or ends in a match."""
    repeats = [(name, unbounded(parsed(pattern), is_end=True)) for name, pattern in patterns()]

    assert [(name, some) for name, some in repeats if some] == []


def nested(tree: list[tuple[object, object]], *, within: bool) -> list[str]:
    """Return the repeats within repeats that can match a text in exponentially many ways."""
    repeats: list[str] = []
    for one in tree:
        name, arguments = _possessive(*one)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = arguments  # type: ignore[misc]
            varies = name != "POSSESSIVE_REPEAT" and most > 8 and most != least
            if varies and within:
                repeats.append(f"{name} {least} {most}")
            repeats += nested(list(inner), within=varies or (within and name != "POSSESSIVE_REPEAT"))
        elif name == "SUBPATTERN":
            repeats += nested(list(arguments[-1]), within=within)  # type: ignore[index]
        elif name == "BRANCH":
            for branch in arguments[1]:  # type: ignore[index]
                repeats += nested(list(branch), within=within)
        elif name in ("ASSERT", "ASSERT_NOT"):
            repeats += nested(list(arguments[1]), within=False)  # type: ignore[index]
        elif name == "ATOMIC_GROUP":
            repeats += nested(list(arguments), within=False)  # type: ignore[call-overload]
    return repeats


def every_pattern() -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes]]]:
    """Return these patterns, and the patterns that read only short texts."""
    yield from patterns()
    for module in (*MODULES, json_strings, redact, spelled):
        for name, value in vars(module).items():
            if isinstance(value, LazyPattern):
                yield f"{module.__name__}.{name}", value


def test_no_pattern_has_nested_repeats() -> None:
    """A repeat within a repeat could match a text of 30 characters in 2^30 ways."""
    repeats = [(name, nested(parsed(pattern), within=False)) for name, pattern in every_pattern()]

    assert [(name, some) for name, some in repeats if some] == []


UNITS = ("key=", "password: ", "token=a1", "://a:", "://a:b@", "sk-a1", "eyJ", "eyJaaaaaaaa.", "-----BEGIN RSA PRIVATE KEY-----", "%41",  # noqa: E501
         "curl -u ", "Cookie: a=b; ", "QUtJQ", "secret,", "auth is ", "x9y8z7w6", '"value":', "\\n", "AKIA", "1/", "00000000:A")  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("act", [default_redactor, secret_endings.unfinished])
def test_the_work_for_hostile_texts_is_linear(unit: str, act: Callable[[str], object]) -> None:
    """A text four times as long takes at most four times as many calls of our functions and of `re`."""
    redaction = Redaction(default_redactor, {"A_TOKEN": "x9y8z7w6"})

    def steps_of(size: int) -> int:
        text = (unit * size)[:size]
        return steps(act, text) + steps(redaction.mask_plain, text)

    steps_of(5_000)  # so that compilation, which happens once, is not counted
    assert steps_of(20_000) <= 4.2 * steps_of(5_000) + 100


def steps(act: Callable[..., object], *arguments: object, **named: object) -> int:
    """Return how many calls of our own functions and of Python's are made."""
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    act(*arguments, **named)
    sys.setprofile(None)
    return count


@pytest.mark.parametrize(("way", "bound"), [("text", 1.9), ("string", 2.9), ("short strings", 4.4)])
def test_no_hostile_text_takes_many_function_calls_for_each_character(way: str, bound: float) -> None:
    """The texts repeat and mix the words that the patterns look for. In JSON, names are judged before the string is
    decoded, and those of a string with a secret again.

    `python -m benchmarks.masking --hostile` measures the time of a function call.
    """
    act, size = hostile.ways()[way], 2000
    act(hostile.prose(size))  # so that compilation, which happens once, is not counted
    texts = dict((*hostile.pumped(size), *hostile.mixed(size, 60)))

    many = [name for name, text in texts.items() if steps(act, text) > bound * size]
    again = {name: steps(act, texts[name]) / size for name in many}  # a text may have compiled patterns of its own

    assert {name: count for name, count in again.items() if count > bound} == {}


def test_only_the_strings_around_a_secret_are_examined() -> None:
    """Of a body with 4,000 strings and one secret, fewer strings are read than one in ten."""
    redaction = Redaction(default_redactor, {})
    entries = [{"path": f"lib/module_{number}.py", "type": "file"} for number in range(1000)]
    body = json.dumps([*entries, {"user": "me", "password": "hunter22"}, *entries])

    assert redaction.mask(body)[1] == 1  # this call compiles patterns
    assert steps(redaction.mask, body) < 400
