"""What holds for every test here: quick TLS contexts, nothing of the environment's own, one pulse that beats fast."""

from __future__ import annotations

from tests.versions.conftest import _environment, one_certificate

__all__ = ["_environment", "one_certificate"]
