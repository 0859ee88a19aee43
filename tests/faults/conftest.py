"""What the tests of this room share: a model that answers, and the zygote from which agents are forked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.answering import Provider, answering
from tests.faults.killing import Zygote


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    """A model that answers for as long as there are tests."""
    with answering() as provider:
        yield provider


@pytest.fixture(scope="session")
def zygote(provider: Provider) -> Iterator[Zygote]:
    """A process that is ready to become an agent."""
    with Zygote(provider) as zygote:
        yield zygote


KNOWN_FAULTS = {
    "test_what_could_be_written_is_whole[removed directory]": "a removed directory is not made again in mid-run",
    "test_what_could_not_be_written_is_a_gap[removed directory]": "a removed directory is not made again in mid-run",
}
"""What does not hold yet, by the name of its test: each is to be mended, and its line here to go."""

collect_ignore = ["test_kills.py", "test_processes.py", "test_interrupts.py"]
"""What is not stable yet: run these by name. What they find is told in docs/known-faults.md."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the known faults to fail, so that a mended one is noticed."""
    for item in items:
        if item.name in KNOWN_FAULTS:
            item.add_marker(pytest.mark.xfail(reason=KNOWN_FAULTS[item.name], strict=True))
