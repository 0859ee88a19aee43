"""Trae Agent's own recorder."""

from __future__ import annotations

from tests.trae import Theirs


class TrajectoryRecorder(Theirs):
    """A recorder that writes to its own file."""
