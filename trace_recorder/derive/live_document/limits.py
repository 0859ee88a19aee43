"""The limits that the document goes by: when and how it is written. They never change what the document says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Sizes are in bytes.

    - `at_once_bytes`: while the journal is no larger, a record that the agent makes is in the document on return
    - `cost_multiple`: after a write, the next one waits this many times the processor time that it is likely to take
    - `min_pause_seconds`: it waits at least so long
    - `inline_bytes`: with history="auto", the document has deltas if the prompts of all calls and steps are longer
    - `kept_bytes`: records of up to this size in all stay in memory during a write; the others are read a second time
    """

    at_once_bytes: int = 64 * 1024
    cost_multiple: float = 20
    min_pause_seconds: float = 0.2
    inline_bytes: int = 16 * 1024 * 1024
    kept_bytes: int = 512 * 1024


DEFAULT_LIMITS = DocumentLimits()
