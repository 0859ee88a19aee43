"""Have Inspect AI read logs, as JSON and as archives, and compare its contents with the exchanged contents.

needs: inspect_ai
usage: PYTHONPATH=. python -m tests.readers.check_inspect DIRECTORY
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries

from tests.contents.shown_inspect import inspect
from tests.readers.contents import Contents
from tests.readers.reading import Reader, directory, files, finish


def read(path: Path) -> Any:
    """Read a log as `inspect view` does: the whole log, the list, and the summaries of its samples."""
    log = read_eval_log(str(path), resolve_attachments=True)
    assert log.samples
    assert len(log.samples) == 1
    if path.suffix == ".eval":
        [summary] = read_eval_log_sample_summaries(str(path))
        assert summary.id == log.samples[0].id
        assert (summary.scores or {}).keys() == (log.samples[0].scores or {}).keys()
    return log


def held(payloads: list[Any], _: Path) -> list[Any]:
    """Return the logs of a run as Inspect reads them, as JSON."""
    with tempfile.TemporaryDirectory() as aside:
        made = []
        for number, payload in enumerate(payloads):
            path = Path(aside, f"{number}.json")
            path.write_text(json.dumps(payload), encoding="utf-8")
            made.append(read(path).model_dump(mode="json"))
        return made


logs = Reader("Inspect: read_eval_log of JSON", "Inspect logs", "inspect_ai")
archives = Reader("Inspect: read_eval_log of archives", "Inspect logs, .eval", "inspect_ai")
for file in files("inspect"):
    logs.take(file.name, lambda file=file: read(file))
for file in sorted((directory() / "inspect-eval").glob("*.eval")):
    archives.take(file.name, lambda file=file: read(file))
assert list_eval_logs(str(directory() / "inspect-eval"))
contents = Contents("Inspect: contents of its logs", "inspect", "inspect_ai", shows=inspect)
contents.hold(held)
finish(logs, archives, contents)
