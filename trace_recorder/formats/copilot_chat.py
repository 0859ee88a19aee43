"""VS Code's chat sessions with Copilot: `chatSessions/*.json`, and `*.jsonl` from 2026 on.

A `*.json` has the session as one object. A `*.jsonl` begins with a line whose `v` is such an object. Each later line is
a change to it, or a new object.

Source: VS Code's `chatModel.ts` (`ISerializableChatData`) and the Copilot extension's `IResultMetadata`. A request has
the user's words. Its `result.metadata` has the message as it was sent, the rounds, and the results of tools by the ids
of their calls. A round is one answer of the model with its tool calls, so each round is a call to the model. A request
without rounds has only the texts and tools that the window showed, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import (
    Members,
    arguments_of,
    as_dict,
    as_int,
    as_list,
    as_text,
    content_of,
    join_texts,
    text_part,
)
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, TimedFact
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import first_known, joined_text, stated_time
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, Usage, without_none
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

INITIAL, _SET, _PUSH, _DELETE = range(4)


def is_initial(value: Payload) -> bool:
    """Return whether a line has the whole session as an object."""
    line = as_dict(value)
    return as_int(line.get("kind")) == INITIAL and isinstance(line.get("v"), dict)


def changed_object(lines: Iterable[Line], missing: list[TimedFact]) -> dict[str, Payload]:
    """Return the object after all changes.

    A change that cannot be made, or a line that cannot be read, becomes a gap in `missing`.
    """
    state: dict[str, Payload] = {}
    for line in lines:
        why = line.why
        if why is None and is_initial(line.value):
            state = as_dict(as_dict(line.value)["v"])
        elif why is None and not _apply(state, as_dict(line.value)):
            why = "it changes a member that does not exist"
        if why is not None:
            missing.append(TimedFact.gap(what=f"line {line.number}", why=why))
    return state


def _apply(state: dict[str, Payload], change: dict[str, Payload]) -> bool:
    """Make one change, and return whether that was possible. A path may have at most `MAX_DOCUMENT_DEPTH` parts."""
    kind, path = as_int(change.get("kind")), as_list(change.get("k"))
    if kind not in (_SET, _PUSH, _DELETE) or not 0 < len(path) <= MAX_DOCUMENT_DEPTH:
        return False
    parent: Payload = state
    for step in path[:-1]:
        parent = _member(parent, step)
    last = path[-1]
    if kind == _PUSH:
        return _push(parent, last, change)
    if isinstance(parent, dict) and isinstance(last, str):
        if kind == _SET:
            parent[last] = change.get("v")
        else:
            parent.pop(last, None)
        return True
    if isinstance(parent, list) and type(last) is int and 0 <= last < len(parent):
        parent[last] = change.get("v") if kind == _SET else None
        return True
    return False


def _push(parent: Payload, last: Payload, change: dict[str, Payload]) -> bool:
    values = _member(parent, last)
    if values is None and isinstance(parent, dict) and isinstance(last, str):
        values = parent[last] = []
    if not isinstance(values, list):
        return False
    keep = change.get("i")
    if type(keep) is int and keep >= 0:
        del values[keep:]
    values.extend(as_list(change.get("v")))
    return True


def _member(parent: Payload, step: Payload) -> Payload:
    if isinstance(parent, dict) and isinstance(step, str):
        return parent.get(step)
    if isinstance(parent, list) and type(step) is int and 0 <= step < len(parent):
        return parent[step]
    return None


_TEXT_NODE = 2


@dataclass(slots=True)
class ShownAnswer:
    """The parts of one answer that the window showed: texts and thoughts, then tools with their results."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[tuple[str, Payload]] = field(default_factory=list)


def sent_text(parts: Payload) -> str | None:
    """Return the texts of a message as it was sent, or None if the session lacks them.

    Parts that mark caches have no text.
    """
    return joined_text(parts, "\n") or None


def thought_of(thinking: Payload) -> str | None:
    """Return the text of thoughts, which may have several parts."""
    text = as_dict(thinking).get("text", as_dict(thinking).get("value"))
    return as_text(text) or join_texts(map(as_text, as_list(text)), "") or None


def call_of_round(value: Payload) -> ToolCall:
    """Read a tool call of a round."""
    members = Members(value)
    call_id, name = members.text("id") or "", members.text("name") or ""
    return ToolCall(call_id, name, arguments_of(members.take("arguments")), extra=members.rest())


def result_content(parts: Payload) -> str | list[Payload] | None:
    """Return the content of a tool's result.

    A part with a text, or with a tree of nodes, becomes a text part. Other parts are unchanged.
    """
    return content_of([_result_part(part) for part in as_list(parts)])


def _result_part(part: Payload) -> Payload:
    value = as_dict(part).get("value")
    if isinstance(value, str):
        return text_part(value)
    node = as_dict(value).get("node")
    if node is None:
        return part
    return text_part("".join(_texts(node)).removeprefix("\n"))


def _texts(node: Payload) -> Iterator[str]:
    members = as_dict(node)
    if members.get("lineBreakBefore") is True:
        yield "\n"
    if members.get("type") == _TEXT_NODE:
        yield as_text(members.get("text")) or ""
    for child in as_list(members.get("children")):
        yield from _texts(child)


def shown_answers(parts: list[Payload]) -> Iterator[ShownAnswer]:
    """Yield the parts of each answer that a window showed. A text or a thought after a tool begins the next answer."""
    shown = ShownAnswer()
    for part in parts:
        members = as_dict(part)
        kind = as_text(members.get("kind"))
        text = _shown_text(part, members, kind)
        if text and shown.calls:
            yield shown
            shown = ShownAnswer()
        if text:  # each part is masked by itself, because joined text may hide a secret
            texts = shown.thoughts if kind == "thinking" else shown.texts
            texts.append(default_redactor(text))
        elif kind in ("toolInvocationSerialized", "toolInvocation"):
            _add_tool(shown, members)
    if shown.texts or shown.thoughts or shown.calls:
        yield shown


def _shown_text(part: Payload, members: dict[str, Payload], kind: str | None) -> str | None:
    """Return the text of a Markdown part, a reference or thoughts. Return None for other parts."""
    if kind is None or kind in ("markdownContent", "markdownVuln"):
        content = members.get("content", members.get("value"))
        return as_text(part) or as_text(content) or as_text(as_dict(content).get("value"))
    if kind == "thinking":
        return thought_of(members)
    if kind == "inlineReference":
        reference = as_dict(members.get("inlineReference"))
        path = as_text(reference.get("path")) or as_text(as_dict(reference.get("uri")).get("path")) or ""
        return as_text(members.get("name")) or as_text(reference.get("name")) or path.rpartition("/")[2]
    return None


def _add_tool(shown: ShownAnswer, members: dict[str, Payload]) -> None:
    call_id = as_text(members.get("toolCallId")) or ""
    data = as_dict(members.get("toolSpecificData"))
    details = as_dict(members.get("resultDetails"))
    line = as_dict(data.get("commandLine"))
    arguments = details.get("input") or data.get("rawInput") or as_text(line.get("original")) or data.get("command")
    shown.calls.append(ToolCall(call_id, as_text(members.get("toolId")) or "", arguments_of(arguments)))
    if output := as_list(details.get("output")):
        shown.results.append((call_id, content_of([_result_part(part) for part in output])))


_NAMES = {"sessionId", "requesterUsername", "responderUsername", "creationDate", "initialLocation"}
_STATES: dict[Payload, Status] = {1: "completed", 2: "interrupted", 3: "failed"}
"""The status of a request by the number in its `modelState`.

Any other number gives "unknown", or "failed" if the request has an error.
"""


def recognizes(source: Source) -> bool:
    """Return whether the first line, or the document, is a session."""
    lines = source.first_lines
    if lines and is_initial(lines[0].value):
        return _is_session(as_dict(as_dict(lines[0].value)["v"]))
    return source.head.lstrip()[:1] == b"{" and _is_session(as_dict(source.document))


def _is_session(members: dict[str, Payload]) -> bool:
    requests = members.get("requests")
    is_list = isinstance(requests, list) and all("requestId" in as_dict(request) for request in requests)
    return is_list and bool(members.keys() & _NAMES)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    missing: list[TimedFact] = []
    if any(is_initial(line.value) for line in source.first_lines[:1]):
        session = changed_object(source.lines(), missing)
    else:
        session = as_dict(source.document)
    run = ForeignRun(
        identity=as_text(session.get("sessionId")) or source.path.name.partition(".")[0],
        start_time=stated_time(session.get("creationDate")),
        source=without_none(title=as_text(session.get("customTitle")), version=session.get("version")),
        events=[*missing],
    )
    reader = _CopilotChatReader(run)
    for number, request in reader.objects(session.get("requests"), "request"):
        reader.read_request(request, number)
    reader.finish()
    reader.keep_rest("session", session, "requests")
    yield run


def _unread_of_request(request: dict[str, Payload]) -> dict[str, Payload]:
    """Return the members of a request that no other event has.

    The models and the counts of the request stay, because its calls may state others.
    """
    rest = Members(request)
    rest.take("timestamp")
    rest.text("message")
    rest.nested("message").text("text")
    metadata = rest.nested("result").nested("metadata")
    for name in ("renderedGlobalContext", "renderedUserMessage"):
        if isinstance(parts := metadata.get(name), str | list):
            metadata[name] = [part for part in as_list(parts) if as_text(as_dict(part).get("text")) is None] or None
    _drop_read_rounds(metadata)
    return rest.rest()


def _drop_read_rounds(metadata: Members) -> None:
    """Remove the members of the rounds, and of the results of their tools, that other events have."""
    rounds = metadata.array("toolCallRounds")
    if not rounds:
        return
    metadata.take("summary")
    if any(unread_rounds := [*map(_unread_of_round, rounds)]):
        metadata["toolCallRounds"] = unread_rounds
    call_ids = {
        call_of_round(call).call_id for members in rounds for call in as_list(as_dict(members).get("toolCalls"))
    }
    unread: dict[str, Payload] = {}
    for key, result in metadata.object("toolCallResults").items():
        rest = result
        if key in call_ids:
            rest = _unread(result, "content")
        if rest:
            unread[key] = rest
    if unread:
        metadata["toolCallResults"] = unread


def _unread_of_round(value: Payload) -> Payload:
    if not isinstance(value, dict):
        return value
    read = {name for name, kind in (("response", str), ("toolCalls", list)) if isinstance(value.get(name), kind)}
    rest = _unread(value, "timestamp", "summary", "id", "usage", "thinking", *read)
    text = "text" if "text" in as_dict(value.get("thinking")) else "value"
    if thinking := _unread(value.get("thinking"), text):
        rest["thinking"] = thinking
    return rest


def _unread(value: Payload, *names: str) -> Payload:
    """Return an object without the members that have these names. Any other value is unchanged."""
    if not isinstance(value, dict):
        return value
    return {name: member for name, member in value.items() if name not in names}


class _CopilotChatReader(SessionReader):
    """Reads the requests of one session."""

    def read_request(self, request: dict[str, Payload], number: int) -> None:
        time = stated_time(request.get("timestamp"))
        result = as_dict(request.get("result"))
        metadata = as_dict(result.get("metadata"))
        if request.get("shouldBeRemovedOnSend") or request.get("isHidden"):
            self.keep("request", request, time)
            return  # the user removed the request, so later prompts do not have it
        self.keep("request", _unread_of_request(request), time)
        self._add_prompt(request.get("message"), metadata, time)
        model_id = default_redactor(as_text(request.get("modelId")) or "")  # masked first: a secret may have a "/"
        provider, _, model = model_id.rpartition("/")
        model = as_text(metadata.get("resolvedModel")) or model
        self.note_model(model or None)
        rounds = [as_dict(element) for element in as_list(metadata.get("toolCallRounds"))]
        if rounds:
            calls = [*self._rounds(rounds, metadata, time)]
        else:
            calls = [*self._shown(request.get("response"), time)]
        failure = as_dict(result.get("errorDetails"))
        if failure and not calls:
            calls.append(self.history.failed_call(time, None))
        for call in calls:
            call.provider, call.model = provider or None, model or None
        if failure:
            calls[-1].error = {"type": as_text(failure.get("code")) or "error", "message": failure.get("message")}
        self._set_usage(calls, result, number)
        self.run.status = _status_of(request, is_failed=bool(failure))  # so the run has the status of its last request

    def _add_prompt(self, message: Payload, metadata: dict[str, Payload], time: str) -> None:
        typed = as_text(message) or as_text(as_dict(message).get("text")) or ""
        self.note_task(typed)
        if context := sent_text(metadata.get("renderedGlobalContext")):
            self.history.add(Message("user", context), time)
        prompt = Message("user", typed)
        sent = sent_text(metadata.get("renderedUserMessage"))
        if sent and sent != typed:
            prompt = Message("user", sent, extra={"typed": typed})
        self.history.add(prompt, time)

    def _rounds(self, rounds: list[dict[str, Payload]], metadata: dict[str, Payload], time: str) -> Iterator[Call]:
        """Yield the call of each round, and add the results of its tools."""
        results = as_dict(metadata.get("toolCallResults"))
        time_of_round = time
        for members in rounds:
            response = LLMResponse(
                as_text(members.get("response")) or None,
                reasoning=thought_of(members.get("thinking")),
                tool_calls=tuple(map(call_of_round, as_list(members.get("toolCalls")))),
                usage=read_usage(members.get("usage")),
                id=as_text(members.get("id")),
            )
            yield self.history.call(stated_time(members.get("timestamp")) or time_of_round, response)
            time_of_round = ""  # only the first round is known to begin at the time of the request
            for call in response.tool_calls:
                if call.call_id in results:
                    content = result_content(as_dict(results[call.call_id]).get("content"))
                    self.history.add(Message("tool", content, call_id=call.call_id, name=call.name), "")
        for summary in [*(members.get("summary") for members in rounds), metadata.get("summary")]:
            if summary:
                self.keep("summary", summary, time)

    def _shown(self, parts: Payload, time: str) -> Iterator[Call]:
        """Yield the calls of a request without rounds, from the parts that the window showed."""
        for shown in shown_answers(parts if isinstance(parts, list) else [parts]):
            text, thought = "".join(shown.texts) or None, "".join(shown.thoughts) or None
            yield self.history.call(time, LLMResponse(text, reasoning=thought, tool_calls=tuple(shown.calls)))
            time = ""  # only the first answer is known to begin at the time of the request
            for call_id, content in shown.results:
                self.history.add(Message("tool", content, call_id=call_id), "")

    def _set_usage(self, calls: list[Call], result: dict[str, Payload], number: int) -> None:
        """Give the counts of a request to its call, unless the call states counts.

        If the request had no call, several, or one without a response, add the counts as an annotation of the run.
        """
        metadata, shown = as_dict(result.get("metadata")), Members(result.get("usage"))
        shown_input, shown_output = shown.integer("promptTokens"), shown.integer("completionTokens")
        usage = Usage(
            first_known(as_int(metadata.get("promptTokens")), shown_input),
            first_known(as_int(metadata.get("outputTokens")), shown_output),
            extra=shown.rest(),
        )
        counts = usage.to_document()
        if len(calls) == 1 and calls[0].response is not None:
            if not calls[0].response.get("usage"):
                calls[0].set_usage(counts)
        elif counts:
            self.annotate(f"usage_of_request_{number}", counts)


def _status_of(request: dict[str, Payload], *, is_failed: bool) -> Status:
    if request.get("isCanceled") is True:
        return "interrupted"
    state = as_dict(request.get("modelState")).get("value")
    if type(state) is int and state in _STATES:
        return _STATES[state]
    return "failed" if is_failed else "unknown"


FORMAT = Format(
    name="copilot-chat",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="Copilot Chat in VS Code",
            directory=".config/Code/User",
            files=(
                "workspaceStorage/*/chatSessions/*.json*",
                "globalStorage/emptyWindowChatSessions/*.json*",
            ),
        ),
        HomePlace(
            program="Copilot Chat in VS Code on macOS",
            directory="Library/Application Support/Code/User",
            files=(
                "workspaceStorage/*/chatSessions/*.json*",
                "globalStorage/emptyWindowChatSessions/*.json*",
            ),
        ),
    ),
)
