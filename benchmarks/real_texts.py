"""Texts as agents send and get them: source code, prose in several scripts, logs, JSON of tools, images, embeddings.

They come from the files of this Python, or are drawn by a fixed seed. No text is one repeated word.
"""

from __future__ import annotations

import base64
import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from random import Random

MESSAGE_CHARS = 4000
"""A long text becomes messages of this many characters, as the results of tools."""
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
    random = Random(1)
    return {
        "source code": _messages(_of_files("*.py", size)),
        "prose": _messages(_of_files("*.rst", size) or _of_files("*.txt", size)),
        "prose in ten scripts": _messages(" ".join(random.choices(_SENTENCES, k=size // 60))[:size]),
        "logs": _messages("\n".join(_log(random, size))[:size]),
        "JSON of tools": _messages(_listing(size)),
        "a raw body of JSON": [_listing(size)],
        "an image in base64": [json.dumps({"url": base64.b64encode(random.randbytes(size * 3 // 4)).decode()})],
        "embeddings": [json.dumps({"embedding": [random.gauss(0, 0.02) for _ in range(size // 22)]})],
        "numbers": [json.dumps({"tokens": [random.randrange(200_000) for _ in range(size // 7)]})],
    }


def _messages(text: str) -> list[str]:
    pieces = [text[at : at + MESSAGE_CHARS] for at in range(0, len(text), MESSAGE_CHARS)]
    return [json.dumps({"role": "tool", "content": piece}, ensure_ascii=False) for piece in pieces]


def _of_files(pattern: str, size: int) -> str:
    parts: list[str] = []
    for name in ("stdlib", "purelib"):
        for path in sorted(Path(sysconfig.get_paths()[name]).rglob(pattern)):
            if sum(map(len, parts)) >= size:
                break
            parts.append(path.read_text(encoding="utf-8", errors="replace")[: size // 20])
    return "".join(parts)[:size]


def _log(random: Random, size: int) -> Iterator[str]:
    for _ in range(size // 90):
        yield (
            f"2025-06-12T22:05:{random.randint(10, 59)}Z INFO [http] GET /v1/items/{random.randint(1, 99999)} 200 "
            f"{random.randint(1, 999)}ms request_id={random.randbytes(16).hex()}"
        )


def _listing(size: int) -> str:
    """Return the listing of a directory as a tool returns it."""
    root = Path(sysconfig.get_paths()["stdlib"])
    entries: list[dict[str, object]] = []
    for number, path in enumerate(sorted(root.rglob("*.py"))):
        if number * 130 >= size:
            break
        status = path.stat()
        entries.append({"path": str(path.relative_to(root)), "size": status.st_size, "mode": oct(status.st_mode)})
        entries[-1] |= {"modified": status.st_mtime, "type": "file", "readable": True}
    return json.dumps(entries)
