"""The sampled tokens of an interaction: their ids and log-probabilities.

vLLM, OpenAI and similar servers, and Google put them into different members. `values/token_counts.py` counts tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trace_recorder.dialects.dialect import may_omit_usage
from trace_recorder.dialects.json_access import as_dict, as_list
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Choice, Payload

_ID_IN_TOKEN = re.compile(r"token_id:(\d+)")


def is_usage_left_out(call: LLMInteraction) -> bool:
    """Whether a call's usage is missing because its request did not ask for it (`stream_options.include_usage`)."""
    if not (call.stream and call.complete and call.error is None) or call.response.usage.is_known:
        return False
    return may_omit_usage(call.api, as_dict(call.parameters.get("stream_options")).get("include_usage"))


def sum_known(numbers: Iterable[float | None]) -> Payload:
    """Return the sum of the known numbers, or None if no number is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Tokens:
    """The sampled tokens, as the server sent them. None means unknown."""

    prompt_ids: list[int] | None = None
    completion_ids: list[int] | None = None
    logprobs: list[float] | None = None


def tokens_of(call: LLMInteraction) -> Tokens:
    """Return the token ids and the log-probabilities of an interaction's first answer."""
    choice = call.response.choices[0] if call.response.choices else Choice(0)
    members = {**call.response.extra, **choice.extra}
    scored = list(_scored(members))
    ids = _numbers(members.get("token_ids")) or _numbers([identity for identity, _ in scored])
    logprobs = [logprob for _, logprob in scored if isinstance(logprob, int | float)]
    return Tokens(
        _numbers(members.get("prompt_token_ids")),
        ids,
        logprobs if logprobs and len(logprobs) == len(scored) else None,
    )


def _scored(members: dict[str, Payload]) -> Iterator[tuple[Payload, Payload]]:
    """Yield the id of each token, or None, and its log-probability."""
    scores = members.get("logprobs")
    for token in _dicts(scores.get("content") if isinstance(scores, dict) else scores):
        match = _ID_IN_TOKEN.fullmatch(str(token.get("token")))
        yield int(match[1]) if match else None, token.get("logprob")
    for token in _dicts(as_dict(members.get("logprobsResult")).get("chosenCandidates")):
        yield token.get("tokenId"), token.get("logProbability")


def _dicts(elements: Payload) -> list[dict[str, Payload]]:
    return [element for element in as_list(elements) if isinstance(element, dict)]


def _numbers(value: Payload) -> list[int] | None:
    return value if isinstance(value, list) and value and all(isinstance(number, int) for number in value) else None
