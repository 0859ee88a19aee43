"""The limits that the live document goes by: when and how it is written, and what is kept in memory.

They change what writing costs, never what the document says; `max_tools_per_step` alone is a rule of the fold.
"""

from __future__ import annotations

from dataclasses import dataclass

from trace_recorder.derive.requests import MAX_PREFIXES
from trace_recorder.derive.tool_steps import MAX_TOOLS_PER_STEP
from trace_recorder.storage.items.disk_backed import MAX_CACHED_BYTES


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Sizes are in bytes.

    - `small_bytes`: a document of up to this size may be written before a recording call returns
    - `cost_multiple`: a write that can wait is done when this many times the processor time of the last one has passed
    - `inline_bytes`: with history="auto", a larger document is written with deltas
    - `min_open`: at least this many of the newest interactions, and of the newest steps, are never settled
    - `max_waiting`: at most this many wait for more; beyond that the oldest are settled as they are
    - `read_bytes`: the journal is read in blocks of this size
    - `memory_bytes`: settled texts of up to this size wait in memory; beyond that they go to a temporary file
    - `cached_item_bytes`, `max_prefixes`: the items and the conversations that are remembered
    - `max_tools_per_step`: after this many tools outside of every other step, another tool step begins
    """

    small_bytes: int = 256 * 1024
    cost_multiple: float = 100
    inline_bytes: int = 16 * 1024 * 1024
    min_open: int = 8
    max_waiting: int = 256
    read_bytes: int = 128 * 1024
    memory_bytes: int = 4 * 1024 * 1024
    cached_item_bytes: int = MAX_CACHED_BYTES
    max_prefixes: int = MAX_PREFIXES
    max_tools_per_step: int = MAX_TOOLS_PER_STEP


DEFAULT_LIMITS = DocumentLimits()
