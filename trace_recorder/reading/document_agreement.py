"""Compares a document with its journal, and an older document with a newer document.

A message that several interactions or steps share is compared once. So the time grows with the size of the files, and
not with the size of all complete lists of messages.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from trace_recorder.reading.document import STEP_DELTA, complete_list
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.prompt_comparison import Numbers, equal_length
from trace_recorder.values.trajectory import AgentStep, Trajectory

Part = TypeVar("Part")

_INTERACTIONS = "llm_interactions"
_STEPS = "agent_steps"


def first_difference(document: Mapping[str, Payload], trajectory: Trajectory) -> str | None:
    """Return the first place where a document differs from the trajectory of its journal.

    Return None if the two are equal.
    """
    expected = {
        **trajectory.head(),
        _INTERACTIONS: None,
        _STEPS: None,
        **trajectory.tail("inline"),
        "history": document["history"],
    }
    if list(document) != list(expected):
        return "its members"
    for name, value in document.items():
        if name == _INTERACTIONS:
            place = _Interactions(name).first_difference(value, trajectory.llm_interactions)
        elif name == _STEPS:
            place = _Steps(name).first_difference(value, trajectory.agent_steps)
        else:
            place = _difference(value, expected[name], name)
        if place is not None:
            return place
    return None


@dataclass(slots=True)
class _Parts(Generic[Part]):
    """Compares the interactions or the steps of a document with the same parts of a trajectory, in order.

    `array` is the name of the document's member. Equal messages get equal numbers.
    """

    array: str
    _lists: dict[str, Numbers] = field(default_factory=dict)
    _messages: EqualMessages = field(default_factory=lambda: EqualMessages(_text_of))
    _others: list[Payload] = field(default_factory=list)

    def first_difference(self, documents: Sequence[Payload], parts: Sequence[Part]) -> str | None:
        if len(documents) != len(parts):
            return self.array
        for number, (document, part) in enumerate(zip(documents, parts, strict=True)):
            place = self.difference(document, part, f"{self.array}[{number}]")
            if place is not None:
                return place
        return None

    def difference(self, document: Mapping[str, Payload], part: Part, place: str) -> str | None:
        raise NotImplementedError

    def _members_difference(
        self,
        document: Mapping[str, Payload],
        expected: Mapping[str, Payload],
        messages: tuple[str, Numbers, Numbers],
        place: str,
    ) -> str | None:
        """Return the place of the first difference between the members of an interaction or a step.

        `messages` has the name of the member with messages, the numbers of the document's messages, and the numbers of
        the trajectory's messages.
        """
        name_of_messages, numbers, expected_numbers = messages
        names = {f"{name_of_messages}_delta": name_of_messages}
        members = {names.get(name, name): value for name, value in document.items()}
        if list(members) != list(expected):
            return place
        for name, value in members.items():
            if name == name_of_messages:
                inner = self._message_difference(numbers, expected_numbers, f"{place}.{name}")
            else:
                inner = _difference(value, expected[name], f"{place}.{name}")
            if inner is not None:
                return inner
        return None

    def _numbers(self, delta: Payload, messages: Sequence[Payload]) -> Numbers:
        """Return the numbers of all messages of an interaction or a step.

        If `delta` is None, `messages` has all messages.
        """
        if delta is None:
            return array("q", map(self._number, messages))
        return complete_list(delta, self._lists, array("q", map(self._number, delta["messages"])))

    def _number(self, message: Payload) -> int:
        """Return the number of a message of the document.

        The number is negative if no equal message of the trajectory was numbered before.
        """
        number = self._messages.find(json.dumps(message).encode())
        if number is not None:
            return number
        self._others.append(message)
        return -len(self._others)

    def _document_of(self, number: int) -> Payload:
        """Return the message with a number, as a document has it."""
        if number < 0:
            return self._others[-number - 1]
        return self._messages.messages[number].to_document()

    def _message_difference(self, numbers: Numbers, expected: Numbers, place: str) -> str | None:
        if len(numbers) != len(expected):
            return place
        index = equal_length(numbers, 0, expected, 0)
        while index < len(numbers):
            message, in_run = self._document_of(numbers[index]), self._document_of(expected[index])
            inner = _difference(message, in_run, f"{place}[{index}]")
            if inner is not None:
                return inner
            index += 1
            index += equal_length(numbers, index, expected, index)
        return None


class _Interactions(_Parts[LLMInteraction]):
    def difference(self, document: Mapping[str, Payload], call: LLMInteraction, place: str) -> str | None:
        in_run = self._messages.numbers_of(call.input_messages)
        numbers = self._numbers(document.get("input_messages_delta"), document.get("input_messages", []))
        self._lists[document["interaction_id"]] = numbers
        expected = call.to_document({"input_messages": None})
        return self._members_difference(document, expected, ("input_messages", numbers, in_run), place)


class _Steps(_Parts[AgentStep]):
    def difference(self, document: Mapping[str, Payload], step: AgentStep, place: str) -> str | None:
        delta, messages = document.get(STEP_DELTA), document.get("llm_messages")
        expected = step.to_document(messages={"llm_messages": None})
        has_none = delta is None and messages is None
        if has_none and step.messages is None:
            return _difference(document, expected, place)
        if has_none or step.messages is None:
            return place
        in_run = self._messages.numbers_of(step.messages)
        numbers = self._numbers(delta, messages or [])
        if delta is not None:
            self._lists[delta["id"]] = numbers
        return self._members_difference(document, expected, ("llm_messages", numbers, in_run), place)


def _text_of(message: Message) -> bytes:
    """Return the JSON of a message as the document has it. The order of the members matters."""
    return json.dumps(message.to_document()).encode()


def _difference(actual: Payload, expected: Payload, place: str) -> str | None:
    """Return the place of the first difference between two values, or None if they are equal."""
    if actual is expected or (type(actual) is type(expected) is str and actual == expected):
        return None  # to encode them would take longer
    if json.dumps(actual) == json.dumps(expected):
        return None
    if isinstance(actual, dict) and isinstance(expected, dict) and list(actual) == list(expected):
        pairs = [(f"{place}.{name}", actual[name], expected[name]) for name in actual]
    elif isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        pairs = [(f"{place}[{n}]", *pair) for n, pair in enumerate(zip(actual, expected, strict=True))]
    else:
        return place
    inner = (_difference(value, expected_value, value_place) for value_place, value, expected_value in pairs)
    return next((difference for difference in inner if difference is not None), None)


_COMPUTED = {"metrics", "gaps", "schema_version", "history", "journal_records"}
"""Members that describe the document or the journal, or that are computed from other members."""
_NAMED_BY = ("interaction_id", "call_id", "name", "key")
_EMPTY: tuple[Payload, ...] = (None, "", [], {})
_MAX_LISTED = 5


def describe_losses(old: Payload, new: Payload) -> str | None:
    """Return the places where the document `new` has less than the document `old`, or None if nothing is missing."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return None
    kept = {name: value for name, value in old.items() if name not in _COMPUTED}
    places = [*islice(_losses(kept, new, ""), _MAX_LISTED + 1)]
    if not places:
        return None
    listed = ", ".join(places[:_MAX_LISTED])
    if len(places) > _MAX_LISTED:
        return f"{listed} and more"
    return listed


def _losses(old: Payload, new: Payload, where: str) -> Iterator[str]:
    """Yield the places where `old` has a value and `new` has none or an empty value.

    A value that only differs is not a loss.
    """
    if old in _EMPTY:
        return
    if new in _EMPTY:
        yield where
    elif isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from _losses(value, new.get(name), f"{where}.{name}".removeprefix("."))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _losses_of_list(old, new, where)


def _losses_of_list(old: list[Payload], new: list[Payload], where: str) -> Iterator[str]:
    """Compare the elements with the same ids if they have ids. Otherwise compare the elements at the same positions."""
    names = [_name(element) for element in new]
    by_name = dict(zip(names, new, strict=True))
    are_named = None not in by_name and len(by_name) == len(new)
    for index, element in enumerate(old):
        name = _name(element)
        if are_named and name is not None:
            yield from _losses(element, by_name.get(name), f"{where}[{name}]")
        elif index < len(new):
            yield from _losses(element, new[index], f"{where}[{index}]")
        else:
            yield from _losses(element, None, f"{where}[{index}]")


def _name(element: Payload) -> str | None:
    if not isinstance(element, dict):
        return None
    return next((value for name in _NAMED_BY if isinstance(value := element.get(name), str) and value), None)
