"""An agent whose system refuses operations for a while, and the warnings that it gets then.

Run as a program with a library, a fault, phases, a directory and the address of a model, it calls the model before,
during and after the fault, and records. It prints its answers and the log as JSON. Any exception ends it. At the end
the files are copied to `left` next to the directory, which may be a mount of its own.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import openai

from tests.faults import bedrock_calls
from tests.limits import AT_ONCE, limited
from trace_recorder import TrajectoryRecorder

CALLS = 3
LENGTH = 2_000
BALLAST = "ballast"
STREAMED = ("before.0", "during.2", "after.2")
"""The connection of a streamed answer is not used again, so plain answers come first before and in the fault."""


class UnavailableError(Exception):
    """A fault cannot be produced here."""


@contextmanager
def limit(number: int, value: int) -> Iterator[None]:
    """Lower a limit of the process for a while."""
    soft, hard = resource.getrlimit(number)
    resource.setrlimit(number, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(number, (soft, hard))


def limited_size(directory: Path) -> AbstractContextManager[None]:
    """Limit files to the size of the journal and a hundred bytes, so that later writes are cut off."""
    return limit(resource.RLIMIT_FSIZE, (directory / "run.jsonl").stat().st_size + 100)


def no_descriptors(_: Path) -> AbstractContextManager[None]:
    """Let no file be opened."""
    lowest = os.dup(0)
    os.close(lowest)
    return limit(resource.RLIMIT_NOFILE, lowest)


@contextmanager
def full_disk(directory: Path) -> Iterator[None]:
    """Fill the file system completely."""
    ballast = directory / BALLAST
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    yield
    ballast.unlink()


@contextmanager
def attribute(path: Path, letter: str) -> Iterator[None]:
    """Give a file or directory an attribute, also against root: "i" for no change at all, "a" for only appending."""
    _command("chattr", f"+{letter}", str(path))
    try:
        yield
    finally:
        _command("chattr", f"-{letter}", str(path))


def immutable_directory(directory: Path) -> AbstractContextManager[None]:
    """Make the system refuse to create, rename and remove files in a directory. Open files can be written."""
    return attribute(directory, "i")


def immutable_journal(directory: Path) -> AbstractContextManager[None]:
    """Let the system refuse to write to the journal, and to truncate it."""
    return attribute(directory / "run.jsonl", "i")


@contextmanager
def failing_device(directory: Path) -> Iterator[None]:
    """Let every write to the journal fail with EIO."""
    os.environ["REFUSED"] = f"write:EIO:{directory.name}/run.jsonl"
    yield
    del os.environ["REFUSED"]


@contextmanager
def moved_directory(directory: Path) -> Iterator[None]:
    """Rename the directory."""
    directory.rename(directory.with_name("elsewhere"))
    yield
    directory.with_name("elsewhere").rename(directory)


@contextmanager
def removed_directory(directory: Path) -> Iterator[None]:
    """Remove the directory and its files; the recorder may create it again."""
    shutil.rmtree(directory)
    yield


FAULTS: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "limited size": limited_size,
    "full disk": full_disk,
    "no descriptors": no_descriptors,
    "immutable directory": immutable_directory,
    "immutable journal": immutable_journal,
    "failing device": failing_device,
    "moved directory": moved_directory,
    "removed directory": removed_directory,
}
ON_A_MOUNT = frozenset({"full disk"})
"""Faults for which the directory is a small file system of its own."""
REFUSING = frozenset({"failing device"})
"""Faults for which system calls are refused (`refusing.py`)."""


def _command(*arguments: str) -> None:
    try:
        subprocess.run(arguments, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(f"{arguments[0]} does not work here") from error


class Told(logging.Handler):
    """The warnings that the user gets."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        logging.getLogger("trace_recorder").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def answer(client: openai.OpenAI, messages: list[Any], length: int, *, stream: bool = False) -> str:
    """Return the model's answer."""
    asked = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    made = client.chat.completions.create(model="m", max_tokens=length, messages=messages, **asked)  # type: ignore[call-overload]
    if stream:
        return "".join(chunk.choices[0].delta.content or "" for chunk in made)
    return str(made.choices[0].message.content)


def ask(client: openai.OpenAI, question: str, *, stream: bool = False) -> str:
    """Ask the model a question."""
    return answer(client, [{"role": "user", "content": question}], LENGTH, stream=stream)


@contextmanager
def asking_openai(recorder: TrajectoryRecorder, address: str) -> Iterator[bedrock_calls.Ask]:
    """Yield a function that asks a recorded client of OpenAI's SDK."""
    client = recorder.wrap(openai.OpenAI(api_key="k", base_url=address, max_retries=0))
    yield lambda messages, length, stream: answer(client, messages, length, stream=stream)


LIBRARIES: dict[str, Callable[[TrajectoryRecorder, str], AbstractContextManager[bedrock_calls.Ask]]] = {
    "openai": asking_openai,
    **{library: partial(bedrock_calls.asking, library) for library in bedrock_calls.LIBRARIES},
}


def questions(phase: str) -> list[str]:
    """Return the questions of a phase."""
    return [f"{phase}.{number}" for number in range(CALLS)]


def endure(library: str, fault: str, phases: list[str], directory: Path, address: str) -> dict[str, object]:
    """Call by a library and record in each phase, "before", "during" and "after" a fault.

    Return the answers and the log. The run ends in the last phase: if that is the fault, during the fault.
    """
    told = Told()
    recorder = limited(document=AT_ONCE)(directory / "run.json", task="endure")
    recorder.start()
    answers: list[str] = []
    with LIBRARIES[library](recorder, address) as ask:
        for phase in phases:
            with FAULTS[fault](directory) if phase == "during" else nullcontext():
                answers += [
                    ask([{"role": "user", "content": question}], LENGTH, question in STREAMED)
                    for question in questions(phase)
                ]
                recorder.record_agent_step(len(answers), "completed")
                if phase == phases[-1]:
                    recorder.finalize(success=True, final_result="endured")
    return {"answers": answers, "log": told.messages}


def run(library: str, fault: str, phases: str, place: str, address: str) -> None:
    """Run the agent with a fault, and report the results."""
    directory = Path(place)
    directory.mkdir()
    try:
        if fault in ON_A_MOUNT:
            _command("mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(directory))
        told = endure(library, fault, phases.split(), directory, address)
    except UnavailableError as error:
        told = {"unavailable": str(error)}
    shutil.copytree(directory, directory.with_name("left"))
    print(json.dumps(told))


if __name__ == "__main__":
    run(*sys.argv[1:])
