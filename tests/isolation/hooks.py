"""Every place at which recording touches a call, and how each is made to fail.

`gaps` says what is then on file as not having been done, for each kind of call; a hook that a kind does not pass
leaves nothing. Where no run is known yet there is none to write in, and the failure is only counted and logged.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.isolation.outcomes import KINDS
from trace_recorder import TrajectoryRecorder, interaction
from trace_recorder.capture import exchange, headers, pulse, transport
from trace_recorder.items import ItemEncoder
from trace_recorder.journal import Journal
from trace_recorder.redact import Redaction
from trace_recorder.run import Run
from trace_recorder.snapshot import Snapshot

Payload = Any
Break = Callable[[pytest.MonkeyPatch], None]


class BrokenError(Exception):
    """Nobody but a test raises it."""


def fail(*_: object, **__: object) -> Payload:
    """Fail."""
    raise BrokenError("on purpose")


def failing(owner: object, name: str, instead: Payload = fail) -> Break:
    """Have a function or method fail."""
    return lambda patch: patch.setattr(owner, name, instead)


def together(*breaks: Break) -> Break:
    """Have several things happen."""

    def both(patch: pytest.MonkeyPatch) -> None:
        for one in breaks:
            one(patch)

    return both


def once_asked(broken: Break) -> Break:
    """Have something fail only when the request is on file."""
    begin = exchange.Exchange.begin

    def later(patch: pytest.MonkeyPatch) -> None:
        def begun(self: exchange.Exchange, context: Mapping[str, Payload]) -> None:
            begin(self, context)
            broken(patch)

        patch.setattr(exchange.Exchange, "begin", begun)

    return later


def no_threads_of_ours(patch: pytest.MonkeyPatch) -> None:
    """Have no thread of the recorder's start; the process has reached its limit."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("trace_recorder"):
            fail()
        start(thread)

    patch.setattr(threading.Thread, "start", refuse)


def bad_decoder(_: str) -> Callable[[bytes], bytes]:
    """Make a decoder that can decode nothing."""
    return fail


flush_at_once = failing(exchange, "FLUSH_BYTES", 1)


@dataclass(frozen=True)
class Hook:
    """A place that fails: how, and what is on file of it."""

    breaks: Break
    gaps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    raises: bool = True
    """Whether the caller hears of it where the recorder is strict."""


def always(*gaps: str) -> Mapping[str, frozenset[str]]:
    """The same gaps, whatever the call."""
    return dict.fromkeys(KINDS, frozenset(gaps))


def of(**gaps: str) -> Mapping[str, frozenset[str]]:
    """Gaps by kind of call, several of them with commas between."""
    return {kind: frozenset(said.split(", ")) for kind, said in gaps.items()}


REQUEST = "record a request"
HEADERS = "record a response's headers"
PART = "record a part of a response"
WHOLE = "record a response"
BROKEN = "record a broken response"
LET_GO = "record a response that was let go of"
DOCUMENT = "write the document"
ENDED = {"plain": WHOLE, "error": WHOLE, "stream": WHOLE, "cut": BROKEN, "closed": LET_GO, "left": LET_GO}

HOOKS: dict[str, Hook] = {
    "look the address up": Hook(failing(transport, "endpoint_of"), raises=False),
    "find the run": Hook(failing(TrajectoryRecorder, "_run_for"), always("begin the run")),
    "make the exchange": Hook(failing(Run, "next_id"), always(REQUEST)),
    "ask for the step": Hook(failing(TrajectoryRecorder, "context"), always(REQUEST)),
    "learn the key": Hook(failing(Redaction, "learn"), always(REQUEST)),
    "keep the headers": Hook(failing(headers, "kept"), always(REQUEST)),
    "encode the items": Hook(failing(ItemEncoder, "encode"), always(REQUEST)),
    "mask": Hook(failing(Redaction, "mask"), always(REQUEST)),
    "write the journal": Hook(failing(Journal, "append"), always(REQUEST)),
    "wrap the stream": Hook(
        together(failing(transport.SyncBody, "__init__"), failing(transport.AsyncBody, "__init__")), of()
    ),
    "hear the status": Hook(failing(exchange.Exchange, "answered"), of()),
    "find a decoder": Hook(failing(exchange, "decoder_of"), always(HEADERS)),
    "decode": Hook(failing(exchange, "decoder_of", bad_decoder), always(PART)),
    "watch a stream": Hook(failing(pulse, "watch"), of()),
    "start the pulse": Hook(no_threads_of_ours, of()),
    "compress": Hook(together(flush_at_once, failing(exchange.zlib, "compress")), of()),
    "mask a stream": Hook(together(flush_at_once, failing(Redaction, "mask_stream")), of()),
    "journal from second": Hook(together(flush_at_once, once_asked(failing(Journal, "append"))), of()),
    "mask from second": Hook(together(flush_at_once, once_asked(failing(Redaction, "mask"))), of()),
    "join": Hook(failing(exchange, "join_stream"), of()),
    "to json": Hook(failing(exchange, "to_json"), of()),
    "as body": Hook(failing(exchange, "_as_body"), of()),
    "error of": Hook(failing(exchange, "_error_of"), of()),
    "snapshot": Hook(failing(Snapshot, "write"), of()),
    "reading": Hook(failing(interaction.Call, "read_response"), of()),
    "log": Hook(together(failing(Journal, "append"), failing(logging.Logger, "warning")), of()),
}
