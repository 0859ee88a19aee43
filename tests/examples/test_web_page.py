"""The page docs/web.md: its programs are served, and answer requests that are recorded and requests that are not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.examples.environment import environment
from tests.processes import ROOT
from tests.provider import CHAT, Answer, Request, plain, serving
from tests.waiting import wait_until
from trace_recorder import load

PAGE = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")
BEGINNING, FASTAPI, SYNC_DEPENDENCY, STARLETTE, FLASK, DJANGO = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
AT_ONCE = 6
CASES = [
    *((FASTAPI, f"/{address}") for address in ("async", "sync", "block", "background", "stream")),
    *((SYNC_DEPENDENCY, f"/{address}") for address in ("async", "sync")),
    *((STARLETTE, f"/agent/{address}") for address in ("async", "thread", "background", "stream")),
    *((FLASK, f"/{address}") for address in ("sync", "stream")),
    *((DJANGO, f"/{address}") for address in ("sync", "async", "stream")),
]
"""The programs of the page, and the addresses whose requests they record."""
BLOCKS = {
    FASTAPI: "fastapi",
    SYNC_DEPENDENCY: "sync dependency",
    STARLETTE: "starlette",
    FLASK: "flask",
    DJANGO: "django",
}


@contextmanager
def served(program: str, place: Path, provider: str) -> Iterator[str]:
    """Yield the URL of a program that is served in a process of its own."""
    (place / "app.py").write_text(f"{BEGINNING}\n{program}")
    command = [sys.executable, "-m", "tests.examples.web_server", "app"]
    with (place / "stderr.txt").open("w") as stderr:
        process = subprocess.Popen(
            command, cwd=place, env=environment(provider, place), stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, (place / "stderr.txt").read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate()


def question_of(request: Request) -> str:
    return str(json.loads(request.body)["messages"][0]["content"])


def answered(place: Path) -> list[list[object]]:
    """Return the questions of each run that has ended, or of all runs."""
    runs = [load(path) for path in (place / "trajectories").glob("*.json")]
    return sorted([call.input_messages[0].content for call in run.llm_interactions] for run in runs)  # type: ignore[type-var]


def ended(place: Path) -> int:
    """Return the number of runs that have ended."""
    return sum(load(path).status == "completed" for path in (place / "trajectories").glob("*.json"))


@pytest.mark.parametrize("program", BLOCKS, ids=BLOCKS.values())
def test_no_request_is_in_the_run_of_another(program: str, tmp_path: Path) -> None:
    """Of six requests at once, three are recorded, each in a run with its own call, and three are in no run."""
    addresses = [address for block, address in CASES if block is program]
    together = threading.Barrier(AT_ONCE)

    def answer(_: Request) -> Answer:
        together.wait(60)
        return plain(CHAT)

    def get(address: str, question: str) -> int:
        return httpx.get(f"{url}{address}", params={"question": question}, trust_env=False, timeout=120).status_code

    def have_ended() -> bool:
        return ended(tmp_path) >= len(expected)

    expected: list[list[str]] = []
    with serving(answer) as provider, served(program, tmp_path, provider.url) as url:
        for address in addresses:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                recorded = [pool.submit(get, address, f"{address}-{number}") for number in range(AT_ONCE // 2)]
                others = [pool.submit(get, "/plain", f"secret-{number}") for number in range(AT_ONCE // 2)]
                assert [request.result() for request in (*recorded, *others)] == [200] * AT_ONCE
            expected += [[f"{address}-{number}"] for number in range(AT_ONCE // 2)]
            wait_until(have_ended)

    runs = [load(path) for path in (tmp_path / "trajectories").glob("*.json")]
    assert (answered(tmp_path), {run.status for run in runs}) == (sorted(expected), {"completed"})
    assert [gap for run in runs for gap in run.gaps] == []
    assert {call.run_inferred for run in runs for call in run.llm_interactions} == {False}
