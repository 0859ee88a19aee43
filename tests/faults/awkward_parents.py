"""Processes that fork at an awkward moment, or whose children do something awkward; each function is one.

They are run like those of `parents.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable

import openai

from tests.faults.parents import Parent, forked, wait_for, work_of
from tests.faults.unlucky import ask
from trace_recorder import TrajectoryRecorder

FORKS = 30


def under_load(parent: Parent) -> None:
    """Fork while other threads record, so that in some children the parent's copy of a recorder's lock is held."""
    with_threads(parent, lambda: forked(parent.recorder.finalize))


def letting_go(parent: Parent, *, of_a_part: bool = False) -> None:
    """Fork while a second thread certainly records.

    The child closes a stream that the parent reads. The thread records something else, or, after a second, a part of
    that stream.
    """
    recording = threading.Event()

    def slowly(text: str) -> str:
        if threading.current_thread() is not threading.main_thread():
            recording.set()
            time.sleep(0.5)
        return text

    with TrajectoryRecorder(parent.path.with_name("streaming.json"), redact=slowly) as recorder:
        client = recorder.wrap(openai.OpenAI(api_key="k", base_url=parent.address, max_retries=0))
        asked = {"model": "stalling", "max_tokens": 100, "messages": [{"role": "user", "content": "parent streams"}]}
        stream = client.chat.completions.create(stream=True, **asked)  # type: ignore[call-overload]
        next(stream)
        thread = threading.Thread(target=recording.wait if of_a_part else lambda: recorder.annotate("text", "slow"))
        thread.start()
        recording.wait()
        forked(stream.close)
        thread.join()
        stream.close()
    parent.recorder.finalize(success=True)


def letting_go_of_a_part(parent: Parent) -> None:
    """Fork while a second thread records a part of a stream, which the child then closes."""
    letting_go(parent, of_a_part=True)


def with_threads(parent: Parent, act: Callable[[], None]) -> None:
    """Act again and again while four threads call and record."""
    ending = threading.Event()

    def work() -> None:
        with parent.connected() as client:
            while not ending.is_set():
                ask(client, "parent works")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for _ in range(FORKS):
        time.sleep(0.003)
        act()
    ending.set()
    for worker in workers:
        worker.join()
    parent.recorder.finalize(success=True)


def starting(parent: Parent) -> None:
    """Fork while a second thread starts and ends runs of a recorder that the child then uses."""
    parent.recorder.finalize()
    other = TrajectoryRecorder(directory=parent.path.parent / "others")
    ending = threading.Event()

    def start_and_end() -> None:
        while not ending.is_set():
            other.start(task="parent's")
            for number in range(5):
                other.record_agent_step(number, "completed", [{"role": "user", "content": "x" * 3000}])
            other.finalize(success=True)

    thread = threading.Thread(target=start_and_end)
    thread.start()
    for _ in range(FORKS):
        time.sleep(0.003)
        forked(lambda: record_in_child(other))
    ending.set()
    thread.join()


def record_in_child(recorder: TrajectoryRecorder) -> None:
    """Start a run in a forked child, in any state of the recorder, and record a step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorder.start(task="child's")
    recorder.record_agent_step(7, "completed")
    recorder.finalize(success=True)


def outlived(parent: Parent) -> None:
    """End the run before the child begins to record."""
    reading, writing = os.pipe()
    parent.call()
    pid = os.fork()
    if pid == 0:
        os.read(reading, 1)
        work_of(0)
        os._exit(0)
    parent.end()
    os.write(writing, b"!")
    wait_for(pid)


def exiting(parent: Parent) -> None:
    """Let a child that records nothing end as a program does, with all its exit handlers."""
    parent.call()
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    wait_for(pid)
    parent.end()


def grandchildren(parent: Parent) -> None:
    """Fork in children: in a child that has not recorded, and in a child that has."""
    parent.call()
    forked(lambda: forked(lambda: work_of(0)))
    forked(lambda: (work_of(1), forked(lambda: ask(parent.connected(), "grandchild calls"))))
    parent.end()


def orphaning(parent: Parent) -> None:
    """Get killed while a forked child and a separate program live on. Report their ids."""
    parent.call()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    program = subprocess.Popen(["sleep", "60"], stdout=nowhere, stderr=nowhere)
    pid = os.fork()
    if pid == 0:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        time.sleep(60)
    print(pid, program.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
