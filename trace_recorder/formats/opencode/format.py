"""The record of opencode's sessions. Kilo, which began as a copy of opencode, has the same tables."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.formats.opencode.sessions import read, recognizes
from trace_recorder.values.token_counts import CACHE_APART

FORMAT = Format(
    name="opencode",
    reader=FormatReader(recognizes=recognizes, read=read, counting=CACHE_APART),
    home=(
        HomePlace(
            program="opencode",
            directory=".local/share/opencode",
            files=(
                "opencode*.db",
                "storage/session/*/*.json",
            ),
            variable="XDG_DATA_HOME",
            below="opencode",
            session="opencode.db",
        ),
        HomePlace(
            program="Kilo",
            directory=".local/share/kilo",
            files=("kilo*.db",),
            variable="XDG_DATA_HOME",
            below="kilo",
        ),
    ),
)
