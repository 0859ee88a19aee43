"""Fixtures of these tests: a model that answers, and the zygote that forks agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.answering import Provider, answering
from tests.faults.killing import Zygote


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    """A model that answers until all tests are over."""
    with answering() as provider:
        yield provider


@pytest.fixture(scope="session")
def zygote(provider: Provider) -> Iterator[Zygote]:
    """A process that is ready to fork agents."""
    with Zygote(provider) as zygote:
        yield zygote
