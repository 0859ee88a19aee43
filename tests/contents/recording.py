"""Records and exports scripts: each in every dialect, answered whole and as a stream, and some as forks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from tests.cli.invoking import invoke
from tests.contents.comparing import EXPORTS
from tests.contents.script import SCRIPTS, Script, Talk
from tests.contents.wire import DIALECTS, request_of
from trace_recorder import TrajectoryRecorder, fork, http_client

FORKED = frozenset({"anthropic", "openai-chat"})
"""The dialects in which scripts are also recorded as forks that replay all answers but the last."""
MakeClient = Callable[..., Any]


def names() -> Iterator[str]:
    """Yield the names of all runs: script, dialect, and form of the answers."""
    for script in SCRIPTS:
        for dialect in DIALECTS:
            ways = ("whole", "streamed", "forked") if dialect in FORKED else ("whole", "streamed")
            yield from (f"{script}.{dialect}.{way}" for way in ways)


def record(name: str, directory: Path) -> Path:
    """Record a run, and return its document."""
    script, dialect, way = name.split(".")
    recorder = TrajectoryRecorder(directory / f"{name}.json", task=name, strict=True)
    if way == "forked":
        with TemporaryDirectory() as parents:
            parent = record(f"{script}.{dialect}.whole", Path(parents))
            last = len([*SCRIPTS[script].order()])
            with fork(parent, at=f"llm_{last}", recorder=recorder) as branch:
                _play(SCRIPTS[script], dialect, recorder, branch.http_client)
    else:
        with recorder:
            make_client = partial(http_client, recorder=recorder)
            _play(SCRIPTS[script], dialect, recorder, make_client, streams=way == "streamed")
    return directory / f"{name}.json"


def _play(
    script: Script, dialect: str, recorder: TrajectoryRecorder, make_client: MakeClient, *, streams: bool = False
) -> None:
    main = script.talks[0]
    with _agent(recorder, main):
        for talk, exchanges in groupby(script.order(), key=lambda one: one[0]):
            with nullcontext() if talk is main else _agent(recorder, talk):
                for _, number in exchanges:
                    _exchange(make_client, dialect, talk, number, streams=streams)


def _agent(recorder: TrajectoryRecorder, talk: Talk) -> AbstractContextManager[object]:
    return recorder.agent(talk.agent) if talk.agent else nullcontext()


def _exchange(make_client: MakeClient, dialect: str, talk: Talk, number: int, *, streams: bool) -> None:
    written, answer = DIALECTS[dialect], talk.rounds[number].answer

    def respond(_: httpx.Request) -> httpx.Response:
        if answer.fails:
            return httpx.Response(500, json={"error": {"type": "server_error", "message": "it broke"}})
        if streams:
            chunks = written.stream(talk, f"r{number}", answer)
            return httpx.Response(200, headers={"content-type": written.media}, content=iter(chunks))
        return httpx.Response(200, json=written.answer(talk, f"r{number}", answer))

    transport = httpx.MockTransport(respond)
    with make_client(library="httpx", transport=transport, trust_env=False) as client:
        client.post(written.url(streams), json=request_of(dialect, talk, number, streams=streams))


def record_all(directory: Path) -> list[Path]:
    """Record every script in every dialect, and return the documents."""
    directory.mkdir(parents=True, exist_ok=True)
    return [record(name, directory) for name in names()]


def export_all(runs: list[Path], directory: Path) -> None:
    """Export runs in every format and form to `directory`/EXPORT, as files whose names begin with the run's name."""
    for name, (arguments, ending) in EXPORTS.items():
        target = directory / name
        target.mkdir(parents=True, exist_ok=True)
        if ending:
            for run in runs:
                _export([run], arguments, target / f"{run.stem}{ending}")
        else:
            _export(runs, arguments, target)


def _export(runs: list[Path], arguments: tuple[str, ...], out: Path) -> None:
    result = invoke("export", *runs, "-f", *arguments, "-o", out)
    if result.exit_code:
        raise RuntimeError(f"{arguments} to {out}: {result.output}")
