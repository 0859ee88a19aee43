"""Short strings of JSON are masked together, with the same result as each string alone."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.secrets.corpus import innocent, keys
from trace_recorder.storage.redaction import json_strings
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

REDACTION = Redaction(default_redactor, {"A_TOKEN": "x9y8z7w6v5", "DB_PASSWORD": "postgres"})
BETWEEN = json_strings.BETWEEN
LETTERS = ("käse", "\N{RIGHT SINGLE QUOTATION MARK}", "\N{CYRILLIC SMALL LETTER A}", "\N{GRINNING FACE}")


def together(strings: list[str]) -> list[str]:
    """Return each of these strings after all were masked as one JSON text."""
    return json.loads(REDACTION.mask(json.dumps(strings))[0])


def alone(strings: list[str]) -> list[str]:
    """Return each of these strings after it was masked alone."""
    return [together([string])[0] for string in strings]


@pytest.mark.parametrize("seed", range(4))
def test_adjacent_strings_are_masked_as_each_is_alone(seed: int) -> None:
    """The strings are names, values, keys and cut parts of these, which the next string may continue."""
    random = Random(seed)
    texts = [*(key.text for key in keys(1)), *innocent().values()]
    strings = []
    for text in random.sample(texts, 150):
        cut = random.randint(0, len(text))
        strings += [
            text[:cut][-250:],
            text[cut:][:250],
            random.choice(["password:", 'password": "', "curl -u ", "", "a"]),
        ]

    assert together(strings) == alone(strings)


@pytest.mark.parametrize("seed", range(40))
def test_the_texts_of_a_request_are_masked_as_each_is_alone(seed: int) -> None:
    """One search of all texts finds the same as a search of each, whatever letters the texts before have."""
    random = Random(seed)
    secrets = [*(key.text for key in keys(1)), "the token is x9y8z7w6v5", "password: postgres", *innocent().values()]
    texts = []
    for secret in random.sample(secrets, 4):
        letters = " ".join(random.choices(LETTERS, k=random.randint(0, 9)))
        content = f"{letters} {secret[:3000]} {letters}"
        texts.append(json.dumps({"content": content}, ensure_ascii=random.random() < 0.2))

    assert REDACTION.mask_all(texts) == [REDACTION.mask(text) for text in texts]


@pytest.mark.parametrize(
    "strings",
    [
        [f"a{BETWEEN}password: hunter22", "b", f"{BETWEEN}{BETWEEN}"],
        ["password: hunter22" + BETWEEN[:5], BETWEEN[5:] + "c", BETWEEN[1:], BETWEEN[:-1]],
        [f"password: hunter22{BETWEEN}"] * 3,
    ],
)
def test_a_string_may_contain_the_separator(strings: list[str]) -> None:
    """A hostile text that has the separator between two strings, or a part of it, moves no text into another string."""
    assert together(strings) == [text.replace("hunter22", "[REDACTED:assigned-secret]") for text in strings]
