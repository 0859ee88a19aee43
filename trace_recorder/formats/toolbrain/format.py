"""The record of ToolBrain's turns."""

from __future__ import annotations

from trace_recorder.formats.format import Format
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.formats.toolbrain.parsing import PARSERS
from trace_recorder.formats.toolbrain.turns import turns_one_by_one

FORMAT = Format(
    name="toolbrain",
    writer=FormatWriter(
        kind="documents", view=turns_one_by_one, forms={name: {"parser": parser} for name, parser in PARSERS.items()}
    ),
)
