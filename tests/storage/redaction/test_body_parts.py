"""A large body is cut into parts, which are masked like the whole body."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from trace_recorder.storage.redaction.body_parts import LARGEST, BodyPart
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

KEY = "sk-ant-api03-" + "aB3xY9kQ7m" * 4
REDACTION = Redaction(default_redactor, environment={"OWN_API_KEY": "zq81-unlikely-value-77"})


def parts(data: bytes, size: int = LARGEST) -> Iterator[BodyPart]:
    """Yield the parts of a body of which the masker sees this many bytes at a time."""
    part = BodyPart()
    while data:
        part = REDACTION.mask_part(part, data[:size], last=len(data) <= size)
        yield part
        assert part.size > 0
        data = data[part.size :]


def masked(body: object, size: int = LARGEST) -> object:
    return json.loads(b"".join(part.masked for part in parts(json.dumps(body, ensure_ascii=False).encode(), size)))


BODIES = {
    "numbers": {"data": [{"index": at, "embedding": [at / 7, -1e-9, None, True]} for at in range(3000)]},
    "one string": {"choices": [{"message": {"content": 'He said: "Grüße, \\ 日本語 \n"' * 6000}}]},
    "an image": {"data": [{"b64_json": random.Random(1).randbytes(120_000).hex()}]},
    "a list of strings": ["x" * number for number in range(400)],
    "long names": {f"name {number} " * 50: number for number in range(300)},
}


@pytest.mark.parametrize("size", [200, 1000, LARGEST])
@pytest.mark.parametrize("name", BODIES)
def test_a_body_without_a_secret_is_unchanged(name: str, size: int) -> None:
    """The joined parts of a body without a secret are the body, wherever it was cut."""
    data = json.dumps(BODIES[name], ensure_ascii=False).encode()

    assert b"".join(part.masked for part in parts(data, size)) == data


@pytest.mark.parametrize("before", range(LARGEST - 120, LARGEST + 20, 7))
def test_a_key_across_two_parts_is_masked(before: int) -> None:
    """A key that crosses two parts of a long string is masked, at any place."""
    content = ("word " * LARGEST)[:before] + f" {KEY} and more " + "words " * 8000

    assert masked({"content": content}) == {"content": content.replace(KEY, "[REDACTED:anthropic-key]")}


@pytest.mark.parametrize("before", range(LARGEST - 140, LARGEST + 10, 7))
def test_a_value_stays_with_its_name(before: int) -> None:
    """A value that is secret because of its name is masked, even if a part ends between name and value."""
    body = {
        "filler": ["ab"] * (before // 6),
        "password": "correct-horse-9",
        "env": [{"name": "X", "value": "y"}] * 3000,
    }

    assert masked(body) == {**body, "password": "[REDACTED:secret-member]"}


def test_a_long_value_of_a_secret_name_is_masked_to_its_end() -> None:
    """A long value of a secret name is masked in each part."""
    value = "".join(random.Random(2).choices("abcdefghijkmnpq3456789", k=3 * LARGEST))

    said = str(masked({"password": value, "n": 1}))

    assert not any(value[at : at + 40] in said for at in range(0, len(value) - 40, 97))


@pytest.mark.parametrize("text", ['<p>{} says "no" {}</p>', "{{ not json {} {}", '{{"a": "b" oops {} {}'])
def test_a_body_that_is_not_json_is_masked_as_a_text(text: str) -> None:
    """In a body that is not JSON, secrets are masked within and outside of quotes."""
    body = text.format("words " * 9000 + KEY, KEY + " words" * 9000)

    said = b"".join(part.masked for part in parts(body.encode())).decode()

    assert said == body.replace(KEY, "[REDACTED:anthropic-key]")


def test_bytes_that_are_not_text_stay() -> None:
    """Parts that end within a character, or have bytes that are not UTF-8, keep their bytes."""
    data = b'{"a": "' + b"\xff\xfe\xe2\x82" * 20_000 + b'"}'

    assert b"".join(part.masked for part in parts(data)) == data
