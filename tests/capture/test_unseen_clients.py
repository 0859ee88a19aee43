"""A run whose model was called by clients that cannot be captured causes one warning."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import trio

from tests.processes import python
from tests.provider import CHAT, Answer, plain, serving
from trace_recorder import TrajectoryRecorder, http_client, instrument, uninstrument

ASK: Any = [{"role": "user", "content": "hello"}]
UNSEEN = {
    "urllib": "import urllib.request; urllib.request.urlopen(URL, b'{}').close()",
    "http": "import http.client; http.client.HTTPConnection(urlsplit(URL).netloc).request('POST', '/', b'')",
}
"""For each library, a call that is not recorded."""
BEGIN = """
    import os, sys, warnings
    from urllib.parse import urlsplit
    from trace_recorder import TrajectoryRecorder, instrument

    warnings.simplefilter("ignore", ResourceWarning)
    URL = sys.argv[1]
    os.environ["OPENAI_BASE_URL"] = URL
    os.chdir(sys.argv[2])
"""


def told(code: str, path: Path, *answers: Answer) -> list[str]:
    """Return what a process whose model is on this machine writes to stderr."""
    with serving(*(answers or [plain(CHAT)])) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        ended = python(BEGIN + code, f"{url}/v1/chat/completions", path)
    assert (ended.returncode, ended.stdout) == (0, "")
    return ended.stderr.splitlines()


@pytest.mark.parametrize("library", UNSEEN)
def test_an_instrumented_run_without_calls_is_warned_of(library: str, tmp_path: Path) -> None:
    """A warning names the first run without a recorded call, the library and the host. Later runs cause none."""
    code = f"""
    instrument()
    for name in ("a.json", "b.json"):
        with TrajectoryRecorder(name):
            {UNSEEN[library]}
    """
    [line] = told(code, tmp_path)

    assert f"/a.json has no LLM call, but {library} connected to localhost. Clients of httpx" in line


@pytest.mark.parametrize(("end", "lines"), [("recorder.finalize()", 1), ("pass", 2)], ids=["ended", "not ended"])
def test_a_client_that_was_not_wrapped_is_named(end: str, lines: int, tmp_path: Path) -> None:
    """Without `instrument`, a warning at the end of the run or process names the client that was not wrapped."""
    code = f"""
    import httpx
    recorder = TrajectoryRecorder("a.json")
    recorder.start()
    httpx.post(URL, json={{}})
    {end}
    """
    [line, *others] = told(code, tmp_path)

    assert "/a.json has no LLM call, but httpx connected to localhost. Clients of httpx" in line
    assert ["/a.json was started and not ended" in other for other in others] == [True] * (lines - 1)


@pytest.mark.parametrize(
    ("during", "lines"),
    [("client.post(URL, json={})", 0), (f"client.post(URL, json={{}}); {UNSEEN['urllib']}", 1)],
    ids=["before the run", "during the run"],
)
def test_a_partly_recorded_run_is_warned_of(during: str, lines: int, tmp_path: Path) -> None:
    """If a run has calls that were not recorded, the warning names their library and host, and says what to do."""
    code = f"""
    import httpx
    other = TrajectoryRecorder("other.json")
    with other:
        other.record_llm_interaction([], {{}}, "p", "m")
        {UNSEEN["urllib"]}
    with TrajectoryRecorder("a.json") as recorder, recorder.wrap(httpx.Client()) as client:
        {during}
    """
    said = told(code, tmp_path)

    assert len(said) == lines
    assert all("/a.json may lack LLM calls: urllib connected to localhost. Clients of httpx" in line for line in said)


def test_a_recorder_that_waits_for_its_first_call_warns_at_the_exit(tmp_path: Path) -> None:
    """A recorder that waits for its first call, and gets none that it can capture, prints the warning."""
    code = f"""
    recorder = TrajectoryRecorder("a.json")
    instrument(recorder=recorder)
    {UNSEEN["urllib"]}
    recorder.finalize()
    """
    assert len(told(code, tmp_path)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "recorder.record_llm_interaction([], {}, 'p', 'm')",
        "os.environ.pop('OPENAI_BASE_URL')",
    ],
    ids=["by hand", "not a model"],
)
def test_other_runs_get_no_warning(code: str, tmp_path: Path) -> None:
    """Manual calls, and connections to hosts without a known model, cause no warning."""
    code = f"""
    with TrajectoryRecorder("a.json") as recorder:
        {code}
        {UNSEEN["urllib"]}
    """
    assert told(code, tmp_path) == []


def test_captured_and_other_requests_cause_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Captured calls, requests to other hosts, and requests outside of a run cause no warning."""
    with serving(plain({"data": []})) as server, pytest.MonkeyPatch.context() as patch:
        url = server.url.replace("127.0.0.1", "localhost") + "/v1"
        patch.setenv("OPENAI_BASE_URL", url)

        async def ask() -> None:
            async with openai.AsyncOpenAI(api_key="k") as client:
                await client.models.list()

        async def ask_by_trio() -> None:
            async with httpx2.AsyncClient() as client:
                await client.get(f"{url}/models")

        instrument()
        try:
            with TrajectoryRecorder(tmp_path / "a.json"), http_client() as client:
                asyncio.run(ask())
                trio.run(ask_by_trio)
                client.get(f"{url}/models")
        finally:
            uninstrument()

    assert (len(server.requests), caplog.record_tuples) == (3, [])


def test_the_function_of_socket_is_restored(tmp_path: Path) -> None:
    """The function of `socket` that looks up names is replaced only during a recording, and a replacement by other code
    stays.
    """
    original = socket.getaddrinfo
    with TrajectoryRecorder(tmp_path / "a.json"), TrajectoryRecorder(tmp_path / "b.json"):
        within = socket.getaddrinfo
    assert (within is original, socket.getaddrinfo is original) == (False, True)

    with pytest.MonkeyPatch.context() as patch:
        with TrajectoryRecorder(tmp_path / "c.json"):
            ours = socket.getaddrinfo
            patch.setattr(socket, "getaddrinfo", partial(ours))
        with TrajectoryRecorder(tmp_path / "d.json"):
            assert socket.getaddrinfo(host="127.0.0.1", port=80) == original("127.0.0.1", 80)


def test_a_library_that_runs_a_coding_agent_is_named(tmp_path: Path) -> None:
    """The Claude Agent SDK runs Claude Code, which makes its calls in another process, and a warning says so."""
    (tmp_path / "claude_agent_sdk.py").touch()
    code = """
    sys.path.insert(0, os.getcwd())
    import claude_agent_sdk
    instrument()
    with TrajectoryRecorder("a.json"):
        pass
    """
    [line] = told(code, tmp_path)

    assert "/a.json has no LLM call, but claude_agent_sdk runs Claude Code, which calls models in a process" in line
    assert "`trace-recorder proxy -- python agent.py` records these calls" in line
