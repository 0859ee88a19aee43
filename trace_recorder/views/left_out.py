"""What formats have no place for, counted in the words in which `export` tells it.

Each format states what it carries of the contents of messages, by who says them (`Statement`); whatever a run holds
beyond that is counted by its kind, also a kind that nobody has heard of. What a format keeps in its free metadata
alone is counted too, as none of its readers looks there. That which no run can put into a format, such as the bytes of
a request, is not: the format's page in `docs/views/` lists it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.content.kinds import Content, Place, contents_of, contents_of_answer
from trace_recorder.views.conversations.call_chains import Relation, Turn, interactions_of
from trace_recorder.views.conversations.unrequested_tools import unasked_of
from trace_recorder.views.token_counts import tokens_of

Side = Literal["instructions", "questions", "tool results", "answers"]
_SIDES: Mapping[str, Side] = {
    **dict.fromkeys(("system", "developer"), "instructions"),
    "tool": "tool results",
    "assistant": "answers",
}


@dataclass(frozen=True, slots=True)
class Carries:
    """What a format carries beside texts: these kinds, and whatever stands in these places, as it was sent."""

    kinds: frozenset[str] = frozenset()
    places: frozenset[Place] = frozenset()

    @classmethod
    def of(cls, *kinds: str, places: tuple[Place, ...] = ()) -> Carries:
        """State it."""
        return cls(frozenset(kinds), frozenset(places))

    def has_place_for(self, content: Content) -> bool:
        """Whether a content is carried."""
        return content.kind in self.kinds or content.place in self.places


Statement = Mapping[Side, Carries]
"""What a format carries of each side; of one that is not named, texts and tool calls alone."""
_TEXT_ALONE = Carries()


def count_contents(turns: Iterable[Turn], dropped: Counter[str], statement: Statement) -> None:
    """Add to `dropped` what the messages of a run hold that a format has no place for, each once."""
    for side, content in _contents(turns):
        if not statement.get(side, _TEXT_ALONE).has_place_for(content):
            dropped[f"{content.kind} in {side}"] += 1


def _contents(turns: Iterable[Turn]) -> Iterator[tuple[Side, Content]]:
    """The contents of a run's messages and answers; what a rewritten history or another attempt repeats, once."""
    seen: set[bytes] = set()
    followed: set[Turn | None] = set()
    for turn in turns:
        said = [(side, content, _sign(side, content)) for side, content in _said(turn)]
        repeats = not turn.exact or turn.before in followed
        yield from [(side, content) for side, content, sign in said if not (repeats and sign in seen)]
        followed.add(turn.before)
        seen.update(sign for _, _, sign in said)
        for content in contents_of_answer(turn.interaction.response):
            seen.add(_sign("answers", content))
            yield "answers", content


def count_changed(turns: Iterable[Turn], dropped: Counter[str], *relations: Relation) -> None:
    """Add to `dropped` the calls that stand so to what came before, in a format that tells each message once."""
    dropped[CHANGED] += sum(turn.relation in relations and turn.before is not None for turn in turns)


def _said(turn: Turn) -> Iterator[tuple[Side, Content]]:
    for message in turn.news:
        for content in contents_of(message):
            yield _SIDES.get(message.role, "questions"), content


def _sign(side: Side, content: Content) -> bytes:
    said = json.dumps([side, content.kind, content.raw], sort_keys=True)
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def count(trajectory: Trajectory, dropped: Counter[str], *what: str) -> None:
    """Add to `dropped` how much a run has of what a format leaves out, each by its name here."""
    for words in what:
        dropped[words] += _COUNTS[words](trajectory)


UNANSWERED = "calls that failed, are in flight, or whose prompt is damaged"
CHANGED = "calls that saw a history that the agent had changed, told as it was first"
ARGUMENTS = "arguments that are no object, written as `input`"
CHOICES = "further choices of an answer"
EMBEDDINGS = "embeddings"
ATTEMPTS = "failed attempts"
SAMPLED = "calls with token ids or log-probabilities"
REMARKS = "reflections, errors and summaries of steps"
UNASKED = "tools that ran though no model asked for them"
REWARDS, ANNOTATIONS, GAPS = "rewards", "annotations", "gaps"


def _is_unanswered(one: LLMInteraction) -> bool:
    response = one.response
    said = one.answered and (response.content or response.reasoning or response.tool_calls or not one.error)
    return not said or not one.source.has_request()


def _calls(trajectory: Trajectory) -> int:
    return sum(
        not isinstance(call.arguments, dict) for one in interactions_of(trajectory) for call in one.response.tool_calls
    )


def _remarks(trajectory: Trajectory) -> int:
    return sum(
        sum(said is not None for said in (step.reflection, step.error, *step.extra.values()))
        for step in trajectory.agent_steps
    )


def _sampled(trajectory: Trajectory) -> int:
    tokens = [tokens_of(one) for one in trajectory.llm_interactions]
    return sum(any((one.prompt_ids, one.completion_ids, one.logprobs)) for one in tokens)


_COUNTS: Mapping[str, Callable[[Trajectory], int]] = {
    UNANSWERED: lambda run: sum(_is_unanswered(one) for one in interactions_of(run)),
    ARGUMENTS: _calls,
    CHOICES: lambda run: sum(max(0, len(one.response.choices) - 1) for one in run.llm_interactions),
    EMBEDDINGS: lambda run: sum(one.api == "embeddings" for one in run.llm_interactions),
    ATTEMPTS: lambda run: sum(max(0, len(one.attempts) - 1) for one in run.llm_interactions),
    SAMPLED: _sampled,
    REMARKS: _remarks,
    UNASKED: lambda run: sum(len(one.calls) for one in unasked_of(run)),
    REWARDS: lambda run: len(run.rewards),
    ANNOTATIONS: lambda run: len(run.annotations),
    GAPS: lambda run: len(run.gaps),
}
