"""The data of records, from its members; and what the first record says of the process."""

from __future__ import annotations

import platform
import socket
import sys
import time
from collections.abc import Mapping, Sequence

from trace_recorder.recording import process
from trace_recorder.storage.items.item_lists import NewItem
from trace_recorder.storage.journal_lines import Data
from trace_recorder.storage.journal_reader import SCHEMA, VERSION
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.version import __version__

Records = Sequence[tuple[str, Data]]
"""Records to be written: the kind of each, and its data."""

_STARTED = time.time()


def process_facts(trajectory_id: str, pid: int, parent: str | None) -> dict[str, Payload]:
    """Describe the process that records a run; `parent` is the run that it was forked in, if any."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "trajectory_id": trajectory_id,
        "host": socket.gethostname(),
        "pid": pid,
        "process_start": _STARTED,
        "recorder": __version__,
        "python": platform.python_version(),
        "platform": sys.platform,
        **without_none(parent=parent or process.parent_run()),
    }


def record_data(about: str, said: str, redacted: int) -> str:
    """The data of a record, as JSON text, from its members."""
    counted = f',"redacted":{redacted}' if redacted else ""
    return f"{{{about}{counted},{said}}}" if said else f"{{{about}{counted}}}"


def item_records(new: Sequence[NewItem], masked: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """The records of new items, from their masked members."""
    return [("item", record_data(item.about, *one)) for item, one in zip(new, masked[: len(new)], strict=True)]


def own_members(about: Mapping[str, object]) -> tuple[str, int]:
    """The recorder's own members of a record as JSON text, and how many secrets are masked in them."""
    if "redacted" not in about:
        return _dump(about)[1:-1], 0
    others = dict(about)
    redacted = others.pop("redacted")
    return _dump(others)[1:-1], redacted if isinstance(redacted, int) else 0


_dump = make_json_writer(",", ":", allow_nan=False)
