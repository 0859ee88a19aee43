"""Ids that formats make of the ids in a source."""

from __future__ import annotations

from trace_recorder.storage.redaction.text_masking import default_redactor


def joined_id(*parts: str) -> str:
    """Join parts by hyphens. Each part is masked first: behind a hyphen, a key may not be recognized as one."""
    return "-".join(map(default_redactor, parts))
