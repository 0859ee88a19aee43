"""opencode's sessions: the session's file in its storage, or what `opencode export` prints.

Source: `packages/opencode/src/session/message-v2.ts`. Next to `session/<project>/<session>.json` the storage has
`message/<session>/*.json` and `part/<message>/*.json` (older: `part/*.json`, which name their message). An assistant's
message is one call, or one for each of its `step-finish` parts. A summary begins the conversation anew. The session of
a sub-agent is a file, and a run, of its own, with `parent_id`. Token counts leave out cached tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, content_of, join_texts
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.run import Call, Conversation, Event, ForeignRun, Kept, Members, Missing, ToolRun
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.messages import without_none

_SPOKEN = {"text", "file", "reasoning", "tool", "step-start"}
_SUCCEEDED = {"completed": True, "success": True, "error": False}


def recognizes(source: Source) -> bool:
    """Whether the document is a session, or an exported one with its messages."""
    document = as_dict(source.document)
    return _is_session(document) or (_is_session(as_dict(document.get("info"))) and "messages" in document)


def _is_session(members: Members) -> bool:
    named = {"id", "directory", "version", "time"} <= members.keys() and ("projectID" in members or "title" in members)
    return named and "created" in as_dict(members["time"])


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a session."""
    document = as_dict(source.document)
    exported = "messages" in document
    session = as_dict(document["info"]) if exported else document
    reader = _Reader()
    storage = _Storage(source)
    messages = _exported(document) if exported else [*storage.messages(as_text(session.get("id")) or "")]
    messages.sort(key=_created)
    events = [*reader.events(messages), *storage.missing]
    time = as_dict(session.get("time"))
    yield ForeignRun(
        identity=as_text(session.get("id")) or source.path.name.removesuffix(".json"),
        events=events,
        task=reader.task,
        provider=reader.provider,
        model=reader.model,
        start_time=stated_time(time.get("created")),
        end_time=stated_time(time.get("updated")),
        source=without_none(
            version=session.get("version"),
            directory=session.get("directory"),
            title=session.get("title"),
            parent_id=session.get("parentID"),
        ),
    )


_Message = tuple[Members, list[Members]]
"""A message as it is stored, and its parts."""


def _created(message: _Message) -> float:
    return as_number(as_dict(message[0].get("time")).get("created")) or 0.0


def _exported(document: Members) -> list[_Message]:
    messages = (as_dict(one) for one in as_list(document.get("messages")))
    return [(as_dict(one.get("info")), [as_dict(part) for part in as_list(one.get("parts"))]) for one in messages]


@dataclass(slots=True)
class _Storage:
    """The files around a session's."""

    source: Source
    missing: list[Missing] = field(default_factory=list)

    def messages(self, session: str) -> Iterator[_Message]:
        """Yield the messages of a session with their parts, in the order of their files' names."""
        root = self.source.path.absolute().parent.parent.parent
        unsorted = self._by_message(root / "part")
        for path in _files(root / "message", session):
            message = self._object(path)
            identity = as_text(message.get("id")) or path.stem
            found = [self._object(part) for part in _files(root / "part", identity)]
            yield message, found or unsorted.get(identity, [])

    def _by_message(self, directory: Path) -> dict[str, list[Members]]:
        """Return the parts that are in no directory of a message, as the oldest storage has them."""
        found: dict[str, list[Members]] = {}
        for path in sorted(directory.glob("*.json")):
            part = self._object(path)
            found.setdefault(as_text(part.get("messageID")) or "", []).append(part)
        return found

    def _object(self, path: Path) -> Members:
        self.source.read_too.add(path)
        value = self.source.neighbour(path).document
        if not isinstance(value, dict):
            self.missing.append(Missing(what=path.name, why="it is no JSON object"))
        return as_dict(value)


def _files(directory: Path, name: str) -> list[Path]:
    """Return the files in a directory that a session names: none, if the name leads elsewhere."""
    if name in {"", ".", ".."} or "\x00" in name or Path(name).name != name or "\\" in name:
        return []
    return sorted((directory / name).glob("*.json"))


@dataclass(slots=True)
class _Reader:
    """Goes through the messages of a session."""

    conversation: Conversation = field(default_factory=Conversation)
    asked_to_summarize: Members | None = None
    task: str | None = None
    provider: str | None = None
    model: str | None = None

    def events(self, messages: list[_Message]) -> Iterator[Event]:
        systems = (join_texts(map(as_text, as_list(message.get("system"))), "\n\n") for message, _ in messages)
        if system := next(filter(None, systems), None):
            self.conversation.add({"role": "system", "content": system})
        for message, parts in messages:
            time = stated_time(as_dict(message.get("time")).get("created"))
            for part in parts:
                if as_text(part.get("type")) not in _SPOKEN:
                    yield Kept(what=f"part {part.get('type')}", value=part, time=time)
            if message.get("role") == "assistant":
                yield from self._answer(message, parts, time)
            elif message:
                self._question(message, parts)

    def _question(self, message: Members, parts: list[Members]) -> None:
        content = content_of([_seen(part) for part in parts if part.get("type") in ("text", "file")])
        self.task = self.task or (content if isinstance(content, str) else None)
        summary = {} if content else without_none(summary=message.get("summary"))
        said = {"role": "user", "content": content} | without_none(extra=summary or None)
        compacts = any(part.get("type") == "compaction" for part in parts)
        self.asked_to_summarize = said if compacts else None
        self.conversation.add(said)

    def _answer(self, message: Members, parts: list[Members], time: str) -> Iterator[Event]:
        named = as_dict(message.get("model"))
        provider = as_text(message.get("providerID")) or as_text(named.get("providerID"))
        model = as_text(message.get("modelID")) or as_text(named.get("modelID"))
        self.provider, self.model = self.provider or provider, self.model or model
        steps = _steps(message, parts)
        for number, (step, finish) in enumerate(steps):
            error = as_dict(message.get("error")) if number == len(steps) - 1 else {}
            call = _call(step, finish, error)
            call.time, call.provider, call.model = time if number == 0 else _began(step) or time, provider, model
            call.conversation, call.length = self.conversation, len(self.conversation)
            if number == 0 and len(steps) == 1:
                call.duration_seconds = _seconds(as_dict(message.get("time")), "created", "completed")
            yield call
            self.conversation.answer(as_dict(call.response))
            for part in step:
                if part.get("type") == "tool":
                    yield self._tool(part, call.time)
        if message.get("summary") is True:
            self._begin_anew()

    def _begin_anew(self) -> None:
        summary = self.conversation.own[-1]
        asked = self.asked_to_summarize
        self.conversation = Conversation()
        for said in filter(None, (asked, summary)):
            self.conversation.add(said)

    def _tool(self, part: Members, time: str) -> ToolRun:
        state = as_dict(part.get("state"))
        clock = as_dict(state.get("time"))
        status = as_text(state.get("status")) or ""
        success = _SUCCEEDED.get(status)
        error = as_text(state.get("error"))
        call_id, name = as_text(part.get("callID")) or "", as_text(part.get("tool")) or ""
        failed = None if success is None else {"is_error": not success}
        if success is not None:
            content = state.get("output") if error is None else error
            result = {"role": "tool", "content": content, "call_id": call_id, "name": name}
            self.conversation.add(result | without_none(extra=failed))
        return ToolRun(
            time=stated_time(clock.get("start")) or time,
            name=name,
            arguments=state.get("input"),
            call_id=call_id or None,
            ended=None if success is None else stated_time(clock.get("end")),
            success=success,
            result=state.get("output"),
            error=error,
            duration_seconds=_seconds(clock, "start", "end"),
        )


def _steps(message: Members, parts: list[Members]) -> list[tuple[list[Members], Members]]:
    """Return the parts of each call in a message, and what states its tokens: the end of the step, or the message."""
    found: list[tuple[list[Members], Members]] = []
    step: list[Members] = []
    for part in parts:
        step.append(part)
        if part.get("type") == "step-finish":
            found.append((step, part))
            step = []
    spoken = any(as_text(part.get("type")) in {"text", "tool", "reasoning"} for part in step)
    if spoken or not found:
        if len(found) == 1 and not any(part.get("type") == "step-start" for part in step):
            found[0][0].extend(step)  # what was said after the end of the only step
        else:
            found.append((step, message if not found else {}))
    if len(found) == 1:
        found = [(found[0][0], {**message, **found[0][1], "finish": found[0][1].get("reason", message.get("finish"))})]
    return found


def _call(step: list[Members], finish: Members, error: Members) -> Call:
    texts = [as_text(part.get("text")) for part in step if part.get("type") == "text"]
    thoughts = [as_text(part.get("text")) for part in step if part.get("type") == "reasoning"]
    calls = [
        {
            "call_id": as_text(part.get("callID")) or "",
            "name": as_text(part.get("tool")) or "",
            "arguments": as_dict(part.get("state")).get("input"),
        }
        for part in step
        if part.get("type") == "tool"
    ]
    said = without_none(
        content=join_texts(texts, "\n\n"),
        reasoning=join_texts(thoughts, "\n\n"),
        tool_calls=calls or None,
        finish_reason=as_text(finish.get("reason")) or as_text(finish.get("finish")),
        usage=_usage(finish) or None,
    )
    name = as_text(error.get("name"))
    failure = {"type": name or "error", "message": as_text(as_dict(error.get("data")).get("message")) or ""}
    spoken = bool(texts or thoughts or calls)
    return Call(
        time="",
        conversation=None,
        response=said if spoken or not error else None,
        error=failure if error and not spoken else None,
        complete=not error,
        ended_by=name if error and spoken else None,
    )


def _usage(stated: Members) -> Members:
    tokens, cost = as_dict(stated.get("tokens")), stated.get("cost")
    cache = as_dict(tokens.get("cache"))
    return without_none(
        input_tokens=as_int(tokens.get("input")),
        output_tokens=as_int(tokens.get("output")),
        reasoning_tokens=as_int(tokens.get("reasoning")),
        cache_read_input_tokens=as_int(cache.get("read")),
        cache_creation_input_tokens=as_int(cache.get("write")),
        cost=as_number(as_dict(cost).get("usd", cost)),
    )


def _seen(part: Members) -> Members:
    """Return a part of a user's message; an image in the form that most formats share."""
    url = as_text(part.get("url"))
    if part.get("type") == "file" and url is not None and (as_text(part.get("mime")) or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if part.get("type") == "text":
        return {"type": "text", "text": as_text(part.get("text")) or ""}
    return part


def _began(step: list[Members]) -> str:
    times = (as_dict(part.get("time")).get("start") for part in step)
    return stated_time(next((time for time in times if time), None))


def _seconds(clock: Members, start: str, end: str) -> float | None:
    begun, ended = as_number(clock.get(start)), as_number(clock.get(end))
    return None if begun is None or ended is None else (ended - begun) / 1000
