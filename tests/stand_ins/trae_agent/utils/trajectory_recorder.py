"""Its own recorder."""

from __future__ import annotations

from tests.trae import Theirs


class TrajectoryRecorder(Theirs):
    """Records to a file of its own."""
