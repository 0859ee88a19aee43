"""ATIF v1.7, the Agent Trajectory Interchange Format (https://www.harborframework.com/docs/trajectory-format).

A run whose history was rewritten is written in two ways: `to_atif` puts what came after behind what was before, with
the messages that stayed as copied context; `atif_documents` gives a document for each, linked by
`continued_trajectory_ref`, as tools that make training data of them expect. Sub-agents, and conversations that have
nothing in common with the others, are `subagent_trajectories`. Costs are those that providers stated, never estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from trace_recorder.conversation import Payload, Tool, known
from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.trajectory import Trajectory
from trace_recorder.views.atif_steps import Images, Steps
from trace_recorder.views.contents import THOUGHTS
from trace_recorder.views.conversations import Conversation, conversations, steps_by_turn
from trace_recorder.views.functions import built_in, function_of, is_function
from trace_recorder.views.left_out import EMBEDDINGS, Carries, Statement, count, count_contents
from trace_recorder.views.turns import Turn, agent_of, turns_of

SCHEMA_VERSION = "ATIF-v1.7"
_SHOWN = Carries.of(places=("part", "images"))
_CARRIED: Statement = {
    "instructions": _SHOWN,
    "questions": _SHOWN,
    "tool results": _SHOWN,
    "answers": Carries.of(THOUGHTS, places=("part", "images")),
}
"""Images, and other parts as text. What an answer holds beside its text is in `extra`."""
_TOTALS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


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
        yield file, _ordered(document | known(continued_trajectory_ref=following[0] if following else None))


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
        self._identity = trajectory.trajectory_id or "trajectory"
        agents = [agent_of(turn.interaction) for turn in turns]
        found = conversations(turns)
        main = None if None in agents or not agents else agents[0]
        self.mains = [one for one in found if one.of == main and one.kind != "apart"]
        self._others = [one for one in found if one not in self.mains]
        if not turns and not trajectory.task:
            raise EmptyTrajectoryError(
                f"trajectory {self._identity} has no calls, no steps and no task: ATIF needs at least one step"
            )

    def document(self, mains: Sequence[Conversation], number: int) -> dict[str, Payload]:
        """Write a document of these conversations of the main agent, with the sub-agents that ran meanwhile."""
        steps = Steps(self._images, self._told)
        for conversation in mains:
            steps.add(conversation)
        turns = [turn for conversation in mains for turn in conversation.turns]
        others = [
            (place, one)
            for place, one in enumerate(self._others, start=1)
            if self._host(one) in turns or (number == 0 and self._host(one) is None)
        ]
        subs = [self._sub(place, one) for place, one in others]
        for (_, one), sub in zip(others, subs, strict=True):
            _refer(steps, self._host(one), {"trajectory_id": sub["trajectory_id"]})
        if not steps.steps:
            task = {"step_id": 1, "source": "user", "message": self.trajectory.task}
            steps.steps.append(known(**task, timestamp=self.trajectory.start_time))
        document = self._root(f"{self._identity}/{number}" if number else self._identity, mains, steps)
        costs = [sub["final_metrics"].get("total_cost_usd") for sub in subs]
        _add_costs(document["final_metrics"], costs)
        about = {} if number else self._about()
        return _ordered(document | known(extra=about or None, subagent_trajectories=subs or None))

    def _host(self, conversation: Conversation) -> Turn | None:
        """The turn of the main agent in whose time a conversation of another began: the last one before it."""
        mains = [turn for one in self.mains for turn in one.turns]
        first = conversation.turns[0].interaction.timestamp
        before = [turn for turn in mains if turn.interaction.timestamp <= first]
        return max(before, key=lambda turn: turn.interaction.timestamp, default=None)

    def _sub(self, place: int, conversation: Conversation) -> dict[str, Payload]:
        steps = Steps(self._images, self._told)
        steps.add(conversation)
        name = conversation.agent or "apart"
        return _ordered(self._root(f"{self._identity}/{name}/{place}", [conversation], steps))

    def _root(self, identity: str, of: Sequence[Conversation], steps: Steps) -> dict[str, Payload]:
        tools = [*{tool.name: tool for conversation in of for tool in conversation.tools()}.values()]
        copied = any(step.get("is_copied_context") for step in steps.steps)
        note = "Steps marked is_copied_context repeat what was said before; they carry no metrics."
        return {
            "schema_version": SCHEMA_VERSION,
            **known(session_id=self.trajectory.trajectory_id, trajectory_id=identity),
            "agent": _agent(of[0] if of else None, self.trajectory.model, tools),
            "steps": steps.steps,
            **known(notes=note if copied else None),
            "final_metrics": _totals(steps.steps),
        }

    def _about(self) -> dict[str, Payload]:
        """What is known of the run and has no member in ATIF."""
        run = {**self.trajectory.head(), **self.trajectory.tail("inline")}
        left = {name: value for name, value in run.items() if value not in (None, {}, [])}
        for name in ("trajectory_id", "schema_version", "history", "metrics"):
            left.pop(name, None)
        return left


def _agent(of: Conversation | None, model: str | None, tools: Sequence[Tool]) -> dict[str, Payload]:
    name, ids = (of.agent, (of.agent_id, of.parent_agent_id)) if of else (None, (None, None))
    extra = known(agent_id=ids[0], parent_agent_id=ids[1], built_in_tools=built_in(tools) or None)
    return {"name": name or "agent", "version": "unknown"} | known(
        model_name=model,
        tool_definitions=[function_of(tool) for tool in tools if is_function(tool)] or None,
        extra=extra or None,
    )


def _totals(steps: Iterable[dict[str, Payload]]) -> dict[str, Payload]:
    steps = list(steps)
    totals: dict[str, Payload] = {}
    for name in _TOTALS:
        stated = [count for step in steps if (count := step.get("metrics", {}).get(name)) is not None]
        if stated:
            totals[f"total_{name}"] = sum(stated)
    return totals | {"total_steps": len(steps)}


def _add_costs(metrics: dict[str, Payload], costs: Iterable[float | None]) -> None:
    stated = [cost for cost in costs if cost is not None]
    if stated:
        metrics["total_cost_usd"] = metrics.get("total_cost_usd", 0) + sum(stated)


def _refer(steps: Steps, host: Turn | None, reference: dict[str, Payload]) -> None:
    """Name a sub-agent's trajectory in the step that it ran for: in the result of its call, where it made one."""
    step = steps.at.get(host) if host else None
    if step is None:
        step = next((one for one in steps.steps if one["source"] == "agent"), steps.steps[0] if steps.steps else None)
    if step is None:
        return
    results: list[Payload] = step.setdefault("observation", {"results": []})["results"]
    if len(step.get("tool_calls", ())) == 1 and len(results) == 1:
        results[0].setdefault("subagent_trajectory_ref", []).append(reference)
    else:
        results.append({"subagent_trajectory_ref": [reference]})


_ORDER = (
    *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics"),
    *("continued_trajectory_ref", "extra", "subagent_trajectories"),
)


def _ordered(document: dict[str, Payload]) -> dict[str, Payload]:
    return {name: document[name] for name in _ORDER if name in document}
