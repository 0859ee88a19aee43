"""One conversation, and every way in which agents change a history before they send it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.formats.made import assistant, call, gave, run, system, use
from trace_recorder import Trajectory
from trace_recorder.values.messages import Payload

Change = Callable[[list[Payload], int], list[Payload]]

HELP = "You are a helper with a shell, and you answer in one sentence, when you know the answer."
USES = [[use("c1", city="Ulm"), use("c2", city="Rome")], [use("c3", city="Bonn")], [], [use("c4", city="Ulm")], []]
SAYS = ["I look. \n", "One more.", "Rome is warmer. \n", None, "It snows.\n"]
SUMMARY = {"role": "user", "content": "Summary: it is cold in Ulm, and warm in Rome."}
OUTPUTS = {"c1": "7 degrees", "c2": "31 degrees", "c3": "9 degrees", "c4": "snow"}


def same(history: list[Payload], number: int) -> list[Payload]:  # noqa: ARG001 - others count
    """Send the history back unchanged."""
    return history


def own_ids(history: list[Payload], number: int) -> list[Payload]:  # noqa: ARG001
    """Replace the id of each call and of its result by the agent's own id, in all messages."""

    def named(message: Payload) -> Payload:
        uses = [tool_call | {"call_id": f"own-{tool_call['call_id']}"} for tool_call in message.get("tool_calls", ())]
        about = {"call_id": f"own-{message['call_id']}"} if message["role"] == "tool" else {}
        return message | ({"tool_calls": uses} if uses else {}) | about

    return [*map(named, history)]


def stripped(history: list[Payload], number: int) -> list[Payload]:  # noqa: ARG001
    """Strip white space from the ends of all contents."""
    return [message | {"content": (message["content"] or "").strip()} for message in history]


def thoughtless(history: list[Payload], number: int) -> list[Payload]:  # noqa: ARG001
    """Remove the model's thoughts."""
    return [{name: value for name, value in message.items() if name != "reasoning"} for message in history]


def marked(history: list[Payload], number: int) -> list[Payload]:  # noqa: ARG001
    """Move a cache mark to the last message of each request."""
    part = {"type": "text", "text": history[-1]["content"], "cache_control": {"type": "ephemeral"}}
    return [*history[:-1], history[-1] | {"content": [part]}]


def trimmed(history: list[Payload], number: int) -> list[Payload]:  # noqa: ARG001
    """Shorten the tool results before the last answer."""
    last = max((at for at, message in enumerate(history) if message["role"] == "assistant"), default=0)
    old = [message | ({"content": "..."} if message["role"] == "tool" else {}) for message in history[:last]]
    return [*old, *history[last:]]


def reminded(history: list[Payload], number: int) -> list[Payload]:
    """Append a reminder to this prompt only."""
    return [*history, {"role": "user", "content": f"{5 - number} steps are left."}]


def clock(history: list[Payload], number: int) -> list[Payload]:
    """Write the current time into the instructions."""
    return [system(f"It is {number}. {HELP}"), *history[1:]]


def windowed(history: list[Payload], number: int) -> list[Payload]:  # noqa: ARG001
    """Keep the instructions, and the messages since the last answer but one."""
    answers = [at for at, message in enumerate(history) if message["role"] == "assistant"]
    return [history[0], *history[max(2, answers[-2] if len(answers) > 2 else 0) :]] if len(answers) > 2 else history


def compacted(history: list[Payload], number: int) -> list[Payload]:
    """Replace all messages before the last answer with a summary."""
    return [history[0], SUMMARY, *history[7:]] if number >= 3 else history


def summed_up(history: list[Payload], number: int) -> list[Payload]:
    """Replace all messages with a summary."""
    return [history[0], SUMMARY, *history[9:]] if number >= 3 else history


@dataclass(frozen=True)
class Expected:
    """The expected effect of a change on the views of the run. `events` are Invariant's roles, `news` its new
    messages.
    """

    relations: str = "begins extends extends extends extends"
    documents: int = 1
    turns: int = 2
    rows: int = 1
    news: int = 0


CHANGES: dict[Change, Expected] = {
    same: Expected(),
    own_ids: Expected(),
    stripped: Expected(),
    thoughtless: Expected(),
    marked: Expected(),
    trimmed: Expected("begins extends edits edits extends", documents=3, rows=3),
    reminded: Expected("begins edits edits edits edits", documents=5, turns=5, rows=5, news=5),
    clock: Expected("begins edits edits edits edits", documents=5, rows=5, news=4),
    windowed: Expected("begins extends extends rewrites rewrites", documents=3, rows=3),
    compacted: Expected("begins extends extends rewrites extends", documents=2, rows=2, news=1),
    summed_up: Expected("begins extends extends rewrites extends", documents=2, rows=2),
}
EVERY = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)


def conversation(change: Change, *more: Payload) -> Trajectory:
    """Return the run of an agent that applies this change to its history before each request."""
    history = [system(HELP), {"role": "user", "content": "Is it warmer in Ulm or in Rome?"}]
    calls = []
    for number, (uses, says) in enumerate(zip(USES, SAYS, strict=True)):
        calls.append(call(change(history, number), says, *uses, response={"reasoning": f"thought {number}"}))
        history = [*history, assistant(says, *uses, reasoning=f"thought {number}")]
        history += [gave(one["call_id"], OUTPUTS[one["call_id"]]) for one in uses]
        history += [] if uses else [{"role": "user", "content": "And what falls in Ulm?"}]
    return run(*calls, *more)
