"""Branches: which turns one row of training data covers.

If each call extends the call before it, the messages and the answer of the last call contain every turn. That call is a
leaf, and one row for the leaf covers all turns. If a history was rewritten, or was continued twice from one turn, there
are several leaves. A turn that two leaves share is new only in the first of them, so nothing is trained twice.

Some answers must not be trained on: answers that are incomplete, cut off or empty (`content/finish_reasons.py`), and
answers of side calls, such as requests for a title. Answers that a replay or a fork gave are not trained on either,
because the original run trains on them. If the agent continued from such an answer, a row has the answer as context.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.figures.content.chat_form import function_of, is_function
from trace_recorder.figures.content.finish_reasons import CUT_OFF, fault_of
from trace_recorder.figures.conversations.side_calls import side_calls
from trace_recorder.formats.format_writer import LeftOut
from trace_recorder.formats.left_out import CHOICES, OTHER_CALLS, REPLAYED, SIDE_CALLS, UNREQUESTED_TOOLS, count
from trace_recorder.reading.relations.prompt_relations import PromptRelations, relations_of
from trace_recorder.reading.relations.turn import Turn, choice_of
from trace_recorder.values.messages import Message, Payload, Tool
from trace_recorder.values.structs import Struct, replace
from trace_recorder.values.trajectory import Trajectory

NOT_WHOLE = "calls that failed, or whose answer or prompt is incomplete"


class BranchMessage(Struct, frozen=True, gc=False):
    """One message of a branch.

    `turn` is the turn whose answer the message is, or None for a message that is not an answer. `target` is True for an
    answer that a model may be trained on. `new` is True for a target that no earlier branch has.
    """

    message: Message
    turn: Turn | None = None
    new: bool = False
    target: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """The turns from the beginning of a conversation to a leaf.

    `targets` are the turns to train on. `new` are the targets that no earlier branch has. `relations` are those of the
    run, which have normalized the messages of all its branches.
    """

    turns: tuple[Turn, ...]
    targets: frozenset[Turn]
    new: frozenset[Turn]
    relations: PromptRelations

    @property
    def leaf(self) -> Turn:
        """The last turn."""
        return self.turns[-1]

    def lines(self) -> list[BranchMessage]:
        """Return the conversation, message by message.

        Answers have their thoughts, even if the agent did not send the thoughts back.
        """
        messages = self.leaf.messages()
        lines = [*map(BranchMessage, messages)]
        if len(self.turns) > 1:
            self._set_answers(lines, messages)
        return [*lines, self._line(self.leaf, self.leaf.answer(), self.leaf.answer())]

    def _set_answers(self, lines: list[BranchMessage], messages: Sequence[Message]) -> None:
        """Replace the lines in which the agent sent back the answers of earlier turns."""
        normalized = self.relations.normalize(messages)
        for turn, after in itertools.pairwise(self.turns):
            if not 0 < turn.normalized_length <= len(normalized.messages):
                continue
            place = turn.normalized_length - 1
            for number in range(normalized.begins[place], normalized.ends[place]):
                if lines[number].message.role == "assistant":
                    lines[number] = self._line(turn, messages[number], turn.answer(after.choice))

    def _line(self, turn: Turn, message: Message, answer: Message) -> BranchMessage:
        """Return the message in which the agent sent back an answer, with the thoughts that the agent left out."""
        if message.reasoning is None and answer.reasoning is not None:
            message = replace(message, reasoning=answer.reasoning, given=None)
        return BranchMessage(message, turn, turn in self.new, turn in self.targets)

    def tools(self) -> list[Tool]:
        """Return the tools that the branch offers. If several tools have the same name, only the last is returned."""
        return [*{tool.name: tool for turn in self.turns for tool in turn.tools}.values()]


def branches(trajectory: Trajectory, turns: Sequence[Turn], *, include_incomplete: bool = False) -> list[Branch]:
    """Return the branches of a run's turns.

    If `include_incomplete` is True, the targets are all answers to known prompts, including answers of side calls.
    Answers that a replay or a fork gave are never targets.
    """
    excluded = frozenset[Turn]()
    if not include_incomplete:
        excluded = side_calls(trajectory, turns)

    def is_target(turn: Turn, choice: int = 0) -> bool:
        if include_incomplete:
            return turn.answered and turn.interaction.source.has_request() and turn.was_made
        return fault_of_turn(turn, choice) is None

    covered: set[Turn] = set()
    result: list[Branch] = []
    for leaf in _leaves([turn for turn in turns if is_target(turn) and turn not in excluded]):
        path = tuple(reversed(_ancestors(leaf)))
        choices = [after.choice for after in path[1:]] + [0]
        targets = frozenset(turn for turn, choice in zip(path, choices, strict=True) if is_target(turn, choice))
        result.append(Branch(path, targets, targets - covered, relations_of(trajectory)))
        covered |= targets
    return result


def _leaves(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns in `turns` that no other turn in `turns` continues."""
    continued: set[Turn] = set()
    for turn in turns:
        before = _seen_unchanged(turn)
        while before is not None and before not in continued:  # the turns before a known turn are known
            continued.add(before)
            before = _seen_unchanged(before)
    return [turn for turn in turns if turn not in continued]


def fault_of_turn(turn: Turn, choice: int = 0) -> str | None:
    """Return why the answer of a turn must not be trained on, as `export` describes it, or None if training is allowed.

    `choice` is the index of the answer that the agent continued.
    """
    if not turn.was_made:
        return REPLAYED
    if not turn.is_complete:
        return NOT_WHOLE
    return fault_of(choice_of(turn.interaction.response, choice))


def _ancestors(turn: Turn) -> list[Turn]:
    """Return a turn and the turns before it that the model saw unchanged, from the last to the first."""
    path = [turn]
    while (before := _seen_unchanged(path[-1])) is not None:
        path.append(before)
    return path


def _seen_unchanged(turn: Turn) -> Turn | None:
    """Return the turn before a turn, or None if the model did not see that turn unchanged."""
    if turn.exact:
        return turn.previous
    return None


def tools_of(branch: Branch, left_out: LeftOut) -> list[dict[str, Payload]] | None:
    """Return the tools of a branch as OpenAI's functions. Tools that were not declared as functions are left out."""
    tools = branch.tools()
    left_out.add("tools without a schema", sum(not is_function(tool) for tool in tools))
    return [function_of(tool) for tool in tools if is_function(tool)] or None


def count_unlearned(
    trajectory: Trajectory, turns: Sequence[Turn], branches: Sequence[Branch], left_out: LeftOut
) -> None:
    """Count the answers that no row trains on, by their faults.

    Further choices of a call that a row trains on are counted too.
    """
    trained = frozenset[Turn]().union(*(branch.new for branch in branches))
    of_program = side_calls(trajectory, turns)
    for turn in turns:
        if turn in trained:
            left_out.add(CHOICES, max(0, len(turn.interaction.response.choices) - 1))
            continue
        fault = fault_of_turn(turn)
        if fault is None and turn in of_program:
            fault = SIDE_CALLS
        # if the first answer has no fault, the agent continued a second answer, which has a fault
        left_out.add(fault or CUT_OFF)
    count(trajectory, left_out, OTHER_CALLS, UNREQUESTED_TOOLS)
