"""A fixture for all tests here: the variables that configure recording are unset."""

from __future__ import annotations

from tests.versions.conftest import _environment

__all__ = ["_environment"]
