"""What an agent's loop marks itself, put together from its records: the tools that it ran, and its steps.

A tool that ran outside every other step stands in a `ToolStep`; which one that is, `tool_steps.py` says.

Which call of which response a tool was run for is told by the agent, or found: among the calls of the same agent that
nothing has answered yet, those of the same step first and the newest response first, the one with the same name and
arguments; else the only one of that name. A call whose tool failed may be tried again. What is found nowhere is of no
model: its call id is made up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep

Answers = Mapping[str, ToolResult]
"""The results of one interaction's tool calls, by call id."""


def agent_key(data: Mapping[str, Payload]) -> Hashable:
    """By what the records of one agent are known: its id, or where a run has only names, its name."""
    named = data.get("agent_id", data.get("agent"))
    return named if isinstance(named, str) else None


@dataclass(slots=True, eq=False)
class ToolUse:
    """One execution of a tool; `since` is the number of its first record, `time` when that was written.

    `asker` is the interaction whose response asked for it by `asked`, where one did; `after` the interaction with
    which it stands: the one that asked, or else the agent's last one before it. `outside` is the step in which it
    stands where it has no other place; None of one that ran in a step with a block. `hosts` is whether an agent was
    started in it.
    """

    identity: str
    since: int
    time: str
    begun: Mapping[str, Payload]
    ended: Mapping[str, Payload] | None = None
    asker: str | None = None
    asked: ToolCall | None = None
    after: str | None = None
    outside: ToolStep | None = None
    hosts: bool = False

    @property
    def name(self) -> str:
        """The name of the tool."""
        return as_text(self.begun.get("name")) or "unnamed"

    @property
    def failed(self) -> bool:
        """Whether it ended with an exception."""
        return self.ended is not None and self.ended.get("success") is False

    def call(self) -> ToolCall:
        """The call, as the model made it, or else as the tool got it."""
        if self.asked is not None:
            return self.asked
        stated = as_text(self.begun.get("call_id"))
        return ToolCall(stated or self.identity, self.name, self.begun.get("arguments", {}), stated is None)

    def result(self, answer: ToolResult | None) -> ToolResult | None:
        """What it gave; `answer` is what the model was told. While it runs, that is all there is."""
        if self.ended is None:
            return answer
        error, gave = self.ended.get("error"), self.ended.get("result")
        told = None if answer is None else answer.error if answer.result is None else answer.result
        return ToolResult(
            self.call().call_id,
            self.name,
            self.ended.get("success"),
            gave,
            f"{as_dict(error).get('type')}: {as_dict(error).get('message')}" if error else None,
            duration_seconds=self.ended.get("duration_seconds"),
            sent=None if told == gave else told,
            execution_id=self.identity if self.hosts else None,
        )


@dataclass(slots=True)
class _Asked:
    """The calls of one response that are not answered yet."""

    interaction_id: str
    since: int
    step: str | None
    calls: dict[str, ToolCall]


class Asking:
    """The tool calls for which a tool may still be run. It is told of everything in the order of the records."""

    def __init__(self) -> None:
        self._open: dict[Hashable, dict[str, _Asked]] = {}
        self._newest: dict[Hashable, str] = {}

    def ask(self, one: LLMInteraction, since: int, step: str | None) -> None:
        """Take the calls of an interaction's response; `since` is the number of the interaction's first record."""
        calls = one.response.tool_calls
        by_id = {call.call_id or f"#{number}": call for number, call in enumerate(calls)}
        key = one.agent_id or one.agent
        self._newest[key] = one.interaction_id
        if by_id:
            self._open.setdefault(key, {})[one.interaction_id] = _Asked(one.interaction_id, since, step, by_id)

    def answered(self, interaction_id: str, call_id: str | None = None) -> None:
        """Hear that the model was told of a call's result; or of all results, where no call is named."""
        for agent, asked in list(self._open.items()):
            if interaction_id in asked:
                if call_id is not None:
                    asked[interaction_id].calls.pop(call_id, None)
                if call_id is None or not asked[interaction_id].calls:
                    del asked[interaction_id]
                if not asked:
                    del self._open[agent]

    def find(self, use: ToolUse) -> None:
        """Find the call for which a tool is run: it is taken then."""
        found = self._stated(use) if "call_id" in use.begun else self._same(use)
        if found is not None:
            asked, key = found
            use.asker, use.asked = asked.interaction_id, asked.calls.pop(key)

    def reopen(self, use: ToolUse) -> None:
        """Hear that it failed: the same call may be tried again, until it is answered."""
        asked = self._open.get(agent_key(use.begun), {}).get(use.asker or "")
        if asked is not None and use.asked is not None:
            asked.calls[use.asked.call_id] = use.asked

    def newest(self, use: ToolUse) -> str | None:
        """The last interaction of the agent that runs a tool."""
        return self._newest.get(agent_key(use.begun))

    def _stated(self, use: ToolUse) -> tuple[_Asked, str] | None:
        key = use.begun["call_id"]
        own = self._asked(use)
        others = [asked for of_agent in self._open.values() for asked in reversed(of_agent.values())]
        return next(((asked, key) for asked in (*own, *others) if key in asked.calls), None)

    def _same(self, use: ToolUse) -> tuple[_Asked, str] | None:
        arguments = use.begun.get("arguments")
        named = [
            (asked, key) for asked in self._asked(use) for key, call in asked.calls.items() if call.name == use.name
        ]
        for asked, key in named:
            if asked.calls[key].arguments == arguments:
                return asked, key
        return named[0] if len(named) == 1 else None

    def _asked(self, use: ToolUse) -> Iterator[_Asked]:
        of_agent = reversed(self._open.get(agent_key(use.begun), {}).values())
        newest_first = [asked for asked in of_agent if asked.since < use.since]
        step = use.begun.get("step_id")
        return iter(sorted(newest_first, key=lambda asked: asked.step != step))


def tools_in(
    interactions: Iterable[LLMInteraction], answers: Mapping[str, Answers], uses: Iterable[ToolUse]
) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
    """The tool calls of some interactions and executions, each once, and the results that are known of them."""
    calls: dict[tuple[str, str], tuple[ToolCall, ToolResult | None]] = {}
    for one in interactions:
        for number, call in enumerate(one.response.tool_calls):
            answer = answers.get(one.interaction_id, {}).get(call.call_id)
            calls[one.interaction_id, call.call_id or f"#{number}"] = call, answer
    for use in uses:
        call = use.call()
        key = (use.asker, call.call_id) if use.asker else ("", use.identity)
        calls[key] = call, use.result(answers.get(use.asker or "", {}).get(call.call_id))
    results = (result for _, result in calls.values() if result is not None)
    return tuple(call for call, _ in calls.values()), tuple(results)


@dataclass(slots=True, eq=False)
class MarkedStep:
    """A step that the agent recorded: what was told of it, and, of one with a block, what was inside.

    `identity` is None of a step that was told as a whole, without a block. `since` is the number of its first record.
    """

    told: AgentStep
    since: int
    identity: str | None = None
    closed: bool = True
    interactions: list[str] = field(default_factory=list)
    uses: list[ToolUse] = field(default_factory=list)

    @classmethod
    def begun(cls, record: Record) -> MarkedStep:
        """A step with a block, by the first record that names it."""
        data = record.data
        of_agent: Payload = {name: data.get(name) for name in ("agent", "agent_id", "parent_agent_id")}
        told = AgentStep(data["step_number"], record.time, "", **of_agent)
        return cls(told, record.seq, data["step_id"], closed=False)

    def tell(self, given: AgentStep) -> None:
        """Take what is told of it: what is given stands in the place of what was told, or gathered, before."""
        said = ("state", "messages", "llm_response", "tool_calls", "tool_results", "reflection", "error")
        members = {name: getattr(given, name) for name in (*said, "duration_seconds")}
        self.told = replace(self.told, **{name: value for name, value in members.items() if value not in (None, ())})
        self.closed = self.closed or given.duration_seconds is not None

    def waits(self) -> bool:
        """Whether its block is open, or a tool runs that was called in it."""
        return not self.closed or any(use.ended is None for use in self.uses)

    def needs(self) -> set[str]:
        """The ids of the interactions of which it shows something."""
        return {*self.interactions, *(use.asker for use in self.uses if use.asker)}

    def step(
        self, inside: Sequence[LLMInteraction], answers: Mapping[str, Answers], uses: Iterable[ToolUse]
    ) -> AgentStep:
        """The step; `inside` are its interactions, `uses` the executions of tools for which these asked."""
        if self.identity is None:
            return self.told
        told = self.told
        own = [one for one in inside if one.agent_id == told.agent_id] or inside
        last = own[-1] if own else None
        calls, results = tools_in(inside, answers, {use.identity: use for use in (*uses, *self.uses)}.values())
        step = replace(
            told,
            llm_response=told.llm_response or (last.response if last and last.answered else None),
            tool_calls=told.tool_calls or calls,
            tool_results=told.tool_results or results,
            interaction=last,
            interaction_ids=tuple(one.interaction_id for one in inside),
        )
        return replace(step, state=step.state or self._state(step))

    def _state(self, step: AgentStep) -> str:
        if step.error is not None:
            return "error"
        if not self.closed:
            return "thinking"
        return "calling_tool" if step.tool_calls else "completed"


@dataclass(slots=True, eq=False)
class ToolStep:
    """What one agent ran outside every other step; `begun` is the number of the first record of such a tool.

    Where it stands among the other steps `since` says, the number of the first record of what had no other place when
    it ran. `closed` is whether nothing more joins it, `placed` how many ran there, wherever they stand now, `settled`
    whether it has been let go of.
    """

    begun: int
    about: Mapping[str, Payload]
    since: int = 0
    uses: dict[str, ToolUse] = field(default_factory=dict)
    placed: int = 0
    closed: bool = False
    settled: bool = False

    @property
    def identity(self) -> str:
        """By what it is known in its run."""
        return f"tools {self.begun}"

    def waits(self) -> bool:
        """Whether more may come of it."""
        return not self.closed or any(use.ended is None for use in self.uses.values())

    def needs(self) -> set[str]:
        """The ids of the interactions of which it shows something."""
        return {use.asker for use in self.uses.values() if use.asker}

    def step(self, number: int, answers: Mapping[str, Answers]) -> AgentStep:
        """The step, in which something stands; it is an error where the last of its tools failed."""
        uses = sorted(self.uses.values(), key=attrgetter("since"))
        calls, results = tools_in((), answers, uses)
        failed = results[-1].error if uses[-1].failed else None
        about: Payload = {name: self.about.get(name) for name in ("agent", "agent_id", "parent_agent_id")}
        return AgentStep(
            step_number=number,
            timestamp=uses[0].time,
            state="error" if uses[-1].failed else "calling_tool",
            tool_calls=calls,
            tool_results=results,
            error=failed,
            **about,
            derived=True,
        )
