"""Snapshots: the journal so far, written as the document, while the run goes on.

A snapshot is written to a fresh temporary file and renamed over the last one: a reader never sees half of it, and
the last good one is never harmed. It is a function of the journal alone, which is read from where the last snapshot
stopped; interactions that have not changed since keep their serialised text.

While the document is small it is written with every record that tells of something that has happened, before the
recording call returns. What is only under way, a request that waits, a part of a stream, is shown by a thread of
its own within a twentieth of a second, if it still is under way then; so is all of a larger document, when fifty
times the cost of its last writing has passed. At the end it is written always.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trace_recorder import journal
from trace_recorder.conversation import Payload
from trace_recorder.fold import Fold
from trace_recorder.plain import to_json
from trace_recorder.replacing import replace_file
from trace_recorder.trajectory import AgentStep, Deltas, History, LLMInteraction, Status, Trajectory

SMALL = 256 * 1024
"""A document of up to this many bytes is written with every record."""
INLINE_LIMIT = 16 * 1024 * 1024
"""With history="auto", a document of more bytes than this is written with deltas."""
PATIENCE = 50
"""A large document is written when this many times the cost of its last writing has passed."""
SOON = 0.05
"""After how many seconds the document shows what is under way."""


class Snapshot:
    """Writes the document of one journal. `write` is the whole of it; it may be called from any thread."""

    def __init__(
        self,
        journal_path: Path,
        path: Path,
        history: str,
        *,
        sync: bool = False,
        in_place: Callable[[], bool] = lambda: True,
        status: Status = "running",
    ) -> None:
        self.path = path
        self.size = 0
        self._journal_path = journal_path
        self._in_place = in_place
        self._status = status
        self._auto = history == "auto"
        self._history: History = "delta" if history == "delta" else "inline"
        self._sync = sync
        self._lock = threading.RLock()
        self._again = False
        self._state: _State | None = None

    def write(self) -> None:
        """Bring the document up to date with the journal. Raises OSError where it cannot be written."""
        self._again = True
        if self._lock._is_owned():  # type: ignore[attr-defined]  # the garbage collector ended a stream in the middle
            return  # of this; a flag of our own could be left set by Ctrl-C
        with self._lock:
            while self._again:
                self._again = False
                self._write()

    def _write(self) -> None:
        if not self._in_place():
            raise FileNotFoundError(f"{self._journal_path} has been moved or removed; its document is not written")
        state, self._state = self._state or _State(), None  # interrupted in the middle, it is read anew
        content = b"".join(self._content(state))
        self._state = state
        replace_file(self.path, content, sync=self._sync)
        self.size = len(content)

    def _content(self, state: _State) -> list[bytes]:
        state.read_on(self._journal_path)
        trajectory = state.fold.trajectory(self._status)
        pieces = list(state.texts(trajectory, self._history))
        if self._auto and self._history == "inline" and sum(map(len, pieces)) > INLINE_LIMIT:
            self._history = "delta"
            state.pieces.clear()
            pieces = list(state.texts(trajectory, self._history))
        return pieces


@dataclass(slots=True)
class _State:
    """What has been read of the journal, and the text of what has not changed since."""

    fold: Fold = field(default_factory=Fold)
    read: int = 0
    pieces: dict[str, tuple[LLMInteraction, bytes]] = field(default_factory=dict)
    steps: dict[int, tuple[AgentStep, bytes]] = field(default_factory=dict)
    deltas: Deltas = field(default_factory=Deltas)

    def read_on(self, path: Path) -> None:
        """Take the whole records that have been written since."""
        with path.open("rb") as file:
            file.seek(self.read)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        for record in journal.read(data[:whole]):
            self.fold.add(record)
        self.read += whole

    def texts(self, trajectory: Trajectory, history: History) -> Iterator[bytes]:
        """The document, in pieces."""
        yield b"{\n" + _members(trajectory.head()) + b',\n"llm_interactions": ['
        yield from _array(self._interaction(one, history) for one in trajectory.llm_interactions)
        yield b'],\n"agent_steps": ['
        yield from _array(self._step(number, step) for number, step in enumerate(trajectory.agent_steps))
        yield b"],\n" + _members(trajectory.tail(history)) + b"\n}\n"

    def _interaction(self, one: LLMInteraction, history: History) -> bytes:
        last, text = self.pieces.get(one.interaction_id, (None, b""))
        if last is not one:
            text = _dump(one.to_document(self.deltas.of(one) if history == "delta" else None))
            self.pieces[one.interaction_id] = one, text
        return text

    def _step(self, number: int, step: AgentStep) -> bytes:
        last, text = self.steps.get(number, (None, b""))
        if last is None or last.interaction is not step.interaction or last != step:
            text = _dump(step.to_document())
            self.steps[number] = step, text
        return text


def _dump(value: Payload) -> bytes:
    """JSON text in UTF-8; half of a surrogate pair, which a stream that was cut off may end in, is described."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).encode()
    except UnicodeEncodeError:
        return to_json(value).encode()


def _members(document: dict[str, Payload]) -> bytes:
    return b",\n".join(_dump(name) + b": " + _dump(value) for name, value in document.items())


def _array(texts: Iterator[bytes]) -> Iterator[bytes]:
    for number, text in enumerate(texts):
        yield (b",\n" if number else b"\n") + text


class Writer:
    """Decides when the snapshot is written: at once while it is small, else by a thread that takes its time."""

    def __init__(self, snapshot: Snapshot, guarded: Callable[[Callable[[], None]], None]) -> None:
        self._snapshot = snapshot
        self._guarded = guarded
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._due = False
        self._idle = True

    def recorded(self, *, under_way: bool = False) -> None:
        """Hear that a record was written, of something that has happened, or that is under way."""
        if self._snapshot.size <= SMALL and not under_way:
            self._due = False
            self.save()
            return
        self._due = True
        if self._idle:
            self._wake_up()

    def _wake_up(self) -> None:
        with self._wake:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="trace_recorder document", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    def save(self) -> None:
        """Write the document now, in the caller's thread."""
        self._guarded(self._snapshot.write)

    def close(self) -> None:
        """Write the last snapshot, and end the thread."""
        self._closed = True
        while self._thread is not None and self._thread is not threading.current_thread() and self._thread.is_alive():
            with self._wake:  # again and again: Ctrl-C in the middle of a notification may have left a stale waiter
                self._wake.notify_all()
            self._thread.join(0.1)
        self.save()

    def _run(self) -> None:
        pause = SOON
        while True:
            with self._wake:
                self._idle = True
                self._wake.wait_for(lambda: self._due or self._closed)
                self._idle = False  # while this is so, what is recorded need not wake anybody
                if self._wake.wait_for(lambda: self._closed, timeout=pause):
                    return
            pause = SOON
            if self._due:  # it may have been written meanwhile
                self._due = False
                began = time.perf_counter()
                self.save()
                pause = max(SOON, PATIENCE * (time.perf_counter() - began))
