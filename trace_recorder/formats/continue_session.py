"""Continue's sessions, `~/.continue/sessions/<id>.json`. `history` has the messages, each with its context and results.

Source: `core/index.d.ts` (`Session`, `ChatHistoryItem`) of Continue. Results of tools are in the `toolCallStates` of
the answer, or in separate messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, join_texts
from trace_recorder.dialects.openai_chat import read_message, read_usage
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, first_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import text_of
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import LLMResponse, Message, Usage, without_none
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import WHOLE

_NAMES = {"toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
_FAILED = {"errored": True, "done": False}
_READ = ("message", "toolCallStates", "reasoning", "contextItems", "editorState")


def recognizes(source: Source) -> bool:
    """Return whether the document is a session."""
    if source.head.lstrip()[:1] != b"{":
        return False
    document = as_dict(source.document)
    history = document.get("history")
    is_history = isinstance(history, list) and all(isinstance(as_dict(item).get("message"), dict) for item in history)
    return is_history and "sessionId" in document


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    document = as_dict(source.document)
    run = ForeignRun(
        identity=as_text(document.get("sessionId")) or source.path.name.partition(".")[0],
        model=as_text(document.get("chatModelTitle")),
        source=without_none(title=document.get("title"), directory=document.get("workspaceDirectory")),
    )
    items = [as_dict(item) for item in as_list(document.get("history"))]
    _ContinueSessionReader(run, _calls_with_result_messages(items)).read_all(items)
    if usage := as_dict(document.get("usage")):
        run.events.append(TimedFact.annotation(key="session_usage", value=usage))
    rest = {name: value for name, value in document.items() if name not in ("history", "sessionId", "usage")}
    run.events.append(TimedFact.unread(what="session", value=rest))
    yield run


def _calls_with_result_messages(items: list[Members]) -> set[str]:
    """Return the ids of the tool calls whose results are separate messages."""
    messages = (as_dict(item.get("message")) for item in items)
    return {call_id for message in messages if (call_id := as_text(message.get("toolCallId")))}


class _ContinueSessionReader:
    """Reads one session."""

    def __init__(self, run: ForeignRun, calls_with_result_messages: set[str]) -> None:
        self.run = run
        self.history = AgentHistory(run.events)
        self._calls_with_result_messages = calls_with_result_messages
        self._thoughts: list[str] = []

    def read_all(self, items: list[Members]) -> None:
        for number, item in enumerate(items, start=1):
            message = as_dict(item.get("message"))
            role = as_text(message.get("role"))
            if role is None:
                self.run.events.append(TimedFact.gap(what=f"item {number}", why="it has no message with a role"))
            elif role == "thinking":
                self._thoughts += [text for text in [text_of(message.get("content"))] if text]
            elif role == "assistant":
                self._read_answer(item, message)
            else:
                self._read_prompt(item, message)
            if rest := {name: value for name, value in item.items() if name not in _READ}:
                self.run.events.append(TimedFact.unread(what="item", value=rest))
        self.history.finish()

    def _read_prompt(self, item: Members, message: Members) -> None:
        context = as_list(item.get("contextItems"))
        for prompt in read_message(_chat_form(message)):
            extra = prompt.extra | ({"contextItems": context} if context and prompt.role == "user" else {})
            self.history.add(replace(prompt, extra=extra), "")
            if prompt.role == "user":
                self.run.task = self.run.task or first_text(prompt.content) or None

    def _read_answer(self, item: Members, message: Members) -> None:
        usage_members = Remaining(as_dict(message.get("usage")))
        model, cents = usage_members.text("model"), usage_members.number("cost_cents")
        usage = (
            replace(read_usage(usage_members), cost=None if cents is None else cents / 100)
            if message.get("usage")
            else Usage()
        )
        without_usage = {name: value for name, value in message.items() if name != "usage"}
        [answer, *_] = [*read_message(_chat_form(without_usage)), Message("assistant")]
        thought = join_texts([*self._thoughts, as_text(as_dict(item.get("reasoning")).get("text"))], "\n\n")
        self._thoughts = []
        response = LLMResponse(
            text_of(answer.content) or None,
            reasoning=thought or answer.reasoning,
            tool_calls=answer.tool_calls,
            usage=usage,
            model=model,
        )
        call = self.history.call("", response)
        call.model = model or self.run.model
        self.run.model = self.run.model or model
        for state in map(as_dict, as_list(item.get("toolCallStates"))):
            self._add_result(state)

    def _add_result(self, state: Members) -> None:
        call_id, status = as_text(state.get("toolCallId")), as_text(state.get("status"))
        outputs = [as_text(as_dict(output).get("content")) for output in as_list(state.get("output"))]
        if not outputs or call_id in self._calls_with_result_messages:
            return
        failed = _FAILED.get(status or "")
        name = as_text(as_dict(as_dict(state.get("toolCall")).get("function")).get("name"))
        extra: Members = {} if failed is None else {"is_error": failed}
        self.history.add(Message("tool", join_texts(outputs, "\n"), call_id=call_id, name=name, extra=extra), "")


def _chat_form(message: Members) -> Members:
    """Return a message in OpenAI's chat form. Continue uses other names for ids, tool calls and images."""
    named = {_NAMES.get(name, name): value for name, value in message.items()}
    if isinstance(content := named.get("content"), list):
        named["content"] = [
            {"type": "image_url", "image_url": part.get("imageUrl")}
            if as_dict(part).get("type") == "imageUrl"
            else part
            for part in content
        ]
    return named


FORMAT = Format(name="continue", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
