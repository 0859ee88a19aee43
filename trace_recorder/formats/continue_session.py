"""Continue's sessions, `~/.continue/sessions/<id>.json`. `history` has the messages, each with its context and results.

Source: `core/index.d.ts` (`Session`, `ChatHistoryItem`) of Continue. Results of tools are in the `toolCallStates` of
the answer, or in separate messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_list, as_text, join_texts
from trace_recorder.dialects.openai_chat import read_message, read_usage
from trace_recorder.formats.foreign_runs.agent_history import last_answer
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import joined_text
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import LLMResponse, Message, Payload, Usage, without_none
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import WHOLE

_NAMES = {"toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
_FAILED = {"errored": True, "done": False}
_READ = ("message", "toolCallStates", "reasoning", "contextItems", "editorState")


_SESSION, _ITEM = Signs(members=("sessionId",), lists=("history",)), Signs(objects=("message",))


def recognizes(source: Source) -> bool:
    """Return whether the document is a session."""
    return _SESSION.in_document(source) and all(map(_ITEM.match, as_dict(source.document)["history"]))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    document = as_dict(source.document)
    run = ForeignRun(
        identity=as_text(document.get("sessionId")) or source.path.name.partition(".")[0],
        model=as_text(document.get("chatModelTitle")),
        source=without_none(title=document.get("title"), directory=document.get("workspaceDirectory")),
    )
    items = [as_dict(item) for item in as_list(document.get("history"))]
    reader = _ContinueReader(run, items)
    for number, item in enumerate(items, start=1):
        reader.read_item(item, number)
    reader.finish()
    if usage := as_dict(document.get("usage")):
        reader.annotate("session_usage", usage)
    reader.keep_rest("session", document, "history", "sessionId", "usage")
    yield run


class _ContinueReader(SessionReader):
    """Reads one session, whose history has these items."""

    def __init__(self, run: ForeignRun, items: list[Members]) -> None:
        super().__init__(run)
        messages = (as_dict(item.get("message")) for item in items)
        self._with_result_messages = {as_text(message.get("toolCallId")) for message in messages} - {None, ""}
        """The ids of the tool calls whose results are separate messages."""
        self._thoughts: list[str] = []

    def read_item(self, item: Members, number: int) -> None:
        message = as_dict(item.get("message"))
        role = as_text(message.get("role"))
        if role is None:
            self.add_gap(f"item {number}", "it has no message with a role")
        elif role == "thinking":
            if text := joined_text(message.get("content")):
                self._thoughts.append(text)
        elif role == "assistant":
            self._read_answer(item, message)
        else:
            self._read_prompt(item, message)
        if rest := {name: value for name, value in item.items() if name not in _READ}:
            self.keep("item", rest)

    def _read_prompt(self, item: Members, message: Members) -> None:
        for prompt in read_message(_chat_form(message)):
            extra: Members = {}
            if prompt.role == "user":
                extra = without_none(contextItems=as_list(item.get("contextItems")) or None)
                self.note_task(prompt.content)
            self.history.add(replace(prompt, extra=prompt.extra | extra), "")

    def _read_answer(self, item: Members, message: Members) -> None:
        counts = Remaining(as_dict(message.get("usage")))
        model, cents = counts.text("model"), counts.number("cost_cents")
        usage = Usage()
        if message.get("usage"):
            usage = replace(read_usage(counts), cost=None if cents is None else cents / 100)
        without_usage = {name: value for name, value in message.items() if name != "usage"}
        answer = last_answer(read_message(_chat_form(without_usage))[:1])
        thought = join_texts([*self._thoughts, as_text(as_dict(item.get("reasoning")).get("text"))], "\n\n")
        self._thoughts = []
        response = LLMResponse(
            joined_text(answer.content) or None,
            reasoning=thought or answer.reasoning,
            tool_calls=answer.tool_calls,
            usage=usage,
            model=model,
        )
        call = self.history.call("", response)
        call.model = model or self.run.model
        self.note_model(model)
        for state in map(as_dict, as_list(item.get("toolCallStates"))):
            self._add_result(state)

    def _add_result(self, state: Members) -> None:
        call_id, status = as_text(state.get("toolCallId")), as_text(state.get("status"))
        outputs = [as_text(as_dict(output).get("content")) for output in as_list(state.get("output"))]
        if not outputs or call_id in self._with_result_messages:
            return
        name = as_text(as_dict(as_dict(state.get("toolCall")).get("function")).get("name"))
        extra = without_none(is_error=_FAILED.get(status or ""))
        self.history.add(Message("tool", join_texts(outputs, "\n"), call_id=call_id, name=name, extra=extra), "")


def _chat_form(message: Members) -> Members:
    """Return a message in OpenAI's chat form. Continue uses other names for ids, tool calls and images."""
    named = {_NAMES.get(name, name): value for name, value in message.items()}
    if isinstance(content := named.get("content"), list):
        named["content"] = [_chat_part(part) for part in content]
    return named


def _chat_part(part: Payload) -> Payload:
    if as_dict(part).get("type") == "imageUrl":
        return {"type": "image_url", "image_url": part.get("imageUrl")}
    return part


FORMAT = Format(
    name="continue",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="Continue", directory=".continue", files=("sessions/*.json",), variable="CONTINUE_GLOBAL_DIR"
        ),
    ),
)
