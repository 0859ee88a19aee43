"""The executions of tools, as they are read: for which call each ran, what the model was told of it, where it stands.

A tool stands with the interaction that asked for it, or else with its agent's last one before it; where neither is
shown by a step, it stands in a step of its own (`tool_steps.py`). While a stream is open nobody knows for what it asks:
what ran, and what was brought back meanwhile, is looked at again at its end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from trace_recorder.derive.steps import OpenCalls, is_step
from trace_recorder.derive.tool_matching import Asking, MarkedStep, ToolUse
from trace_recorder.derive.tool_steps import ToolSteps
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import ToolCall, ToolResult


@dataclass(slots=True)
class During:
    """What came while a stream was open, for calls that nobody knows yet: a caller may go on before it has its end."""

    uses: dict[str, ToolUse] = field(default_factory=dict)
    results: list[tuple[Hashable, ToolResult]] = field(default_factory=list)


@dataclass(slots=True)
class Executions:
    """Is told of requests, responses and tools in the order of their records.

    `uses` are the executions that stand with each interaction, `answers` what the model was told of its calls, `steps`
    those that stand with none. `mark_of` is the step with a block of an interaction, `has_marks` whether the agent
    recorded any step itself. `changed` are the interactions of which there is more than when it was emptied last,
    `changed_marks` the steps with a block.
    """

    mark_of: dict[str, str] = field(default_factory=dict)
    has_marks: bool = False
    uses: dict[str, list[ToolUse]] = field(default_factory=dict)
    answers: dict[str, dict[str, ToolResult]] = field(default_factory=dict)
    steps: ToolSteps = field(default_factory=ToolSteps)
    changed: dict[str, None] = field(default_factory=dict)
    changed_marks: dict[str, None] = field(default_factory=dict)
    _open_calls: OpenCalls = field(default_factory=OpenCalls)
    _asking: Asking = field(default_factory=Asking)
    _running: dict[str, ToolUse] = field(default_factory=dict)
    _during: dict[str, During] = field(default_factory=dict)

    def begin(self, record: Record, mark: MarkedStep | None) -> None:
        """Hear of a record of a tool, before it is read; `mark` is the step with a block that it names."""
        identity = record.data["execution_id"]
        if mark is None and identity not in self._running:
            self.steps.begin(identity, record)

    def host(self, execution_id: str | None) -> None:
        """Take it that an agent was started in a tool that still runs."""
        use = self._running.get(execution_id or "")
        if use is not None:
            use.hosts = True

    def request(self, identity: str, agent: Hashable, results: Iterable[ToolResult], *, streams: bool) -> None:
        """Take what a request brings back from tools; `streams` is whether its answer is awaited piece by piece."""
        unclaimed = self._give(agent, results)
        for during in self._during.values():
            during.results += ((agent, result) for result in unclaimed)
        if streams:
            self._during[identity] = During()

    def ended(self, identity: str) -> During:
        """Hear that a response has ended; give what came while it was open."""
        return self._during.pop(identity, During())

    def response(self, one: LLMInteraction, since: int, late: During) -> None:
        """Take the calls of a response; what is `late` may have been asked for by it."""
        self._open_calls.ask(one.interaction_id, one.agent_id or one.agent, one.response.tool_calls)
        if is_step(one):
            self._asking.ask(one, since, self.mark_of.get(one.interaction_id))
            for use in late.uses.values():
                self._find_late(use, one.interaction_id)
            for agent, result in late.results:
                self._give(agent, [result])  # what nobody asked for waits with the other streams already

    def read(self, record: Record, mark: MarkedStep | None) -> None:
        """Read one record of a tool's execution, and find out for which call it was run."""
        identity = record.data["execution_id"]
        use = self._running.get(identity)
        if use is None:
            use = ToolUse(identity, record.seq, record.time, record.data, outside=self.steps.of(identity))
            self._running[identity] = use
            if mark is not None:
                mark.uses.append(use)
        if use.asker is None:
            self._asking.find(use)
            self._attach(use, use.after or self._last_before(use))
            for during in () if use.asker else self._during.values():
                during.uses[identity] = use
        if record.kind == "tool_result":
            use.ended = record.data
            del self._running[identity]
            if use.failed:
                self._asking.reopen(use)
        self._touch(use)

    def tell(self, calls: Iterable[ToolCall]) -> None:
        """Take the calls of a step that the agent tells as a whole."""
        self.steps.tell(calls)

    def leave(self, identity: str, agent: Hashable = None) -> During:
        """Take from an interaction that is not shown what stands with it; give it, for another that may have asked."""
        self._asking.answered(identity)
        uses = {use.identity: use for use in self.uses.pop(identity, ())}
        for use in uses.values():
            self._touch(use)
            use.asker = use.asked = use.after = None
            self._place(use)
        return During(uses, [(agent, result) for result in self.answers.pop(identity, {}).values()])

    def forget(self, identity: str, one: LLMInteraction | None) -> None:
        """Let go of an interaction: nothing more is to come of it."""
        for held in (self.answers, self.uses, self.mark_of, self._during):
            held.pop(identity, None)
        self._asking.answered(identity)
        if one is not None:
            self._open_calls.forget(identity, one.agent_id or one.agent, one.response.tool_calls)

    def shown_with(self, identity: str) -> Mapping[object, None]:
        """The steps, other than its own, that show something of an interaction: those in which its tools ran."""
        asked = [use for use in self.uses.get(identity, ()) if use.asker]
        return {use.begun.get("step_id") or use.outside: None for use in asked}

    def may_move(self, use: ToolUse) -> bool:
        """Whether a stream is open that may turn out to have asked for a tool."""
        return any(use.identity in during.uses for during in self._during.values())

    def _give(self, agent: Hashable, results: Iterable[ToolResult]) -> list[ToolResult]:
        """Give what a request brings back from tools to those who asked; return what nobody has asked for yet."""
        unclaimed = []
        for asker, result in self._open_calls.answer(agent, results):
            if asker is None:
                unclaimed.append(result)
                continue
            answers = self.answers.setdefault(asker, {})
            if result.call_id not in answers:
                answers[result.call_id] = result
                self._asking.answered(asker, result.call_id)
                self.steps.touch(self.uses.get(asker, ()))
                self.changed[asker] = None
        return unclaimed

    def _find_late(self, use: ToolUse, identity: str) -> None:
        """Find the call for which a tool ran before the end of the stream that may have asked for it."""
        if use.asker is None:
            self._asking.find(use)
            self._attach(use, identity if self._last_before(use) == identity else use.after)
            self._touch(use)

    def _touch(self, use: ToolUse) -> None:
        """Hear that there is more of a tool: what shows it has changed."""
        self.steps.touch([use])
        for shown in filter(None, (use.asker, use.after)):
            self.changed[shown] = None
        if "step_id" in use.begun:
            self.changed_marks[use.begun["step_id"]] = None

    def _attach(self, use: ToolUse, last: str | None) -> None:
        """Have it stand with the interaction that asked, or else with the last one of its agent."""
        before, use.after = use.after, use.asker or last
        if before is not None and before != use.after:
            self.changed[before] = None  # also where it was forgotten: there it is shown with the tool
            if before in self.uses:
                self.uses[before].remove(use)
        if before != use.after and use.after is not None:
            self.uses.setdefault(use.after, []).append(use)
        self._place(use)

    def _place(self, use: ToolUse) -> None:
        """Have a tool stand in a step of its own kind where no other step shows it."""
        elsewhere = use.asker in self.mark_of if self.has_marks else use.after is not None
        self.steps.keep(use, elsewhere=elsewhere)

    def _last_before(self, use: ToolUse) -> str | None:
        return None if "step_id" in use.begun else self._asking.newest(use)
