"""The calls, tools and steps of a document: reads them from the records of the journal, and writes them.

Each call is read once, for its entry and its step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import chain, count, islice

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS
from trace_recorder.reading.fold import Fold
from trace_recorder.reading.live_document.document_text import DocumentText, EncodedTexts
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.reading.run_fold import RunFold
from trace_recorder.storage.atomic_write import Buffer, SpooledBytes
from trace_recorder.storage.items.table import JournalFile
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import NumberedMessages
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import Tally
from trace_recorder.values.trajectory import Gap, History

_PARTS_BETWEEN_PAUSES = 4
"""The writer lets other threads run after each group of this many calls and steps, and after each long one."""
_PROMPTS_BETWEEN_PAUSES = 256
"""The writer lets other threads run each time after it added up the lengths of this many prompts."""


class DocumentCalls:
    """Reads the facts that are not about the run itself, and writes their part of the document.

    `run_fold` has the first records. `pause` is called between two pieces of work.
    """

    def __init__(
        self,
        run_fold: RunFold,
        journal: JournalFile,
        limits: DocumentLimits,
        pause: Callable[[], None],
        *,
        measures: bool,
    ) -> None:
        self._limits = limits
        self._pause = pause
        self._measures = measures
        self._texts = EncodedTexts()
        self._fold = Fold(journal, limits.kept_bytes, run=run_fold.run, waiting=run_fold.waiting)
        self.add(())

    def add(self, records: Iterable[Record | BadLine]) -> None:
        """Add records to the fold."""
        self._fold.add(records)
        if self._measures:
            self._texts.measure_new(self._fold.table)

    def first_made(self) -> LLMInteraction | None:
        """Return the first interaction that was made. If a recording gave all answers, return the first interaction."""
        return self._fold.first_made()

    def connections(self) -> dict[str, Payload]:
        """Return the fields of the trajectory with connections to MCP servers and to models."""
        return self._fold.connection_fields()

    def have_long_prompts(self) -> bool:
        """Return whether the complete messages of all calls and steps are together larger than `inline_bytes`."""
        if not self._measures:
            return False
        readings = (call.incremental for call in self._fold.calls.values())
        of_calls = (islice(reading.numbers, reading.count) for reading in readings if reading is not None)
        of_steps = (step.stated.messages for step in self._fold.steps)
        numbered = (prompt.numbers for prompt in of_steps if isinstance(prompt, NumberedMessages))
        size = 0
        for number, numbers in enumerate(chain(of_calls, numbered)):
            if number % _PROMPTS_BETWEEN_PAUSES == 0:
                self._pause()
            size += self._texts.size_of(numbers)
            if size > self._limits.inline_bytes:
                return True
        return False

    def content(self, history: History, steps: SpooledBytes) -> Generator[Buffer, None, tuple[Tally, list[Gap]]]:
        """Yield the encoded calls, and append the encoded steps to `steps`. Return their figures and gaps.

        So each call is read only once for its entry and its step. Other threads may run between two calls or steps.
        """
        text = DocumentText(history, self._texts)
        calls: list[Buffer] = []
        comma = step_comma = b"\n"
        numbers = count(1)  # `enumerate` would keep each call in memory until the next call is read
        for interaction, step in self._fold.interactions_and_steps():
            response: Payload = None
            if interaction is not None:
                response = interaction.response.to_document()
                calls += (comma, *text.interaction(interaction, response))
                comma = b",\n"
            size = sum(map(len, calls))
            if next(numbers) % _PARTS_BETWEEN_PAUSES == 0 or size > MAX_UNINTERRUPTED_CHARS:
                self._pause()
                if size > MAX_UNINTERRUPTED_CHARS:
                    yield from calls
                else:
                    yield b"".join(calls)
                calls.clear()
            if step is not None:
                if step.llm_response is None:
                    response = None
                steps.append((step_comma, *text.step(step, response)))
                step_comma = b",\n"
            del interaction, step, response  # these may be large, and must be freed before the next call is read
        yield from calls
        return text.counts, text.gaps
