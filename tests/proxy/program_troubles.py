"""Real programs in trouble, with and without the proxy: errors that are tried again, streams that break, Ctrl-C.

    python -m tests.proxy.program_troubles DIRECTORY [NAME…]        # as tests/proxy/programs.py

The provider answers the first requests with a 429 and a 529; or it closes the connection in the middle of an answer; or
it says nothing more in the middle of one, until Ctrl-C comes from the program's terminal. With the proxy, a program has
the exit code and the output that it has without. The provider gets as many requests, and each is an attempt on file.
After Ctrl-C the output is not compared: even without a proxy, Claude Code says "Execution error" or nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import termios
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.frameworks import provider as scripted
from tests.local_server import LocalServer, running
from tests.proxy.programs import VOLATILE, Program, ScriptedProvider, environment_of, programs
from trace_recorder import load

TROUBLES = {"429 and 529": (429, 529), "a broken stream": ("breaks",), "Ctrl-C": ("hangs",)}
MODELS = re.compile(r"/(chat/completions|responses|messages)$|enerateContent$")
"""The paths of requests to a model."""
HANGS_SECONDS = 60
CTRL_C = b"\x03"


class TroubledProvider(ScriptedProvider):
    """A provider whose first answers fail. `hanging` is set in the middle of an answer that does not go on."""

    troubles: deque[int | str]
    hanging: threading.Event
    requests: int = 0


class _Handler(scripted._Handler):
    def do_POST(self) -> None:  # noqa: N802 the name that http.server asks for
        provider: TroubledProvider = self.server.state  # type: ignore[attr-defined]
        path = self.path.partition("?")[0]
        if not MODELS.search(path):
            super().do_POST()
            return
        provider.requests += 1
        trouble = provider.troubles.popleft() if provider.troubles else None
        if trouble is None:
            super().do_POST()
            return
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if isinstance(trouble, int):
            self._fail(trouble)
        else:
            self._give_half(provider, path, body, hangs=trouble == "hangs")

    def _fail(self, status: int) -> None:
        data = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "later"}}).encode()
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            "retry-after": "0",
            "content-length": len(data),
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def _give_half(self, provider: TroubledProvider, path: str, body: object, *, hangs: bool) -> None:
        _, media, data = provider.answer(path, {name.lower() for name in self.headers}, body)
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        half = data[: len(data) // 2]
        self.wfile.write(b"%x\r\n%s\r\n" % (len(half), half))
        self.wfile.flush()
        if hangs:
            provider.hanging.set()
            select.select([self.connection], [], [], HANGS_SECONDS)
        self.close_connection = True


@contextmanager
def _providing(program: Program, troubles: Sequence[int | str]) -> Iterator[TroubledProvider]:
    http = LocalServer(_Handler)
    provider = TroubledProvider(http.url, ())
    provider.says, provider.troubles, provider.hanging = program.says, deque(troubles), threading.Event()
    http.state = provider  # type: ignore[attr-defined]
    with running(http):
        yield provider


@dataclass
class Ended:
    """How a program ended: its exit code, its output, and how many requests to a model it sent."""

    code: int
    output: str
    errors: str = field(compare=False)
    requests: int = 0


def _run(program: Program, troubles: Sequence[int | str], place: Path, prefix: Sequence[str]) -> Ended:
    with _providing(program, troubles) as provider:
        home = Path(tempfile.mkdtemp(dir=place))
        command, environment = environment_of(program, provider, home, with_proxy=bool(prefix))
        terminal, own_side = os.openpty()
        with subprocess.Popen(
            [*prefix, *command],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(own_side, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - a single call
        ) as process:
            os.close(own_side)
            if "hangs" in troubles and provider.hanging.wait(HANGS_SECONDS):
                os.write(terminal, CTRL_C)
            try:
                output, errors = process.communicate(timeout=HANGS_SECONDS)
            finally:
                process.kill()
                os.close(terminal)
        output = "" if "hangs" in troubles else output
        return Ended(process.returncode, VOLATILE.sub("*", output), errors, provider.requests)


def compare(program: Program, troubles: Sequence[int | str], place: Path) -> str:
    """Run a program with and without the proxy; return what was compared. Raises AssertionError where it differs."""
    plain = _run(program, troubles, place, ())
    runs = Path(tempfile.mkdtemp(dir=place))
    prefix = (sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--directory", str(runs), "--")
    recorded = _run(program, troubles, place, prefix)
    assert recorded == plain, (recorded, plain)
    calls = [call for path in sorted(runs.glob("*.json")) for call in load(path).llm_interactions]
    attempts = [attempt for call in calls for attempt in call.attempts]
    assert len(attempts) == recorded.requests, (len(attempts), recorded.requests)
    failed = sorted(attempt.status for attempt in attempts if attempt.status and attempt.status >= 400)
    assert failed == [status for status in troubles if isinstance(status, int)][: len(failed)], failed
    cut = sum(not call.complete and call.answered for call in calls)
    return (
        f"exit code {recorded.code}, {recorded.requests} requests, {len(calls)} calls of "
        f"{[len(call.attempts) for call in calls]} attempts, {len(failed)} errors, {cut} answers that did not end"
    )


def main(tools: Path, names: Sequence[str]) -> int:
    """Compare the programs in each trouble; print a line for each."""
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for program in programs(tools.absolute(), place):
            for trouble, answers in TROUBLES.items() if not names or program.name in names else ():
                try:
                    print(f"- {program.name}, {trouble}: {compare(program, answers, place)}", flush=True)
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    wrong += 1
                    print(f"- {program.name}, {trouble}: DIFFERS: {str(error)[:3000]}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
