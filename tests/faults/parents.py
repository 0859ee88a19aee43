"""Processes that create others while they record, in each possible way; each function is one.

`serve(FUNCTION, DIRECTORY, ADDRESS)` records to DIRECTORY/run.json. The name of the asking process is the first
word of each question. A child that hangs prints where, and is ended. Its parent then exits with 1.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import openai

import trace_recorder
from tests.faults.unlucky import ask
from trace_recorder import TrajectoryRecorder

WORKERS = 3
HANG_SECONDS = 120
faulthandler.register(signal.SIGALRM, chain=True)


class Parent:
    """A process with a running recorder. Its wrapped client has not made a call when the children are forked."""

    def __init__(self, directory: Path, address: str) -> None:
        self.path = directory / "run.json"
        self.address = address
        self.recorder = TrajectoryRecorder(self.path)
        self.recorder.start()
        self.client = self.connected()

    def connected(self) -> openai.OpenAI:
        """Return a new recorded client."""
        return self.recorder.wrap(openai.OpenAI(api_key="k", base_url=self.address, max_retries=0))

    def call(self) -> None:
        """Call the model in this process, and close the connection, which children must not share."""
        with self.connected() as client:
            ask(client, "parent calls")

    def end(self) -> None:
        """Make a last call, and end the run."""
        self.call()
        self.recorder.finalize(success=True)


_serving: list[Parent] = []
"""The parent object of this process, as a module variable of an application that is loaded before its workers."""


def forked(work: Callable[[], object]) -> None:
    """Run a function in a forked child, which then exits at once."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(HANG_SECONDS)
        work()
        os._exit(0)
    wait_for(pid)


def wait_for(pid: int) -> None:
    """Wait for a child. If the child failed, exit with 1 too."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        os._exit(1)


def work_of(number: int) -> None:
    """Call the model in a child, with the client that was wrapped before the fork."""
    ask(_serving[0].client, f"worker{number} calls")


def work_in_pool(_: int) -> None:
    """Call the model in a child that serves several tasks, with the client from before the fork."""
    ask(_serving[0].client, f"worker{os.getpid()} calls")


def work_alone(path: Path, address: str, number: int) -> None:
    """Record in a process that shares only a path with its parent."""
    with TrajectoryRecorder(path) as recorder:
        ask(recorder.wrap(openai.OpenAI(api_key="k", base_url=address)), f"worker{number} calls")


def fork(parent: Parent) -> None:
    """Call, fork, call in the children, and call again."""
    parent.call()
    for number in range(WORKERS):
        forked(lambda name=number: work_of(name))
    parent.end()


def process(parent: Parent, method: str = "fork") -> None:
    """Call the model in processes of multiprocessing, started by fork or by spawn."""
    context = multiprocessing.get_context(method)
    parent.call()
    arguments = [(number,) if method == "fork" else (parent.path, parent.address, number) for number in range(WORKERS)]
    work = work_of if method == "fork" else work_alone
    workers = [context.Process(target=work, args=one) for one in arguments]  # type: ignore[attr-defined]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    parent.end()


def spawn(parent: Parent) -> None:
    """Start children with multiprocessing by spawn. Each child makes a recorder of its own."""
    process(parent, "spawn")


def pool(parent: Parent) -> None:
    """Call the model in a pool of processes."""
    parent.call()
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("fork")) as executor:
        list(executor.map(work_in_pool, range(WORKERS * 3)))
    parent.end()


def preload(parent: Parent) -> None:
    """Fork workers that serve at the same time, as gunicorn does. They are ended by SIGTERM."""
    workers = []
    for number in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            work_of(number)
            work_of(number)
            (parent.path.parent / f"ready{number}").touch()
            time.sleep(60)
        workers.append(pid)
    while len(list(parent.path.parent.glob("ready*"))) < WORKERS:
        time.sleep(0.01)
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    parent.call()
    parent.end()


def threads(parent: Parent) -> None:
    """Call in threads of the children, as gunicorn's gthread workers do."""
    parent.call()
    for number in range(WORKERS):
        forked(lambda name=number: in_a_thread(lambda: work_of(name)))
    parent.end()


def following_threads(parent: Parent) -> None:
    """Call in threads of the children by a client that follows the context, which a new thread does not have."""
    trace_recorder.unwrap(parent.client)
    trace_recorder.wrap(parent.client)
    threads(parent)


def in_a_thread(work: Callable[[], object]) -> None:
    """Run a function in a new thread."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def serve(scenario: Callable[[Parent], None], directory: str, address: str) -> None:
    """Run a parent."""
    _serving.append(Parent(Path(directory), address))
    scenario(_serving[0])
