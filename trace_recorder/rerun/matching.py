"""Finds the recorded call for a request: the first unused call whose recorded request equals the request.

Requests are compared by digests of their members. Lists are digested element by element, so that each message of a
conversation is digested once. The mask of a secret in a recorded text matches any text.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias, TypeVar

from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.rerun.recorded import RecordedExchange, Recording
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload

T = TypeVar("T")
_ID_NAMES = ("tool_call_id", "call_id", "tool_use_id", "id", "name", "tool_name")


def results_in_any_order(live: Payload, recorded: Payload) -> bool:
    """Return whether two requests are equal, except for the order of the tool results of each turn.

    Use it as `replay(match=results_in_any_order)` if tools run at once, because such tools may end in any order.
    """
    return bool(in_one_order(live) == in_one_order(recorded))


def in_one_order(body: Payload) -> Payload:
    """Return a request with the tool results of each turn in the order of their ids."""
    if not isinstance(body, dict):
        return body
    ordered: dict[str, Payload] = {}
    for name, value in body.items():
        ordered[name] = value
        if isinstance(value, list):
            elements = map(blocks_in_one_order, value)
            ordered[name] = [*sorted_results((result_key(element), element) for element in elements)]
    return ordered


def blocks_in_one_order(element: Payload) -> Payload:
    """Return a message with its blocks that are tool results in the order of their ids."""
    if not isinstance(element, dict):
        return element
    parts = {name: element[name] for name in ("content", "parts") if isinstance(element.get(name), list)}
    if not parts:
        return element
    return element | {name: [*sorted_results((_block_key(block), block) for block in parts[name])] for name in parts}


def sorted_results(elements: Iterable[tuple[str | None, T]]) -> Iterator[T]:
    """Yield elements in their order, except that consecutive elements with a key are sorted by their keys."""
    for is_result, consecutive in groupby(elements, key=lambda pair: pair[0] is not None):
        group = [*consecutive]
        if is_result:
            group.sort(key=itemgetter(0))
        yield from (element for _, element in group)


def result_key(element: Payload) -> str | None:
    """Return the sort key of a message or an item that is the result of a tool. Return None for other elements."""
    members = as_dict(element)
    kind = as_text(members.get("type")) or ""
    if members.get("role") in {"tool", "function"} or kind.endswith("_output"):
        return _key(members)
    blocks = as_list(members.get("content")) or as_list(members.get("parts"))
    keys = [_block_key(block) for block in blocks]
    if not keys or None in keys:
        return None
    return "".join(filter(None, keys))


def _block_key(block: Payload) -> str | None:
    members = as_dict(block)
    if members.get("type") == "tool_result":
        return _key(members)
    response = members.get("functionResponse", members.get("function_response"))
    return _key(response) if isinstance(response, dict) else None


def _key(members: dict[str, Payload]) -> str:
    """Return the sort key of a tool result: its ids, and its JSON."""
    ids = (value for name in _ID_NAMES if isinstance(value := members.get(name), str))
    return "\0".join((*ids, json.dumps(members, sort_keys=True)))


Match: TypeAlias = Callable[[Payload, Payload], bool]
"""A function that returns whether a live request (the first argument) equals a recorded request (the second)."""
Claim: TypeAlias = Callable[[int], bool]
"""A function that says whether the record with this number may be used.

Another process of the same program may have used the record already.
"""
PathStep: TypeAlias = str | int
Path: TypeAlias = tuple[PathStep, ...]
Digest: TypeAlias = bytes
_Element: TypeAlias = tuple[str | None, Digest]

ANY = "*"
_MASK = re.compile(r"\[REDACTED:[a-z0-9-]+\](?: \d+)?")
_STEP = re.compile(r"\.?([A-Za-z_$][\w$-]*)|\[(-?\d+|\*)\]")


def parse_path(path: str) -> Path:
    """Return the steps of a path such as `messages[0].content` or `tools[*].description`. Raises ValueError."""
    steps: list[PathStep] = []
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
    """Return a value without the members at these paths.

    An element of a list becomes null, so that the other elements keep their positions.
    """
    if isinstance(value, dict):
        members = ((name, member, _below(paths, name)) for name, member in value.items())
        return {name: without(member, below) for name, member, below in members if () not in below}
    if isinstance(value, list):
        elements: list[Payload] = []
        for index, element in enumerate(value):
            below = _below(paths, index, index - len(value))
            if () in below:
                elements.append(None)
            else:
                elements.append(without(element, below))
        return elements
    return value


def _below(paths: Iterable[Path], *names: PathStep) -> list[Path]:
    """Return the rest of each path whose first step is one of these names, or is a wildcard."""
    return [path[1:] for path in paths if path[:1] in {(ANY,), *((name,) for name in names)}]


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """A request to answer: its endpoint and its body."""

    endpoint: Endpoint
    body: Payload


class UnusedCalls:
    """The unused recorded calls of a replay. `take` finds the call whose recorded request equals a live request."""

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
        self._match: Match | None = None
        if not self._in_any_order:
            self._match = match
        self._item = recording.item
        self._item_digests: dict[int, _Element] = {}
        self._unused = {id(exchange): exchange for exchange in recording.exchanges}
        self._by_key: dict[Digest, deque[RecordedExchange]] = {}
        if self._match is None:
            for exchange in recording.exchanges:
                self._by_key.setdefault(self._recorded_key(exchange), deque()).append(exchange)

    @property
    def unused(self) -> list[RecordedExchange]:
        """Return the recorded calls that were not used yet, in the order in which they began."""
        return [*self._unused.values()]

    def take(
        self, live: LiveRequest, accepts: Callable[[RecordedExchange], bool] = lambda _: True
    ) -> RecordedExchange | None:
        """Mark a recorded call as used, and return it.

        The call is the first unused call whose request equals this request, and that `accepts` accepts. Return None if
        there is no such call.
        """
        for exchange in self._candidates(live):
            if accepts(exchange):
                del self._unused[id(exchange)]
                if self._claim(exchange.seq):
                    return exchange
        return None

    def knows(self, live: LiveRequest) -> bool:
        """Return whether the request of an unused recorded call equals this request."""
        return next(self._candidates(live), None) is not None

    def _candidates(self, live: LiveRequest) -> Iterator[RecordedExchange]:
        if self._match is not None:
            unused = self.unused
            yield from (call for call in unused if self._match(live.body, self._recording.request(call)))
            return
        yield from self._equal(live)
        has_removals = self._recording.removals > 0
        yield from (call for call in self.unused if (call.is_masked or has_removals) and self._fits(live, call))

    def _equal(self, live: LiveRequest) -> Iterator[RecordedExchange]:
        same = self._by_key.get(self._key(live.endpoint, self._digests(live.body)), deque())
        while same and id(same[0]) not in self._unused:
            same.popleft()
        return (exchange for exchange in same if id(exchange) in self._unused)

    def _fits(self, live: LiveRequest, exchange: RecordedExchange) -> bool:
        if _address(live.endpoint) != _address(exchange.endpoint):
            return False
        recorded, body = (without(request, self._ignored) for request in (self._recording.request(exchange), live.body))
        if self._in_any_order:
            recorded, body = in_one_order(recorded), in_one_order(body)
        return fits(recorded, body)

    def _recorded_key(self, exchange: RecordedExchange) -> Digest:
        if exchange.call.sent is None or exchange.call.sent.items is None:
            return self._key(exchange.endpoint, self._digests(self._recording.request(exchange)))
        try:
            body, numbers = exchange.call.request_in_items()
            if not numbers.keys() <= body.keys():  # members of an object in the request
                return self._key(exchange.endpoint, self._digests(self._recording.request(exchange)))
            return self._key(exchange.endpoint, dict(self._recorded_digests(body, numbers)))
        except ours(KeyError, TypeError, ValueError, AttributeError):
            return b""

    def _recorded_digests(
        self, body: Mapping[str, Payload], numbers: Mapping[str, int | array[int]]
    ) -> Iterable[tuple[str, Digest]]:
        for name, value in body.items():
            paths = _below(self._ignored, name)
            if () in paths:
                continue
            items = numbers.get(name)
            if isinstance(items, array) and not paths:
                yield name, self._digest_of_list(map(self._digest_of_item, items))
                continue
            whole = value
            if isinstance(items, int):
                whole = self._item(items)
            elif items is not None:
                whole = [*map(self._item, items)]
            yield name, self._digest_of_member(without(whole, paths))

    def _digest_of_item(self, number: int) -> _Element:
        if number not in self._item_digests:
            self._item_digests[number] = self._digest_of_element(self._item(number))
        return self._item_digests[number]

    def _digest_of_element(self, value: Payload) -> _Element:
        """Return the sort key and the digest of a list's element.

        The key is None if the position of the element matters.
        """
        if not self._in_any_order:
            return None, _digest(value)
        ordered = blocks_in_one_order(value)
        return result_key(ordered), _digest(ordered)

    def _digest_of_list(self, elements: Iterable[_Element]) -> Digest:
        return blake2b(b"[" + b"".join(sorted_results(elements)), digest_size=16).digest()

    def _digest_of_member(self, value: Payload) -> Digest:
        if isinstance(value, list):
            return self._digest_of_list(map(self._digest_of_element, value))
        return _digest(value)

    def _digests(self, body: Payload) -> dict[str, Digest]:
        if not isinstance(body, dict):
            return {"": _digest(body)}
        paths = {name: _below(self._ignored, name) for name in body}
        return {
            name: self._digest_of_member(without(body[name], paths[name])) for name in body if () not in paths[name]
        }

    def _key(self, endpoint: Endpoint, digests: Mapping[str, Digest]) -> Digest:
        whole = blake2b(repr(_address(endpoint)).encode(), digest_size=16)
        for name in sorted(digests):
            whole.update(name.encode("utf-8", "surrogatepass") + b"\0" + digests[name])
        return whole.digest()


def _address(endpoint: Endpoint) -> tuple[str, str | None, bool]:
    """Return the parts of an endpoint that a live request and a recorded request must have in common.

    The host is not compared, because a program may call a replay under any host.
    """
    return endpoint.api, endpoint.model, endpoint.streams


def _digest(value: Payload) -> Digest:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).digest()


def fits(recorded: Payload, live: Payload) -> bool:
    """Return whether two values are equal. A mask in a recorded text equals any text.

    A text that is only the mask of a removed text may have been a number.
    """
    match recorded, live:
        case "[REDACTED:removed]", int() | float():
            return True
        case str(), str():
            return recorded == live or _fits_masked(recorded, live)
        case dict(), dict():
            return recorded.keys() == live.keys() and all(fits(value, live[name]) for name, value in recorded.items())
        case list(), list():
            return len(recorded) == len(live) and all(map(fits, recorded, live))
    return type(recorded) is type(live) and recorded == live


def _fits_masked(recorded: str, live: str) -> bool:
    if "[REDACTED:" not in recorded:
        return False
    between = ".+?".join(map(re.escape, _MASK.split(recorded)))
    return re.fullmatch(between, live, re.DOTALL) is not None
