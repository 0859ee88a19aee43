"""The seam of the package `mcp`: records the messages between a client's session and its MCP server.

A `ClientSession` reads from one stream and writes to another, whatever carries the messages: stdio, SSE or streamable
HTTP. Both streams are wrapped before the session begins to read, by `wrap`, or by `instrument()` when a session is
made. Each message is passed on unchanged. The requests of HTTP below are not LLM calls, so no other seam records them.

A session often begins before the run and is used by many runs. So a session keeps the handshake with its server, which
tells the server's name, and writes it into each run before the first message there.

A server may ask the client to call a model (sampling). The client's callback does so in the task that reads the
session, or in a task that this task starts. In that context the server is a sub-agent of the tool, so the call is
recorded inside the tool. No message names the tool, so it must be the only one that the session has open.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

from trace_recorder.capture.event_loops import run_in_thread
from trace_recorder.capture.method_seams import ImportHook
from trace_recorder.capture.replaced_methods import ReplacedMethod
from trace_recorder.capture.seam import Binding, guard
from trace_recorder.errors import UnsupportedClientError
from trace_recorder.facts import JsonText, MCPDirection, MCPEndFact, MCPMessageFact, execution_of_call
from trace_recorder.recording.context import Agent, Caller, context_of, current_execution
from trace_recorder.recording.run import Run
from trace_recorder.values.messages import Payload, without_none

MODULE = "mcp.client.session"
_HANDSHAKE = ("initialize", "notifications/initialized", "server/discover")
_CALL, _SAMPLING = "tools/call", "sampling/createMessage"
MAX_OPEN_REQUESTS = 10_000
"""The runs of at most this many unanswered requests are remembered. The oldest are forgotten first."""
LARGE_MESSAGE = 256_000
"""A message of more characters is written by a thread, so that an event loop runs other tasks."""


@dataclass(frozen=True, slots=True)
class _Message:
    """A message that passes a session: its model, and the members that say what it is."""

    model: Any
    direction: MCPDirection

    @property
    def method(self) -> str | None:
        """The method of a request or a notification. None for an answer."""
        return getattr(self._body, "method", None)

    @property
    def id(self) -> Any:
        """The id of a request or an answer."""
        return getattr(self._body, "id", None)

    @property
    def result(self) -> Mapping[str, Any]:
        """The result in an answer, or an empty one."""
        result = getattr(self._body, "result", None)
        return result if isinstance(result, dict) else {}

    @property
    def _body(self) -> Any:
        return getattr(self.model, "root", self.model)  # `mcp` 1 has a model around the model

    def fact(self, connection_id: str, members: Mapping[str, Payload]) -> MCPMessageFact:
        """Return the fact of the message. `members` says where in the run it belongs."""
        text = JsonText(self._json())
        return MCPMessageFact(**members, connection_id=connection_id, direction=self.direction, message=text)

    def _json(self) -> str:
        """Return the message as `mcp` writes it to the wire."""
        is_first_version = self._body is not self.model
        without = "exclude_none" if is_first_version and self.direction == "sent" else "exclude_unset"
        text: str = self.model.model_dump_json(by_alias=True, **{without: True})
        return text

    def is_large(self) -> bool:
        """Whether the message is so long that writing it would hold up the event loop."""
        return _characters(getattr(self._body, "result", None) or getattr(self._body, "params", None)) > LARGE_MESSAGE


def _characters(value: Any, depth: int = 4) -> int:
    """Return about how long the texts in a value are, without looking deeper than MCP puts them."""
    if isinstance(value, str):
        return len(value)
    if depth == 0:
        return 0
    if isinstance(value, dict):
        return sum(_characters(each, depth - 1) for each in value.values())
    if isinstance(value, list):
        return sum(_characters(each, depth - 1) for each in value)
    return 0


@dataclass(slots=True)
class _InRun:
    """A session in one run: its id there, and how many messages of the handshake are on file."""

    connection_id: str
    written: int = 0


class _SentRequest(NamedTuple):
    """A request without an answer: its method, its run, and where in the run it was sent."""

    method: str
    run: Run
    caller: Caller


class SessionMessages:
    """Records the messages of one session, each in the run that it belongs to."""

    def __init__(self, binding: Binding) -> None:
        self.binding: Binding | None = binding
        self._handshake: list[_Message] = []
        self._asked: set[Any] = set()
        """The ids of the handshake's requests that have no answer yet."""
        self._in_runs: WeakKeyDictionary[Run, _InRun] = WeakKeyDictionary()
        self._open: dict[Any, _SentRequest] = {}
        """The requests that have no answer yet, by their ids."""
        self._newest: Run | None = None
        self._server_name = "MCP server"

    async def send(self, item: Any) -> None:
        """Record a message that is about to be sent."""
        write = None
        with guard.protect("record a message to an MCP server"):
            write = self._sent(_Message(getattr(item, "message", item), "sent"))
        await _do(write)

    async def receive(self, item: Any) -> None:
        """Record a message that was received."""
        write = None
        with guard.protect("record a message of an MCP server"):
            if not isinstance(item, Exception):  # a transport passes on its failures in this way
                write = self._received(_Message(getattr(item, "message", item), "received"))
        await _do(write)

    def end(self, why: str) -> None:
        """Record the end of the session in its runs."""
        in_runs, self._in_runs = self._in_runs, WeakKeyDictionary()
        for run, here in [*in_runs.items()]:
            with run.guard.protect("record the end of a connection to an MCP server"):
                if not run.closed:
                    run.append(MCPEndFact(connection_id=here.connection_id, ended_by=why), at_once=False, is_ours=True)
        self._open.clear()
        self._newest = None

    def sampling(self, item: Any) -> Agent | None:
        """Return the block in which a server's request for a call of a model is answered. None for other messages."""
        message, only = _Message(getattr(item, "message", item), "received"), self._only_call()
        if message.method != _SAMPLING or only is None:
            return None
        request_id, request = only
        here = self._in_runs.get(request.run)
        if here is None or request.run.closed:
            return None
        inside = request.caller.execution_id or execution_of_call(here.connection_id, request_id)
        return Agent(request.run, self._server_name, Caller(request.caller.members, inside))

    def _only_call(self) -> tuple[Any, _SentRequest] | None:
        """Return the only call of a tool that has no answer, with its id. None if there is another number of calls."""
        calls = [(identity, request) for identity, request in self._open.items() if request.method == _CALL]
        return calls[0] if len(calls) == 1 else None

    def _sent(self, message: _Message) -> _Write | None:
        if message.method in _HANDSHAKE:
            if message.id is not None:  # a notification has no answer
                self._asked.add(message.id)
            self._handshake.append(message)
        if self.binding is None:
            return None
        target = self.binding.target
        if message.method is None:
            run = self._newest
        elif message.method == _CALL:
            run = target.run_of_tool()
        else:
            run = target.run_in_progress()
        if run is None or run.closed:
            return None
        self._newest = run
        caller = Caller(context_of(run), current_execution(run))
        if message.method is not None and message.id is not None:
            while len(self._open) >= MAX_OPEN_REQUESTS:
                del self._open[next(iter(self._open))]
            self._open[message.id] = _SentRequest(message.method, run, caller)
        members = {**caller.members, **without_none(execution_id=caller.execution_id)}
        return _Write(message, run, partial(self._write, message, run, members))

    def _received(self, message: _Message) -> _Write | None:
        run = self._newest
        if message.method is None:
            if message.id in self._asked:
                self._asked.discard(message.id)
                self._handshake.append(message)
                information = message.result.get("serverInfo")
                if isinstance(information, dict):
                    self._server_name = str(information.get("name"))
            request = self._open.pop(message.id, None)
            run = None if request is None else request.run
        elif (only := self._only_call()) is not None:
            run = only[1].run
        if run is None or run.closed or self.binding is None:
            return None
        return _Write(message, run, partial(self._write, message, run, {}))

    def _write(self, message: _Message, run: Run, members: Mapping[str, Payload]) -> None:
        with run.guard.protect("record a message of an MCP server"):
            here = self._in_runs.get(run)
            if here is None:
                here = self._in_runs[run] = _InRun(run.next_id("mcp"))
            for shaken in self._handshake[here.written :]:
                here.written += 1
                run.append(shaken.fact(here.connection_id, {}), at_once=False)
            if not any(shaken is message for shaken in self._handshake):
                run.append(message.fact(here.connection_id, members), at_once=False)


class _Write(NamedTuple):
    """A message that is to be recorded in a run, and the function that does so."""

    message: _Message
    run: Run
    work: Callable[[], None]


async def _do(write: _Write | None) -> None:
    if write is None:
        return
    if write.message.is_large():
        await run_in_thread(write.work, "mcp")
    else:
        write.work()


# ── the streams of a session ─────────────────────────────────────────────────────────────────────────────────────────


class _Stream:
    """A stream of a session, with the recording around it."""

    def __init__(self, inner: Any, messages: SessionMessages) -> None:
        self.inner = inner
        self.messages = messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self.messages.end("the client closed it")
        closed: bool | None = await self.inner.__aexit__(kind, error, traceback)
        return closed


class RecordedReceiving(_Stream):
    """The stream from which a session reads.

    `mcp` 1 answers a request of the server before it reads the next message. So the block of a request is left then.
    `mcp` 2 answers in a task that it starts in `last_context`, or in a copy of the context of this task.
    """

    def __init__(self, inner: Any, messages: SessionMessages) -> None:
        super().__init__(inner, messages)
        self._context: Context | None = None
        self._block: Agent | None = None

    @property
    def last_context(self) -> Context | None:
        """The context of the task that sent the newest message, with the block of that message."""
        if self._context is not None:
            return self._context
        context: Context | None = self.inner.last_context
        return context

    async def receive(self) -> Any:
        """Return the next message of the server, after it was recorded."""
        self._leave()
        item = await self.inner.receive()
        await self.messages.receive(item)
        self._enter(item)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self._leave()
        try:
            item = await self.inner.__anext__()
        except StopAsyncIteration:
            self.messages.end("the server closed it")
            raise
        await self.messages.receive(item)
        self._enter(item)
        return item

    def _enter(self, item: Any) -> None:
        with guard.protect("record a call of a model inside a tool"):
            agent = self.messages.sampling(item)
            sender: Context | None = getattr(self.inner, "last_context", None)
            if agent is not None and sender is not None:
                self._context = sender.copy()
                self._context.run(agent.__enter__)
            elif agent is not None:
                self._block = agent.__enter__()

    def _leave(self) -> None:
        self._context = None
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)


class RecordedSending(_Stream):
    """The stream to which a session writes."""

    async def send(self, item: Any) -> None:
        """Record a message, and send it."""
        await self.messages.send(item)
        await self.inner.send(item)


# ── which sessions are recorded ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SessionSlot:
    """A session that has not begun to read. While it is bound to a recorder, its messages are recorded."""

    session: Any

    def binding(self) -> Binding | None:
        """Return the binding of the session, or None if it is not recorded."""
        messages = self._messages()
        return None if messages is None else messages.binding

    def bind(self, binding: Binding) -> None:
        """Record the messages of the session. Raises UnsupportedClientError if it has begun to read already."""
        messages = self._messages()
        if messages is not None:
            messages.binding = binding
            return
        if getattr(self.session, "_task_group", None) is not None:
            raise UnsupportedClientError(
                "wrap() was given a ClientSession that has begun to read. Wrap it before: "
                "`async with recorder.wrap(ClientSession(read, write)) as session:`, or call instrument() first."
            )
        messages, owner = SessionMessages(binding), self._owner()
        owner._read_stream = RecordedReceiving(owner._read_stream, messages)
        owner._write_stream = RecordedSending(owner._write_stream, messages)

    def restore(self) -> None:
        """Stop recording the session. Its streams stay as they are, because it may be reading from them."""
        messages = self._messages()
        if messages is not None:
            messages.binding = None

    def is_supported(self) -> bool:
        """Whether the session has the streams of the known versions, and is not connected to a server in process."""
        owner = self._owner()
        return hasattr(owner, "_read_stream") and hasattr(owner, "_write_stream")

    def _owner(self) -> Any:
        """Return the object that has the streams: the session, or its dispatcher in version 2."""
        return getattr(self.session, "_dispatcher", self.session)

    def _messages(self) -> SessionMessages | None:
        stream = getattr(self._owner(), "_read_stream", None)
        return stream.messages if isinstance(stream, RecordedReceiving) else None


def session_slots(client: object) -> Iterator[SessionSlot]:
    """Yield the slot of a client if it is a session of `mcp`."""
    if any(kind.__name__ == "ClientSession" and kind.__module__ == MODULE for kind in type(client).__mro__):
        slot = SessionSlot(client)
        if slot.is_supported():
            yield slot


class SessionPatch:
    """Records every session that is made, from `install` to `remove`. There is one instance."""

    def __init__(self) -> None:
        self._binding: Binding | None = None
        self._replaced: ReplacedMethod | None = None
        self._import_hook = ImportHook((MODULE,), self._patch)

    def install(self, binding: Binding) -> None:
        """Record the sessions that are made from now on. `mcp` is patched when the program imports it."""
        self._binding = binding
        module = sys.modules.get(MODULE)
        if module is not None:
            self._patch(module)
        if self._import_hook not in sys.meta_path:
            sys.meta_path.insert(0, self._import_hook)

    def remove(self) -> None:
        """Restore the original method. Sessions that exist are no longer recorded."""
        self._binding = None
        if self._import_hook in sys.meta_path:
            sys.meta_path.remove(self._import_hook)
        if self._replaced is not None:
            self._replaced.take_out()

    def _patch(self, module: ModuleType) -> None:
        with guard.protect("record the sessions of MCP servers"):
            if self._binding is not None:
                if self._replaced is None:
                    self._replaced = ReplacedMethod(module.ClientSession, "__init__", self._made)
                self._replaced.put()

    def _made(self, original: Any, session: Any, *arguments: Any, **keywords: Any) -> None:
        original(session, *arguments, **keywords)
        binding = self._binding
        if binding is not None:
            with guard.protect("record the session of an MCP server"):
                for slot in session_slots(session):
                    slot.bind(binding)


session_patch = SessionPatch()
