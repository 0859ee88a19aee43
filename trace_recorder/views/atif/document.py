"""ATIF v1.7, the Agent Trajectory Interchange Format (https://www.harborframework.com/docs/trajectory-format).

A run whose history was rewritten is written in two ways: `to_atif` puts what came after behind what was before, with
the messages that stayed as copied context; `atif_documents` gives a document for each, linked by
`continued_trajectory_ref`, as tools that make training data of them expect. Sub-agents, and conversations that have
nothing in common with the others, are `subagent_trajectories`. Costs are those that providers stated, never estimates.
A run that was read from such documents has all their members back (`extra_members.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.imports.atif.extra_members import KEPT, UNKNOWN_VERSION, kept_in, totals, with_costs
from trace_recorder.values.messages import Payload, Tool, without_none
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.atif.agents import Host, hosts_of
from trace_recorder.views.atif.steps import Images, Steps
from trace_recorder.views.content.kinds import THOUGHTS
from trace_recorder.views.content.openai_functions import built_in, function_of, is_function
from trace_recorder.views.conversations.call_chains import agent_of, turns_of
from trace_recorder.views.conversations.lines import Conversation, conversations, steps_by_turn
from trace_recorder.views.left_out import EMBEDDINGS, Carries, Statement, count, count_contents

SCHEMA_VERSION = "ATIF-v1.7"
_SHOWN = Carries.of(places=("part", "images"))
_CARRIED: Statement = {
    "instructions": _SHOWN,
    "questions": _SHOWN,
    "tool results": _SHOWN,
    "answers": Carries.of(THOUGHTS, places=("part", "images")),
}
"""Images, and other parts as text. What an answer holds beside its text is in `extra`."""


def to_atif(
    trajectory: Trajectory, images_directory: Path | None = None, *, dropped: Counter[str] | None = None
) -> dict[str, Payload]:
    """Give a run as one ATIF document.

    Images are written into `images_directory`, and named relative to the directory that holds it. What cannot be
    carried is counted in `dropped`. Raises EmptyTrajectoryError where there is not even a task.
    """
    writing = _Writing(trajectory, images_directory, dropped)
    return writing.document(writing.mains, 0)


def atif_documents(
    trajectory: Trajectory,
    name: str,
    images_directory: Path | None = None,
    *,
    dropped: Counter[str] | None = None,
) -> Iterator[tuple[str, dict[str, Payload]]]:
    """Give a run as ATIF documents with the names of their files: one, and one more for each rewritten history.

    `name` is that of the first file; the others are called after it. Raises EmptyTrajectoryError.
    """
    writing = _Writing(trajectory, images_directory, dropped)
    files = [name, *(f"{name.removesuffix('.json')}.cont-{number}.json" for number in range(1, len(writing.mains)))]
    for number, file in enumerate(files):
        document = writing.document(writing.mains[number : number + 1], number)
        following = files[number + 1 : number + 2]
        yield file, _ordered({**document, **without_none(continued_trajectory_ref=following[0] if following else None)})


class _Writing:
    """What all documents of a run need."""

    def __init__(self, trajectory: Trajectory, images_directory: Path | None, dropped: Counter[str] | None) -> None:
        self.trajectory = trajectory
        counter: Counter[str] = Counter() if dropped is None else dropped
        count(trajectory, counter, EMBEDDINGS)
        self._images = Images(images_directory, counter)
        turns = turns_of(trajectory)
        count_contents(turns, counter, _CARRIED)
        self._told = steps_by_turn(trajectory, turns)
        self._kept = kept_in(trajectory.metadata)
        self._identity = trajectory.trajectory_id or "trajectory"
        agents = [agent_of(turn.interaction) for turn in turns]
        found = conversations(turns)
        main = None if None in agents or not agents else agents[0]
        self.mains = [one for one in found if one.of == main and one.kind != "apart"]
        others = [one for one in found if one not in self.mains]
        self._places = {one: place for place, one in enumerate(others, start=1)}
        self._hosts = hosts_of(others, self.mains, turns, self._told.steps)
        self._tools = self._told.unasked.get(None, [])
        if not turns and not self._tools and not trajectory.task:
            raise EmptyTrajectoryError(
                f"trajectory {self._identity} has no calls, no steps and no task: ATIF needs at least one step"
            )

    def document(self, mains: Sequence[Conversation], number: int) -> dict[str, Payload]:
        """Write a document of these conversations of the main agent, with the sub-agents that ran meanwhile."""
        kept = self._kept if number == 0 else {}
        steps = self._steps(mains)
        subs = self._subs(mains, steps, orphans=number == 0)
        if mains[-1:] == self.mains[-1:]:
            steps.add_kept(self._kept.get("steps", ()))
        if not steps.steps:
            task = {"step_id": 1, "source": "user", "message": self.trajectory.task}
            steps.steps.append(without_none(**task, timestamp=self.trajectory.start_time))
        document = self._root(f"{self._identity}/{number}" if number else self._identity, mains, steps, kept)
        about = ({} if number else self._about()) | kept.get("extra", {})
        return _with_subs(document | without_none(extra=about or None), subs, kept)

    def _steps(self, of: Sequence[Conversation]) -> Steps:
        steps = Steps(self._images, self._told)
        for conversation in of:
            steps.add(conversation)
        steps.add_tools(tool for tool in self._tools if (self._host_of(tool) in of if of else not self.mains))
        return steps

    def _host_of(self, tools: AgentStep) -> Conversation | None:
        """The conversation in whose time tools ran: of their agent where it has one, else of the main agent."""
        own = [one for one in (*self.mains, *self._places) if one.of == agent_of(tools)] or self.mains
        begun = [one for one in own if one.turns[0].interaction.timestamp <= tools.timestamp]
        return next(reversed(begun), own[0] if own else None)

    def _subs(self, of: Sequence[Conversation], steps: Steps, *, orphans: bool = False) -> list[dict[str, Payload]]:
        """Write the trajectories of the agents that began in the time of these conversations, and refer to them."""
        turns = {turn for conversation in of for turn in conversation.turns}
        subs = []
        for one, host in self._hosts.items():
            if host.turn in turns or (orphans and host.turn is None):
                subs.append(self._sub(one))
                _refer(steps, host, {"trajectory_id": subs[-1]["trajectory_id"]})
        return subs

    def _sub(self, conversation: Conversation) -> dict[str, Payload]:
        kept = self._kept.get("subagents", {}).get(conversation.turns[0].interaction.interaction_id, {})
        steps = self._steps([conversation])
        subs = self._subs([conversation], steps)
        steps.add_kept(kept.get("steps", ()))
        name = conversation.agent or "apart"
        identity = f"{self._identity}/{name}/{self._places[conversation]}"
        return _with_subs(self._root(identity, [conversation], steps, kept) | _only(kept, "extra"), subs, kept)

    def _root(
        self, identity: str, of: Sequence[Conversation], steps: Steps, kept: Mapping[str, Payload]
    ) -> dict[str, Payload]:
        tools = [*{tool.name: tool for conversation in of for tool in conversation.tools()}.values()]
        copied = any(step.get("is_copied_context") for step in steps.steps)
        note = "Steps marked is_copied_context repeat what was said before; they carry no metrics."
        return {
            "schema_version": SCHEMA_VERSION,
            **without_none(session_id=kept.get("session_id", self.trajectory.trajectory_id)),
            "trajectory_id": kept.get("trajectory_id", identity),
            "agent": _agent(of[0] if of else None, self.trajectory.model, tools, kept.get("agent", {})),
            "steps": steps.steps,
            **without_none(notes=kept.get("notes", note if copied else None)),
            "final_metrics": totals(steps.steps),
            **_only(kept, "continued_trajectory_ref"),
        }

    def _about(self) -> dict[str, Payload]:
        """What is known of the run and has no member in ATIF."""
        run = {**self.trajectory.head(), **self.trajectory.tail("inline")}
        left = {name: value for name, value in run.items() if value not in (None, {}, [])}
        derived = self._kept.get("derived", ())
        for name in ("trajectory_id", "schema_version", "history", "metrics", "metadata", *derived):
            left.pop(name, None)
        metadata = {name: value for name, value in self.trajectory.metadata.items() if name != KEPT}
        return left | without_none(metadata=metadata or None)


def _agent(
    of: Conversation | None, model: str | None, tools: Sequence[Tool], kept: Mapping[str, Payload]
) -> dict[str, Payload]:
    extra = {**without_none(built_in_tools=built_in(tools) or None), **kept.get("extra", {})}
    if of is not None:
        extra |= without_none(agent_id=of.agent_id, parent_agent_id=of.parent_agent_id)
    made = {"name": (of.agent if of else None) or "agent", "version": UNKNOWN_VERSION} | without_none(
        model_name=model,
        tool_definitions=[function_of(tool) for tool in tools if is_function(tool)] or None,
    )
    return {**made, **kept, **without_none(extra=extra or None)}


def _only(members: Mapping[str, Payload], name: str) -> dict[str, Payload]:
    return {name: members[name]} if name in members else {}


def _with_subs(
    document: dict[str, Payload], subs: Sequence[dict[str, Payload]], kept: Mapping[str, Payload]
) -> dict[str, Payload]:
    """A document with the trajectories of its sub-agents, whose costs are part of its own."""
    silent = kept.get("subagent_trajectories", ())
    metrics = kept.get("final_metrics") or with_costs(document["final_metrics"], subs)
    every = [*subs, *silent]
    return _ordered({**document, "final_metrics": metrics, **without_none(subagent_trajectories=every or None)})


def _refer(steps: Steps, host: Host, reference: dict[str, Payload]) -> None:
    """Name a sub-agent's trajectory in the step that it ran for: in the result of its call, where that is known."""
    step = steps.at.get(host.turn) if host.turn else None
    if step is None:
        step = next((one for one in steps.steps if one["source"] == "agent"), steps.steps[0] if steps.steps else None)
    if step is None:
        return
    calls = [call["tool_call_id"] for call in step.get("tool_calls", ())]
    call_id = host.call_id if host.call_id in calls else calls[0] if len(calls) == 1 else None
    results: list[Payload] = step.setdefault("observation", {"results": []})["results"]
    found = [one for one in results if call_id is not None and one.get("source_call_id") == call_id]
    if not found:
        found = [without_none(source_call_id=call_id)]
        results += found
    found[0].setdefault("subagent_trajectory_ref", []).append(reference)


_ORDER = (
    *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics"),
    *("continued_trajectory_ref", "extra", "subagent_trajectories"),
)


def _ordered(document: dict[str, Payload]) -> dict[str, Payload]:
    return {name: document[name] for name in _ORDER if name in document}
