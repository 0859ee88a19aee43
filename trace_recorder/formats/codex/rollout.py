"""Reads the lines of one rollout. The items between two inputs of the model are the answer of one call.

Depending on Codex's version, the tokens of a call come before its items, after them, or after the results of its tools.
Tokens belong to the last answer of the turn if that answer has no tokens yet, and otherwise to the next answer. If no
answer follows, the tokens belong to a call whose answer is not in the file, such as the call of a compaction.

A `compacted` line begins a new conversation with the history that it states. After a rollback, the session continues on
a new branch of the conversation. If a rollout has no items, the events that show its messages are read as items.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_recorder.dialects import openai_responses
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text
from trace_recorder.dialects.split_messages import read_groups
from trace_recorder.formats.codex.outputs import (
    CompletedTools,
    TokenCounts,
    with_failure,
)
from trace_recorder.formats.codex.sub_agents import SPAWN, StartedAgent, agent_in_output, started_agent
from trace_recorder.formats.foreign_runs.agent_history import (
    AgentHistory,
    Position,
    first_text,
    given_by_another_session,
)
from trace_recorder.formats.foreign_runs.run import Call, ForeignAgent, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Line, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.values.messages import Message, Payload, Usage, without_none
from trace_recorder.values.structs import replace

BARE_ITEMS = {"message", "reasoning", "function_call", "function_call_output", "local_shell_call"}
"""The types of items that the oldest rollouts have as lines, without an envelope."""
_SOURCE_MEMBERS = (
    "cli_version",
    "originator",
    "cwd",
    "source",
    "git",
    "parent_thread_id",
    "forked_from_id",
    "history_base",
    "agent_nickname",
)
_INJECTED = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<permissions", "<turn_aborted>")
"""The beginnings of user messages that Codex itself wrote."""


@dataclass(slots=True)
class _RolloutAnswer:
    """The items of one answer so far."""

    time: str
    items: list[Payload] = field(default_factory=list)
    usage: Usage | None = None
    model: str | None = None
    parameters: Members = field(default_factory=dict)
    response_id: str | None = None


class RolloutReader(SessionReader):
    """A reader of one rollout. Its events are not yet among the events of the run."""

    def __init__(self, run: ForeignRun, agent: ForeignAgent) -> None:
        super().__init__(run, AgentHistory([], agent))
        self.started: dict[str, StartedAgent] = {}
        """The sub-agents that the session started, by the ids of their threads."""
        self.completed = CompletedTools()
        self._spawns: set[str | None] = set()
        """The ids of the tool calls that start sub-agents."""
        self._counts = TokenCounts()
        self._answer: _RolloutAnswer | None = None
        self._last: Call | None = None
        """The last answer of this turn, until its tokens are known."""
        self._next_usage: Usage | None = None
        self._turns: list[Position] = []
        self._context: Members = {}
        self._is_known = False

    def read_lines(self, lines: list[Line], facts: Members, inherited: list[Line | TimedFact]) -> None:
        """Read the rollout's own lines, after the lines that it inherits.

        If no line is an item, events are read as items.
        """
        inherited_lines = [line for line in inherited if isinstance(line, Line)]
        has_items = any(self._item(as_dict(line.value)) for line in (*inherited_lines, *lines))
        if inherited_lines:
            self._identify(facts, stated_time(facts.get("timestamp")))
            with given_by_another_session(self.run, self.history.events):
                self._read_each(inherited_lines, has_items)
            self.started.clear()
        self.history.events.extend(part for part in inherited if isinstance(part, TimedFact))
        self._read_each(lines, has_items)
        self.finish()

    def _read_each(self, lines: list[Line], has_items: bool) -> None:
        for members in session_lines(lines, self.history.events.append):
            time = stated_time(members.get("timestamp"))
            item = self._item(members)
            if not item and not has_items:
                item = _item_of_event(members)
            if item:
                self._read_item(item, time)
            if not item or members.get("type") == "event_msg":
                self._read_other(members, time)
                kinds = (members.get("type"), as_dict(members.get("payload")).get("type"))
                self.keep(" ".join(filter(None, map(as_text, kinds))) or "line", members, time)
        self._end_answers("")

    @staticmethod
    def _item(members: Members) -> Members:
        """Return the item of a line, or an empty object if the line has no item."""
        if members.get("type") == "response_item":
            item = as_dict(members.get("payload"))
            if item.get("type") != "ghost_snapshot":
                return item
        elif "payload" not in members and as_text(members.get("type")) in BARE_ITEMS:
            return members
        return {}

    def _read_item(self, item: Members, time: str) -> None:
        if _is_output(item):
            if self._answer is None:
                model = as_text(self._context.get("model"))
                parameters = without_none(effort=self._context.get("effort"))
                self._answer = _RolloutAnswer(time, [], self._next_usage, model, parameters)
                self._next_usage = None
            self._answer.items.append(item)
            if item.get("name") == SPAWN:
                self._spawns.add(as_text(item.get("call_id")))
            return
        self._close()
        if as_text(item.get("call_id")) in self._spawns and (agent := agent_in_output(item)) is not None:
            self.started.setdefault(agent.thread_id, agent)
        messages = openai_responses.read_message(item)
        if item.get("type") == "agent_message":
            extra = without_none(**{name: item.get(name) for name in ("type", "author", "recipient")})
            messages = [Message("user", as_list(item.get("content")) or None, extra=extra)]
        if any(message.role == "user" for message in messages):
            text = next((text for message in messages if (text := first_text(message.content))), "")
            if not text.startswith(_INJECTED):
                self._turns.append(self.history.position)
                self.note_task(text)
        self.history.add_all([with_failure(message) for message in messages], time)

    def _close(self) -> None:
        """Add the call that gave the open answer, if an answer is open."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        body = {"output": answer.items}
        response = openai_responses.read_response(body, self.history.made_up_ids)
        thoughts = [item for item in answer.items if as_dict(item).get("type") == "reasoning"]
        message = Message(
            "assistant",
            response.content,
            reasoning=response.reasoning,
            extra={"reasoning": thoughts} if thoughts else {},
        )
        call = self.history.call(
            answer.time,
            replace(response, id=answer.response_id, usage=answer.usage or Usage(), finish_reason=None),
            message,
        )
        call.model, call.provider, call.parameters = answer.model, self.run.provider, answer.parameters
        self._last = None
        if answer.usage is None:
            self._last = call
        self.note_model(answer.model)

    def _end_answers(self, time: str) -> None:
        """Close the open answer. Token counts that come later are not added to this answer or to earlier answers."""
        self._close()
        self._last = None
        usage, self._next_usage = self._next_usage, None
        if usage is not None:
            call = self.history.failed_call(time, None)
            call.response = {"usage": usage.to_document()}
            call.model, call.provider = as_text(self._context.get("model")), self.run.provider

    def _read_other(self, members: Members, time: str) -> None:
        payload = as_dict(members.get("payload"))
        kind = members.get("type")
        if kind == "session_meta" or (not self._is_known and "payload" not in members):
            self._identify(payload or members, time)
        elif kind == "turn_context":
            self._close()
            self._context = payload
        elif kind == "compacted":
            self._compact(payload, time)
        elif kind == "token_usage_record":
            if self._answer is not None:
                self._answer.response_id = as_text(payload.get("response_id"))
            self._add_usage(self._counts.read_record(payload), time)
        elif kind == "event_msg":
            self._read_event(payload, time)

    def _identify(self, meta: Members, time: str) -> None:
        """Set the facts of the session from its first line.

        A forked rollout also has the first line of its origin, which is ignored.
        """
        if self._is_known:
            return
        self._is_known = True
        self.note_identity(meta.get("id"))
        self.run.provider = as_text(meta.get("model_provider")) or self.run.provider
        self.run.session = as_text(meta.get("session_id"))
        self.run.parent = as_text(meta.get("forked_from_id")) or as_text(meta.get("parent_thread_id"))
        self.run.source |= without_none(**{name: meta.get(name) for name in _SOURCE_MEMBERS})
        if instructions := as_text(as_dict(meta.get("base_instructions")).get("text")):
            self.history.add(Message("system", instructions), time)

    def _compact(self, payload: Members, time: str) -> None:
        self._end_answers(time)
        self.history.restart()
        self._turns.clear()
        summary = as_text(payload.get("message"))
        items = as_list(payload.get("replacement_history"))
        for group in read_groups(items, openai_responses.read_message, openai_responses.MERGE_RULE):
            self.history.add_all(group.messages, time)
        if summary and not items:
            self.history.add(Message("user", summary), time)

    def _read_event(self, payload: Members, time: str) -> None:
        kind = as_text(payload.get("type")) or ""
        self.completed.read_event(payload)
        if (agent := started_agent(payload)) is not None:
            self.started.setdefault(agent.thread_id, agent)
        if kind == "token_count":
            self._add_usage(self._counts.read_event(payload), time)
        elif kind in {"error", "stream_error"}:
            self._read_error(payload, time, ends=kind == "error")
        elif kind == "thread_rolled_back":
            self._roll_back(as_int(payload.get("num_turns")) or 0)
        elif kind in {"task_started", "turn_started"}:
            self.run.status = "unknown"
        elif kind in {"task_complete", "turn_complete"}:
            self._end_turn(payload, time)
        elif kind == "turn_aborted":
            self._end_answers(time)
            self.run.status = "interrupted"

    def _add_usage(self, usage: Usage | None, time: str) -> None:
        """Give tokens to the last answer if that answer has none yet. Otherwise keep the tokens for the next answer."""
        if usage is None:
            return
        if self._answer is not None and self._answer.usage is None:
            self._answer.usage = usage
            self._close()
        elif self._last is not None and self._last.response is not None:
            self._last.response["usage"] = usage.to_document()  # even without counts, the usage is stated
            self._last = None
        else:
            if self._next_usage is not None:
                self._end_answers(time)
            self._next_usage = usage

    def _read_error(self, payload: Members, time: str, *, ends: bool) -> None:
        self._close()
        self._last = None
        inner = as_dict(payload.get("error"))
        text = as_text(payload.get("message")) or as_text(inner.get("message")) or ""
        kind = as_text(payload.get("codex_error_info")) or as_text(inner.get("kind")) or "error"
        call = self.history.failed_call(time, {"type": kind, "message": text})
        call.model, call.provider = as_text(self._context.get("model")), self.run.provider
        if ends:
            self.run.status, self.run.error = "failed", call.error

    def _roll_back(self, turns: int) -> None:
        self._close()
        self._last = None
        if 0 < turns <= len(self._turns):
            self.history.return_to(self._turns[-turns])
            del self._turns[-turns:]

    def _end_turn(self, payload: Members, time: str) -> None:
        self._end_answers(time)
        self.run.status, self.run.error = "completed", None
        if error := as_dict(payload.get("error")):
            message = as_text(error.get("message")) or ""
            self.run.status = "failed"
            self.run.error = {"type": as_text(error.get("codex_error_info")) or "error", "message": message}
        self.run.final_result = payload.get("last_agent_message")


def _is_output(item: Members) -> bool:
    """Return whether an item is a part of the model's answer."""
    kind = as_text(item.get("type")) or ""
    if kind == "message":
        return item.get("role") == "assistant"
    return kind == "reasoning" or kind.endswith("_call")


def _item_of_event(members: Members) -> Members:
    """Return the item that an event repeats, or an empty object if the event repeats no item."""
    if members.get("type") != "event_msg":
        return {}
    payload = as_dict(members.get("payload"))
    kind = as_text(payload.get("type"))
    if kind == "user_message":
        return {"type": "message", "role": "user", "content": as_text(payload.get("message"))}
    if kind == "agent_message":
        return {"type": "message", "role": "assistant", "content": as_text(payload.get("message"))}
    if kind == "agent_reasoning":
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": payload.get("text")}]}
    return {}
