"""Branches: which turns one row of training data covers.

Where each call extends the one before, the last call's messages and its answer hold every turn: that call is a leaf,
and one row a leaf covers all. Where a history was rewritten, or went on twice from one place, there are several
leaves. A turn that two leaves hold is new in the first of them only, so that nothing is trained twice.

An answer that did not come whole is nothing to learn from: it is part of a row where the agent went on from it, and
then it is context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trace_recorder.conversation import Message, Tool
from trace_recorder.trajectory import Trajectory
from trace_recorder.views.left_out import CHOICES, EMBEDDINGS, count
from trace_recorder.views.turns import Turn, interactions_of, turns_of
from trace_recorder.views.utterances import Vocabulary


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a branch. `turn` is the one in which the model said it; None for what others said.

    `new` is whether it is to be learnt from: the model said it in this run, whole, and no earlier branch has it.
    """

    message: Message
    turn: Turn | None = None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """The turns from the beginning of a conversation to a leaf; `new` are those that no earlier branch has."""

    turns: tuple[Turn, ...]
    new: frozenset[Turn]

    @property
    def leaf(self) -> Turn:
        """The last turn."""
        return self.turns[-1]

    def lines(self) -> list[Line]:
        """Give the conversation, message by message, with thoughts where they were sent back or were recorded."""
        messages = self.leaf.messages()
        spans = [(one.begin, one.end) for one in Vocabulary().utterances(messages)]
        lines = [Line(message) for message in messages]
        following = zip(self.turns, self.turns[1:], strict=False)
        for turn, after in following:
            begin, end = spans[turn.end - 1] if 0 < turn.end <= len(spans) else (0, 0)
            for number in range(begin, end):
                if lines[number].message.role == "assistant":
                    lines[number] = self._line(turn, messages[number], turn.answer(after.choice))
        return [*lines, Line(self.leaf.answer(), self.leaf, self.leaf in self.new)]

    def _line(self, turn: Turn, message: Message, answer: Message) -> Line:
        """A message in which the agent sent back what the model had said, with the thoughts that it left out."""
        if message.reasoning is None and answer.reasoning is not None:
            message = replace(message, reasoning=answer.reasoning, given=None)
        return Line(message, turn, turn in self.new)

    def tools(self) -> list[Tool]:
        """The tools that were offered in it, by name; of those with one name the last declaration counts."""
        return [*{tool.name: tool for turn in self.turns for tool in turn.tools}.values()]


def branches_of(trajectory: Trajectory) -> list[Branch]:
    """Give the branches of a run, in the order in which their leaves came."""
    return branches(turns_of(trajectory))


def branches(turns: Sequence[Turn]) -> list[Branch]:
    """Give the branches that turns make."""
    whole = [turn for turn in turns if turn.whole]
    went_on = {before for turn in whole for before in _ancestors(turn)[1:]}
    covered: set[Turn] = set()
    found: list[Branch] = []
    for leaf in (turn for turn in whole if turn not in went_on):
        path = tuple(reversed(_ancestors(leaf)))
        new = frozenset(turn for turn in path if turn.whole) - covered
        covered |= new
        found.append(Branch(path, new))
    return found


def _ancestors(turn: Turn) -> list[Turn]:
    """The turns whose prompts and answers the model saw just as they were, from the last to the first."""
    path = [turn]
    while path[-1].exact and path[-1].before is not None:
        path.append(path[-1].before)
    return path


def count_left_out(trajectory: Trajectory, branches: Sequence[Branch], dropped: Counter[str]) -> None:
    """Count what no row of training data holds: calls that gave nothing whole, and answers that were not taken."""
    held = {turn.interaction.interaction_id for branch in branches for turn in branch.new}
    calls = interactions_of(trajectory)
    dropped["calls that failed, or whose answer or prompt is not whole"] += sum(
        one.interaction_id not in held for one in calls
    )
    dropped[CHOICES] += sum(
        max(0, len(one.response.choices) - 1) for one in calls if one.response and one.interaction_id in held
    )
    count(trajectory, dropped, EMBEDDINGS)
