"""Texts as agents send and get them: source code, prose in several scripts, logs, JSON of tools, images, embeddings.

They come from the standard library of this Python, or are drawn by a fixed seed, so that the environments of ourselves
and of the peers have the same texts. No text is one repeated word.
"""

from __future__ import annotations

import base64
import json
import sysconfig
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics
from random import Random

MESSAGE_CHARS = 4000
"""A long text becomes messages of this many characters, as the results of tools."""
TEXT_CHARS = 400_000
"""`tool_result` takes pieces of texts of this many characters."""
_SENTENCES = (
    "All human beings are born free and equal in dignity and rights.",
    "They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах.",  # noqa: RUF001 - these letters are Cyrillic
    "人人生而自由,在尊严和权利上一律平等。",
    "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
)
"""The first article of the Universal Declaration of Human Rights."""


def requests(size: int) -> dict[str, list[str]]:
    """Return JSON texts by kind, about `size` characters of each kind, as they are masked one by one."""
    numbers = Random(2)
    return {
        "source code": _messages(code(size)),
        "prose": _messages(prose(size)),
        "prose in ten scripts": _messages(scripts(size)),
        "logs": _messages(log(size)),
        "JSON of tools": _messages(listing(size)),
        "a raw body of JSON": [listing(size)],
        "an image in base64": [json.dumps({"url": image(size)})],
        "embeddings": [json.dumps({"embedding": embedding(size // 22)})],
        "numbers": [json.dumps({"tokens": [numbers.randrange(200_000) for _ in range(size // 7)]})],
    }


def tool_result(number: int, size: int) -> str:
    """Return what a tool of a coding agent returns, different for each number: half of them are source code."""
    kinds = _tool_texts()
    text = kinds[number % len(kinds)]
    start = number * 7919 % (len(text) - size)
    return text[start : start + size]


@cache
def _tool_texts() -> tuple[str, ...]:
    source = code(TEXT_CHARS)
    return source, log(TEXT_CHARS), source, listing(TEXT_CHARS), source, prose(TEXT_CHARS), source, scripts(TEXT_CHARS)


def code(size: int) -> str:
    """Return source code of the standard library."""
    parts: list[str] = []
    length = 0
    for path in _modules():
        if length >= size:
            break
        parts.append(path.read_text(encoding="utf-8", errors="replace")[: size // 20])
        length += len(parts[-1])
    return "".join(parts)[:size]


def prose(size: int) -> str:
    """Return Python's language reference, again from its beginning if `size` is larger."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    return (text * (size // len(text) + 1))[:size]


def scripts(size: int) -> str:
    """Return sentences in ten languages and seven scripts."""
    return " ".join(Random(1).choices(_SENTENCES, k=size // 30))[:size]


def log(size: int) -> str:
    """Return the log of a server."""
    random = Random(1)
    lines = (
        f"2025-06-12T22:05:{random.randint(10, 59)}Z INFO [http] GET /v1/items/{random.randint(1, 99999)} 200 "
        f"{random.randint(1, 999)}ms request_id={random.randbytes(16).hex()}"
        for _ in range(size // 90)
    )
    return "\n".join(lines)[:size]


def listing(size: int) -> str:
    """Return the listing of a directory as a tool returns it, about `size` characters of JSON."""
    root = Path(sysconfig.get_paths()["stdlib"])
    entries: list[dict[str, object]] = []
    for number, path in enumerate(_modules()):
        if number * 130 >= size:
            break
        status = path.stat()
        entries.append({"path": str(path.relative_to(root)), "size": status.st_size, "mode": oct(status.st_mode)})
        entries[-1] |= {"modified": status.st_mtime, "type": "file", "readable": True}
    return json.dumps(entries)


def image(size: int) -> str:
    """Return `size` characters of base64."""
    return base64.b64encode(Random(1).randbytes(size * 3 // 4)).decode()


def embedding(dimensions: int) -> list[float]:
    """Return a vector."""
    random = Random(1)
    return [random.gauss(0, 0.02) for _ in range(dimensions)]


@cache
def _modules() -> tuple[Path, ...]:
    """Return the modules of the standard library. Installed packages are left out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    return tuple(path for path in sorted(root.rglob("*.py")) if "site-packages" not in path.parts)


def _messages(text: str) -> list[str]:
    pieces = [text[at : at + MESSAGE_CHARS] for at in range(0, len(text), MESSAGE_CHARS)]
    return [json.dumps({"role": "tool", "content": piece}, ensure_ascii=False) for piece in pieces]
