"""What holds for every test: a clean environment, no recorder left over from the test before, repeatable properties.

`HYPOTHESIS_PROFILE=search` looks further, and at random; without it a property is tried with the same examples each
time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from trace_recorder.attach.recorder import current

pytest_plugins = ["pytester"]

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell has its background jobs ignore Ctrl-C, which tests press
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("COLUMNS", None)  # xdist sets it, and commands would take it for the width of a terminal

_UNHURRIED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, max_examples=100, suppress_health_check=_UNHURRIED
)
settings.register_profile(
    "search", deadline=None, database=None, max_examples=2000, suppress_health_check=_UNHURRIED, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("TRACE_RECORDER_") and name != "TRACE_RECORDER_WIRE"]:
        monkeypatch.delenv(name)
    token = current.set(None)
    yield
    current.reset(token)
