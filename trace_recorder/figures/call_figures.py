"""Facts of single calls that several formats and commands show.

The facts are the origin of a replayed answer, and the reason why a call is incomplete. `is_usage_left_out` says whether
a request did not ask for its usage, `counted_usage` counts usage in the same way for all dialects, and `sum_known` adds
known numbers. A replayed answer came from a recording: a replay, `serve`, or a fork before its fork point. No model was
asked. If a model gave the answer, the original run paid for its tokens. So an export writes the answer's token counts
and cost into a member that marks the call as replayed. Readers that sum tokens and costs do not read that member.
`docs/views/exports.md` names that member for each format. `sampled_tokens.py` has the ids of tokens, and
`values/token_counts.py` counts tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.dialects.dialect import dialect_of, may_omit_usage
from trace_recorder.dialects.json_access import as_dict, as_list
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Payload, Usage, without_none
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import counts_of, stated_cost


def is_usage_left_out(call: LLMInteraction) -> bool:
    """Whether a call's usage is missing because its request did not ask for it (`stream_options.include_usage`)."""
    if not (call.stream and call.complete and call.error is None) or call.response.usage.is_known:
        return False
    return may_omit_usage(call.api, as_dict(call.parameters.get("stream_options")).get("include_usage"))


def time_to_first_audio(call: LLMInteraction) -> float | None:
    """Return the seconds from the request to the first audio of an answer that came over a websocket.

    Return None if there is no audio, or if its time is not known. The stream of an answer with speech is read for it.
    """
    dialect = dialect_of(call.api)
    items = map(as_dict, as_list(call.response.extra.get("output")))
    parts = (as_dict(part) for item in items for part in as_list(item.get("content")))
    is_spoken = any("transcript" in part for part in parts)
    if dialect is None or dialect.websockets is None or not is_spoken:
        return None
    chunks = call.raw_chunks or ()
    return next((seconds for seconds, event in chunks if _AUDIO in event), None)


_AUDIO = b'audio.delta"'
"""The end of the type of each event that has audio."""


def sum_known(numbers: Iterable[float | None]) -> Payload:
    """Return the sum of the known numbers, or None if no number is known."""
    known = [number for number in numbers if number is not None]
    if not known:
        return None
    return sum(known)


# ── calls that were not made, because a recording gave their answers ─────────────────────────────────────────────────

REPLAYED_FROM = "replayed_from"
"""The name of the member that exports add to a replayed answer.

The member names the run and the call from which the answer comes.
"""


def made_calls(calls: Iterable[LLMInteraction]) -> list[LLMInteraction]:
    """Return the calls for which a model was asked. Calls with a replayed answer are left out."""
    return [call for call in calls if not call.is_replayed]


def without_replayed_usage(call: LLMInteraction) -> LLMInteraction:
    """Return a call unchanged, or without usage if its answer was replayed."""
    if not call.is_replayed:
        return call
    response: LLMResponse = replace(call.response, usage=Usage())
    return replace(call, response=response)


def origin_of(call: LLMInteraction, usage: Payload = None) -> dict[str, Payload] | None:
    """Return the origin of a replayed answer together with `usage`, or None if the answer was not replayed."""
    if call.replayed_from is None:
        return None
    return call.replayed_from.to_document() | without_none(usage=usage)


def counted_usage(call: LLMInteraction) -> dict[str, Payload]:
    """Return an answer's usage with the member names of a document, counted in the same way for all dialects."""
    counts = counts_of(call)
    if counts is None:
        return {}
    return without_none(
        input_tokens=counts.prompt,
        output_tokens=counts.completion,
        cache_creation_input_tokens=counts.cache_write,
        cache_read_input_tokens=counts.cache_read,
        reasoning_tokens=counts.reasoning,
        cost=stated_cost(call),
    )


# ── incomplete calls ─────────────────────────────────────────────────────────────────────────────────────────────────


def incomplete_reason(call: LLMInteraction, *, is_running: bool) -> str | None:
    """Return why a call is not complete. Return None if the call is complete, or if its error already says why.

    `is_running` tells whether the run is still being recorded.
    """
    if call.complete or (call.error and not call.ended_by):
        return None
    if call.ended_by:
        return f"it ended early: {call.ended_by}"
    if not call.answered and is_running:
        return "in flight, no answer yet"
    if not call.answered:
        return "no answer is on file"
    if is_running:
        return "in flight, the answer is still coming"
    return "the rest of the answer is not on file"
