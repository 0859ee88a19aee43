"""Have Inspect Scout validate the exported transcripts, and read each of them with its messages.

needs: inspect_scout msgspec genai-prices
usage: PYTHONPATH=. python -m tests.readers.check_scout DIRECTORY
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from inspect_scout import Transcript, TranscriptContent, transcripts_db

from tests.readers.reading import Reader, directory, finish, runs
from trace_recorder.tables.rows import cells_of
from trace_recorder.values.trajectory import Trajectory

PLACE = directory() / "parquet-scout" / "transcripts"


async def transcripts() -> dict[str, Transcript]:
    """Return every transcript by its id."""
    async with transcripts_db(str(PLACE)) as database:
        return {
            one.transcript_id: await database.read(one, TranscriptContent(messages="all"))
            async for one in database.select()
        }


def validate() -> None:
    """Have `scout db validate` accept the files."""
    subprocess.run([str(Path(sys.executable).with_name("scout")), "db", "validate", str(PLACE)], check=True)


def compare(run: Trajectory, transcripts: dict[str, Transcript]) -> None:
    """Raise if Scout's values of a run differ."""
    cells = {name: values[0] for name, values in cells_of(run, "transcripts").items()}
    one = transcripts[cells["transcript_id"]]
    roles = [message["role"] for message in json.loads(cells["messages"])]
    assert [message.role for message in one.messages] == roles
    for name in ("source_type", "model", "success", "error", "total_time", "total_tokens", "message_count"):
        assert getattr(one, name) == cells[name], f"{name}: {getattr(one, name)!r} in the place of {cells[name]!r}"


validating = Reader("Inspect Scout: scout db validate", "tables", "inspect_scout")
validating.take("the transcripts", validate)
reader = Reader("Inspect Scout: transcripts with their messages", "runs", "inspect_scout", "inspect_ai")
read: dict[str, Transcript] = {}
reader.take("the database", lambda: read.update(asyncio.run(transcripts())))
ids = Counter(cells_of(run, "transcripts")["transcript_id"][0] for _, run in runs())
for _, each in runs():
    if ids[cells_of(each, "transcripts")["transcript_id"][0]] > 1:
        reader.pass_over("copies of a run, which have its id")
        continue
    reader.take(str(each.path), lambda each=each: compare(each, read))
finish(validating, reader)
