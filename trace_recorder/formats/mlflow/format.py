"""The record of MLflow's exported traces."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.mlflow.reading import read, recognizes
from trace_recorder.values.token_counts import WHOLE

FORMAT = Format(name="mlflow", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
