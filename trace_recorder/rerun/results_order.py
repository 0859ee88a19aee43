"""Requests in which the results of tools that ran at once stand in another order than in the recording.

Results follow one another as messages (OpenAI's chats and Ollama), as items (Responses), or as blocks of one message
(Anthropic's and Google's). Those that follow one another are of one turn. They are put in the order of their ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.values.messages import Payload

T = TypeVar("T")
_ID_NAMES = ("tool_call_id", "call_id", "tool_use_id", "id", "name", "tool_name")


def results_in_any_order(live: Payload, recorded: Payload) -> bool:
    """Whether two requests are equal but for the order of the tool results of each turn.

    For `replay(match=results_in_any_order)`: tools that run at once may end in any order.
    """
    return bool(in_one_order(live) == in_one_order(recorded))


def in_one_order(body: Payload) -> Payload:
    """Return a request with the tool results of each turn in the order of their ids."""
    if not isinstance(body, dict):
        return body
    return {name: _ordered(value) if isinstance(value, list) else value for name, value in body.items()}


def _ordered(elements: list[Payload]) -> list[Payload]:
    within = [blocks_in_one_order(element) for element in elements]
    return [*sorted_results((result_key(element), element) for element in within)]


def blocks_in_one_order(element: Payload) -> Payload:
    """Return a message with the results among its blocks in the order of their ids."""
    if not isinstance(element, dict):
        return element
    parts = {name: element[name] for name in ("content", "parts") if isinstance(element.get(name), list)}
    if not parts:
        return element
    return element | {name: [*sorted_results((_block_key(block), block) for block in parts[name])] for name in parts}


def sorted_results(elements: Iterable[tuple[str | None, T]]) -> Iterator[T]:
    """Yield elements in their order, those that follow one another and have a key in the order of their keys."""
    for is_result, group in groupby(elements, key=lambda pair: pair[0] is not None):
        yield from (element for _, element in (sorted(group, key=itemgetter(0)) if is_result else group))


def result_key(element: Payload) -> str | None:
    """Return the key of a message or an item that is the result of a tool; None if it is none."""
    members = as_dict(element)
    kind = as_text(members.get("type")) or ""
    if members.get("role") in {"tool", "function"} or kind.endswith("_output"):
        return _key(members)
    blocks = as_list(members.get("content")) or as_list(members.get("parts"))
    keys = [_block_key(block) for block in blocks]
    return "".join(filter(None, keys)) if keys and None not in keys else None


def _block_key(block: Payload) -> str | None:
    members = as_dict(block)
    if members.get("type") == "tool_result":
        return _key(members)
    response = members.get("functionResponse", members.get("function_response"))
    return _key(response) if isinstance(response, dict) else None


def _key(members: dict[str, Payload]) -> str:
    """Return what orders results: their ids where they have one, else what they say."""
    ids = (value for name in _ID_NAMES if isinstance(value := members.get(name), str))
    return "\0".join((*ids, json.dumps(members, sort_keys=True)))
