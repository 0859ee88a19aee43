"""The records of rows for training: those that are written, and those that are read."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.formats.training.openai_finetuning import to_openai_finetuning
from trace_recorder.formats.training.reading import read, read_trials, recognizes, recognizes_trials
from trace_recorder.formats.training.trl import FORMS, to_trl
from trace_recorder.values.token_counts import WHOLE

OPENAI = Format(
    name="openai",
    writer=FormatWriter(kind="rows", view=to_openai_finetuning, options=frozenset({"include_incomplete"})),
)
TRL = Format(
    name="trl",
    writer=FormatWriter(
        kind="rows",
        view=to_trl,
        forms={name: {"form": name} for name in FORMS},
        options=frozenset({"include_incomplete"}),
    ),
)
SHAREGPT = Format(name="sharegpt", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
HARBOR = Format(
    name="harbor-traces", reader=FormatReader(recognizes=recognizes_trials, read=read_trials, counting=WHOLE)
)
