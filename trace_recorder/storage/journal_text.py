"""Writes the facts of a run that is not recorded live, such as an imported run, as the lines of a journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trace_recorder.facts import Fact, Itemized
from trace_recorder.storage.fact_writer import FactWriter, Masked
from trace_recorder.storage.items.encoder import Encoded
from trace_recorder.storage.items.shared_lists import ListPrefix, SharedLists
from trace_recorder.storage.journal_lines import NewRecord, encode_lines
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.values.messages import Payload


class JournalText:
    """Facts in, lines out: the lines have the numbers from 1 on.

    The caller gives the time of each line. Another tool has made the facts, so all of their members are masked, unless
    the caller says otherwise.
    """

    def __init__(self, redaction: Redaction) -> None:
        self._facts = FactWriter(redaction)
        self._lists = SharedLists(self._facts.items)
        self._next_seq = 1

    def lines_of(self, fact: Fact, time: str, masked: Masked = "all members") -> Iterator[bytes]:
        """Return an iterator over the line of a fact."""
        return self._lines([self._facts.record(fact, masked)], time)

    def lines_with_body(self, fact: Itemized, body: bytes, time: str, masked: Masked) -> Iterator[bytes]:
        """Return an iterator over the lines of the new items of a body, and of the fact.

        Raises NotJsonError if the body is not a JSON object.
        """
        return self._lines_with_items(fact, self._facts.items.encode(body), time, masked)

    def lines_with_lists(
        self, fact: Itemized, lists: Mapping[str, ListPrefix | None], others: Mapping[str, Payload], time: str
    ) -> Iterator[bytes]:
        """Return an iterator over the lines of a fact whose body has lists that are known as a whole.

        `others` has the other members of the body.
        """
        return self._lines_with_items(fact, self._lists.encode_prefixes(lists, others), time, "all members")

    def _lines_with_items(self, fact: Itemized, encoded: Encoded, time: str, masked: Masked) -> Iterator[bytes]:
        lines = self._lines(self._facts.records(self._facts.take_apart(fact, encoded, masked)), time)
        encoded.mark_written(self._next_seq - 1)
        return lines

    def _lines(self, records: Sequence[NewRecord], time: str) -> Iterator[bytes]:
        lines = encode_lines(records, self._next_seq, time)
        self._next_seq += len(records)
        return lines
