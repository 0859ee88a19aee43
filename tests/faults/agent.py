"""The agent that is killed. It calls a model and records until it dies, in one of several ways.

It reports on a pipe, one line at a time, which of its acts have returned. A line on the pipe survives the agent:

    started | answered a.3 | piece a.3 | step 2 | saved

A question is the worker's name and a number. `zygote.py` says how the agent is started.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial

import openai

from tests.faults import bedrock_calls
from trace_recorder import TrajectoryRecorder
from trace_recorder.background_work import Event


@dataclass(frozen=True, slots=True)
class Job:
    """The orders for an agent: its kind, its server, its directory, and the way in which it dies."""

    variant: str
    dying: str
    address: str
    path: str
    length: int
    answers: int

    @classmethod
    def read(cls, data: bytes) -> Job:
        """Return the job that a message describes."""
        return cls(**json.loads(data))

    def written(self) -> bytes:
        """Return the job as a message."""
        return json.dumps(asdict(self)).encode()


class EnoughError(Exception):
    """The exception that ends some agents, because no code handles it."""


class Agent:
    """An agent: its recorder, its clients, and the state that its workers share."""

    def __init__(self, job: Job, pipe: int) -> None:
        self.job = job
        self.recorder = TrajectoryRecorder(job.path, task="die")
        self.clients = Clients(job.address)
        self.ending = Event()  # a signal may interrupt threading.Event so that `set` waits forever
        self._pipe = pipe
        self._answers = 0

    def report(self, line: str) -> None:
        """Report that an act has returned."""
        os.write(self._pipe, f"{line}\n".encode())

    def answered(self, talk: Talk, text: str | None) -> None:
        """Add an answer to the conversation, and report it."""
        talk.hear(text or "")
        self.report(f"answered {talk.question}")
        self._answers += 1

    def may_raise(self) -> None:
        """In the main thread, raise `EnoughError` if the agent is to die of an exception now."""
        mortal = self.job.dying.startswith("exception") and threading.current_thread() is threading.main_thread()
        if mortal and self._answers >= self.job.answers:
            raise EnoughError

    def run(self) -> None:
        """Run until the end of the agent."""
        block = self.job.dying.endswith("in a block")
        context: AbstractContextManager[object] = self.recorder if block else nullcontext()
        with context:
            if not block:
                self.recorder.start()
            self.report("started")
            VARIANTS[self.job.variant](self)


class Clients:
    """The clients of one process. The zygote makes them once, without a connection, and the agents use them."""

    made = openai.OpenAI(api_key="k", base_url="http://127.0.0.1:9", max_retries=0)
    made_async = openai.AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:9", max_retries=0)

    def __init__(self, address: str) -> None:
        self.sync = self.made.with_options(base_url=address)
        self.asynchronous = self.made_async.with_options(base_url=address)


class Talk:
    """A growing conversation: the earlier messages and the current question."""

    def __init__(self, job: Job, worker: str, model: str = "m") -> None:
        self._worker = worker
        self._fixed = {"model": model, "max_tokens": job.length}
        self._messages: list[dict[str, str]] = []
        self.question = ""

    def ask(self) -> dict[str, object]:
        """Return the arguments for the next call."""
        self.question = f"{self._worker}.{len(self._messages) // 2}"
        self._messages.append({"role": "user", "content": self.question})
        return {**self._fixed, "messages": self._messages}

    def hear(self, text: str) -> None:
        """Add the answer to the conversation."""
        self._messages.append({"role": "assistant", "content": text})


def talk_sync(agent: Agent, worker: str = "a") -> None:
    """Ask, wait for the answer, and ask again."""
    client, talk = agent.recorder.wrap(agent.clients.sync), Talk(agent.job, worker)
    while not agent.ending.is_set():
        agent.may_raise()
        answer = client.chat.completions.create(**talk.ask())  # type: ignore[call-overload]
        agent.answered(talk, answer.choices[0].message.content)


def talk_streaming(agent: Agent, worker: str = "a", model: str = "m") -> None:
    """Ask, read the answer piece by piece, and ask again. The exception of such an agent comes in mid-stream."""
    client, talk = agent.recorder.wrap(agent.clients.sync), Talk(agent.job, worker, model)
    while not agent.ending.is_set():
        texts = []
        for chunk in client.chat.completions.create(stream=True, **talk.ask()):  # type: ignore[call-overload]
            texts.append(chunk.choices[0].delta.content or "")
            agent.report(f"piece {talk.question}")
            agent.may_raise()
        agent.answered(talk, "".join(texts))


def talk_to_bedrock(library: str, agent: Agent) -> None:
    """Ask Bedrock by a library, and ask again. Every second answer is a stream."""
    talk = Talk(agent.job, library)
    with bedrock_calls.asking(library, agent.recorder, agent.job.address) as ask:
        while not agent.ending.is_set():
            agent.may_raise()
            messages = talk.ask()["messages"]
            agent.answered(talk, ask(messages, agent.job.length, len(messages) % 4 == 1))  # type: ignore[arg-type]


def talk_stalling(agent: Agent) -> None:
    """Ask for a stream that stops in the middle."""
    talk_streaming(agent, model="stalling")


async def _talk(agent: Agent, worker: str) -> None:
    client, talk = agent.recorder.wrap(agent.clients.asynchronous), Talk(agent.job, worker)
    while not agent.ending.is_set():
        agent.may_raise()
        answer = await client.chat.completions.create(**talk.ask())  # type: ignore[call-overload]
        agent.answered(talk, answer.choices[0].message.content)


def talk_async(agent: Agent, first: str = "a") -> None:
    """Hold three conversations at once, in one thread."""

    async def gather() -> None:
        await asyncio.gather(*(_talk(agent, f"{first}{number}") for number in range(3)))

    asyncio.run(gather())


def talk_in_threads(agent: Agent) -> None:
    """Hold eight conversations at once, each in its own thread, while the main thread waits."""
    threads = [threading.Thread(target=talk_sync, args=(agent, f"t{number}")) for number in range(8)]
    _beside(threads, agent, lambda _: None)


def talk_in_daemons(agent: Agent) -> None:
    """Hold conversations in daemon threads, which go on while the interpreter ends."""
    for number in range(8):
        threading.Thread(target=talk_sync, args=(agent, f"d{number}"), daemon=True).start()
    while True:
        agent.may_raise()
        agent.ending.wait(0.003)


def talk_mixed(agent: Agent) -> None:
    """Do all of these at once, and record steps by hand."""

    def record_step(number: int) -> None:
        agent.recorder.record_agent_step(number, "completed", [{"role": "user", "content": f"step {number}"}])
        agent.report(f"step {number}")

    targets: list[tuple[Callable[..., None], str]] = [(talk_sync, "s"), (talk_streaming, "e"), (talk_async, "a")]
    threads = [threading.Thread(target=target, args=(agent, worker)) for target, worker in targets]
    _beside(threads, agent, record_step)


def talk_saving(agent: Agent) -> None:
    """Ask in a thread, and write the document again and again in the main thread."""

    def save(_: int) -> None:
        agent.recorder.save_trajectory()
        agent.report("saved")

    _beside([threading.Thread(target=talk_sync, args=(agent,))], agent, save, pause=0.0)


def _beside(threads: list[threading.Thread], agent: Agent, act: Callable[[int], None], pause: float = 0.003) -> None:
    """Act again and again while threads work. If an exception ends this thread, let the threads finish first."""
    try:
        for thread in threads:
            thread.start()
        for number in itertools.count(1):
            agent.may_raise()
            act(number)
            agent.ending.wait(pause)
    finally:
        agent.ending.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


VARIANTS: dict[str, Callable[[Agent], None]] = {
    "sync": talk_sync,
    "async": talk_async,
    "8 threads": talk_in_threads,
    "8 daemons": talk_in_daemons,
    "streaming": talk_streaming,
    "mixed": talk_mixed,
    "saving": talk_saving,
    "stalling": talk_stalling,
    **{library: partial(talk_to_bedrock, library) for library in bedrock_calls.LIBRARIES},
}
