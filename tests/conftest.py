"""Settings of every test: a clean environment, no recorder left over from the test before, repeatable properties.

Three things that no test checks are made fast. Most of the time of creating an HTTP client goes into reading two
hundred certificates, which no test uses: here one is read. A garbage collection visits everything that the SDKs and
earlier tests loaded: here it skips the objects from before the first test of a module, and does not happen while the
tests are loaded.

`HYPOTHESIS_PROFILE=search` tries more examples, at random, which takes some properties longer than a test may take: add
`-o faulthandler_timeout=0`. Without it a property is tried with the same examples each time.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from trace_recorder.attach.recorder import current
from trace_recorder.guard import limit_counts

pytest_plugins = ["pytester"]
_HELPERS = {path.stem for path in Path(__file__).parent.iterdir()} - {"__init__", "conftest"}
pytest.register_assert_rewrite(*(f"tests.{name}" for name in _HELPERS))  # assertions there show their values too

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell makes its background jobs ignore Ctrl-C, which tests press
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("COLUMNS", None)  # xdist sets it, and commands would take it for the width of a terminal
os.environ.pop("PYTHONUNBUFFERED", None)  # it would hide a command that keeps back its output to a pipe

_UNHURRIED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, max_examples=60, suppress_health_check=_UNHURRIED
)
settings.register_profile(
    "search", deadline=None, database=None, max_examples=2000, suppress_health_check=_UNHURRIED, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

_OUTSIDE = dict(os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Load all tests without garbage collections, which would visit thousands of tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _little_to_collect() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let clients of this process and of its children read only the first of certifi's certificates."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("certifi"):
            import certifi

            _, begin, rest = Path(certifi.where()).read_text(encoding="utf-8").partition("-----BEGIN CERTIFICATE-----")
            path = tmp_path_factory.mktemp("tls") / "one.pem"
            path.write_text(begin + rest.partition("-----BEGIN")[0], encoding="utf-8")
            patch.setenv("SSL_CERT_FILE", str(path))
            patch.delenv("SSL_CERT_DIR", raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def _patient_clients() -> None:
    """Let clients of httpx without a timeout of their own wait for two minutes. Their default is five seconds."""
    for library in filter(find_spec, ("httpx", "httpx2")):
        default = signature(import_module(library).Client).parameters["timeout"].default
        default.connect = default.read = default.write = default.pool = 120.0


@pytest.fixture
def outside_environment() -> dict[str, str]:
    """Return the environment in which the tests were started, for tests that need the network."""
    return _OUTSIDE


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("TRACE_RECORDER_") and name != "TRACE_RECORDER_WIRE"]:
        monkeypatch.delenv(name)
    token = current.set(None)
    limit_counts.clear()
    yield
    current.reset(token)
