"""A chat session of VS Code as a run: each round of a request is a call.

Source: VS Code's `chatModel.ts` (`ISerializableChatData`) and the Copilot extension's `IResultMetadata`. A request has
the user's words. Its `result.metadata` has the message as it was sent, the rounds of tool calls, and the results by the
ids of the calls. A request without rounds has only the texts and tools that the window showed, in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.imports.foreign.agent_history import AgentHistory
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.copilot_chat.changes import changed_object, is_initial
from trace_recorder.imports.foreign.copilot_chat.parts import rendered, result_content, shown_in, thought_of, tool_call
from trace_recorder.imports.foreign.run import Annotation, Call, ForeignRun, Kept, Members, Missing
from trace_recorder.imports.foreign.source import Source
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage, without_none
from trace_recorder.values.trajectory import Status

_NAMES = {"sessionId", "requesterUsername", "responderUsername", "creationDate", "initialLocation"}
_STATES: dict[Payload, Status] = {1: "completed", 2: "interrupted", 3: "failed"}
"""How a request ended, by the number in its `modelState`. Others wait."""
_READ = {"message", "result", "requestId", "timestamp", "modelId"}


def recognizes(source: Source) -> bool:
    """Whether the first line, or the document, is such a session."""
    lines = source.first_lines
    if lines and is_initial(lines[0].value):
        return _is_session(as_dict(as_dict(lines[0].value)["v"]))
    return source.head.lstrip()[:1] == b"{" and _is_session(as_dict(source.document))


def _is_session(members: Members) -> bool:
    requests = members.get("requests")
    is_list = isinstance(requests, list) and all("requestId" in as_dict(request) for request in requests)
    return is_list and bool(members.keys() & _NAMES)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one session of a file."""
    missing: list[Missing] = []
    lines = source.first_lines
    is_log = bool(lines) and is_initial(lines[0].value)
    session = changed_object(source.lines(), missing) if is_log else as_dict(source.document)
    run = ForeignRun(
        identity=as_text(session.get("sessionId")) or source.path.name.partition(".")[0],
        start_time=stated_time(session.get("creationDate")),
        source=without_none(title=as_text(session.get("customTitle")), version=session.get("version")),
        events=[*missing],
    )
    history = AgentHistory(run.events)
    for number, request in enumerate(as_list(session.get("requests")), start=1):
        if isinstance(request, dict):
            _read_request(run, history, request, number)
        else:
            run.events.append(Missing(what=f"request {number}", why="it is no object"))
    history.finish()
    run.events.append(Kept(what="session", value={k: v for k, v in session.items() if k != "requests"}))
    yield run


def _read_request(run: ForeignRun, history: AgentHistory, request: Members, number: int) -> None:
    time = stated_time(request.get("timestamp"))
    result = as_dict(request.get("result"))
    metadata = as_dict(result.get("metadata"))
    rest = {name: value for name, value in request.items() if name not in _READ}
    rest["result"] = {name: value for name, value in result.items() if name != "metadata"}
    run.events.append(Kept(what="request", value=rest, time=time))
    if request.get("shouldBeRemovedOnSend") or request.get("isHidden"):
        return  # the user took it back: later prompts do not have it
    _add_prompt(run, history, request, metadata)
    provider, _, model = default_redactor(as_text(request.get("modelId")) or "").rpartition("/")  # a key may have a "/"
    model = as_text(metadata.get("resolvedModel")) or model
    run.model = run.model or model or None
    rounds = [as_dict(one) for one in as_list(metadata.get("toolCallRounds"))]
    calls = [*(_rounds(history, rounds, metadata, time) if rounds else _shown(history, request, time))]
    failure = as_dict(result.get("errorDetails"))
    if failure and not calls:
        calls.append(history.failed_call(time, None))
    for call in calls:
        call.provider, call.model = provider or None, model or None
    if failure:
        calls[-1].error = {"type": as_text(failure.get("code")) or "error", "message": failure.get("message")}
    _set_usage(run, calls, result, metadata, number)
    _end(run, request, bool(failure))


def _add_prompt(run: ForeignRun, history: AgentHistory, request: Members, metadata: Members) -> None:
    time, message = stated_time(request.get("timestamp")), request.get("message")
    typed = as_text(message) or as_text(as_dict(message).get("text")) or ""
    run.task = run.task or typed or None
    if context := rendered(metadata.get("renderedGlobalContext")):
        history.add(Message("user", context), time)
    sent = rendered(metadata.get("renderedUserMessage"))
    history.add(Message("user", sent or typed, extra={"typed": typed} if sent and sent != typed else {}), time)


def _rounds(history: AgentHistory, rounds: list[Members], metadata: Members, time: str) -> Iterator[Call]:
    """Yield the call of each round, and add the results of its tools."""
    results = as_dict(metadata.get("toolCallResults"))
    for number, members in enumerate(rounds):
        response = LLMResponse(
            as_text(members.get("response")) or None,
            reasoning=thought_of(members.get("thinking")),
            tool_calls=tuple(map(tool_call, as_list(members.get("toolCalls")))),
            usage=read_usage(members.get("usage")),
            id=as_text(members.get("id")),
        )
        yield history.call(stated_time(members.get("timestamp")) or (time if number == 0 else ""), response)
        for call in response.tool_calls:
            if call.call_id in results:
                content = result_content(as_dict(results[call.call_id]).get("content"))
                history.add(Message("tool", content, call_id=call.call_id, name=call.name), "")
    summaries = [members["summary"] for members in rounds if "summary" in members] + [metadata.get("summary")]
    history.events.extend(Kept(what="summary", value=summary, time=time) for summary in summaries if summary)


def _shown(history: AgentHistory, request: Members, time: str) -> Iterator[Call]:
    """Yield the calls that are known only as the window showed them."""
    response = request.get("response")
    for number, shown in enumerate(shown_in(response if isinstance(response, list) else [response])):
        text, thought = "".join(shown.texts) or None, "".join(shown.thoughts) or None
        yield history.call(
            time if number == 0 else "", LLMResponse(text, reasoning=thought, tool_calls=tuple(shown.calls))
        )
        for call_id, content in shown.results:
            history.add(Message("tool", content, call_id=call_id), "")


def _set_usage(run: ForeignRun, calls: list[Call], result: Members, metadata: Members, number: int) -> None:
    """Give the counts of a request to its call. If it had several calls, the counts are an annotation of the run."""
    shown, exact = Remaining(as_dict(result.get("usage"))), Remaining(metadata)
    shown_input, shown_output = shown.integer("promptTokens"), shown.integer("completionTokens")
    sent, answered = exact.integer("promptTokens"), exact.integer("outputTokens")
    input_tokens = shown_input if sent is None else sent
    output_tokens = shown_output if answered is None else answered
    usage = Usage(input_tokens, output_tokens, extra=shown.rest())
    if not (counts := usage.to_document()):
        return
    if len(calls) == 1 and calls[0].response is not None:
        if not calls[0].response.get("usage"):
            calls[0].response["usage"] = counts
    else:
        run.events.append(Annotation(key=f"usage_of_request_{number}", value=counts))


def _end(run: ForeignRun, request: Members, is_failed: bool) -> None:
    """Say how the run ended: as its last request did."""
    state = as_dict(request.get("modelState")).get("value")
    number = state if type(state) is int else None
    run.status = _STATES.get(number, "failed" if is_failed else "unknown")
    if request.get("isCanceled") is True:
        run.status = "interrupted"
