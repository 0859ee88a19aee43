"""Sends an exported dataset to a server: what is sent is what is in the file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_recorder.cli.text_layout import pluralize
from trace_recorder.views.invariant.push import address_of, check_name, explorer, send


@dataclass(frozen=True, slots=True)
class Push:
    """A dataset on a server, by its name. Made before anything is exported: without a key nothing is."""

    dataset: str
    client: Any

    @classmethod
    def to(cls, dataset: str, url: str | None) -> Push:
        """Check the name, and make the client. Raises ValueError, ImportError and PushError."""
        check_name(dataset)
        return cls(dataset, explorer(url))

    @contextmanager
    def file(self, out: Path | None) -> Iterator[Path]:
        """Return the file that is sent: the requested one, or a temporary one."""
        if out is not None:
            yield out
            return
        with tempfile.TemporaryDirectory() as directory:
            yield Path(directory, "dataset.jsonl")

    def send(self, file: Path) -> tuple[list[str], str]:
        """Send the traces of a file; give their ids there, and a sentence about it. Raises PushError."""
        with file.open(encoding="utf-8") as lines:
            traces = [row for row in map(json.loads, lines) if "messages" in row]
        ids = send(traces, self.dataset, self.client)
        place = f"the dataset {self.dataset} at {address_of(self.client)}"
        return ids, f"pushed {pluralize(len(traces), 'trace')} to {place}" if traces else f"nothing to push to {place}"
