"""Whether a document says what its journal says, and where it first differs.

Messages that several interactions share are compared once, so that work grows with the files and not with what they
expand to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.derive.document import kept_elements
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.shared_sequence import SharedSequence
from trace_recorder.values.trajectory import Trajectory

_INTERACTIONS = "llm_interactions"
_MESSAGES = "input_messages"


def first_difference(document: Mapping[str, Payload], trajectory: Trajectory) -> str | None:
    """Return the place of the first difference between a document and the run that its journal gives; None if none."""
    expected = {
        **trajectory.head(),
        _INTERACTIONS: None,
        "agent_steps": [step.to_document() for step in trajectory.agent_steps],
        **trajectory.tail("inline"),
        "history": document["history"],
    }
    if list(document) != list(expected):
        return "it"
    for name, value in document.items():
        if name == _INTERACTIONS:
            place = _Interactions().first_difference(value, trajectory.llm_interactions)
        else:
            place = _difference(value, expected[name], name)
        if place is not None:
            return place
    return None


@dataclass(slots=True)
class _Interactions:
    """Compares the interactions of a document, in their order."""

    _lists: dict[str, SharedSequence[Payload]] = field(default_factory=dict)
    _texts: dict[int, str] = field(default_factory=dict)
    _same: set[tuple[int, int]] = field(default_factory=set)
    _last: tuple[SharedSequence[Payload], SharedSequence[Message]] = SharedSequence(), SharedSequence()

    def first_difference(self, documents: Sequence[Payload], interactions: Sequence[LLMInteraction]) -> str | None:
        if len(documents) != len(interactions):
            return _INTERACTIONS
        for number, (document, one) in enumerate(zip(documents, interactions, strict=True)):
            place = self._interaction(document, one, f"{_INTERACTIONS}[{number}]")
            if place is not None:
                return place
        return None

    def _interaction(self, document: Mapping[str, Payload], one: LLMInteraction, place: str) -> str | None:
        found = {_MESSAGES if name == "input_messages_delta" else name: value for name, value in document.items()}
        messages = self._messages(document)
        self._lists[document["interaction_id"]] = messages
        expected = one.to_document({_MESSAGES: None})
        if list(found) != list(expected):
            return place
        for name, value in found.items():
            if name == _MESSAGES:
                inner = self._message_difference(messages, SharedSequence.of(one.input_messages), f"{place}.{name}")
            else:
                inner = _difference(value, expected[name], f"{place}.{name}")
            if inner is not None:
                return inner
        return None

    def _messages(self, document: Mapping[str, Payload]) -> SharedSequence[Payload]:
        """Return the complete messages of an interaction; those of earlier ones are shared."""
        delta = document.get("input_messages_delta")
        if delta is None:
            return SharedSequence(document.get(_MESSAGES, []))
        return SharedSequence.of(kept_elements(delta, self._lists)).extended(delta["messages"])

    def _message_difference(
        self, found: SharedSequence[Payload], messages: SharedSequence[Message], place: str
    ) -> str | None:
        if len(found) != len(messages):
            return place
        start = min(found.shared_length(self._last[0]), messages.shared_length(self._last[1]))
        for number in range(start, len(found)):
            if not self._is_same(found[number], messages[number]):
                return _difference(found[number], messages[number].to_document(), f"{place}[{number}]")
        self._last = found, messages
        return None

    def _is_same(self, found: Payload, message: Message) -> bool:
        """Whether a message of a document is this one; known once both were compared, since interactions share them."""
        key = id(found), id(message)
        if key not in self._same:
            if id(message) not in self._texts:
                self._texts[id(message)] = json.dumps(message.to_document())
            if json.dumps(found) != self._texts[id(message)]:
                return False
            self._same.add(key)
        return True


def _difference(found: Payload, expected: Payload, place: str) -> str | None:
    """Return the place of the first difference between two values; None where they are equal."""
    if json.dumps(found) == json.dumps(expected):
        return None
    pairs: list[tuple[str, Payload, Payload]] = []
    if isinstance(found, dict) and isinstance(expected, dict) and list(found) == list(expected):
        pairs = [(f"{place}.{name}", found[name], expected[name]) for name in found]
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = [(f"{place}[{n}]", *pair) for n, pair in enumerate(zip(found, expected, strict=True))]
    inner = (_difference(one, other, at) for at, one, other in pairs)
    return next((at for at in inner if at is not None), place)
