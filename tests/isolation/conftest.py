"""Shared by all tests here: no variable of the environment's own."""

from __future__ import annotations

from tests.versions.conftest import _environment

__all__ = ["_environment"]
