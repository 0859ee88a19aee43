"""Real programs with failing calls, with and without the proxy: errors that are retried, broken streams, Ctrl-C.

    python -m tests.proxy.program_troubles DIRECTORY [NAME…]        # as tests/proxy/programs.py

The provider answers the first requests with a 429 and a 529, or the first one with a 500. Or it closes the connection
in the middle of an answer. Or it stops in the middle of an answer, until Ctrl-C comes from the program's terminal. With
the proxy, a program must have the same exit code and output as without. The provider must get as many requests, and
each must be recorded as an attempt. After Ctrl-C the output is not compared, because Claude Code says "Execution error"
or nothing even without a proxy.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.provider import DROP, SILENCE, Answer, Request, serving, whole
from tests.proxy.programs import (
    LIMIT_SECONDS,
    VOLATILE,
    Program,
    answer_of,
    by_proxy,
    environment_of,
    is_same,
    model_of,
    programs,
)
from tests.scripted_model import Model
from trace_recorder import load

TROUBLES = {"429 and 529": (429, 529), "500": (500,), "a broken stream": ("breaks",), "Ctrl-C": ("hangs",)}
MODELS = re.compile(r"/(chat/completions|responses|messages)$|enerateContent$")
"""The paths of requests to a model."""
CTRL_C = b"\x03"


@dataclass
class TroubledModel:
    """A model whose first answers fail. `hanging` is set in the middle of an answer that stops."""

    model: Model
    troubles: deque[int | str]
    has_tools: bool
    """Whether the program offers tools. If it does, its simultaneous side calls do not fail."""
    hanging: threading.Event = field(default_factory=threading.Event)
    requests: int = 0

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        if not MODELS.search(request.path.partition("?")[0]) or "upgrade" in request.headers:
            return answer_of(self.model, request)
        self.requests += 1
        is_side_call = self.has_tools and not json.loads(request.body).get("tools")
        trouble = self.troubles.popleft() if self.troubles and not is_side_call else None
        if trouble is None:
            return answer_of(self.model, request)
        if isinstance(trouble, int):
            body = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
            return whole(json.dumps(body).encode(), trouble, **{"retry-after": "0"})
        return self._half(request, hangs=trouble == "hangs")

    def _half(self, request: Request, *, hangs: bool) -> Answer:
        answer = answer_of(self.model, request)
        [data] = answer.chunks
        assert isinstance(data, bytes)
        end = (self.hanging.set, SILENCE) if hangs else (DROP,)
        return Answer([data[: len(data) // 2], *end], 200, {"content-type": answer.headers["content-type"]})


@dataclass
class Ended:
    """How a program ended: its exit code, its output, and how many requests to a model it sent."""

    code: int
    output: str
    errors: str = field(compare=False)
    requests: int = 0


def _run(program: Program, troubles: Sequence[int | str], place: Path, prefix: Sequence[str]) -> Ended:
    model = TroubledModel(model_of(program), deque(troubles), program.name not in {"aider", "curl"})
    with serving(model) as server:
        home = Path(tempfile.mkdtemp(dir=place))
        command, environment = environment_of(program, server.url, home)
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
            preexec_fn=partial(_begin, own_side),  # noqa: PLW1509 - two system calls
        ) as process:
            os.close(own_side)
            if "hangs" in troubles and model.hanging.wait(LIMIT_SECONDS):
                os.write(terminal, CTRL_C)
            try:
                output, errors = process.communicate(timeout=LIMIT_SECONDS)
            finally:
                process.kill()
                os.close(terminal)
        output = "" if "hangs" in troubles else output
        return Ended(process.returncode, VOLATILE.sub("*", output), errors, model.requests)


def _begin(terminal: int) -> None:
    """Give a new process a terminal. Ctrl-C ends the process, even if this process ignores it, as in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def compare(program: Program, troubles: Sequence[int | str], place: Path) -> str:
    """Run a program with and without the proxy. Return the compared values. Raises AssertionError if they differ."""
    plain = _run(program, troubles, place, ())
    runs = Path(tempfile.mkdtemp(dir=place))
    recorded = _run(program, troubles, place, by_proxy(runs))
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
    """Compare the programs in each trouble, and print a line for each."""
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for program in programs(tools.absolute(), place):
            if program.is_patient or program.has_own_address or (names and program.name not in names):
                continue
            for trouble, answers in TROUBLES.items():
                wrong += not is_same(f"{program.name}, {trouble}", partial(compare, program, answers, place))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
