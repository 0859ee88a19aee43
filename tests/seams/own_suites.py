"""Runs the HTTP libraries' own test suites without and with recording: the same tests must fail, if any.

    python -m tests.seams.own_suites urllib3 [MORE ARGUMENTS FOR PYTEST]

`nox -s own-suites` makes the environments. The suite comes from the source distribution of the version that is
installed. With recording, each request is taken for an LLM call, so that every test passes the seam of its library, and
not only those whose address is that of a model.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest

from trace_recorder import TrajectoryRecorder, instrument, uninstrument
from trace_recorder.capture import exchange
from trace_recorder.dialects.endpoints import Endpoint, Recognition

SUITES = {
    "aiohttp": (
        *("tests/test_client_functional.py", "tests/test_client_session.py", "tests/test_client_request.py"),
        *("tests/test_client_response.py", "tests/test_connector.py"),
        *("-o", "addopts="),
    ),
    "urllib3": (
        *("test/with_dummyserver", "test/test_connectionpool.py", "test/test_poolmanager.py", "test/test_response.py"),
    ),
    "requests": ("tests",),
    "botocore": (
        *("tests/unit/test_http_session.py", "tests/unit/test_awsrequest.py", "tests/unit/test_endpoint.py"),
        *("tests/functional/test_bedrock_runtime.py", "tests/functional/test_history.py"),
        *("tests/functional/test_s3.py", "tests/functional/retries", "tests/functional/test_six_threading.py"),
    ),
    "aiobotocore": (
        *("tests/test_basic_s3.py", "tests/test_eventstreams.py", "tests/test_httpsession.py"),
        *("tests/test_proxy.py", "tests/test_response.py", "-k", "asyncio"),
    ),
}
"""By library: the parts of its suite that send requests by the library, and the needed options of pytest."""
RECORDING = "TRACE_RECORDER_OWN_SUITE"
"""The variable that names the run of the suite."""


def pytest_configure(config: pytest.Config) -> None:
    """Record the process, as a plugin of the suite's pytest."""
    path = os.environ.get(RECORDING)
    if path is not None:
        call = Endpoint("openai-chat", "openai", None, streams=False)
        exchange.recognise = lambda *_: Recognition(call=call)  # type: ignore[assignment]
        recorder = TrajectoryRecorder(path)
        recorder.start()
        instrument(recorder=recorder)

        def end() -> None:
            uninstrument()
            recorder.finalize()

        config.add_cleanup(end)


def run(library: str, source: Path, recorded: Path | None, more: list[str]) -> dict[str, set[str]]:
    """Run a suite, and return for each way to end the names of the tests that ended so."""
    report = source / f"{'plain' if recorded is None else 'recorded'}.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}"]
    environment = {**os.environ, "PYTHONPATH": str(source)}  # its package `tests` is a different one than ours
    if recorded is not None:
        environment[RECORDING] = str(recorded)
    (source / "tests_of_recorder.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run(
        [*command, "-p", "tests_of_recorder", *more, *SUITES[library]], cwd=source, env=environment, check=False
    )
    ends: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        end = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        ends[end].add(f"{case.get('classname')}::{case.get('name')}")
    return ends


def unpacked(library: str, directory: Path) -> Path:
    """Return the directory of the source distribution of the installed version."""
    asked = f"{library}=={version(library)}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", library]
    subprocess.run([*pip, "--dest", str(directory), asked], check=True)
    [archive] = directory.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(directory, filter="data")
    [source] = [one for one in directory.iterdir() if one.is_dir()]
    package = source / library
    if package.is_dir():  # the directory has no compiled parts, so the installed package is to be tested
        package.rename(source / "not-imported")
    return source


def main(library: str, *more: str) -> int:
    """Print the counts of both runs, and the tests that fail twice only with recording. Return the exit code."""
    with tempfile.TemporaryDirectory() as directory:
        source = unpacked(library, Path(directory))
        alone = run(library, source, None, [*more])
        recorded = run(library, source, Path(directory, "run.json"), [*more])
        calls = Path(directory, "run.jsonl").read_bytes().count(b'"kind":"llm_request"')
        worse = recorded["failed"] - alone["failed"]
        if worse:  # some tests of these suites fail now and then
            worse &= run(library, source, Path(directory, "again.json"), [*more])["failed"]
    for name, ends in (("alone", alone), ("recorded", recorded)):
        print(f"{library} {version(library)}, {name}: " + ", ".join(f"{len(ends[end])} {end}" for end in ends))
    print(f"{calls} requests were recorded; {len(worse)} tests fail with recording only", *sorted(worse), sep="\n  ")
    return 1 if worse or not calls else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
