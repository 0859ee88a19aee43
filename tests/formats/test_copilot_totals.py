"""Copilot CLI's sessions that were resumed: each part of a session states its own totals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trace_recorder import load


def _shutdown(tokens: int, files: list[str]) -> dict[str, Any]:
    metrics = {"claude": {"requests": {"count": 1}, "usage": {"inputTokens": tokens, "outputTokens": 10}}}
    return {
        "modelMetrics": metrics,
        "totalPremiumRequests": 0.5,
        "codeChanges": {"linesAdded": 2, "filesModified": files},
    }


def test_the_totals_of_all_parts_add_up(tmp_path: Path) -> None:
    events = [
        ("session.start", {"sessionId": "s"}),
        ("user.message", {"content": "One."}),
        ("assistant.message", {"content": "1", "outputTokens": 10}),
        ("session.shutdown", _shutdown(1000, ["a.py"])),
        ("session.resume", {}),
        ("user.message", {"content": "Two."}),
        ("assistant.message", {"content": "2", "outputTokens": 10}),
        ("session.shutdown", _shutdown(2000, ["a.py", "b.py"])),
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps({"type": kind, "data": data}) + "\n" for kind, data in events))
    assert load(path).annotations == {
        "modelMetrics": {"claude": {"requests": {"count": 2}, "usage": {"inputTokens": 3000, "outputTokens": 20}}},
        "totalPremiumRequests": 1.0,
        "codeChanges": {"linesAdded": 4, "filesModified": ["a.py", "b.py"]},
    }
