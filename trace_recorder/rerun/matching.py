"""Which recorded call a request is: the first equal one that has not been used yet.

Requests are compared by digests of their members, those of long lists element by element, so that a conversation that
is repeated with each call is digested once. A mask in a recorded text matches any text.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.rerun.recorded import RecordedExchange, Recording
from trace_recorder.rerun.results_order import (
    blocks_in_one_order,
    in_one_order,
    result_key,
    results_in_any_order,
    sorted_results,
)
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload

Match: TypeAlias = Callable[[Payload, Payload], bool]
"""Whether a request (the first) is the recorded one (the second), both as JSON values."""
Claim: TypeAlias = Callable[[int], bool]
"""Whether the record of this number may be used: another process may have used it."""
Step: TypeAlias = str | int
Path: TypeAlias = tuple[Step, ...]
Digest: TypeAlias = bytes
_Element: TypeAlias = tuple[str | None, Digest]

ANY = "*"
_MASK = re.compile(r"\[REDACTED:[a-z0-9-]+\](?: \d+)?")
_STEP = re.compile(r"\.?([A-Za-z_$][\w$-]*)|\[(-?\d+|\*)\]")


def parse_path(path: str) -> Path:
    """Return the steps of a path such as `messages[0].content` or `tools[*].description`. Raises ValueError."""
    steps: list[Step] = []
    offset = 0
    while offset < len(path):
        match = _STEP.match(path, offset)
        if match is None:
            raise ValueError(f"ignore={path!r}: a path is members and positions, such as 'messages[0].content'")
        name, position = match.groups()
        steps.append(name or (ANY if position == ANY else int(position)))
        offset = match.end()
    if not steps or not isinstance(steps[0], str):
        raise ValueError(f"ignore={path!r}: a path begins with the name of a member, such as 'temperature'")
    return tuple(steps)


def without(value: Payload, paths: Sequence[Path]) -> Payload:
    """Return a value without what the paths lead to; an element of a list becomes null, so that positions stay."""
    if isinstance(value, dict):
        inner = ((name, one, _below(paths, name)) for name, one in value.items())
        return {name: without(one, below) for name, one, below in inner if () not in below}
    if isinstance(value, list):
        elements = ((one, _below(paths, at, at - len(value))) for at, one in enumerate(value))
        return [None if () in below else without(one, below) for one, below in elements]
    return value


def _below(paths: Iterable[Path], *names: Step) -> list[Path]:
    """Return what is left of the paths that lead to a member or an element, by any of its names."""
    return [path[1:] for path in paths if path[:1] in {(ANY,), *((name,) for name in names)}]


@dataclass(frozen=True, slots=True)
class Live:
    """A request that is to be answered: its address and its body."""

    endpoint: Endpoint
    body: Payload


class Requests:
    """The recorded calls that have not been used yet, by their requests."""

    def __init__(
        self,
        recording: Recording,
        ignore: Iterable[str] = (),
        match: Match | None = None,
        claim: Claim = lambda _: True,
    ) -> None:
        self._recording = recording
        self._claim = claim
        self._ignored = [parse_path(path) for path in ignore]
        self._in_any_order = match is results_in_any_order
        self._match = None if self._in_any_order else match
        self._item = recording.item
        self._of_items: dict[int, _Element] = {}
        self._left = {id(exchange): exchange for exchange in recording.exchanges}
        self._by_key: dict[Digest, deque[RecordedExchange]] = {}
        for exchange in recording.exchanges if self._match is None else ():
            self._by_key.setdefault(self._recorded_key(exchange), deque()).append(exchange)

    @property
    def left(self) -> list[RecordedExchange]:
        """Return the recorded calls that were not used yet, in the order in which they began."""
        return [*self._left.values()]

    def take(self, live: Live, among: Callable[[RecordedExchange], bool] = lambda _: True) -> RecordedExchange | None:
        """Return the first recorded call that equals this one, which is then used; None if there is none."""
        for found in self._candidates(live):
            if among(found):
                del self._left[id(found)]
                if self._claim(found.begin.seq):
                    return found
        return None

    def knows(self, live: Live) -> bool:
        """Whether this is a recorded call that has not been used yet."""
        return next(self._candidates(live), None) is not None

    def _candidates(self, live: Live) -> Iterator[RecordedExchange]:
        if self._match is not None:
            yield from (one for one in self.left if self._match(live.body, self._recording.request(one)))
            return
        yield from self._equal(live)
        yield from (one for one in self.left if one.is_masked and self._fits(live, one))

    def _equal(self, live: Live) -> Iterator[RecordedExchange]:
        same = self._by_key.get(self._key(live.endpoint, self._digests(live.body)), deque())
        while same and id(same[0]) not in self._left:
            same.popleft()
        return (one for one in same if id(one) in self._left)

    def _fits(self, live: Live, exchange: RecordedExchange) -> bool:
        if _address(live.endpoint) != _address(exchange.endpoint):
            return False
        recorded, asked = (without(body, self._ignored) for body in (self._recording.request(exchange), live.body))
        if self._in_any_order:
            recorded, asked = in_one_order(recorded), in_one_order(asked)
        return fits(recorded, asked)

    def _recorded_key(self, exchange: RecordedExchange) -> Digest:
        if "items" not in exchange.begin.data:
            return self._key(exchange.endpoint, self._digests(self._recording.request(exchange)))
        try:
            body, numbers = exchange.records.request_in_items()
            return self._key(exchange.endpoint, dict(self._recorded_digests(body, numbers)))
        except ours(KeyError, TypeError, ValueError, AttributeError):
            return b""

    def _recorded_digests(
        self, body: Mapping[str, Payload], numbers: Mapping[str, int | list[int]]
    ) -> Iterable[tuple[str, Digest]]:
        for name, value in body.items():
            paths = _below(self._ignored, name)
            if () in paths:
                continue
            items = numbers.get(name)
            if isinstance(items, list) and not paths:
                yield name, self._of_list(map(self._of_item, items))
                continue
            whole = value if items is None else self._value(items)
            yield name, self._of_member(without(whole, paths))

    def _value(self, items: int | list[int]) -> Payload:
        return self._item(items) if isinstance(items, int) else [*map(self._item, items)]

    def _of_item(self, number: int) -> _Element:
        if number not in self._of_items:
            self._of_items[number] = self._of_element(self._item(number))
        return self._of_items[number]

    def _of_element(self, value: Payload) -> _Element:
        """Return the digest of an element of a list, and its key if it may stand in another place."""
        if not self._in_any_order:
            return None, _digest(value)
        ordered = blocks_in_one_order(value)
        return result_key(ordered), _digest(ordered)

    def _of_list(self, elements: Iterable[_Element]) -> Digest:
        return blake2b(b"[" + b"".join(sorted_results(elements)), digest_size=16).digest()

    def _of_member(self, value: Payload) -> Digest:
        return self._of_list(map(self._of_element, value)) if isinstance(value, list) else _digest(value)

    def _digests(self, body: Payload) -> dict[str, Digest]:
        if not isinstance(body, dict):
            return {"": _digest(body)}
        paths = {name: _below(self._ignored, name) for name in body}
        return {name: self._of_member(without(body[name], paths[name])) for name in body if () not in paths[name]}

    def _key(self, endpoint: Endpoint, digests: Mapping[str, Digest]) -> Digest:
        whole = blake2b(repr(_address(endpoint)).encode(), digest_size=16)
        for name in sorted(digests):
            whole.update(name.encode("utf-8", "surrogatepass") + b"\0" + digests[name])
        return whole.digest()


def _address(endpoint: Endpoint) -> tuple[str, str | None, bool]:
    """Return the address without its host: a replay may be called under any host."""
    return endpoint.api, endpoint.model, endpoint.streams


def _digest(value: Payload) -> Digest:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).digest()


def fits(recorded: Payload, live: Payload) -> bool:
    """Whether two values are equal, where a mask in a recorded text equals any text."""
    match recorded, live:
        case str(), str():
            return recorded == live or _fits_masked(recorded, live)
        case dict(), dict():
            return recorded.keys() == live.keys() and all(fits(one, live[name]) for name, one in recorded.items())
        case list(), list():
            return len(recorded) == len(live) and all(map(fits, recorded, live))
    return type(recorded) is type(live) and recorded == live


def _fits_masked(recorded: str, live: str) -> bool:
    if "[REDACTED:" not in recorded:
        return False
    between = ".+?".join(map(re.escape, _MASK.split(recorded)))
    return re.fullmatch(between, live, re.DOTALL) is not None
