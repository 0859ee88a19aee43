"""Compares what an export shows with the script, aspect by aspect, and lists the known differences with their reasons.

The script alone decides which content a format should show. `NOT_CARRIED` says which aspects a format cannot express.
`KNOWN` says where an export differs from the exchange, with the reason. Any other difference is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.contents import shown, shown_inspect, shown_spans
from tests.contents.script import SCRIPTS, Answer, Asked, Result, Script, Talk, Tokens
from tests.contents.shown import Conversation, Message, Shown

Json = Any
ASPECTS = ("messages", "calls", "results", "thinking", "images", "tokens", "failures")
EXPORTS: dict[str, tuple[tuple[str, ...], str]] = {
    "atif": (("atif",), ""),
    "hierarchy": (("hierarchy",), ""),
    "hierarchy-message": (("hierarchy", "--form", "message"), ""),
    "inspect": (("inspect",), ""),
    "invariant": (("invariant",), ".jsonl"),
    "openai": (("openai",), ".jsonl"),
    "otlp": (("otlp",), ".jsonl"),
    "otlp-genai-0.1": (("otlp", "--form", "genai-0.1"), ".jsonl"),
    "otlp-openinference": (("otlp", "--form", "openinference"), ".jsonl"),
    "session-traces": (("session-traces",), ""),
    "toolbrain": (("toolbrain",), ""),
    "trl": (("trl",), ".jsonl"),
    "trl-prompt_completion": (("trl", "--form", "prompt_completion"), ".jsonl"),
    "traces": (("traces",), ""),
    "trae": (("trae",), ""),
    "verifiers": (("verifiers",), ".jsonl"),
}
"""For each export, the arguments of `-f`, and the suffix of a run's file if `-o` is a file."""
READERS: dict[str, Shown] = {
    "atif": shown.atif,
    "hierarchy": shown.hierarchy,
    "hierarchy-message": shown.hierarchy,
    "inspect": shown_inspect.inspect,
    "invariant": shown.invariant,
    "openai": shown.chat_rows,
    "otlp": shown_spans.genai,
    "otlp-genai-0.1": shown_spans.genai,
    "otlp-openinference": shown_spans.openinference,
    "session-traces": shown.session_traces,
    "toolbrain": shown.toolbrain,
    "trl": shown.chat_rows,
    "trl-prompt_completion": shown.chat_rows,
    "traces": shown.traces,
    "trae": shown.trae,
    "verifiers": shown.verifiers,
    "document": shown.trae,
}
_KEEP_TOKENS = frozenset({"document", "inspect"})
"""The exports that state the usage of a fork's replayed answers, and mark these answers."""
_TRAINS = frozenset({"openai", "toolbrain", "trl", "trl-prompt_completion"})
"""The exports that train only on sent calls, because rows of messages cannot mask replayed ones."""
BY_EXCHANGE = frozenset({"trae", "document", "toolbrain", "otlp", "otlp-genai-0.1", "otlp-openinference", "inspect"})

_TRAINING = "a row of training has no place for it"
_LEFT_OUT = "a call that failed is left out, and counted"
NOT_CARRIED: dict[tuple[str, str], str] = {
    ("hierarchy", "failures"): _LEFT_OUT,
    ("hierarchy-message", "failures"): _LEFT_OUT,
    ("invariant", "failures"): "failed calls are a number in the metadata of a dataset's line",
    ("openai", "thinking"): "fine-tuning rows have no place for thoughts; counted",
    ("openai", "tokens"): _TRAINING,
    ("openai", "failures"): _LEFT_OUT,
    ("session-traces", "images"): "all content is text",
    ("session-traces", "tokens"): "a message has no place for it",
    ("session-traces", "failures"): "a call without an answer is no message; counted",
    ("toolbrain", "images"): "prompts are texts",
    ("toolbrain", "tokens"): "a turn has no place for it",
    ("toolbrain", "failures"): "a call without an answer is no turn",
    ("trl", "tokens"): _TRAINING,
    ("trl", "failures"): _LEFT_OUT,
    ("trl-prompt_completion", "tokens"): _TRAINING,
    ("trl-prompt_completion", "failures"): _LEFT_OUT,
    ("trae", "thinking"): "Trae Agent's messages have no place for thoughts; counted",
}
"""By export and aspect: the reason why the aspect is absent."""

_USAGE = "usage there is a prompt's, a completion's and their sum; what was cached is not told apart"
KNOWN: dict[tuple[str, str, str, str], str] = {
    ("hierarchy", "tokens", "tools", "*"): _USAGE,
    ("hierarchy-message", "tokens", "tools", "*"): _USAGE,
}
"""By export, aspect, script and dialect ("*" for any): the reason for the difference."""

OPEN: dict[tuple[str, str, str, str], str] = {
    ("trae", "images", "image", "ollama"): "Ollama's images stand beside the content, and are left out",
}
"""Known faults of a view, in the same form."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a comparison: `what` is the difference, and `why` the reason for a difference or an omission."""

    aspect: str
    equal: bool | None
    why: str = ""
    what: str = ""

    @property
    def is_finding(self) -> bool:
        """Return whether there is a difference without a reason."""
        return self.equal is False and not self.why


def compare(run: str, export: str, payloads: list[Json], base: Path, shows: Shown | None = None) -> list[Outcome]:
    """Compare the contents of an export with the script of its run.

    `shows` reads the output if it is not in the export's own form.
    """
    script, dialect, way = run.split(".")
    conversations = (shows or READERS[export])(payloads, base, dialect)
    if export == "toolbrain":
        turns = list(_turns(SCRIPTS[script]))[-1 if way == "forked" else 0 :]
        views = {
            aspect: [_pair(aspect, *both) for both in zip(turns, conversations, strict=False)] for aspect in ASPECTS
        }
        counts = len(turns), len(conversations)
    else:
        wanted = list(expected(SCRIPTS[script], dialect, by_exchange=export in BY_EXCHANGE))
        if way == "forked":
            wanted = _of_fork(wanted, export)
        if export not in BY_EXCHANGE:
            conversations, wanted = sorted(conversations, key=_first), sorted(wanted, key=_first)
        pairs = list(zip(wanted, conversations, strict=False))
        views = {aspect: [(_view(aspect, one), _view(aspect, other)) for one, other in pairs] for aspect in ASPECTS}
        counts = len(wanted), len(conversations)
    return [_outcome(aspect, (export, script, dialect), counts, views[aspect]) for aspect in ASPECTS]


def _outcome(aspect: str, of: tuple[str, str, str], counts: tuple[int, int], pairs: list[tuple[Json, Json]]) -> Outcome:
    export, script, dialect = of
    if why := NOT_CARRIED.get((export, aspect)):
        return Outcome(aspect, None, why)
    reason = _reason(export, aspect, script, dialect)
    for number, (one, other) in enumerate(pairs):
        if one != other:
            return Outcome(aspect, False, reason, f"{number}: {one!r}, not {other!r}")
    if counts[0] != counts[1]:
        return Outcome(aspect, False, reason, f"{counts[0]} conversations, not {counts[1]}")
    return Outcome(aspect, True)


def _reason(export: str, aspect: str, script: str, dialect: str) -> str:
    known = KNOWN | OPEN
    return next((why for key in _keys(export, aspect, script, dialect) if (why := known.get(key))), "")


def _keys(export: str, aspect: str, script: str, dialect: str) -> Iterator[tuple[str, str, str, str]]:
    for of in (script, "*"):
        yield from ((export, aspect, of, dialect), (export, aspect, of, "*"))


def expected(script: Script, dialect: str, *, by_exchange: bool) -> Iterator[Conversation]:
    """Yield the expected contents: the conversation of each agent, or each exchange if the format is by exchange."""
    for talk, number in script.order():
        if by_exchange:
            talk_then = _until(talk, number, answers_counted=1)
        elif number == len(talk.rounds) - 1:
            talk_then = _until(talk, number, answers_counted=len(talk.rounds))
        else:
            continue
        if dialect == "ollama":  # a dialect that does not state cached tokens
            for message in talk_then.messages:
                message.tokens = message.tokens and replace(message.tokens, cached=0)
        yield talk_then


def _of_fork(talks: list[Conversation], export: str) -> list[Conversation]:
    """Return the expected contents of a fork at the last call, in which all answers but the last are replayed."""
    if export in _TRAINS:
        talks = [] if export == "trl" else talks[-1:]
    answers = [message for talk in talks for message in talk.messages if message.tokens is not None]
    for message in [] if export in _KEEP_TOKENS else answers[:-1]:
        message.tokens = None
    return talks


def _until(talk: Talk, last: int, answers_counted: int) -> Conversation:
    """Return the conversation up to a round. Only its newest answers have token counts."""
    made = Conversation([Message("system", talk.system)])
    asked = answered = 0
    for number, round_ in enumerate(talk.rounds[: last + 1]):
        for new in round_.new:
            made.messages.append(_shown(new, answered))
            answered += isinstance(new, Result)
        counts = number > last - answers_counted
        if round_.answer.fails:
            made.failures += counts
            continue
        calls = [(call.name, dict(call.arguments)) for call in round_.answer.calls]
        answered, asked = asked, asked + len(calls)
        tokens = _counted(round_.answer) if counts else None
        made.messages.append(Message("assistant", round_.answer.text, round_.answer.thought, calls, tokens=tokens))
    return made


def _shown(new: Asked | Result, place: int) -> Message:
    if isinstance(new, Result):
        return Message("tool", new.text, of=place)
    return Message("user", new.text, images=[new.image] if new.image else [])


def _counted(answer: Answer) -> Tokens:
    return Tokens(answer.tokens.prompt, answer.tokens.output, answer.tokens.cached)


def _first(talk: Conversation) -> str:
    return "\n".join(message.text for message in talk.messages[:2])


def _view(aspect: str, talk: Conversation) -> Json:
    """Return an aspect of a conversation."""
    answers = [message for message in talk.messages if message.role == "assistant"]
    views: dict[str, Callable[[], Json]] = {
        "messages": lambda: [(message.role, message.text) for message in talk.messages],
        "calls": lambda: [message.calls for message in answers],
        "results": lambda: [(message.of, message.text) for message in talk.messages if message.role == "tool"],
        "thinking": lambda: [message.thought for message in answers],
        "images": lambda: [message.images for message in talk.messages],
        "tokens": lambda: [message.tokens for message in answers if message.tokens is not None],
        "failures": lambda: talk.failures,
    }
    return views[aspect]()


@dataclass(frozen=True, slots=True)
class _Turn:
    """The expected content of a ToolBrain turn: the prompt's texts, the answer, and the results of its tools."""

    prompt: list[str]
    answer: Answer
    results: list[str]


def _turns(script: Script) -> Iterator[_Turn]:
    for talk, number in script.order():
        answer = talk.rounds[number].answer
        if not answer.fails:
            before = [message.text for message in _until(talk, number, answers_counted=1).messages[:-1]]
            after = talk.rounds[number + 1].new if number + 1 < len(talk.rounds) else ()
            yield _Turn(before, answer, [new.text for new in after if isinstance(new, Result)])


def _pair(aspect: str, turn: _Turn, shown: Conversation) -> tuple[Json, Json]:
    """Return an aspect of a turn as expected and as exported. A text before tool calls counts as a thought too."""
    prompt, reply, *results = shown.messages
    answer = turn.answer
    thoughts = [answer.thought, answer.text if answer.calls else ""]
    views: dict[str, Callable[[], tuple[Json, Json]]] = {
        "messages": lambda: (
            [turn.prompt, "" if answer.calls else answer.text],
            [_in_order(turn.prompt, prompt.text), reply.text],
        ),
        "calls": lambda: ([(call.name, dict(call.arguments)) for call in answer.calls], reply.calls),
        "results": lambda: (turn.results, [message.text for message in results]),
        "thinking": lambda: (thoughts, _in_order(thoughts, reply.thought)),
    }
    return views[aspect]() if aspect in views else (None, None)


def _in_order(texts: list[str], whole: str) -> list[str]:
    """Return the texts of this list that a long text contains, each after the previous one."""
    present, end = [], 0
    for text in texts:
        place = whole.find(text, end)
        if place >= 0:
            present.append(text)
            end = place + len(text)
    return present


def payloads_of(run: str, export: str, directory: Path) -> tuple[list[Json], Path]:
    """Return the export of a run as JSON: its documents, its rows, or its sessions, each a list of lines."""
    place = directory / export
    files = sorted(path for path in place.iterdir() if path.is_file() and path.name.startswith(f"{run}."))
    if EXPORTS[export][1]:
        return [row for path in files for row in lines(path)], place
    if export in ("traces", "session-traces"):
        return [lines(path) for path in files], place
    return [json.loads(path.read_text(encoding="utf-8")) for path in files], place


def lines(path: Path) -> list[Json]:
    """Return the lines of a file, each parsed as JSON."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
