"""What holds for every test here: quick TLS contexts, nothing of the environment's own, quick garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.versions.conftest import _environment, one_certificate

__all__ = ["_environment", "one_certificate"]


@pytest.fixture(autouse=True, scope="package")
def _frozen() -> Iterator[None]:
    """Spare the collector what the SDKs have loaded: it is called for in many tests."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
