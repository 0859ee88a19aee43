"""Counts the contents of a run that a format cannot represent, by the descriptions that `export` prints.

Each format declares which contents it supports in each kind of message (`FormatSupport`). All other contents of
messages are counted by their kind, even if no table lists that kind. A content that a format keeps only in free
metadata counts as left out, because readers of the format do not look there. Facts that no export format can carry,
such as the bytes of a request, are not counted. `docs/views/` lists them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, get_args

from trace_recorder.dialects.dialect import is_turn
from trace_recorder.figures.content.chat_form import describe_part
from trace_recorder.figures.content.kinds import Content, Location, contents_of, contents_of_answer
from trace_recorder.figures.conversations.steps_of_turns import unrequested_tools_of
from trace_recorder.figures.sampled_tokens import tokens_of
from trace_recorder.formats.format_writer import LeftOut
from trace_recorder.reading.relations.calls_of_run import interactions_of
from trace_recorder.reading.relations.turn import Turn
from trace_recorder.values.content_parts import Part
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.prompt_comparison import Relation
from trace_recorder.values.trajectory import Trajectory

Side = Literal["instructions", "questions", "tool results", "answers"]
SIDES: tuple[Side, ...] = get_args(Side)
_SIDE_OF_ROLE: Mapping[str, Side] = {
    **dict.fromkeys(("system", "developer"), "instructions"),
    "tool": "tool results",
    "assistant": "answers",
}


@dataclass(frozen=True, slots=True)
class ContentSupport:
    """The contents that a format supports in addition to texts: these kinds, and everything in these locations."""

    kinds: frozenset[str] = frozenset()
    locations: frozenset[Location] = frozenset()

    @classmethod
    def of(cls, *kinds: str, locations: tuple[Location, ...] = ()) -> ContentSupport:
        """Return the support for contents of these kinds, and for all contents in these locations."""
        return cls(frozenset(kinds), frozenset(locations))

    def supports(self, content: Content) -> bool:
        """Whether the format supports a content."""
        return content.kind in self.kinds or content.location in self.locations


MAX_STRING = 2000
"""`other_part_as_text` cuts a string that has more characters than this."""
FormatSupport = Mapping[Side, ContentSupport]
"""The supported contents, by the kind of message (`Side`).

In messages of any other kind, the format supports only texts and tool calls.
"""
_TEXT_ONLY = ContentSupport()


def count_unsupported_contents(turns: Iterable[Turn], left_out: LeftOut, statement: FormatSupport) -> None:
    """Count the contents of a run's messages that a format does not support. A repeated content counts once."""
    for side, content in _contents(turns):
        if not statement.get(side, _TEXT_ONLY).supports(content):
            left_out.add(f"{content.kind} in {side}")


def _contents(turns: Iterable[Turn]) -> Iterator[tuple[Side, Content]]:
    """Yield the contents of a run's messages and answers.

    A content that a changed history or a second attempt repeats is yielded once.
    """
    seen: set[bytes] = set()
    followed: set[Turn | None] = set()
    for turn in turns:
        new = [
            (_SIDE_OF_ROLE.get(message.role, "questions"), content)
            for message in turn.new_messages
            for content in contents_of(message)
        ]
        digests = [_digest(side, content) for side, content in new]
        repeats = not turn.exact or turn.previous in followed
        for (side, content), digest in zip(new, digests, strict=True):
            if not (repeats and digest in seen):
                yield side, content
        followed.add(turn.previous)
        seen.update(digests)
        for content in contents_of_answer(turn.interaction.response):
            seen.add(_digest("answers", content))
            yield "answers", content


def other_part_as_text(part: Part, left_out: LeftOut) -> dict[str, Payload]:
    """Return a part that is neither text nor image as a text part with its JSON.

    If long strings are cut, the part is counted in `left_out`.
    """
    text, cut = describe_part(part, MAX_STRING)
    left_out.add("long strings in parts that are neither text nor image", cut)
    return {"type": "text", "text": text}


def count_changed_histories(turns: Iterable[Turn], left_out: LeftOut, *relations: Relation) -> None:
    """Count the calls with these relations to an earlier call, for a format in which each message is written once."""
    left_out.add(CHANGED, sum(turn.relation in relations and turn.previous is not None for turn in turns))


def _digest(side: Side, content: Content) -> bytes:
    text = json.dumps([side, content.kind, content.raw], sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def count(trajectory: Trajectory, left_out: LeftOut, *what: str) -> None:
    """Count the contents of a run that have one of these descriptions."""
    for words in what:
        left_out.add(words, _COUNTS[words](trajectory))


def count_all_but(trajectory: Trajectory, left_out: LeftOut, *supported: str) -> None:
    """Count everything that this module counts, except what a format supports."""
    count(trajectory, left_out, *(words for words in _COUNTS if words not in supported))


REPLAYED = "calls that were not made: a replay or a fork gave their answers"
SIDE_CALLS = "side calls, such as for a title: no tools were offered, and no call continues them"
UNANSWERED = "calls that failed, are in flight, or whose prompt is damaged"
CHANGED = "calls whose history the agent had changed: each message is as it was first sent"
ARGUMENTS = "arguments that are not an object, written as `input`"
CHOICES = "further choices of an answer"
OTHER_CALLS = "calls that are no turns: embeddings, images, sounds, rankings"
ATTEMPTS = "failed attempts"
SAMPLED = "calls with token ids or log-probabilities"
STEP_NOTES = "reflections, errors and summaries of steps"
UNREQUESTED_TOOLS = "tools that ran although no model called them"
REWARDS, ANNOTATIONS, GAPS = "rewards", "annotations", "gaps"


def _is_unanswered(call: LLMInteraction) -> bool:
    response = call.response
    has_answer = call.answered and (response.content or response.reasoning or response.tool_calls or not call.error)
    return not has_answer or not call.source.has_request()


def _count_odd_arguments(trajectory: Trajectory) -> int:
    return sum(
        not isinstance(tool_call.arguments, dict)
        for call in interactions_of(trajectory)
        for tool_call in call.response.tool_calls
    )


def _count_step_notes(trajectory: Trajectory) -> int:
    return sum(
        sum(note is not None for note in (step.reflection, step.error, *step.extra.values()))
        for step in trajectory.agent_steps
    )


def _count_sampled(trajectory: Trajectory) -> int:
    all_tokens = map(tokens_of, trajectory.llm_interactions)
    return sum(any((tokens.prompt_ids, tokens.completion_ids, tokens.logprobs)) for tokens in all_tokens)


_COUNTS: Mapping[str, Callable[[Trajectory], int]] = {
    UNANSWERED: lambda run: sum(_is_unanswered(call) for call in interactions_of(run)),
    ARGUMENTS: _count_odd_arguments,
    CHOICES: lambda run: sum(max(0, len(call.response.choices) - 1) for call in run.llm_interactions),
    OTHER_CALLS: lambda run: sum(not is_turn(call.api) for call in run.llm_interactions),
    ATTEMPTS: lambda run: sum(max(0, len(call.attempts) - 1) for call in run.llm_interactions),
    SAMPLED: _count_sampled,
    STEP_NOTES: _count_step_notes,
    UNREQUESTED_TOOLS: lambda run: sum(len(tool.calls) for tool in unrequested_tools_of(run)),
    REWARDS: lambda run: len(run.rewards),
    ANNOTATIONS: lambda run: len(run.annotations),
    GAPS: lambda run: len(run.gaps),
}
