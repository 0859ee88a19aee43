"""Interactions whose records are not in memory. The journal has the records, at known offsets.

A call that is put away may go on: a program sends its request again after a failure. Then only the records of the new
attempts are in memory, until somebody reads the whole call. So an attempt costs what its own records cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from trace_recorder.derive.call_records import CallRecords
from trace_recorder.derive.table_prompts import IncrementalReading
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.structs import Struct


class PutAwayCall(Struct, frozen=True, gc=False):
    """An interaction whose records are not in memory.

    `places` are the offsets of the records in the journal, and `begun` is the number of its first request. The other
    fields are as in `CallRecords`.
    """

    interaction_id: str
    first_seq: int
    begun: int
    incremental: IncrementalReading | None
    places: tuple[tuple[int, ...], ...]
    """The offsets, in a tuple for each time that the call was put away."""

    @classmethod
    def of(cls, call: CallRecords, before: PutAwayCall | None) -> PutAwayCall:
        """Put a call away. `before` has the attempts that were put away before the records of `call` came."""
        places = tuple([record.offset for record in call.records])
        reading = None if call.incremental is None else call.incremental.put_away()
        begun, earlier = (call.first.seq, ()) if before is None else (before.begun, before.places)
        return cls(call.interaction_id, call.first_seq, begun, reading, (*earlier, places))

    def read_again(self, items: ItemTable, later: CallRecords | None = None) -> CallRecords:
        """Return the interaction with its records. `later` has the attempts that came after the call was put away.

        Raises KeyError if a record is not in the journal.
        """
        call = CallRecords(self.interaction_id, items, self.first_seq)
        for place in chain.from_iterable(self.places):
            call.add(items.record_at(place))
        for record in () if later is None else later.records:
            call.add(record)
        call.incremental = self.incremental if later is None else later.incremental
        return call


@dataclass(slots=True)
class PutAwayCalls:
    """Puts calls away that have ended, beyond the first `max_kept_bytes` of their records."""

    items: ItemTable
    max_kept_bytes: int
    newly_read: dict[str, CallRecords] = field(default_factory=dict)
    """The calls whose newest record was read, and which were not put away since."""
    _kept_bytes: int = 0
    _before: dict[str, PutAwayCall] = field(default_factory=dict)
    """The earlier attempts of calls that went on after they were put away."""

    def put_away(self, calls: dict[str, CallRecords | PutAwayCall]) -> Iterator[str]:
        """Replace calls in `calls`. Yield their ids."""
        for identity, call in [*self.newly_read.items()]:
            if call.is_manual or call.ending is not None:
                del self.newly_read[identity]
                self._kept_bytes += call.size
                if self._kept_bytes > self.max_kept_bytes:
                    calls[identity] = PutAwayCall.of(call, self._before.pop(identity, None))
                    yield identity

    def continued(self, call: PutAwayCall, record: Record) -> CallRecords:
        """Return a call that was put away, for one more record. If an attempt begins, the earlier ones stay away."""
        if record.kind != "llm_request":
            return call.read_again(self.items)
        self._before[call.interaction_id] = call
        return CallRecords(call.interaction_id, self.items, call.first_seq, continues=call.begun)

    def whole(self, call: CallRecords | PutAwayCall) -> CallRecords:
        """Return a call with all of its records. Raises KeyError if a record is not in the journal."""
        if isinstance(call, PutAwayCall):
            return call.read_again(self.items)
        before = self._before.get(call.interaction_id)
        return call if before is None else before.read_again(self.items, call)
