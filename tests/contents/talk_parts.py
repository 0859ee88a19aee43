"""Parts of the requests in every dialect: the earlier messages of a conversation, the ids of calls, and the pieces of
streams.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.contents.script import Answer, Asked, Call, Result, Talk

Body = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
NAMES = ("weather", "research", "search")


def before(talk: Talk, number: int) -> Iterator[tuple[Asked | Answer | tuple[Result, ...], str]]:
    """Yield the earlier parts of a round's request (questions, results and answers), each answer with the id of its
    round.
    """
    for place, round_ in enumerate(talk.rounds[: number + 1]):
        results = tuple(new for new in round_.new if isinstance(new, Result))
        if results:
            yield results, f"r{place - 1}"
        yield from ((new, "") for new in round_.new if isinstance(new, Asked))
        if place < number and not round_.answer.fails:
            yield round_.answer, f"r{place}"


def ids(talk: Talk, key: str, answer: Answer) -> list[str]:
    """Return the ids of an answer's calls."""
    return [f"call_{talk.agent}{key}_{number}" for number in range(len(answer.calls))]


def calls_before(talk: Talk, key: str) -> list[tuple[str, Call]]:
    """Return the calls of the round with this id, with their ids."""
    answer = talk.rounds[int(key[1:])].answer
    return list(zip(ids(talk, key, answer), answer.calls, strict=True))


def text64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def event(body: Body, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


def halves(text: str) -> list[str]:
    """Return a text in two pieces, as a stream sends it."""
    return [part for part in (text[: len(text) // 2], text[len(text) // 2 :]) if part]
