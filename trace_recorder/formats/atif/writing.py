"""ATIF v1.7 and 1.8, the Agent Trajectory Interchange Format (https://www.harborframework.com/docs/trajectory-format).

If the main agent rewrote its history, the run has several conversations of the main agent. `to_atif` writes them into
one document, one after another. A message that is in an earlier conversation too is marked as copied context.
`to_atif_files` yields a document for each of these conversations, because tools that make training data expect this
form. Each document names the next document in `continued_trajectory_ref`. All other conversations, such as those of
sub-agents, are `subagent_trajectories`. The documents have costs that providers stated, but no estimates. If a run was
imported from ATIF documents, the export has all members of these documents again (`formats/atif/members.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict
from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.figures.content.chat_form import function_of, is_function
from trace_recorder.figures.content.kinds import THOUGHTS
from trace_recorder.figures.conversations.conversation import Conversation, conversations
from trace_recorder.figures.conversations.inferred_agents import inferred_agents_of
from trace_recorder.figures.conversations.side_calls import side_calls
from trace_recorder.figures.conversations.steps_of_turns import steps_by_turn
from trace_recorder.formats.atif.media import AtifMediaWriter, has_audio
from trace_recorder.formats.atif.members import EXTRA_KEY, UNKNOWN_VERSION, kept_in, totals, with_costs
from trace_recorder.formats.atif.own_members import UNNAMED_AGENT, AgentExtra
from trace_recorder.formats.atif.writing_steps import AtifStepWriter
from trace_recorder.formats.foreign_runs.journal_writer import IMPORTED_FROM
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import (
    OTHER_CALLS,
    SIDES,
    ContentSupport,
    FormatSupport,
    count,
    count_unsupported_contents,
)
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn, key_of_agent
from trace_recorder.values.messages import Payload, Tool, without_none
from trace_recorder.values.trajectory import AgentStep, Trajectory


@dataclass(frozen=True, slots=True)
class Parent:
    """Where a conversation began: at a turn of its parent conversation.

    `turn` is None if no turn of the parent or of the main agent came before, and no turn made the call `call_id`. If a
    tool started the conversation, `call_id` is the id of the tool's call.
    """

    turn: Turn | None = None
    call_id: str | None = None


def parents_of(
    others: Iterable[Conversation],
    mains: Iterable[Conversation],
    turns: Sequence[Turn],
    steps: Mapping[Turn, Sequence[AgentStep]],
) -> dict[Conversation, Parent]:
    """Return the parent of each conversation in `others`.

    `mains` are the conversations of the main agent, and `others` are all other conversations. `turns` are all turns of
    the run.
    """
    started = _calls_by_execution(steps)
    main = {turn for conversation in mains for turn in conversation.turns}
    return {other: _parent(other, main, turns[: turns.index(other.turns[0])], started) for other in others}


def _calls_by_execution(steps: Mapping[Turn, Sequence[AgentStep]]) -> dict[str, tuple[Turn, str]]:
    """Return the turn and the call id of each tool execution, by the execution's id."""
    return {
        result.execution_id: (turn, result.call_id)
        for turn, of_turn in steps.items()
        for step in of_turn
        for result in step.tool_results
        if result.execution_id is not None
    }


def _parent(
    conversation: Conversation, main: AbstractSet[Turn], before: Sequence[Turn], started: Mapping[str, tuple[Turn, str]]
) -> Parent:
    """Find the parent of a conversation among the earlier turns, `before`.

    Later turns are not searched, so a conversation cannot be its own parent, not even indirectly.
    """
    parent_id = conversation.parent_agent_id
    of_parent = [turn for turn in before if parent_id and turn.interaction.agent_id == parent_id]
    turn, call_id = started.get(conversation.turns[0].interaction.parent_execution_id or "", (None, None))
    callers = [turn for turn in before if any(call.call_id == call_id for call in turn.answer().tool_calls)]
    if turn is not None and turn in callers:
        return Parent(turn, call_id)
    if callers:  # several turns may have the same call id
        return Parent(([caller for caller in callers if caller in of_parent] or callers)[-1], call_id)
    candidates = of_parent or [turn for turn in before if turn in main]
    if not candidates:
        return Parent()
    return Parent(candidates[-1])


SCHEMA_VERSION = "ATIF-v1.7"
_WITH_AUDIO = "ATIF-v1.8"
"""The version of a document with sounds. All other documents have version 1.7, which every reader accepts."""
_SHOWN = ContentSupport.of(locations=("part", "images"))
_SUPPORTED: FormatSupport = {
    **dict.fromkeys(SIDES, _SHOWN),
    "answers": ContentSupport.of(THOUGHTS, locations=("part", "images")),
}
"""The contents that ATIF documents support: images and sounds, and the thoughts of answers.

Other parts are written as text.

Other contents of an answer are written into `extra`. Such contents count as left out, because no reader uses `extra`.
"""


@view
def to_atif(left_out: LeftOut, trajectory: Trajectory, images_directory: Path | None = None) -> dict[str, Payload]:
    """Return a run as one ATIF document.

    Images and sounds without an address are written into `images_directory`, or left out if it is None. Paths in the
    document are relative to the parent of that directory. Raises EmptyTrajectoryError if the run has no turns, no tools
    and no task. A call that is no turn, such as one that made an image, has no step in ATIF.
    """
    writing = _AtifDocumentWriter(trajectory, images_directory, left_out)
    return writing.document(writing.mains, 0)


@view
def to_atif_files(
    left_out: LeftOut, trajectory: Trajectory, name: str, images_directory: Path | None = None
) -> Iterator[tuple[str, dict[str, Payload]]]:
    """Yield the file name and the ATIF document of each conversation of the main agent.

    `name` is the name of the first file. The other names are derived from this name. A run without conversations has
    one document. Raises EmptyTrajectoryError, as `to_atif` does.
    """
    writing = _AtifDocumentWriter(trajectory, images_directory, left_out)
    files = [name, *(f"{name.removesuffix('.json')}.cont-{number}.json" for number in range(1, len(writing.mains)))]
    for number, file in enumerate(files):
        document = writing.document(writing.mains[number : number + 1], number)
        if number + 1 < len(files):
            document["continued_trajectory_ref"] = files[number + 1]
        yield file, _ordered(document)


class _AtifDocumentWriter:
    def __init__(self, trajectory: Trajectory, images_directory: Path | None, left_out: LeftOut) -> None:
        self.trajectory = trajectory
        count(trajectory, left_out, OTHER_CALLS)
        self._media = AtifMediaWriter(images_directory, left_out)
        turns = turns_of(trajectory)
        count_unsupported_contents(turns, left_out, _SUPPORTED)
        self._steps_by_turn = steps_by_turn(trajectory, turns)
        self._side_calls = side_calls(trajectory, turns)
        self._inferred_agents = inferred_agents_of(trajectory)
        self._kept = kept_in(trajectory.metadata)
        self._identity = trajectory.trajectory_id or "trajectory"
        self.mains, others = _main_and_others(trajectory, turns)
        self._places = {conversation: place for place, conversation in enumerate(others, start=1)}
        self._parents = parents_of(others, self.mains, turns, self._steps_by_turn.steps)
        self._tools = self._steps_by_turn.unrequested.get(None, [])
        if not turns and not self._tools and not trajectory.task:
            raise EmptyTrajectoryError(
                f"trajectory {self._identity} has no turns, no tools and no task: ATIF needs at least one step"
            )

    def document(self, mains: Sequence[Conversation], number: int) -> dict[str, Payload]:
        """Write a document with the conversations `mains`, and with the conversations whose parent turn is in `mains`.

        The document with the number 0 also has the conversations without a parent turn.
        """
        identity = self._identity
        imported: Mapping[str, Payload] = {}
        extra: dict[str, Payload] = {}
        if number == 0:
            imported = self._kept
            extra = self._run_extra() | imported.get("extra", {})
        else:
            identity = f"{identity}/{number}"
        steps = self._steps(mains)
        subs = self._subagents(mains, steps, orphans=number == 0)
        if mains[-1:] == self.mains[-1:]:
            steps.add_kept(self._kept.get("steps", ()))
        if not steps.steps:
            task = {"step_id": 1, "source": "user", "message": self.trajectory.task}
            steps.steps.append(without_none(**task, timestamp=self.trajectory.start_time))
        document = self._root(identity, mains, steps, imported)
        return _with_subagents(document | without_none(extra=extra or None), subs, imported)

    def _steps(self, group: Sequence[Conversation]) -> AtifStepWriter:
        steps = AtifStepWriter(self._media, self._steps_by_turn, self._side_calls, self._inferred_agents)
        for conversation in group:
            steps.add(conversation)
        if group:
            steps.add_tools(tool for tool in self._tools if self._conversation_of(tool) in group)
        elif not self.mains:
            steps.add_tools(self._tools)
        return steps

    def _conversation_of(self, tools: AgentStep) -> Conversation | None:
        """Return the conversation during which tools ran, or None.

        Conversations of the agent that ran the tools are considered first, then conversations of the main agent.
        """
        agent = key_of_agent(tools)
        of_agent = [each for each in (*self.mains, *self._places) if each.agent_key == agent] or self.mains
        earlier = [each for each in of_agent if each.turns[0].interaction.timestamp <= tools.timestamp]
        if earlier:
            return earlier[-1]
        return next(iter(of_agent), None)

    def _subagents(
        self, group: Sequence[Conversation], steps: AtifStepWriter, *, orphans: bool = False
    ) -> list[dict[str, Payload]]:
        """Return the sub-agent trajectories of the conversations whose parent turn is in a conversation of `group`.

        If `orphans` is True, conversations without a parent turn are included. Add references to the trajectories to
        `steps`.
        """
        turns = {turn for conversation in group for turn in conversation.turns}
        subs = []
        for conversation, parent in self._parents.items():
            if parent.turn in turns or (orphans and parent.turn is None):
                subs.append(self._subagent(conversation))
                _refer(steps, parent, {"trajectory_id": subs[-1]["trajectory_id"]})
        return subs

    def _subagent(self, conversation: Conversation) -> dict[str, Payload]:
        imported = self._kept.get("subagents", {}).get(conversation.turns[0].interaction.interaction_id, {})
        steps = self._steps([conversation])
        subs = self._subagents([conversation], steps)
        steps.add_kept(imported.get("steps", ()))
        name = conversation.agent or "apart"
        identity = f"{self._identity}/{name}/{self._places[conversation]}"
        document = self._root(identity, [conversation], steps, imported) | _selected_member(imported, "extra")
        return _with_subagents(document, subs, imported)

    def _root(
        self, identity: str, group: Sequence[Conversation], steps: AtifStepWriter, imported: Mapping[str, Payload]
    ) -> dict[str, Payload]:
        tools = [*{tool.name: tool for conversation in group for tool in conversation.tools()}.values()]
        first = next(iter(group), None)
        version, notes = SCHEMA_VERSION, None
        if has_audio(steps.steps):
            version = _WITH_AUDIO
        if any(step.get("is_copied_context") for step in steps.steps):
            notes = "Steps marked is_copied_context repeat earlier messages. They have no metrics."
        return {
            "schema_version": version,
            **without_none(session_id=imported.get("session_id", self.trajectory.trajectory_id)),
            "trajectory_id": imported.get("trajectory_id", identity),
            "agent": _agent(first, self.trajectory.model, tools, imported.get("agent", {})),
            "steps": steps.steps,
            **without_none(notes=imported.get("notes", notes)),
            "final_metrics": totals(steps.steps),
            **_selected_member(imported, "continued_trajectory_ref"),
        }

    def _run_extra(self) -> dict[str, Payload]:
        """Return the facts of the run for which ATIF has no member."""
        run = {**self.trajectory.head(), **self.trajectory.tail("inline")}
        remaining = {name: value for name, value in run.items() if value not in (None, {}, [])}
        derived = self._kept.get("derived", ())
        for name in ("trajectory_id", "schema_version", "history", "metrics", "metadata", *derived):
            remaining.pop(name, None)
        of_atif = {EXTRA_KEY}
        if as_dict(self.trajectory.metadata.get(IMPORTED_FROM)).get("format") == EXTRA_KEY:
            of_atif.add(IMPORTED_FROM)  # importing the exported document adds this member again
        metadata = {name: value for name, value in self.trajectory.metadata.items() if name not in of_atif}
        return remaining | without_none(metadata=metadata or None)


def _main_and_others(trajectory: Trajectory, turns: Sequence[Turn]) -> tuple[list[Conversation], list[Conversation]]:
    """Divide the conversations of a run into those of the main agent and all others.

    The main agent is the agent without an id and a name, or else the agent of the first turn. A conversation of the
    kind "apart" (`conversation.py`) always belongs to the others.
    """
    agents = [key_of_agent(turn.interaction) for turn in turns]
    main = None
    if agents and None not in agents:
        main = agents[0]
    all_conversations = conversations(trajectory, turns)
    mains = [each for each in all_conversations if each.agent_key == main and each.kind != "apart"]
    return mains, [each for each in all_conversations if each not in mains]


def _agent(
    conversation: Conversation | None, model: str | None, tools: Sequence[Tool], imported: Mapping[str, Payload]
) -> dict[str, Payload]:
    other_tools = [tool.raw for tool in tools if not is_function(tool)]
    extra = {**without_none(**AgentExtra(built_in_tools=other_tools or None)), **imported.get("extra", {})}
    name = None
    if conversation is not None:
        name = conversation.agent
        ids = AgentExtra(agent_id=conversation.agent_id, parent_agent_id=conversation.parent_agent_id)
        extra |= without_none(**ids)
    members = {"name": name or UNNAMED_AGENT, "version": UNKNOWN_VERSION} | without_none(
        model_name=model,
        tool_definitions=[function_of(tool) for tool in tools if is_function(tool)] or None,
    )
    return {**members, **imported, **without_none(extra=extra or None)}


def _selected_member(members: Mapping[str, Payload], name: str) -> dict[str, Payload]:
    if name not in members:
        return {}
    return {name: members[name]}


def _with_subagents(
    document: dict[str, Payload], subs: Sequence[dict[str, Payload]], imported: Mapping[str, Payload]
) -> dict[str, Payload]:
    """Add the trajectories of sub-agents to a document.

    If a trajectory of a sub-agent has a sound, the version of the document is 1.8. The costs of the sub-agents are
    added to the document's costs, unless the import kept its own `final_metrics`.
    """
    silent = imported.get("subagent_trajectories", ())
    all_subs = [*subs, *silent]
    document["final_metrics"] = imported.get("final_metrics") or with_costs(document["final_metrics"], subs)
    if all_subs:
        document["subagent_trajectories"] = all_subs
    if any(trajectory.get("schema_version") == _WITH_AUDIO for trajectory in all_subs):
        document["schema_version"] = _WITH_AUDIO
    return _ordered(document)


def _refer(steps: AtifStepWriter, parent: Parent, reference: dict[str, Payload]) -> None:
    """Add a reference to a sub-agent's trajectory to the step that started the sub-agent.

    If that step is unknown, the first step of an agent, or else the first step, gets the reference. If the call that
    started the sub-agent is known, or the step made only one call, the result of that call has the reference. Otherwise
    a result of its own has the reference.
    """
    step = None
    if parent.turn is not None:
        step = steps.by_turn.get(parent.turn)
    agent_steps = (each for each in steps.steps if each["source"] == "agent")
    step = step or next(agent_steps, None) or next(iter(steps.steps), None)
    if step is None:
        return
    calls = [call["tool_call_id"] for call in step.get("tool_calls", ())]
    call_id = None
    if parent.call_id in calls:
        call_id = parent.call_id
    elif len(calls) == 1:
        call_id = calls[0]
    results: list[Payload] = step.setdefault("observation", {"results": []})["results"]
    of_call = (each for each in results if call_id is not None and each.get("source_call_id") == call_id)
    result = next(of_call, None)
    if result is None:
        result = without_none(source_call_id=call_id)
        results.append(result)
    result.setdefault("subagent_trajectory_ref", []).append(reference)


_ORDER = (
    *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics"),
    *("continued_trajectory_ref", "extra", "subagent_trajectories"),
)


def _ordered(document: dict[str, Payload]) -> dict[str, Payload]:
    return {name: document[name] for name in _ORDER if name in document}
