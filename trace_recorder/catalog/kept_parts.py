"""Compresses the parts of a run that an index stores as JSON.

The names of their members are the same for all runs, so zlib gets a dictionary that has them. An index whose dictionary
is another one is not used (`index_file.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

DICTIONARY = (
    b'","2026-"calls": [1, 0.0, 0.0, 0.0], "completed"interrupted"["failed",false,"{"total": [{"runs": 1, '
    b'"succeeded": 0, "not_succeeded": 0, "replays": 0, "steps": 1}, [["openai", "anthropic", {"calls": 1, '
    b'"failed": 1, "incomplete": 1, "attempts": 1, "retries": 1, "timed": 1, "streamed": 1, "with_prompt": 1, '
    b'"with_completion": 1, "with_cache_read": 1, "with_reasoning": 1, "answered_without_tokens": 1, '
    b'"without_price": 1}, {"prompt": 1, "completion": 1, "cache_read": 0, "reasoning": 0}, 0, 0.0, 0.0, 0.0, {}]], '
    b'{"bash": {"calls": 1, "failed": false, "outcome_unknown": true, "unanswered": 1, "timed": 1, "seconds": 0}}, '
    b'{"total": 0, "llm": 0, "tool": 0, "idle": 0}, 0][{"id": "", "trajectory_id": "", "parent": null, "session": '
    b'null, "task": "", "status": "completed", "success": true, "model": "", "provider": "", "start_time": '
    b'"2026-01-01T00:00:00.000000+00:00", "end_time": "2026-01-01T00:00:00.000000+00:00", "execution_time_seconds": '
    b'0.1, "steps": 1, "llm_calls": 1, "failed_llm_calls": 0, "replayed_llm_calls": null, "tool_calls": 1, '
    b'"failed_tool_calls": 0, "total_input_tokens": 1, "output_tokens": 1, "cached_input_tokens": null, "cost": '
    b'null, "cost_estimated": null, "calls_without_price": null, "rewards": {"": 0.0}, "error": null, {"type": '
    b'"RuntimeError", "message": "", "forked_from": null, "replay_of": null}, {"cost": 0.00, "cost_estimated": '
    b'true, "calls_without_price": 0}]{"file": "", "path": "", "trajectory_id": "", "parent": null, "session": '
    b'null, "start_time": "2026-01-01T00:00:00.000000+00:00", "task": "", "status": "completed", "success": true, '
    b'"provider": "", "model": "", "llm_calls": 1, "input_tokens": 1, "output_tokens": 1, "execution_time": 0.1, '
    b'"agent_steps": 1, "cost": 0.00, "failed_llm_calls": 0, "failed_tool_calls": 0, "rewards": {}, "forked_from": '
    b'null, "replay_of": null, "replayed_llm_calls": null, "cost_estimated": true, "calls_without_price": 0}'
)
"""The members of the parts, the most frequent last. zlib finds those best."""
_LEVEL = 6


def pack_parts(parts: Sequence[str]) -> bytes:
    """Compress the parts of a run. Each is JSON in one line."""
    compressor = zlib.compressobj(_LEVEL, wbits=-15, zdict=DICTIONARY)
    return compressor.compress("\n".join(parts).encode()) + compressor.flush()


def unpack_parts(data: bytes) -> list[str]:
    """Return the parts that `pack_parts` compressed."""
    return zlib.decompressobj(wbits=-15, zdict=DICTIONARY).decompress(data).decode().split("\n")
