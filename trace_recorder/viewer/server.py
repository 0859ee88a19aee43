"""The viewer's server: the answers of `docs/viewer-interface.md` over HTTP, and the page that requests these answers.

Threads read the runs, so that a large run does not delay other requests. `security.py` controls access.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from trace_recorder.errors import QueryError, RecorderStateError, TraceRecorderError
from trace_recorder.guard import logger, try_call
from trace_recorder.recording.amend import append_annotation, append_rewards
from trace_recorder.viewer.comparing import MAX_RUNS, RunComparison, comparison_table
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.one_file import ascii_json, one_file, page_with
from trace_recorder.viewer.open_runs import OpenRun, OpenRuns
from trace_recorder.viewer.parameters import (
    BadRequestError,
    NotFoundError,
    annotation_in,
    list_request_in,
    number_in,
    numbers_in,
    posted_object,
    reward_in,
    seconds_in,
)
from trace_recorder.viewer.parts import WHOLE, Json
from trace_recorder.viewer.runs import RunList
from trace_recorder.viewer.security import Access, AccessControl, refusal

MAX_POSTED_BYTES = 1024 * 1024
MAX_WAIT_SECONDS = 25.0
POLL_SECONDS = 0.25
"""While a request waits for changes, the server looks at the file again after this pause."""

Handler = Callable[[Request], Awaitable[Response]]
Result = TypeVar("Result")
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (BadRequestError, 400),
    (QueryError, 400),
    (NotFoundError, 404),
    (RecorderStateError, 409),
    (TraceRecorderError, 422),
    (OSError, 422),
)


class ViewerServer:
    """Serves the runs in and below one directory, or some files of it.

    If `read_only` is True, nothing can be added to a run.
    """

    def __init__(self, runs: RunList, *, read_only: bool = False) -> None:
        self._runs = runs
        self._open = OpenRuns()
        self._read_only = read_only
        self._last_comparison: tuple[tuple[tuple[str, str], ...], RunComparison] | None = None

    def app(self, access: Access) -> ASGIApp:
        """Return the application, with its access control."""
        run = "/api/runs/{run}"
        routes = [
            Route("/", self._page),
            Route("/api/runs", _answering(lambda request: self._runs.page(list_request_in(request.query_params)))),
            Route("/api/find", _answering(lambda request: self._runs.find(request.query_params.get("query", "")))),
            Route("/api/groups", _answering(self._groups)),
            Route("/api/table", _answering(self._table)),
            Route("/api/compare", _answering(lambda request: self._compared(request).to_json())),
            Route("/api/compare/pairs/{number}", _answering(self._pair)),
            Route(run, self._of_run(lambda run, _: self._outline(run))),
            Route(f"{run}/since", self._since),
            Route(f"{run}/file", self._file),
            Route(f"{run}/messages", self._of_run(_about_several("messages"))),
            Route(f"{run}/messages/{{number}}", self._of_run(_about_one("messages", _message))),
            Route(f"{run}/interactions", self._of_run(_about_several("interactions"))),
            Route(f"{run}/interactions/{{number}}", self._of_run(_about_one("interactions", RunAnswers.interaction))),
            Route(f"{run}/interactions/{{number}}/raw", self._of_run(_about_one("interactions", RunAnswers.raw))),
            Route(f"{run}/items", self._of_run(_about_several("items"))),
            Route(f"{run}/steps", self._of_run(_about_several("steps"))),
            Route(f"{run}/steps/{{number}}", self._of_run(_about_one("steps", _step))),
            Route(f"{run}/rewards", self._posting(_add_reward), methods=["POST"]),
            Route(f"{run}/annotations", self._posting(_add_annotation), methods=["POST"]),
        ]
        handlers = {404: _no_such_address, 405: _no_such_address}
        return AccessControl(_with_encoded_path(Starlette(routes=routes, exception_handlers=handlers)), access)

    async def _page(self, _: Request) -> Response:
        first = None
        if self._runs.file_names is not None:
            first = self._runs.only_name()
        return HTMLResponse(page_with({"kind": "server", "run": first, "writable": not self._read_only}))

    def _groups(self, request: Request) -> Json:
        query = request.query_params
        return self._runs.groups(list_request_in(query), query.getlist("by"))

    def _table(self, request: Request) -> Json:
        names = request.query_params.getlist("run")
        if not 2 <= len(names) <= MAX_RUNS:
            raise BadRequestError(f"a table has two to {MAX_RUNS} runs.")
        return comparison_table([self._opened_as(name).state()[1] for name in names])

    # ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _of_run(self, answer: Callable[[OpenRun, Request], Json]) -> Handler:
        """Return a handler that opens the run that the address names, and answers from that run."""

        def handle(request: Request) -> Json:
            run = self._opened(request)
            with run.lock:
                return answer(run, request)

        return _answering(handle)

    def _compared(self, request: Request) -> RunComparison:
        """Return the comparison of the runs `a` and `b`. The last comparison is kept for the next request."""
        runs = [self._opened_as(request.query_params.get(name, "")) for name in ("a", "b")]
        versions, trajectories = zip(*(run.state() for run in runs), strict=True)
        key = tuple(zip((run.name for run in runs), versions, strict=True))
        kept = self._last_comparison
        if kept is None or kept[0] != key:
            kept = self._last_comparison = key, RunComparison(*trajectories)
        return kept[1]

    def _pair(self, request: Request) -> Json:
        number = number_in(request.path_params["number"], "the number of a pair")
        try:
            return self._compared(request).difference_of(number)
        except IndexError as error:
            raise NotFoundError(f"{error}.") from None

    def _opened(self, request: Request) -> OpenRun:
        return self._opened_as(unquote(request.path_params["run"]))

    def _opened_as(self, name: str) -> OpenRun:
        path = self._runs.path_of(name)
        if path is None:
            raise NotFoundError("there is no run of that name.")
        return self._open.open(path, name)

    def _outline(self, run: OpenRun) -> Json:
        outline = run.outline()
        origins = (call["replayed_from"] or {} for call in outline["interactions"])
        sources = {origin["trajectory_id"] for origin in origins if "trajectory_id" in origin}
        relations = self._runs.relations_of(run.name, sources)
        return {**outline, "writable": self._is_writable(run), "relations": relations}

    def _is_writable(self, run: OpenRun) -> bool:
        return not self._read_only and run.is_amendable

    def _changes(self, run: OpenRun, version: str) -> Json:
        return {**run.since(version), "writable": self._is_writable(run)}

    async def _since(self, request: Request) -> Response:
        """Answer when the run has changed, or after the seconds in the parameter `wait`."""
        version = request.query_params.get("version", "")

        def look(*, is_last: bool) -> Response | None:
            run = self._opened(request)
            with run.lock:
                if run.version == version and not is_last:
                    return None
                return _json(self._changes(run, version))

        seconds = request.query_params.get("wait", "0")
        wait = await run_in_threadpool(_or_refusal, partial(seconds_in, seconds, MAX_WAIT_SECONDS))
        if isinstance(wait, Response):
            return wait
        until = time.monotonic() + wait
        while True:
            is_last = time.monotonic() >= until
            answer = await run_in_threadpool(_or_refusal, partial(look, is_last=is_last))
            if answer is not None:
                return answer
            await anyio.sleep(POLL_SECONDS)

    async def _file(self, request: Request) -> Response:
        """Answer with the run as one self-contained file, to be saved."""

        def answer() -> Response:
            run = self._opened(request)
            with run.lock:
                html = one_file(run.answers.trajectory, run.name)
            name = quote(f"{Path(run.name).stem}.html", errors="replace")
            return HTMLResponse(html, headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"})

        return await run_in_threadpool(_or_refusal, answer)

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _posting(self, add: Callable[[OpenRun, Json], None]) -> Handler:
        """Return a handler that adds to the run that the address names, and answers with the changes."""

        def handle(request: Request, data: bytes) -> Response:
            run = self._opened(request)
            with run.lock:
                before = run.version
                if self._read_only:
                    raise RecorderStateError("this viewer only reads: nothing can be added here.")
                add(run, posted_object(data))
                run.refresh()
                return _json(self._changes(run, before), status=201)

        async def answer(request: Request) -> Response:
            data = await _body(request)
            if data is None:
                return refusal(400, f"a body may have at most {MAX_POSTED_BYTES} bytes.")
            return await run_in_threadpool(_or_refusal, partial(handle, request, data))

        return answer


def _add_reward(run: OpenRun, posted: Json) -> None:
    append_rewards(run.path, [reward_in(posted)])


def _add_annotation(run: OpenRun, posted: Json) -> None:
    append_annotation(run.path, *annotation_in(posted))


# ── answers about one run ────────────────────────────────────────────────────────────────────────────────────────────


_FIRST = {"messages": 0, "items": 0, "interactions": 1, "steps": 1}
"""The number of the first element of each kind."""


def _about_several(kind: str) -> Callable[[OpenRun, Request], Json]:
    """Return a function that answers with several messages, interactions, steps or items."""

    def answer(run: OpenRun, request: Request) -> Json:
        return {kind: getattr(run.answers, kind)(_numbers(run, kind, request.query_params))}

    return answer


def _about_one(kind: str, answer: Callable[[RunAnswers, int], Json]) -> Callable[[OpenRun, Request], Json]:
    """Return a function that answers about the message, interaction or step that the address names."""
    return lambda run, request: answer(run.answers, _numbers(run, kind, {"numbers": request.path_params["number"]})[0])


def _message(answers: RunAnswers, number: int) -> Json:
    return answers.messages([number], WHOLE)[0]


def _step(answers: RunAnswers, number: int) -> Json:
    return answers.steps([number], WHOLE, server_messages=True)[0]


def _numbers(run: OpenRun, kind: str, query: Mapping[str, str]) -> Sequence[int]:
    return numbers_in(query, _FIRST[kind], run.answers.counts[kind] + _FIRST[kind])


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _with_encoded_path(app: ASGIApp) -> ASGIApp:
    """Return an application that gets the encoded path, so that an encoded slash is a part of a run's id."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "path": scope["raw_path"].decode("latin-1")}, receive, send)

    return called


def _answering(answer: Callable[[Request], Json]) -> Handler:
    """Return a handler that answers in a thread, with JSON or a refusal."""

    async def handle(request: Request) -> Response:
        return await run_in_threadpool(_or_refusal, lambda: _json(answer(request)))

    return handle


def _or_refusal(answer: Callable[[], Result]) -> Result | Response:
    """Return an answer, or a refusal with the reason."""

    def on_error(error: Exception) -> Result | Response:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        if status == 500:
            logger.exception("the viewer could not answer", exc_info=error)
            return refusal(500, f"this run cannot be shown: {type(error).__name__}: {error}")
        if isinstance(error, OSError) and error.strerror:
            return refusal(status, f"the run cannot be read: {error.strerror}")
        return refusal(status, str(error))

    return try_call(answer, on_error)


def _json(value: Json, status: int = 200) -> Response:
    return Response(ascii_json(value), status_code=status, media_type="application/json")


async def _body(request: Request) -> bytes | None:
    """Return the body of a POST, or None if the body is too large."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_POSTED_BYTES:
            return None
    return data


async def _no_such_address(_: Request, error: Exception) -> Response:
    return refusal(getattr(error, "status_code", 404), "there is nothing at this address.")
