"""The record of Kiro CLI, and of Amazon Q's command line, of which Kiro CLI is a newer version."""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.formats.foreign_runs.run import ForeignRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.formats.kiro import conversations, sessions
from trace_recorder.values.token_counts import WHOLE

_DATABASE = "data.sqlite3"


def recognizes(source: Source) -> bool:
    """Return whether the file is a session as lines, a database, or a saved conversation."""
    return sessions.LINE.in_first_line(source) or conversations.recognizes(source)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the runs of a file."""
    if sessions.LINE.in_first_line(source):
        yield sessions.read(source)
    else:
        yield from conversations.read(source)


FORMAT = Format(
    name="kiro",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(program="Kiro CLI", directory=".kiro", files=("sessions/cli/*.jsonl",), variable="KIRO_HOME"),
        HomePlace(
            program="Kiro CLI, older sessions",
            directory=".local/share/kiro-cli",
            files=(_DATABASE,),
        ),
        HomePlace(
            program="Kiro CLI, older sessions on macOS",
            directory="Library/Application Support/kiro-cli",
            files=(_DATABASE,),
        ),
        HomePlace(program="Amazon Q CLI", directory=".local/share/amazon-q", files=(_DATABASE,)),
        HomePlace(
            program="Amazon Q CLI on macOS",
            directory="Library/Application Support/amazon-q",
            files=(_DATABASE,),
        ),
    ),
)
