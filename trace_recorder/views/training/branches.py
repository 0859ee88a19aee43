"""Branches: which turns one row of training data covers.

If each call extends the one before, the last call's messages and its answer hold every turn: that call is a leaf, and
one row for the leaf covers all. If a history was rewritten, or was continued twice from one place, there are several
leaves. A turn that two leaves share is new only in the first of them, so nothing is trained twice. Some answers must
not be trained on: answers that are incomplete, cut off or empty (`content/finish_reasons.py`), answers that a replay or
a fork gave, because the original run trains on them, and answers of side calls, such as those for a title. Such an
answer is context in a row if the agent continued from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.values.messages import Message, Payload, Tool
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.content.finish_reasons import CUT_OFF, fault_of
from trace_recorder.views.content.openai_functions import function_of, is_function
from trace_recorder.views.conversations.normalized_prompts import MessageNormalizer
from trace_recorder.views.conversations.turn import Turn, choice_of
from trace_recorder.views.conversations.turns_of_run import side_calls
from trace_recorder.views.left_out import CHOICES, EMBEDDINGS, REPLAYED, SIDE_CALLS, UNREQUESTED_TOOLS, count
from trace_recorder.views.view import LeftOut

NOT_WHOLE = "calls that failed, or whose answer or prompt is incomplete"


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a branch.

    `turn` is the turn whose answer it is, or None for any other message. `target` is True for an answer that a model
    may be trained on, in any branch. `new` is True for a target of this run that no earlier branch has.
    """

    message: Message
    turn: Turn | None = None
    new: bool = False
    target: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """The turns from the beginning of a conversation to a leaf.

    `targets` are those to train on, `new` those of them that no earlier branch has.
    """

    turns: tuple[Turn, ...]
    targets: frozenset[Turn]
    new: frozenset[Turn]

    @property
    def leaf(self) -> Turn:
        """The last turn."""
        return self.turns[-1]

    def lines(self) -> list[Line]:
        """Return the conversation, message by message, with thoughts that were sent back or recorded."""
        messages = self.leaf.messages()
        spans = [(one.begin, one.end) for one in MessageNormalizer().normalize(messages)]
        lines = [Line(message) for message in messages]
        following = zip(self.turns, self.turns[1:], strict=False)
        for turn, after in following:
            begin, end = spans[turn.normalized_length - 1] if 0 < turn.normalized_length <= len(spans) else (0, 0)
            for number in range(begin, end):
                if lines[number].message.role == "assistant":
                    lines[number] = self._line(turn, messages[number], turn.answer(after.choice))
        return [*lines, self._line(self.leaf, self.leaf.answer(), self.leaf.answer())]

    def _line(self, turn: Turn, message: Message, answer: Message) -> Line:
        """Return the message in which the agent sent back an answer, with the thoughts that the agent left out."""
        if message.reasoning is None and answer.reasoning is not None:
            message = replace(message, reasoning=answer.reasoning, given=None)
        return Line(message, turn, turn in self.new, turn in self.targets)

    def tools(self) -> list[Tool]:
        """The tools that were offered in it, by name. Of several tools with one name, the last declaration counts."""
        return [*{tool.name: tool for turn in self.turns for tool in turn.tools}.values()]


def branches(trajectory: Trajectory, turns: Sequence[Turn], *, include_incomplete: bool = False) -> list[Branch]:
    """Return the branches of a run's turns.

    With `include_incomplete`, every answer to a known prompt is a target if the call was made, including answers of
    side calls.
    """
    is_target = _is_known if include_incomplete else _is_faultless
    beside = frozenset[Turn]() if include_incomplete else side_calls(trajectory, turns)
    covered: set[Turn] = set()
    rows: list[Branch] = []
    for leaf in _leaves([turn for turn in turns if is_target(turn) and turn not in beside]):
        path = tuple(reversed(_ancestors(leaf)))
        taken = [after.choice for after in path[1:]] + [0]
        targets = frozenset(turn for turn, choice in zip(path, taken, strict=True) if is_target(turn, choice))
        rows.append(Branch(path, targets, targets - covered))
        covered |= targets
    return rows


def _leaves(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns that no other of these turns continues."""
    went_on = {before for turn in turns for before in _ancestors(turn)[1:]}
    return [turn for turn in turns if turn not in went_on]


def _is_known(turn: Turn, _: int = 0) -> bool:
    return turn.answered and turn.interaction.source.has_request() and turn.was_made


def _is_faultless(turn: Turn, choice: int = 0) -> bool:
    return fault_of_turn(turn, choice) is None


def fault_of_turn(turn: Turn, choice: int = 0) -> str | None:
    """Return why the answer of a turn must not be trained on, as reports count it, or None if it may be.

    `choice` is the number of the answer that the agent used.
    """
    if not turn.was_made:
        return REPLAYED
    return fault_of(choice_of(turn.interaction.response, choice)) if turn.is_complete else NOT_WHOLE


def _ancestors(turn: Turn) -> list[Turn]:
    """Return the turns with prompts and answers that the model saw unchanged, from the last to the first."""
    path = [turn]
    while path[-1].exact and path[-1].previous is not None:
        path.append(path[-1].previous)
    return path


def tools_of(branch: Branch, left_out: LeftOut) -> list[dict[str, Payload]] | None:
    """Return the tools of a branch as OpenAI's functions. A provider's built-in tools are left out."""
    tools = branch.tools()
    left_out.add("tools without a schema", sum(not is_function(tool) for tool in tools))
    return [function_of(tool) for tool in tools if is_function(tool)] or None


def count_unlearned(
    trajectory: Trajectory, turns: Sequence[Turn], branches: Sequence[Branch], left_out: LeftOut
) -> None:
    """Count the answers that no row trains on: calls by the fault of their answer, and further choices."""
    held = frozenset[Turn]().union(*(branch.new for branch in branches))
    beside = side_calls(trajectory, turns)
    for turn in turns:
        if turn not in held:
            why = fault_of_turn(turn) or (SIDE_CALLS if turn in beside else None)
            left_out.add(why or CUT_OFF)  # the reading covers all choices but the one that was used
        else:
            left_out.add(CHOICES, max(0, len(turn.interaction.response.choices) - 1))
    count(trajectory, left_out, EMBEDDINGS, UNREQUESTED_TOOLS)
