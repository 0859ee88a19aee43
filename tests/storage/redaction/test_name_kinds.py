"""Whether a text looks like a key is decided by counts of its character classes, which agree with the rule."""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random

import pytest

from trace_recorder.storage.redaction.name_kinds import _RARE, LONGEST_SAMPLE, is_strange
from trace_recorder.storage.redaction.text_masking import default_redactor

_STEP = re.compile(
    r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Z])(?=[0-9])|(?<=[A-Z]{2})(?=[a-z])|(?<=[a-z][A-Z])(?=[A-Z0-9])"
)
_ALPHABETS = ("abcABC012_-éß", "aaaaabcdefghAB1", "ABCDefgh0123", "abcdefghijkl1A")


def _is_strange_by_rule(value: str) -> bool:
    look = value[:LONGEST_SAMPLE]
    steps = len(_STEP.findall(look))
    rare = sum(one + other in _RARE for one, other in pairwise(look.lower()))
    telling = max(steps, steps + rare if look in (look.lower(), look.upper()) else 0)
    return len(value) >= 16 and len(set(look)) >= 8 and telling >= 3 and 5 * telling >= len(look)


def test_counts_agree_with_the_rule() -> None:
    """Random texts of several alphabets and lengths are judged as by the regular expression of the rule and its rare
    pairs.
    """
    random = Random(1)
    values = [
        "".join(random.choices(random.choice(_ALPHABETS), k=random.choice([5, 20, 60, 500]))) for _ in range(4000)
    ]

    assert [is_strange(value) for value in values] == [_is_strange_by_rule(value) for value in values]


@pytest.mark.parametrize("before", ["", "theme=[REDACTED:github-token]; "])
def test_cookies_are_masked_after_a_masked_secret_in_their_line(before: str) -> None:
    line = f"Set-Cookie: {before}sid=2YxPbexNic0ldferJOrFuJgMa5mIlBqN; Path=/ [REDACTED:github-token]"
    assert default_redactor(line) == "Set-Cookie: [REDACTED:assigned-secret]"
    assert default_redactor("Cookie: sid=[REDACTED:github-token]; a=b") == "Cookie: sid=[REDACTED:github-token]; a=b"


def test_names_of_cookies_without_values_stay() -> None:
    """If only the last name in a long line of cookies has a value, only this value is masked."""
    names = "Cookie: a=b " * 500

    assert default_redactor(f"{names}Cookie: session=x9y8z7w6v5u4t3s2") == f"{names}Cookie: [REDACTED:assigned-secret]"
