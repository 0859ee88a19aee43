"""Checks the parameters of requests, and posted rewards and annotations."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from trace_recorder.values.messages import Payload

MAX_AT_ONCE = 10_000
"""The largest number of messages, interactions or steps in one answer."""
MAX_DIGITS = 9


class BadRequestError(Exception):
    """A parameter or a body is not valid. The message says what is expected."""


class NotFoundError(Exception):
    """No run, message, interaction or step has the requested name or number."""


def number_in(text: str, name: str) -> int:
    """Return the number in a parameter. Raises BadRequestError."""
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS:
        raise BadRequestError(f"{name} must be a number.")
    return int(text)


def numbers_in(query: Mapping[str, str], first: int, end: int) -> Sequence[int]:
    """Return the requested numbers, by `numbers`, or by `from` and `to`.

    The numbers from `first` to `end` exist, without `end`. Raises BadRequestError, and NotFoundError if `numbers` has a
    number that does not exist.
    """
    if "numbers" in query:
        asked = [number_in(text, "numbers") for text in query["numbers"].split(",")]
        if any(not first <= number < end for number in asked):
            raise NotFoundError("there is none of that number.")
        return asked[:MAX_AT_ONCE]
    begin = number_in(query.get("from", str(first)), "from")
    last = number_in(query["to"], "to") if "to" in query else end - 1
    return range(max(first, begin), min(last + 1, end))[:MAX_AT_ONCE]


def seconds_in(text: str, at_most: float) -> float:
    """Return how many seconds a client wants to wait, at most `at_most`."""
    return min(number_in(text.partition(".")[0] or "0", "wait"), at_most)


def posted_object(data: bytes) -> dict[str, Payload]:
    """Return the posted JSON object. Raises BadRequestError."""
    try:
        posted = json.loads(data)
    except (ValueError, RecursionError):
        raise BadRequestError("a JSON object is expected.") from None
    if not isinstance(posted, dict):
        raise BadRequestError("a JSON object is expected.")
    return posted


def reward_in(posted: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the posted reward. Raises BadRequestError."""
    _only(posted, {"name", "value", "weight", "step_number", "explanation"})
    name, value, weight = posted.get("name"), posted.get("value"), posted.get("weight", 1.0)
    number, explanation = posted.get("step_number"), posted.get("explanation")
    if not isinstance(name, str) or not name.strip():
        raise BadRequestError("a reward needs a name.")
    if not _is_number(value) or not _is_number(weight):
        raise BadRequestError("the value of a reward, and its weight, have to be finite numbers.")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise BadRequestError("the number of a step must be an integer.")
    if explanation is not None and not isinstance(explanation, str):
        raise BadRequestError("an explanation must be a text.")
    return {"name": name, "value": value, "weight": weight, "step_number": number, "explanation": explanation}


def annotation_in(posted: Mapping[str, Payload]) -> tuple[str, Payload]:
    """Return the key and the value of the posted annotation. Raises BadRequestError."""
    _only(posted, {"key", "value"})
    key = posted.get("key")
    if not isinstance(key, str) or not key.strip():
        raise BadRequestError("an annotation needs a key.")
    if "value" not in posted:
        raise BadRequestError("an annotation needs a value.")
    return key, posted["value"]


def _only(posted: Mapping[str, Payload], known: set[str]) -> None:
    if others := posted.keys() - known:
        raise BadRequestError(f"{min(others)!r} is not known here.")


def _is_number(value: Payload) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
