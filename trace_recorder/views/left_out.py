"""What formats have no place for, counted in the words in which `export` tells it.

Counted is what a run has of it. That which no run can put into a format, such as the bytes of a request, is not: the
format's page in `docs/views/` lists it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from trace_recorder.trajectory import LLMInteraction, Trajectory
from trace_recorder.views.tokens import tokens_of
from trace_recorder.views.turns import interactions_of


def count(trajectory: Trajectory, dropped: Counter[str], *what: str) -> None:
    """Add to `dropped` how much a run has of what a format leaves out, each by its name here."""
    for words in what:
        dropped[words] += _COUNTS[words](trajectory)


UNANSWERED = "calls that failed, are in flight, or whose prompt is damaged"
ARGUMENTS = "arguments that are no object, written as `input`"
CHOICES = "further choices of an answer"
EMBEDDINGS = "embeddings"
ATTEMPTS = "failed attempts"
SAMPLED = "calls with token ids or log-probabilities"
REMARKS = "reflections, errors and summaries of steps"
REWARDS, ANNOTATIONS, GAPS = "rewards", "annotations", "gaps"


def _is_unanswered(one: LLMInteraction) -> bool:
    response = one.response
    said = one.answered and (response.content or response.reasoning or response.tool_calls or not one.error)
    return not said or not one.source.is_whole()


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
    REWARDS: lambda run: len(run.rewards),
    ANNOTATIONS: lambda run: len(run.annotations),
    GAPS: lambda run: len(run.gaps),
}
