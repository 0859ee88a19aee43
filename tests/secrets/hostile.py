"""Texts that are slowest to mask.

`python -m benchmarks.masking --hostile` prints the slowest, compared with prose. They consist of words that the
patterns look for: names of secrets, beginnings of keys, separators, flags of commands, escapes. Some texts repeat a
word, and others join words at random, some of them cut off, by a seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random

from tests.processes import ROOT
from trace_recorder.storage.redaction.patterns import FORMS
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

ENVIRONMENT = {"OPENAI_API_KEY": "opaque-Key-0f-the-user-1", "DB_PASSWORD": "postgres", "A_TOKEN": "x9y8z7w6v5u4t3"}
NAMES = (
    *(
        "key=",
        "KEY=a",
        "apikey:a",
        "AccountKey=",
        "password: ",
        "token=a1",
        "pw=",
        "sig=",
        "cred:",
        "auth is ",
        "secret,",
    ),
    *("password is ", "cookie:a=", "Cookie: a=b; ", "pass ", '"value":', "value=", 'password": "', 'password\\": \\"'),
    *(
        "SERVICE_API_KEY=\n",
        "SERVICE_PASSWORD=changeme\n",
        "  password: hunter22\n",
        'API_KEY=""\n',
        "set ",
        "ENV ",
        "login ",
    ),
)
COMMANDS = (
    "curl ",
    "curl -u ",
    "-u a:",
    "-b ",
    "mysql -p",
    "redis-cli -a ",
    "sshpass -p",
    "docker login -p ",
    "cookies={",
)
URLS = ("://", "://a:", "://a:b@", "@", "hooks.slack.com/services/", "%41", "&", "?")
OTHERS = (
    *(
        "sk-a1",
        "eyJaaaaaaaa.",
        "-----BEGIN ",
        "-----BEGIN RSA PRIVATE KEY-----",
        "QUtJQ",
        "cGFzc3dvcmQ6",
        "YXBpX2tleT0x",
    ),
    *(
        "1/",
        "00000000:A",
        "Q~",
        "deadbeef",
        "x9y8z7w6",
        "aB3",
        "12345678",
        "opaque",
        "opaque-Key-0f-the-user-1",
        "postgres",
    ),
    *("pw%3Da1b2c3d4 ", "cGFzc3dvcmQ6IGh1bnRlcjIy ", "AKIA7Q2ZD3M5X9KLQ4TA "),
    *("'\"\\=;, {}\n\ta1A-_.~|/+%<>]$é", "\\n", '\\"', "\\u0041", "[REDACTED:", "Bearer ", "Basic ", "xxxx", "..."),
)
WORDS = tuple(dict.fromkeys((*NAMES, *COMMANDS, *URLS, *OTHERS, *(shape.literal for shape in FORMS))))


def pumped(size: int) -> Iterator[tuple[str, str]]:
    """Return each word, repeated to a text of that size."""
    for word in WORDS:
        yield repr(word), (word * (size // len(word) + 1))[:size]


def mixed(size: int, count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Return texts of several words in random order, some of them cut off."""
    random = Random(seed)
    for _ in range(count):
        some = random.choices(WORDS, k=random.randint(2, 5))
        cut = random.choice([0.0, 0.3])
        parts: list[str] = []
        length = 0
        while length < size:
            word = random.choice(some)
            word = word[: random.randint(1, len(word))] if random.random() < cut else word
            parts.append(word)
            length += len(word)
        yield repr(some), "".join(parts)[:size]
        yield f"{some} in a row", ("".join(some) * size)[:size]


def prose(size: int) -> str:
    """Return prose of that size from this project's own pages."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return (text * (size // len(text) + 1))[:size]


def ways() -> dict[str, Callable[[str], object]]:
    """Return the ways into masking: a text, JSON with one string, and JSON with many short strings."""
    redaction = Redaction(default_redactor, ENVIRONMENT)

    def in_short_strings(text: str) -> object:
        strings = [text[at : at + 40] for at in range(0, len(text), 40)]
        return redaction.mask(json.dumps(strings, ensure_ascii=False))

    return {
        "text": redaction.mask_plain,
        "string": lambda text: redaction.mask(json.dumps({"content": text}, ensure_ascii=False)),
        "short strings": in_short_strings,
    }
