"""The content of traces in several tests: a question about the weather, a tool call, and its answer."""

from __future__ import annotations

from pathlib import Path

from tests.formats.files import check_run, runs_of
from trace_recorder.values.trajectory import Trajectory

TIMES = [f"2025-10-09T08:53:{second:02}+00:00" for second in range(20, 40)]
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
GIVEN = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Paris?"}]
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
AGAIN = [*GIVEN, ASKED, {"role": "tool", "tool_call_id": "c1", "content": "18"}]
REPLY = {
    "id": "r1",
    "model": "gpt-4o-2024",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": ASKED}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
}


def check_only_run(directory: Path, path: Path) -> Trajectory:
    """Check the only imported run of a file, and return it."""
    runs = directory / "runs"
    runs.mkdir()
    (run,) = runs_of(path)
    return check_run(run, runs)
