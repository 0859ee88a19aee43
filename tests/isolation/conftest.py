"""A fixture for all tests here: an environment without variables of its own."""

from __future__ import annotations

from tests.versions.conftest import _environment

__all__ = ["_environment"]
