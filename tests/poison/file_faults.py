"""Finds the faults in the files of a run that got odd values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from tests.journals import records_of
from trace_recorder import load
from trace_recorder.reading.validate import validate
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, parse


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def faults(path: Path) -> list[str]:
    """Return the faults in the files of a run."""
    text = path.read_bytes().decode()
    json.loads(text, parse_constant=no_constant)
    parse(text, MAX_DOCUMENT_DEPTH)
    records_of(path)
    trajectory, alone = load(path.with_suffix(".jsonl")), load(path)
    json.dumps(trajectory.to_document(), allow_nan=False).encode()
    gaps = [f"{gap.what}: {gap.why}" for gap in (*trajectory.gaps, *alone.gaps)]
    errors = [f"{finding.where}: {finding.what}" for finding in validate(path).findings if finding.severity == "error"]
    return [*gaps, *errors]
