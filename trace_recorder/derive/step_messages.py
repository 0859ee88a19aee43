"""The messages of recorded steps, read like those of requests: what a step repeats of an earlier one is not read again.

The messages of a step with a block may be stated again, until the block has been left; no other step is written as a
delta to them before.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.derive.message_prefix import IncrementalReading, Render
from trace_recorder.derive.requests import RequestReader
from trace_recorder.derive.table_prompts import ElementReadings
from trace_recorder.derive.tool_matching import RecordedStep
from trace_recorder.dialects.dialect import MANUAL
from trace_recorder.dialects.manual import message_of
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.message_table import MessageTable
from trace_recorder.values.messages import Message
from trace_recorder.values.shared_sequence import SharedSequence


class StepReader:
    """Reads the messages of the steps of one run. They share messages with requests that have the same `readings`."""

    def __init__(self, items: ItemTable, keep: MessageTable | Render, readings: dict[str, ElementReadings]) -> None:
        self._items = items
        self._reader = RequestReader(items, keep, readings=readings)
        self._open: dict[str, RecordedStep] = {}
        self._newest_seq = 0

    def render_only_new(self) -> None:
        """From now on, only the messages that a step adds are rendered."""
        self._reader.needs_all_texts = False

    def read(self, record: Record, first_seq: int) -> tuple[IncrementalReading | None, Sequence[Message] | None]:
        """Read the messages of an `agent_step` record; None if it has none. Raises KeyError if an item is missing.

        `first_seq` is the number of the first record of its step. Of messages that are only rendered, the texts are in
        the reading, and the sequence is empty. A step that began before one that is read already is read as a whole: a
        delta refers to an earlier step.
        """
        is_list = "llm_messages" in record.data["items"] and first_seq >= self._newest_seq
        reading = self._read_with_others(record) if is_list else None
        if reading is not None:
            self._newest_seq = first_seq
            return reading, reading.messages or SharedSequence()
        messages = self._items.expand(record.data).get("llm_messages")
        return None, None if messages is None else SharedSequence([message_of(message) for message in messages])

    def _read_with_others(self, record: Record) -> IncrementalReading | None:
        for identity, step in list(self._open.items()):
            is_shown = step.messages is not None and step.messages.identity == identity
            if not (step.closed and is_shown):
                self._reader.forget(identity)
            if step.closed or not is_shown:
                del self._open[identity]
        return self._reader.read(f"messages_{record.seq}", MANUAL, record.data, "llm_messages")

    def took(self, step: RecordedStep, reading: IncrementalReading | None, messages: Sequence[Message] | None) -> None:
        """Give a step with a block the messages that were read last, unless there are none."""
        if reading is not None and reading.count > 1:
            step.messages = reading
            self._open[reading.identity] = step
        elif messages:
            step.messages = None
