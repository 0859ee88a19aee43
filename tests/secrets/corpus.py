"""True keys, texts without secrets, and how the package records both.

`python -m tests.secrets.corpus` prints the table. No key is in the file: a key there is a template, and its letters are
drawn here, by a fixed seed. `{a20}` are twenty letters and digits, `{b…}` those of base64 in URLs, `{B…}` those of
base64, `{x…}` hexadecimal digits, `{d…}` digits, `{A…}` capitals and digits, `{z…}` small letters and digits, `{l…}`
letters, `{q…}` the 32 letters of bech32, `{r…}` those of base32, `{m…}` those of z-base-32, `{c…}` those of a
password's hash. A row may have a fourth column: a template of a text that only looks like such a key, and is not
masked.
"""

from __future__ import annotations

import json
import re
import string
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from tests.wire.corpus import load
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import Payload

_LETTERS = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "-_",
    "B": string.ascii_letters + string.digits + "+/",
    "x": "0123456789abcdef",
    "d": string.digits,
    "A": string.ascii_uppercase + string.digits,
    "z": string.ascii_lowercase + string.digits,
    "l": string.ascii_letters,
    "q": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "r": string.ascii_lowercase + "234567",
    "c": string.ascii_letters + string.digits + "./",
    "m": "13456789abcdefghijkmnopqrstuwxyz",
}
_DRAWN = re.compile(r"\{([abBxdAzlqrmc])(\d+)\}")
SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Key:
    """A kind of key: the service, the name of its mask, a text with a key, and the secret letters in the text."""

    service: str
    mask: str
    text: str
    drawn: tuple[str, ...]

    @property
    def longest(self) -> str:
        """Return the longest part that was drawn."""
        return max(self.drawn, key=len)


@cache
def _file() -> dict[str, Payload]:
    return json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))


def draw(template: str, random: Random) -> tuple[str, tuple[str, ...]]:
    """Fill in a template. Return the text and the drawn part, which begins and ends with a letter or digit."""
    drawn: list[str] = []

    def fill(match: re.Match[str]) -> str:
        letters, count = _LETTERS[match[1]], int(match[2])
        # A hyphen at an end belongs to the text around the key.
        ends = [letter for letter in letters if letter.isalnum()]
        drawn.append(
            "".join(
                random.choices(ends, k=min(count, 1))
                + random.choices(letters, k=max(count - 2, 0))
                + random.choices(ends, k=int(count > 1))
            )
        )
        return drawn[-1]

    return _DRAWN.sub(fill, template), tuple(drawn)


@cache
def keys(samples: int = SAMPLES) -> tuple[Key, ...]:
    """Return this many keys of every kind."""
    random = Random(7)
    return tuple(
        Key(service, mask, *draw(template, random))
        for service, mask, template, *_ in _file()["keys"]
        for _ in range(samples)
    )


@cache
def near_misses() -> tuple[tuple[str, str], ...]:
    """Return texts that look like keys but are not, each with the service whose keys it looks like."""
    random = Random(9)
    return tuple((row[0], draw(row[3], random)[0]) for row in _file()["keys"] if len(row) > 3)


@cache
def innocent() -> dict[str, str]:
    """Return texts without secrets."""
    random = Random(8)
    drawn = {
        f"{name} {number}": draw(template, random)[0]
        for name, [template] in _file()["random"].items()
        for number in range(SAMPLES)
    }
    return {**_file()["innocent"], **drawn}


def masked(text: str) -> str:
    """Return the recorded form of a text."""
    return json.loads(Redaction(default_redactor, {}).mask(json.dumps({"text": text}, ensure_ascii=False))[0])["text"]


def table() -> list[tuple[str, str, int, int]]:
    """Return for every kind the service, the name of its mask, and how many of its keys are masked and how many are
    not.
    """
    rows: dict[tuple[str, str], list[bool]] = {}
    for key in keys():
        left = masked(key.text)
        rows.setdefault((key.service, key.mask), []).append(
            f"[REDACTED:{key.mask}]" in left and key.longest not in left
        )
    return [(*kind, sum(hits), len(hits) - sum(hits)) for kind, hits in rows.items()]


def false_alarms() -> dict[str, str]:
    """Return the texts without secrets in which something is masked, in their masked form."""
    return {name: left for name, text in innocent().items() if (left := masked(text)) != text}


def masked_on_the_wire() -> list[tuple[str, str]]:
    """Return the masks in the corpus of real traffic: their source, and the text around them."""
    masks = []
    redaction = Redaction(default_redactor, {})
    for exchange in load():
        for text in (json.dumps(exchange.request, ensure_ascii=False), exchange.response_text):
            masked, count, _ = redaction.mask_stream(text.encode())
            if count:
                left = masked.decode()
                at = next(n for n, pair in enumerate(zip(text, left, strict=False)) if pair[0] != pair[1])
                masks.append((exchange.source, text[max(0, at - 60) : at + 60]))
    return masks


def main() -> None:
    """Print the table."""
    print(f"{'service':32} {'mask':20} hits misses")
    for service, mask, hits, misses in table():
        print(f"{service:32} {mask:20} {hits:4} {misses:6}")
    alarms = false_alarms()
    print(f"\nfalse alarms: {len(alarms)} of {len(innocent())} innocent texts", *alarms.items(), sep="\n  ")
    wire = masked_on_the_wire()
    print(f"\nmasked in {len(load())} real exchanges: {len(wire)}", *wire, sep="\n  ")


if __name__ == "__main__":
    main()
