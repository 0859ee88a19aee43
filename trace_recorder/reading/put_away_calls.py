"""Interactions whose facts are not in memory. The journal has their records, at known offsets.

A call that is put away may go on: a program sends its request again after a failure. Then only the facts of the new
attempts are in memory, until somebody reads the whole call. So an attempt costs what its own records cost.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import get_args

from trace_recorder.facts import LLMRequestFact
from trace_recorder.reading.call_facts import CallFact, CallFacts
from trace_recorder.reading.table_prompts import IncrementalReading
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.structs import Struct


class PutAwayCall(Struct, frozen=True, gc=False):
    """An interaction whose facts are not in memory. The fields are as in `CallFacts`."""

    interaction_id: str
    first_seq: int
    time: str
    has_request: bool
    """Whether a request of the call is on file."""
    incremental: IncrementalReading | None
    places: tuple[array[int], ...]
    """The offsets of the records, in an array for each time that the call was put away."""

    @classmethod
    def of(cls, call: CallFacts, before: PutAwayCall | None) -> PutAwayCall:
        """Put a call away. `before` has the attempts that were put away before the facts of `call` came."""
        reading = None if call.incremental is None else call.incremental.put_away()
        has_request = call.sent is not None
        if before is None:
            return cls(call.interaction_id, call.first_seq, call.time, has_request, reading, (call.places,))
        places = (*before.places, call.places)
        has_request = has_request or before.has_request
        return cls(call.interaction_id, call.first_seq, call.time, has_request, reading, places)

    def read_again(self, items: ItemTable, later: CallFacts | None = None) -> CallFacts:
        """Return the interaction with its facts. `later` has the attempts that came after the call was put away.

        Raises KeyError if a record is not in the journal.
        """
        call = CallFacts(self.interaction_id, items, self.first_seq, self.time)
        places, incremental = self.places, self.incremental
        if later is not None:
            places, incremental = (*self.places, later.places), later.incremental
        for place in chain.from_iterable(places):
            record = items.record_at(place)
            if not isinstance(record.fact, get_args(CallFact)):
                raise KeyError(place)
            call.add(record, record.fact)
        call.incremental = incremental
        return call


@dataclass(slots=True)
class PutAwayCalls:
    """Puts calls away that have ended, beyond the first `max_kept_bytes` of their records."""

    items: ItemTable
    max_kept_bytes: int
    newly_read: dict[str, CallFacts] = field(default_factory=dict)
    """The calls whose newest record was read, and which were not put away since."""
    _kept_bytes: int = 0
    before: dict[str, PutAwayCall] = field(default_factory=dict)
    """The earlier attempts of calls that went on after they were put away."""

    def put_away(self, calls: dict[str, CallFacts | PutAwayCall]) -> Iterator[str]:
        """Replace calls in `calls`. Yield their ids."""
        for identity, call in [*self.newly_read.items()]:
            if call.newest.ending is not None or call.newest.by_hand is not None:
                del self.newly_read[identity]
                self._kept_bytes += call.size
                if self._kept_bytes > self.max_kept_bytes:
                    calls[identity] = PutAwayCall.of(call, self.before.pop(identity, None))
                    yield identity

    def continued(self, call: PutAwayCall, record: Record) -> CallFacts:
        """Return a call that was put away, for one more record. If an attempt begins, the earlier ones stay away.

        They stay away too if no request is on file, because then nothing is read from the facts.
        """
        if call.has_request and not isinstance(record.fact, LLMRequestFact):
            return call.read_again(self.items)
        self.before[call.interaction_id] = call
        return CallFacts(call.interaction_id, self.items, call.first_seq, call.time)

    def whole(self, call: CallFacts | PutAwayCall) -> CallFacts:
        """Return a call with all of its facts. Raises KeyError if a record is not in the journal."""
        if isinstance(call, PutAwayCall):
            return call.read_again(self.items)
        before = self.before.get(call.interaction_id)
        return call if before is None else before.read_again(self.items, call)
