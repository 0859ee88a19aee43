"""The records of Pi's sessions, of OpenClaw's, which have Pi's form, and of the Hub's session traces."""

from __future__ import annotations

from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.formats.pi.reading import (
    read,
    read_session_traces,
    recognizes,
    recognizes_openclaw,
    recognizes_session_traces,
)
from trace_recorder.formats.pi.session_traces import to_session_traces
from trace_recorder.formats.pi.writing import to_traces
from trace_recorder.values.token_counts import CACHE_APART, WHOLE

PI = Format(
    name="pi",
    reader=FormatReader(recognizes=recognizes, read=read, counting=CACHE_APART),
    writer=FormatWriter(kind="sessions", view=to_traces),
    export_name="traces",
    home=(
        HomePlace(
            program="pi",
            directory=".pi/agent",
            files=("sessions/*/*.jsonl",),
            variable="PI_CODING_AGENT_DIR",
            session="sessions/*/*_{session}.jsonl",
        ),
    ),
)
OPENCLAW = Format(
    name="openclaw",
    reader=FormatReader(recognizes=recognizes_openclaw, read=read, counting=CACHE_APART),
    home=(HomePlace(program="OpenClaw", directory=".openclaw", files=("agents/*/sessions/*.jsonl",)),),
)
SESSION_TRACES = Format(
    name="session-traces",
    reader=FormatReader(recognizes=recognizes_session_traces, read=read_session_traces, counting=WHOLE),
    writer=FormatWriter(kind="sessions", view=to_session_traces),
)
