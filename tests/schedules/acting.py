"""Schedules: the acts of several concurrent agents in sequence, and the recorder that records them.

A schedule is a list of acts, which follows from a seed alone. Each act names an actor, which has its own context, and a
seed for the details of the act. Any subset of the acts is a schedule too, so a failing schedule can be shortened.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import httpx

from tests.schedules.wires import DIALECTS, Ask, Dialect, Said, Turn
from trace_recorder import TrajectoryRecorder
from trace_recorder.values.messages import Payload

LARGE = 40_000
"""The length of a long text. A journal with four such texts is read in two parts."""
WEIGHTS = {
    "call": 8,
    "stream": 6,
    "advance": 3,
    "end_stream": 3,
    "tool": 5,
    "tool_function": 3,
    "leave": 6,
    "step": 3,
    "agent": 2,
    "tell_step": 1,
    "by_hand": 4,
    "forget": 1,
    "summarise": 1,
    "annotate": 1,
    "save": 3,
}


@dataclass(frozen=True, slots=True)
class Act:
    """An act: its kind, its actor, and the number from which its details are made."""

    name: str
    actor: int
    seed: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The acts in order. `history` is the form of the document, `large` says whether messages are long."""

    acts: tuple[Act, ...]
    history: Literal["auto", "inline", "delta"] = "auto"
    large: bool = False


def schedule_of(seed: int) -> Schedule:
    """Return the schedule of a seed.

    Each schedule prefers some kinds of acts, so that for example some mostly open streams.
    """
    random = Random(f"schedule {seed}")
    names = [name for name in WEIGHTS if name in {"call", "stream"} or random.random() < 0.8]
    weights = [WEIGHTS[name] * random.choice((0.3, 1, 1, 3)) for name in names]
    actors = random.choice((1, 2, 4))
    length = random.choice((15, 40, 40, 100, 250))
    acts = tuple(
        Act(name, random.randrange(actors), random.randrange(10**6))
        for name in random.choices(names, weights, k=length)
    )
    return Schedule(acts, random.choice(("auto", "auto", "inline", "delta")), random.random() < 0.1)


class Wire(httpx.BaseTransport):
    """A transport that gives the prepared answer: bytes, pieces that come when they are read, or an exception."""

    def __init__(self) -> None:
        self.answer: Payload | Iterator[bytes] | Exception = None
        self.status = 200

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, Iterator):
            media = "application/x-ndjson" if "11434" in str(request.url) else "text/event-stream"
            return httpx.Response(self.status, headers={"content-type": media}, content=self.answer)
        return httpx.Response(self.status, json=self.answer)


@dataclass(slots=True)
class Stream:
    """An open response.

    `said` is its whole text, and `heard` tells whether the actor's conversation already has the text.
    """

    response: httpx.Response
    pieces: Iterator[bytes]
    actor: Actor
    said: Said
    heard: bool


@dataclass(slots=True)
class Actor:
    """An actor: a context, a talk in one dialect, the open blocks, and the calls whose tools may run."""

    dialect: Dialect
    context: Context = field(default_factory=copy_context)
    talk: list[Turn] = field(default_factory=list)
    blocks: list[AbstractContextManager[Payload]] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    tools: dict[AbstractContextManager[Payload], Ask] = field(default_factory=dict)

    def hear(self, said: Said) -> None:
        """Add the model's answer to the actor's conversation."""
        self.talk.append(said.turn())


class Agents:
    """The agents of a schedule. `act` does one act. `end` closes everything that is open, after the end of the run."""

    def __init__(self, recorder: TrajectoryRecorder, schedule: Schedule) -> None:
        self.recorder = recorder
        self._long = "x" * LARGE if schedule.large else ""
        self._wire = Wire()
        self._client = recorder.wrap(httpx.Client(transport=self._wire, trust_env=False))
        self._actors: dict[int, Actor] = {}
        self._streams: list[Stream] = []
        self._said: list[str] = []

    def act(self, act: Act) -> None:
        """Do one act, in its actor's context."""
        random = Random(act.seed)
        if act.actor not in self._actors:
            self._actors[act.actor] = Actor(DIALECTS[random.choice([*DIALECTS])])
        actor = self._actors[act.actor]
        actor.context.run(getattr(self, f"_{act.name}"), actor, random)

    def end(self) -> None:
        """Close everything that is still open."""
        for stream in self._streams:
            stream.response.close()
        self._streams.clear()
        self._client.close()
        for actor in self._actors.values():
            while actor.blocks:
                actor.context.run(actor.blocks.pop().__exit__, None, None, None)

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _request(self, actor: Actor, random: Random, *, stream: bool) -> httpx.Request:
        if random.random() < 0.3:
            actor.dialect = DIALECTS[random.choice([*DIALECTS])]
        if random.random() < 0.2:
            del actor.talk[: random.randrange(len(actor.talk) + 1)]
        if random.random() < 0.7 or not actor.talk:
            actor.talk.append(Turn("user", f"{random.randrange(10)}{self._long}"))
        url = actor.dialect.streaming if stream else actor.dialect.url
        body = actor.dialect.request(actor.talk) | ({"stream": stream} if url == actor.dialect.url else {})
        again = {"x-stainless-retry-count": random.choice("01")}
        return self._client.build_request("POST", url, content=json.dumps(body).encode(), headers=again)

    def _answer(self, random: Random) -> Said:
        number = random.randrange(10**6)
        count = random.choice((0, 0, 1, 1, 2))
        names = [f"c{number}_{at}" if random.random() < 0.8 else f"c{random.randrange(3)}" for at in range(count)]
        asks = tuple(Ask(name, random.choice(("bash", "look")), {"n": random.randrange(3)}) for name in names)
        said = Said(f"r{number}", f"said {number}", asks)
        self._said.append(said.identity)
        return said

    def _send(self, request: httpx.Request, answer: Payload, status: int, *, stream: bool) -> httpx.Response | None:
        self._wire.answer, self._wire.status = answer, status
        with suppress(httpx.ConnectError):
            return self._client.send(request, stream=stream)
        return None

    def _call(self, actor: Actor, random: Random) -> None:
        request, answer = self._request(actor, random, stream=False), self._answer(random)
        if random.random() < 0.15:
            refused: Payload = random.choice(({"error": {"type": "rate_limit", "message": "slow"}}, None))
            self._send(request, refused or httpx.ConnectError("nobody"), 429, stream=False)
            if random.random() < 0.4:
                return
            request.headers["x-stainless-retry-count"] = "1"
        self._send(request, actor.dialect.answer(answer), 200, stream=False)
        actor.hear(answer)
        actor.asked += answer.asks

    def _stream(self, actor: Actor, random: Random) -> None:
        request, answer = self._request(actor, random, stream=True), self._answer(random)
        pieces = (piece.encode() for piece in actor.dialect.pieces(answer))
        response = self._send(request, pieces, 200, stream=True)
        assert response is not None
        heard = random.random() < 0.4
        if heard:
            actor.hear(answer)
        actor.asked += answer.asks
        self._streams.append(Stream(response, response.iter_raw(), actor, answer, heard))

    def _advance(self, _: Actor, random: Random) -> None:
        if self._streams:
            stream = random.choice(self._streams)
            for _piece in range(random.choice((1, 2, 5))):
                next(stream.pieces, None)

    def _end_stream(self, _: Actor, random: Random) -> None:
        """Read a stream to its end, close it, or drop it, so that the garbage collector may find it later."""
        if not self._streams:
            return
        stream = self._streams.pop(random.randrange(len(self._streams)))
        how = random.choice(("read", "read", "read", "close", "abandon"))
        if how == "read":
            for _piece in stream.pieces:
                pass
            if not stream.heard:
                stream.actor.hear(stream.said)
        elif how == "close":
            stream.response.close()

    def _by_hand(self, actor: Actor, random: Random) -> None:
        """Record a call by hand. The same call may also be captured, or be recorded by hand a second time."""
        answer = self._answer(random)
        if random.random() < 0.6:
            answer = Said(random.choice(self._said), answer.text, answer.asks if random.random() < 0.5 else ())
        if random.random() < 0.3:
            self._said.append(f"r{random.randrange(10**6)}")
        calls = [{"call_id": one.identity, "name": one.name, "arguments": one.arguments} for one in answer.asks]
        messages = DIALECTS["chat"].request(actor.talk)["messages"]
        response = {"content": answer.text, "id": answer.identity, "tool_calls": calls}
        self.recorder.record_llm_interaction(messages, response, "p", "m")
        actor.asked += answer.asks

    # ── tools, steps, agents ─────────────────────────────────────────────────────────────────────────────────────────

    def _chosen(self, actor: Actor, random: Random) -> Ask:
        if actor.asked and random.random() < 0.7:
            return actor.asked.pop(random.randrange(len(actor.asked)))
        return Ask(f"c{random.randrange(3)}", random.choice(("bash", "look")), {"n": random.randrange(3)})

    def _brought(self, actor: Actor, ask: Ask, random: Random) -> None:
        if random.random() < 0.7:
            actor.talk.append(Turn("tool", f"gave {random.randrange(100)}", (ask,)))

    def _tool(self, actor: Actor, random: Random) -> None:
        ask = self._chosen(actor, random)
        stated = ask.identity if random.random() < 0.5 else None
        block = self.recorder.tool_call(ask.name, ask.arguments, stated)
        block.__enter__()
        block.result = random.randrange(100)
        actor.blocks.append(block)
        actor.tools[block] = ask

    def _tool_function(self, actor: Actor, random: Random) -> None:
        ask = self._chosen(actor, random)
        breaks = random.random() < 0.2

        def run(n: int) -> int:
            if breaks:
                raise LookupError(f"{n} is not there")
            return n

        with suppress(LookupError):
            self.recorder.tool(name=ask.name)(run)(**ask.arguments)
        self._brought(actor, ask, random)

    def _step(self, actor: Actor, random: Random) -> None:
        step = self.recorder.step(random.choice((None, None, random.randrange(6))))
        step.__enter__()
        actor.blocks.append(step)

    def _agent(self, actor: Actor, random: Random) -> None:
        agent = self.recorder.agent(random.choice(("researcher", "writer")))
        agent.__enter__()
        actor.blocks.append(agent)

    def _leave(self, actor: Actor, random: Random) -> None:
        """Leave the innermost block, normally or by an exception of the agent."""
        if not actor.blocks:
            return
        block = actor.blocks.pop()
        error = LookupError("lost") if random.random() < 0.2 else None
        block.__exit__(None if error is None else LookupError, error, None)
        if block in actor.tools:
            self._brought(actor, actor.tools.pop(block), random)

    def _tell_step(self, actor: Actor, random: Random) -> None:
        asks = [random.choice(actor.asked)] if actor.asked and random.random() < 0.6 else []
        calls = [{"call_id": one.identity, "name": one.name, "arguments": one.arguments} for one in asks]
        self.recorder.record_agent_step(random.randrange(6), "thinking", tool_calls=calls)

    # ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _forget(self, actor: Actor, _: Random) -> None:
        actor.asked.clear()
        gc.collect(0)

    def _summarise(self, _: Actor, random: Random) -> None:
        self.recorder.update_lakeview(random.randrange(12), f"summary {random.randrange(9)}")

    def _annotate(self, _: Actor, random: Random) -> None:
        self.recorder.annotate(str(random.randrange(3)), random.randrange(9))

    def _save(self, _: Actor, __: Random) -> None:
        self.recorder.save_trajectory()


def parts_of(acts: Sequence[Act], size: int) -> Iterator[tuple[Act, ...]]:
    """Yield the schedule's acts with a group of acts left out, for each group of this size."""
    for at in range(0, len(acts), size):
        yield (*acts[:at], *acts[at + size :])
