"""Reads requests one after another. If a request repeats messages of an earlier request, they are not read again.

Each request repeats the history of its conversation, which the journal has as a list of item numbers. `RequestReader`
takes requests in order, and reads only the elements of the history that are new. It reads each element as the dialect's
own `read_request` does. If a request has no such list, `RequestReader` returns None, and the caller must read the whole
request.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import partial

from trace_recorder.dialects.dialect import MANUAL, Dialect, History, dialect_of
from trace_recorder.dialects.manual import message_of_agent
from trace_recorder.facts import AgentStepFact, Itemized, Parts
from trace_recorder.reading.table_prompts import PREAMBLE, ElementReadings, IncrementalReading, TablePrompts
from trace_recorder.storage.items.table import ItemTable, set_member
from trace_recorder.values.message_table import MessageTable, SharedSequence
from trace_recorder.values.messages import Message, Payload, RequestReading
from trace_recorder.values.structs import replace

MAX_READINGS = 256
"""A fold with a `journal` keeps the messages of at most this many elements of requests in memory, for each dialect.

It reads older elements again when it needs them.
"""


class RequestReader:
    """Reads the requests of one run into a table of messages. Each distinct message of the run is read once.

    Equal messages of several requests are one object, even if two readers with the same `readings` read the requests.
    For each dialect, the messages of at most `max_readings` elements are kept in memory.
    """

    def __init__(
        self,
        items: ItemTable,
        table: MessageTable,
        *,
        max_readings: float = math.inf,
        readings: dict[str, ElementReadings] | None = None,
    ) -> None:
        self._items = items
        self._table = table
        self._max_readings = max_readings
        self._prompts = TablePrompts(table)
        self.readings: dict[str, ElementReadings] = {} if readings is None else readings

    def read(self, dialect: str | None, fact: Itemized, history: str = "") -> IncrementalReading | None:
        """Read a request from its fact. Return None if the caller must read the whole request.

        `history` is the name of the member with the messages, or "" for the dialect's usual member. Raises KeyError if
        a record that the request needs is missing.
        """
        reader = dialect_of(dialect)
        if fact.items is None or reader is None or reader.history is None:
            return None
        history = history or reader.history.member
        listed = fact.items.get(history)
        if listed is None or isinstance(listed, int):
            return None
        numbers = _BEGINNING + self._items.numbers(history, listed)
        rest = {name: part for name, part in fact.items.items() if name != history}
        readings = self.readings.get(reader.name) or self._new_readings(reader, reader.history)
        key = repr((reader.name, fact.body, rest))
        offer = partial(self._without_history, reader, history, fact.body, rest)
        return self._prompts.read(key, numbers, readings, offer)

    def messages_of_step(self, fact: AgentStepFact) -> Sequence[Message] | None:
        """Return the messages of a step that the agent recorded, if any. Raises KeyError if an item is missing."""
        reading = self.read(MANUAL, fact, "llm_messages")
        if reading is not None:
            return reading.messages
        messages = self._items.expand(fact.body, fact.items or {}).get("llm_messages")
        if messages is None:
            return None
        return SharedSequence([message_of_agent(message) for message in messages])

    def _without_history(
        self, dialect: Dialect, history: str, body: Payload, rest: Parts
    ) -> tuple[RequestReading, list[Message]]:
        """Read a request without its history.

        Return the request without any messages, and the messages that come before the history.
        """
        request = self._items.expand(body, rest)
        if history in request:
            request[history] = []
        else:
            set_member(request, history, [])
        base = dialect.read_request(request)
        return replace(base, messages=SharedSequence(), tools=tuple(base.tools)), [*base.messages]

    def _new_readings(self, dialect: Dialect, elements: History) -> ElementReadings:
        """Make the `ElementReadings` that all requests of a dialect share, and return them."""
        self.readings[dialect.name] = ElementReadings(
            self._items,
            self._table,
            elements.read_message,
            elements.merge_rule,
            makes_up_ids=dialect.numbers_calls,
            max_kept=self._max_readings,
        )
        return self.readings[dialect.name]


_BEGINNING = array("q", [PREAMBLE])
