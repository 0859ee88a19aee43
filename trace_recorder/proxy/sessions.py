"""Finds the run that a request belongs to. A session of a program is one run. Its sub-agents are agents of that run.

A session is recognised by a header that the program sends, by a path that the caller chose, or by the program that the
proxy started. Otherwise each conversation is a session: a request that begins with all messages of an earlier request
continues the conversation of that request.

The event loop of the proxy calls all methods except `end`. A thread compares a long prompt with the earlier
conversations, and another begins runs, one after another. If `join` is True, another thread reads the session files of
programs, one after another, and ends the runs of their sessions. Each session has a context in which its recorder is
the current recorder. Each agent of the session has a copy of that context. A request is sent in such a context, so the
HTTP client records the call in the run of the session.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shlex
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.attach.subprocess.supervisor import record_exit
from trace_recorder.background_work import yield_to_others
from trace_recorder.capture.decoding import may_be_encoded, plain_request
from trace_recorder.capture.event_loops import run_in_thread
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.guard import Guard
from trace_recorder.proxy.joining import join_session_file
from trace_recorder.proxy.run_names import RunNames, mask_of, session_name
from trace_recorder.proxy.sub_agents import SessionTree, SubAgent, sub_agent_of
from trace_recorder.recording.manual_records import MAX_SESSION_CHARACTERS
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import ours
from trace_recorder.values.message_equality import says_key
from trace_recorder.values.messages import Message

SessionSource = Literal["header", "path", "program", "conversation (inferred)"]
SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "thread-id", "x-session-id")
"""Headers with the id of a session. Claude Code 2.1 sends the first, and Codex 0.171 the next two. opencode 1.18 and pi
1.6 send `session-id` or `x-session-id`, which depends on the provider.
"""
IDLE_SECONDS = 3600.0
"""If the proxy runs no program, a session ends after this many seconds without a request."""
_LONG_PROMPT_BYTES = 256 * 1024
"""A prompt with more bytes than this is read in a thread.

Reading a prompt of this length would stop the event loop for 5 ms.
"""
_MAX_AGENTS = 256
"""A session keeps the contexts of at most this many agents.

An agent without a context gets a new id with its next request.
"""
_MAX_FAILED = 16
"""A session remembers at most this many failed requests: the newest, each until it is sent again."""
_SPARE_DESCRIPTORS = 128
_MAX_OWN_RUNS = 10_000
_DESCRIPTORS_OF_A_RUN = 2
_guard = Guard()


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The identity of a session, and where the identity comes from."""

    source: SessionSource
    identity: str
    task: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(eq=False)
class Session:
    """An open session, with the recorder of its run."""

    key: SessionKey
    recorder: TrajectoryRecorder
    context: Context
    agents: dict[str, Context] = field(default_factory=dict)
    failed: deque[tuple[bytes, Context]] = field(default_factory=lambda: deque(maxlen=_MAX_FAILED))
    """The digests and the contexts of the last failed requests.

    A digest occurs twice if two workers sent the same request.
    """
    requests: int = 0
    """The number of requests that are being answered now."""
    last_used: float = field(default_factory=time.monotonic)

    @property
    def identity(self) -> tuple[SessionSource, str]:
        """What distinguishes the session from all others."""
        return self.key.source, self.key.identity

    @property
    def run(self) -> Run | None:
        """The run of the session, or None if it could not begin."""
        return self.recorder._lifecycle.run

    @property
    def main_session(self) -> str | None:
        """The program's id of the session, if a header has it."""
        return self.key.identity if self.key.source == "header" else None

    def journal_bytes(self) -> int:
        """Return the size of the run's journal."""
        return 0 if self.run is None else self.run.journal_bytes

    def context_for(self, request: SessionRequest) -> Context:
        """Return the context in which to send a request.

        If the same request failed before, return the context in which it was sent. In this context, recording counts
        the new request as the next attempt.
        """
        digest = request.digest(self.main_session) if self.failed else b""
        for failure in self.failed:
            if failure[0] == digest:
                self.failed.remove(failure)
                return failure[1]
        return self._context_of(request.sub_agent(self.main_session))

    def remember_failure(self, request: SessionRequest, context: Context) -> None:
        """Remember a failed request, because its program may send it again."""
        self.failed.append((request.digest(self.main_session), context))

    def _context_of(self, agent: SubAgent | None) -> Context:
        """Return a copy of the context of a sub-agent, or of the session if `agent` is None."""
        if agent is None:
            return self.context.copy()
        if agent.identity not in self.agents:
            if len(self.agents) >= _MAX_AGENTS:
                self.agents.pop(next(iter(self.agents)))
            context = self.agents.get(agent.parent or "", self.context).copy()
            context.run(self.recorder.agent(agent.identity).__enter__)
            self.agents[agent.identity] = context
        return self.agents[agent.identity].copy()


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The parts of a request by which its session and its earlier attempts are found."""

    url: str
    chosen: Sequence[str]
    """The TASK, GROUP and ATTEMPT of a path that begins with `/run`, or nothing for any other path."""
    header: Callable[[str], str | None]
    api: str
    body: bytes
    """The body as it was sent. It may have a content encoding."""
    raw_headers: list[tuple[bytes, bytes]]

    def sub_agent(self, main_session: str | None) -> SubAgent | None:
        """Return the sub-agent that sends the request, or None if the headers name no sub-agent."""
        return sub_agent_of(self.header, main_session)

    def plain_body(self) -> bytes:
        """Return the body without its content encoding. Raises TooLargeError."""
        return plain_request(self.raw_headers, self.body)

    def may_be_long(self) -> bool:
        """Whether reading the prompt would stop the event loop. A compressed body may have a prompt of any length."""
        return len(self.body) > _LONG_PROMPT_BYTES or may_be_encoded(self.raw_headers, self.body)

    def digest(self, main_session: str | None) -> bytes:
        """Return a digest of the request and its agent, because two agents of a session may send the same request."""
        sender = f"{self.url}\0{self.sub_agent(main_session)}\0".encode("utf-8", "surrogatepass")
        return blake2b(sender + self.body, digest_size=16).digest()


class Sessions:
    """The open sessions of a proxy. Their runs are written to a directory.

    `command` is the program that the proxy runs, if any. `session` is the session of all runs. Without it, a
    run whose program names its session by a header is in that session. `header` is the name of one more header that has
    the id of a session. A session ends after `idle_seconds` without a request. The default is an hour, or no limit if
    there is a program, because the exit of the program ends its sessions. If `join` is True, the contents of the
    programs' session files are added to their runs. If `max_open` runs are open and a new run begins, the run that was
    idle for longest is ended. The default of `max_open` is as many runs as the limit for open files allows.
    """

    def __init__(  # noqa: PLR0913 - the settings of the command
        self,
        directory: Path,
        *,
        command: Sequence[str] = (),
        task: str | None = None,
        session: str | None = None,
        header: str | None = None,
        idle_seconds: float | None = None,
        max_open: int | None = None,
        join: bool = False,
    ) -> None:
        self._names = RunNames(directory)
        self._command = command
        self._task = task
        self._session_name = session
        self._headers: tuple[str, ...] = SESSION_HEADERS
        if header:
            self._headers = (header.lower(), *SESSION_HEADERS)
        default = math.inf if command else IDLE_SECONDS
        self.idle_seconds = idle_seconds or default
        self._open: dict[tuple[SessionSource, str], Session] = {}
        """The open sessions. The session that was used last is the last one."""
        self._beginner = ThreadPoolExecutor(1, "trace-recorder-begin")
        self._beginning: dict[tuple[SessionSource, str], asyncio.Future[Session]] = {}
        self._conversations = _Conversations()
        self._tree = SessionTree()
        self._max_open = max_open or _max_open_runs()
        self._joins = join
        self._ender = ThreadPoolExecutor(1, "trace-recorder-end")
        self.documents: list[Path] = []
        """The document of each run, in the order in which the runs began."""
        self.own_runs: dict[Path, None] = {}  # the documents of runs that programs record themselves
        self.has_failed = False
        self._until = math.inf
        """The time by `time.monotonic` after which no document is written any more, because the proxy ends."""
        self.incomplete = 0
        """For how many runs the last document was not written, because there was no time."""

    async def of(self, request: SessionRequest) -> tuple[Session, Context] | None:
        """Return the session of a request, and the context in which to send the request.

        Return None if recording failed.
        """
        with _guard.protect("find the session of a request"):
            key = self._named_key(request)
            if key is None:
                identity = self._conversations.of(await _prefix_digests(request))
                key = SessionKey("conversation (inferred)", identity, self._task)
            session = await self._session(key, request)
            return session, self.use(session, request)
        self.has_failed = True
        return None

    def use(self, session: Session, request: SessionRequest) -> Context:
        """Note that a session has a request, and return the context in which to send it."""
        session.last_used = time.monotonic()
        if self._open.pop(session.identity, None) is not None:
            self._open[session.identity] = session
        return session.context_for(request)

    def names_session_of(self, request: SessionRequest) -> bool:
        """Whether the session of a request is known without its prompt."""
        return self._named_key(request) is not None

    def run_of(self, chosen: Sequence[str], session_id: str | None) -> Run | None:
        """Return the run of the session that a path names, or else a program's own id. Without both, `newest_run`.

        Return None if the session has not begun. An id means nothing if no session is known by the ids of programs.
        """
        session: Session | None = None
        if chosen:
            session = self._open.get(("path", "\0".join(chosen)))
        elif session_id is not None:
            session = self._open.get(("header", session_id))
        if session is not None:
            return session.recorder._lifecycle.run_in_progress()
        headers = {dict(each.key.metadata).get("session_header") for each in self._open.values()}
        if chosen or (session_id is not None and headers.intersection(SESSION_HEADERS)):
            return None
        return self.newest_run()

    def newest_run(self) -> Run | None:
        """Return the run of the session whose request came last, or None if no session is open."""
        newest = max(self._open.values(), key=lambda session: session.last_used, default=None)
        return None if newest is None else newest.recorder._lifecycle.run_in_progress()

    def note_own_run(self, quoted_path: str) -> None:
        """Note that a program itself records a request, in a document."""
        if len(self.own_runs) < _MAX_OWN_RUNS:
            self.own_runs[Path(os.fsdecode(unquote_to_bytes(quoted_path)))] = None

    def _named_key(self, request: SessionRequest) -> SessionKey | None:
        if request.chosen:
            task, group, attempt = request.chosen
            metadata = (("group", group), ("attempt", attempt))
            # the words are joined by NUL, because a word may have slashes
            return SessionKey("path", "\0".join(request.chosen), task, metadata)
        for name in self._headers:
            if identity := request.header(name):
                identity = self._tree.main_of(identity, request.header)
                return SessionKey("header", identity, self._task, (("session_header", name), ("session_id", identity)))
        if self._command:
            return SessionKey("program", "", self._task or shlex.join(self._command))
        return None

    async def _session(self, key: SessionKey, request: SessionRequest) -> Session:
        """Return the open session with a key. Begin its run if there is none, once for all requests that wait."""
        identity = key.source, key.identity
        if identity in self._open:
            return self._open[identity]
        if identity not in self._beginning:
            self._beginning[identity] = asyncio.ensure_future(self._begin(key, request, self._make_room()))
        return await asyncio.shield(self._beginning[identity])

    async def _begin(self, key: SessionKey, request: SessionRequest, room: Future[None] | None) -> Session:
        """Begin the run of a session. A thread looks for its names and creates its files.

        If another run ends to make room, wait for its end.
        """
        loop = asyncio.get_running_loop()
        try:
            if room is not None:
                await asyncio.wrap_future(room)
            session = await loop.run_in_executor(self._beginner, self._begin_run, key, request)
            self._open[session.identity] = session
            self.documents.append(session.recorder.trajectory_path)
        finally:
            del self._beginning[key.source, key.identity]
        return session

    def _begin_run(self, key: SessionKey, request: SessionRequest) -> Session:
        mask, name = mask_of(request.raw_headers, request.url), ""
        if key.source in {"header", "path"}:  # the others cannot go on after their run has ended
            name = session_name(key.source, key.identity, mask)
        earlier = self._names.earlier(name)
        # The run learns the keys of a request only when it records the request, which is after its start.
        metadata: dict[str, Any] = {name: mask(value) for name, value in (("session_from", key.source), *key.metadata)}
        if earlier is not None:
            metadata["resumed_from"] = earlier
        recorder = TrajectoryRecorder(self._names.new_path(name))
        session = Session(key, recorder, Context())
        task = key.task
        if task is not None:
            task = mask(task)
        name_of_session = self._session_name
        if name_of_session is None and key.source == "header":
            name_of_session = mask(key.identity)[:MAX_SESSION_CHARACTERS]
        session.context.run(recorder.start, task, session=name_of_session, metadata=metadata)
        self._names.add(recorder.trajectory_path)
        return session

    def _make_room(self) -> Future[None] | None:
        """End the session that has been idle for longest if no further run may be opened."""
        if len(self._open) < self._max_open:
            return None
        idle = next((session for session in self._open.values() if not session.requests), None)
        if idle is None:
            return None
        return self._end(idle, "to make room for another run")

    def end_idle(self, now: float) -> None:
        """End the sessions that have been idle for too long. `now` is the time by `time.monotonic`."""
        before = now - self.idle_seconds
        unused = list(takewhile(lambda session: session.last_used < before, self._open.values()))
        for session in unused:
            if not session.requests:
                self._end(session, f"after {self.idle_seconds:g} s without a request")

    def _end(self, session: Session, why: str) -> Future[None]:
        """Let a thread end the run of a session, because the document of a long run takes long to write."""
        del self._open[session.identity]
        self._conversations.forget(session.key.identity)
        return self._ender.submit(self._finalize, session, why)

    def _finalize(self, session: Session, why: str) -> None:
        self._write_end(session, why)
        self._complete(session)

    def _write_end(self, session: Session, why: str) -> None:
        """Write the end of a run to its journal."""
        self._add_session_file(session)
        with _guard.protect("end the run of a session"):
            if (run := session.run) is not None:
                run.leave_document(lambda: time.monotonic() < self._until)
            session.recorder.annotate("ended_by_proxy", f"{why}; whether it succeeded is unknown")
            session.recorder.finalize()

    def _complete(self, session: Session) -> None:
        """Write the last document of a run, if there is time."""
        with _guard.protect("write the document of a session"):
            if (run := session.run) is not None and not run.close_files():
                self.incomplete += 1

    def end(self, exit_code: int | None = None, *, until: float = math.inf) -> None:
        """End all sessions because the proxy ends. `exit_code` is the exit code of the program, if there is one.

        Without a program, the ends of all runs are written to the journals, and then the documents, the smallest first.
        At the time `until`, by `time.monotonic`, no further document is written. Then `trace-recorder recover` writes
        it.
        """
        self._until = until
        sessions = [*self._open.values()]
        self._open.clear()
        if exit_code is None:
            for session in sessions:
                self._ender.submit(self._write_end, session, "as the proxy was stopped")
            for session in sorted(sessions, key=Session.journal_bytes):
                self._ender.submit(self._complete, session)
        else:
            for session in sessions:
                self._add_session_file(session)
                with _guard.protect("end the run of a program"):
                    session.recorder.finalize()
                    record_exit(session.recorder.trajectory_path, exit_code)
        self._beginner.shutdown()
        self._ender.shutdown()

    def _add_session_file(self, session: Session) -> None:
        if self._joins:
            with session.recorder._lifecycle.guard.protect("join the session file of the program"):
                metadata = dict(session.key.metadata)
                session_id = None
                if metadata.get("session_header") in SESSION_HEADERS:  # it has the program's own id
                    session_id = metadata["session_id"]
                join_session_file(session.recorder, session_id)


class _Conversations:
    """Finds the conversation whose last prompt is the beginning of a request's prompt."""

    def __init__(self) -> None:
        self._of_prompt: dict[bytes, str] = {}
        self._prompt_of: dict[str, bytes] = {}

    def of(self, digests: Sequence[bytes]) -> str:
        """Return the identity of the conversation that a prompt continues, and remember the prompt.

        `digests` has a digest of the prompt's first message, of its first two messages, and so on to all of them.
        """
        known = (self._of_prompt[digest] for digest in reversed(digests) if digest in self._of_prompt)
        identity = next(known, "") or os.urandom(8).hex()
        self.forget(identity)
        if digests:
            self._of_prompt[digests[-1]] = identity
            self._prompt_of[identity] = digests[-1]
        return identity

    def forget(self, identity: str) -> None:
        """Forget a conversation. After that, no request continues the conversation."""
        prompt = self._prompt_of.pop(identity, None)
        if prompt is not None and self._of_prompt.get(prompt) == identity:
            del self._of_prompt[prompt]


async def _prefix_digests(request: SessionRequest) -> list[bytes]:
    """Return a digest of the first message of a request, of its first two messages, and so on to all of them."""
    digests: list[bytes] = []

    def read() -> None:
        with _guard.protect("find the conversation of a request"):
            digest = b""
            for message in _messages(request.api, request.plain_body()):
                yield_to_others()
                digest = blake2b(digest + says_key(message), digest_size=16).digest()
                digests.append(digest)

    if request.may_be_long():
        await run_in_thread(read, "conversation")
    else:
        read()
    return digests


def _messages(api: str, body: bytes) -> Sequence[Message]:
    dialect = dialect_of(api)
    if dialect is None:
        return ()
    try:
        return dialect.read_request(json.loads(body)).messages
    except ours(ValueError, RecursionError):
        return ()


def _max_open_runs() -> int:
    """Return how many runs may be open at once. They use at most half of the descriptors that the process may open."""
    if os.name == "nt":
        return 1024
    import resource  # noqa: PLC0415 - Windows does not have it

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max((limit - _SPARE_DESCRIPTORS) // (2 * _DESCRIPTORS_OF_A_RUN), 8)
