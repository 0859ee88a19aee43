"""Recorders by others."""

from __future__ import annotations

from benchmarks.contenders import Unrecorded

PEERS: dict[str, type[Unrecorded]] = {}
