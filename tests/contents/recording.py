"""Scripts recorded and exported: each in every dialect, answered at once and as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from pathlib import Path

import httpx
from typer.testing import CliRunner

from tests.contents.comparing import EXPORTS
from tests.contents.script import SCRIPTS, Talk
from tests.contents.wire import DIALECTS, request_of
from trace_recorder import TrajectoryRecorder, http_client
from trace_recorder.cli.commands import app


def names() -> Iterator[str]:
    """The names of all runs: script, dialect, and how it is answered."""
    for script in SCRIPTS:
        for dialect in DIALECTS:
            yield from (f"{script}.{dialect}.{way}" for way in ("whole", "streamed"))


def record(name: str, directory: Path) -> Path:
    """Record one, and return its document."""
    script, dialect, way = name.split(".")
    path = directory / f"{name}.json"
    main = SCRIPTS[script].talks[0]
    with TrajectoryRecorder(path, task=name, strict=True) as recorder, _agent(recorder, main):
        for talk, exchanges in groupby(SCRIPTS[script].order(), key=lambda one: one[0]):
            with nullcontext() if talk is main else _agent(recorder, talk):
                for _, number in exchanges:
                    _exchange(recorder, dialect, talk, number, streams=way == "streamed")
    return path


def _agent(recorder: TrajectoryRecorder, talk: Talk) -> AbstractContextManager[object]:
    return recorder.agent(talk.agent) if talk.agent else nullcontext()


def _exchange(recorder: TrajectoryRecorder, dialect: str, talk: Talk, number: int, *, streams: bool) -> None:
    written, answer = DIALECTS[dialect], talk.rounds[number].answer

    def respond(_: httpx.Request) -> httpx.Response:
        if answer.fails:
            return httpx.Response(500, json={"error": {"type": "server_error", "message": "it broke"}})
        if streams:
            chunks = written.stream(talk, f"r{number}", answer)
            return httpx.Response(200, headers={"content-type": written.media}, content=iter(chunks))
        return httpx.Response(200, json=written.answer(talk, f"r{number}", answer))

    transport = httpx.MockTransport(respond)
    with http_client(recorder=recorder, library="httpx", transport=transport, trust_env=False) as client:
        client.post(written.url(streams), json=request_of(dialect, talk, number, streams=streams))


def record_all(directory: Path) -> list[Path]:
    """Record every script in every dialect; return the documents."""
    directory.mkdir(parents=True, exist_ok=True)
    return [record(name, directory) for name in names()]


def export_all(runs: list[Path], directory: Path) -> None:
    """Export runs in every format and form to `directory`/EXPORT, as files whose names begin with their run's."""
    for name, (arguments, ending) in EXPORTS.items():
        target = directory / name
        target.mkdir(parents=True, exist_ok=True)
        if ending:
            for run in runs:
                _export([run], arguments, target / f"{run.stem}{ending}")
        else:
            _export(runs, arguments, target)


def _export(runs: list[Path], arguments: tuple[str, ...], out: Path) -> None:
    result = CliRunner().invoke(app, ["export", *map(str, runs), "-f", *arguments, "-o", str(out)])
    if result.exit_code:
        raise RuntimeError(f"{arguments} to {out}: {result.output}")
