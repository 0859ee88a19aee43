"""Exchanges recorded through the real SDKs, and the same calls replayed without a server: the differences.

`python -m tests.wire.replays` prints a table over the whole corpus for each mode. A number says for how many exchanges
an aspect is the same, of those to which it applies (n/m if not all).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.provider import running
from tests.wire.calls import Outcome
from tests.wire.corpus import DIRECTORY, Exchange, Payload, load
from tests.wire.deliveries import Deliveries, Delivery, watch
from tests.wire.judgement import Verdicts
from tests.wire.replay_server import serve
from tests.wire.runs import Mode, call_all
from tests.wire.table import rows

COLUMNS = ("answered", "objects", "exception", "status", "headers", "body", "chunks")
NOWHERE = "http://127.0.0.1:9/x"
"""An address where no server listens."""
_FRAMING = {"content-length", "transfer-encoding", "content-encoding"}
_OF_SERVE = "trace-recorder-replayed-from"
"""A header that `serve` adds, because a recorder in the program cannot know the source of an answer otherwise."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The callers' results of a round of calls, and the input of their SDKs from the HTTP library."""

    outcomes: dict[int, Outcome]
    deliveries: Deliveries


def recorded(exchanges: Sequence[Exchange], mode: Mode, path: Path) -> Seen:
    """Make the calls with the server, and record them to a file."""
    from trace_recorder import TrajectoryRecorder

    with TrajectoryRecorder(path, task="the wire corpus") as recorder:
        with serve(exchanges, mode.seed, mode.compress) as server, watch() as deliveries:
            return Seen(call_all(exchanges, mode, recorder.wrap, server.address).outcomes, deliveries)


def replayed(exchanges: Sequence[Exchange], mode: Mode, path: Path) -> Seen:
    """Make the calls again, answered from the file. A call without an answer, and a recorded call that is not made,
    raises.
    """
    from trace_recorder import replay

    with replay(path) as run, watch() as deliveries:
        return Seen(
            call_all(exchanges, mode, run.wrap, lambda exchange: f"{NOWHERE}/{exchange.number}").outcomes, deliveries
        )


def served(exchanges: Sequence[Exchange], mode: Mode, path: Path) -> Seen:
    """Make the calls again, answered over HTTP by a local provider from the file.

    A call that the file lacks gets an error.
    """
    from trace_recorder import replay
    from trace_recorder.rerun.serving import ReplayServer

    server = ReplayServer(replay(path))
    with running(server), watch() as deliveries:
        made = call_all(exchanges, mode, lambda client: client, lambda exchange: f"{server.url}/x/{exchange.number}")
    return Seen(made.outcomes, deliveries)


def compare_all(
    exchanges: tuple[Exchange, ...], mode: Mode, again: Callable[..., Seen] = replayed
) -> dict[int, Verdicts]:
    """Record every call, replay it, and judge each exchange by its number.

    Calls are made in sequence, because the first of equal calls gets the first recorded answer.
    """
    mode = replace(mode, at_once=1)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "run.json"
        first, second = recorded(exchanges, mode, path), again(exchanges, mode, path)
    if again is served:
        for delivery in second.deliveries.values():
            del delivery.headers[_OF_SERVE]
    verdicts = {exchange.number: compare(exchange, first, second, mode) for exchange in exchanges}
    if again is served:  # the server does not decide where a client's reads of a socket end
        verdicts = {number: {**one, "chunks": None} for number, one in verdicts.items()}
    return verdicts


def compare(exchange: Exchange, first: Seen, second: Seen, mode: Mode) -> Verdicts:
    """Return the verdict on each of `COLUMNS`, or None if there is nothing to compare.

    answered: the replay had an answer. objects, exception: the caller's result is the same both times, including the
    class, message, status and body of an exception. status, headers, body: the SDK's input is the same both times.
    Headers about lengths and encodings are not compared, and line breaks of plain JSON count as the spaces that are
    recorded for them. chunks: a stream is cut at the same places. An encoded stream is recorded decoded, and is not
    compared.
    """
    number = exchange.number
    verdicts: Verdicts = dict.fromkeys(COLUMNS)
    verdicts["answered"] = number in second.deliveries
    before, again = (_seen(one.outcomes[number]) for one in (first, second))
    verdicts["objects"] = again[0] == before[0]
    if before[1] or again[1]:
        verdicts["exception"] = again[1] == before[1]
    if number in second.deliveries:
        verdicts |= _compare_deliveries(exchange, first.deliveries[number], second.deliveries[number], mode)
    return verdicts


def _compare_deliveries(exchange: Exchange, before: Delivery, again: Delivery, mode: Mode) -> Verdicts:
    verdicts: Verdicts = {"status": again.status == before.status}
    verdicts["headers"] = _kept(again) == _kept(before)
    verdicts["body"] = _body(exchange, again) == (_body(exchange, before) if not mode.compress else _sent(exchange))
    if exchange.stream and not mode.compress:
        verdicts["chunks"] = again.chunks == before.chunks
    return verdicts


def _kept(delivery: Delivery) -> dict[str, str]:
    return {name: value for name, value in delivery.headers.items() if name not in _FRAMING}


def _body(exchange: Exchange, delivery: Delivery) -> str:
    text = b"".join(delivery.chunks).decode()
    return text if exchange.stream else _on_one_line(text)


def _sent(exchange: Exchange) -> str:
    return exchange.response_text if exchange.stream else _on_one_line(exchange.response_text)


def _on_one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").strip()


def _seen(outcome: Outcome) -> tuple[Payload, Payload]:
    objects, error = outcome.seen()
    raw_on_one_line = [_on_one_line(one) if isinstance(one, str) else one for one in objects]
    return _without_framing(raw_on_one_line), error


def _without_framing(value: Payload) -> Payload:
    """Return a value without the headers that google-genai shows in each of its responses."""
    if isinstance(value, list | tuple):
        return [_without_framing(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_framing(one) for name, one in value.items() if name.lower() not in _FRAMING}


MODES = {
    "sync": (False, Mode(), replayed),
    "async": (False, Mode(asynchronous=True), replayed),
    "sync, streams cut at random": (True, Mode(seed=1), replayed),
    "async, streams compressed and cut at random": (True, Mode(asynchronous=True, seed=2, compress=True), replayed),
    "sync, from a local provider": (False, Mode(), served),
    "async, from a local provider": (False, Mode(asynchronous=True), served),
}
"""By title: whether a mode is only for streams, the mode, and how the calls are made again."""


def main() -> None:
    """Record and replay the corpus in each mode and print its table."""
    exchanges = load()
    if not exchanges:
        sys.exit(f"there is no corpus in {DIRECTORY}: set TRACE_RECORDER_WIRE")
    for title, (streams_alone, mode, again) in MODES.items():
        chosen = tuple(exchange for exchange in exchanges if exchange.stream or not streams_alone)
        began = time.perf_counter()
        verdicts = compare_all(chosen, mode, again)
        print(f"\n{title}: {time.perf_counter() - began:.1f} s")
        print("\n".join(rows(chosen, verdicts, COLUMNS)))
        print("\n".join(_differences(chosen, verdicts)) or "no differences")


def _differences(exchanges: Sequence[Exchange], verdicts: dict[int, Verdicts]) -> list[str]:
    counts: Counter[str] = Counter()
    firsts: dict[str, str] = {}
    for exchange in exchanges:
        columns = ", ".join(name for name, verdict in verdicts[exchange.number].items() if verdict is False)
        if columns:
            counts[f"{exchange.dialect}: {columns}"] += 1
            firsts.setdefault(f"{exchange.dialect}: {columns}", f"#{exchange.number} {exchange.source}")
    return [f"{count} x {what}\n    first: {firsts[what]}" for what, count in counts.items()]


if __name__ == "__main__":
    main()
