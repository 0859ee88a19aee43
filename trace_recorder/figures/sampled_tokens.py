"""The tokens of a call as its server stated them: ids, log-probabilities, and the version of the weights.

Each server has its own members, and `tokens_of` is the one place that knows their names:

- vLLM: `prompt_token_ids` and `choices[].token_ids`. Its `/inference/v1/generate` gets the prompt as `token_ids`.
- SGLang in OpenAI's forms: `choices[].prompt_token_ids`, `.response_token_ids` (chat) or `.token_ids` (completions), or
  for the whole answer `sglext.input_ids` and `.output_ids[]`. The version of the weights is in `metadata`.
- SGLang's `/generate`: the request's `input_ids`, `output_ids`, and `meta_info.output_token_logprobs`, a list of
  `[logprob, id, text]`.
- llama.cpp's `/completion`: the request's `prompt` if it is a list of ids, `tokens`, and `completion_probabilities[]`.
- log-probabilities of OpenAI: `logprobs.content[]`, or lists in `logprobs` (completions). vLLM may write a token as
  `token_id:7`. Gemini: `logprobsResult.chosenCandidates[]`.

Sources: vLLM 0.33 (`vllm/entrypoints`), SGLang 0.5.23 (`sglang/srt/entrypoints/openai/protocol.py`,
`managers/tokenizer_manager.py`), llama.cpp's `tools/server/README.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trace_recorder.dialects.json_access import as_dict, as_int, as_list
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.reading.relations.turn import choice_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

_ID_IN_TOKEN = lazy_pattern(r"token_id:(\d+)")
_ID_LIMIT = 1 << 62
_OF_ANSWERS = frozenset(
    {
        *("prompt_token_ids", "token_ids", "response_token_ids", "output_ids", "tokens", "sglext"),
        *("logprobs", "logprobsResult", "completion_probabilities", "meta_info", "metadata"),
        *("weight_version", "weight_versions"),
    }
)
_OF_REQUESTS = frozenset({"token_ids", "input_ids", "prompt"})
"""The members of answers and of requests that may state tokens. Most calls have none of them."""


@dataclass(frozen=True, slots=True)
class WeightVersion:
    """The version of the weights that sampled the tokens of an answer from `begin` up to `end` (excluded).

    `end` is None if the server stated one version for the whole answer.
    """

    version: str
    begin: int = 0
    end: int | None = None


class Tokens(Struct, frozen=True, gc=False):
    """The ids and log-probabilities of a call's tokens, as the server sent them. None means unknown.

    `logprobs` has a number for each token of the answer. Only some servers state ids for them.
    """

    prompt_ids: list[int] | None = None
    completion_ids: list[int] | None = None
    logprobs: list[float] | None = None
    weight_versions: tuple[WeightVersion, ...] = ()


def tokens_of(call: LLMInteraction, choice: int = 0) -> Tokens:
    """Return the token ids of the prompt, and the ids and log-probabilities of one answer."""
    root = call.response.extra
    own = root
    if call.response.choices:
        own = choice_of(call.response, choice).extra
        if choice == 0:
            own = {**root, **call.response.choices[0].extra}
    if not (_has_any(own, _OF_ANSWERS) or _has_any(root, _OF_ANSWERS) or _has_any(call.parameters, _OF_REQUESTS)):
        return Tokens()
    scored = [*_scored_tokens(own)]
    logprobs: list[float] | None = [score for _, score in scored if isinstance(score, int | float)]
    if not logprobs or len(logprobs) < len(scored):
        logprobs = None
    return Tokens(
        _first_ids(_prompt_ids(call, root, own)),
        _first_ids(_completion_ids(root, own, choice, scored)),
        logprobs,
        _weight_versions(root, own),
    )


def _has_any(members: dict[str, Payload], names: frozenset[str]) -> bool:
    return any(members[name] is not None for name in names & members.keys())


def _prompt_ids(call: LLMInteraction, root: dict[str, Payload], own: dict[str, Payload]) -> Iterator[Payload]:
    yield own.get("prompt_token_ids")
    yield root.get("prompt_token_ids")
    yield as_dict(root.get("sglext")).get("input_ids")
    for name in ("token_ids", "input_ids", "prompt"):
        yield call.parameters.get(name)


def _completion_ids(
    root: dict[str, Payload], own: dict[str, Payload], choice: int, scored: list[tuple[Payload, Payload]]
) -> Iterator[Payload]:
    for name in ("token_ids", "response_token_ids", "output_ids", "tokens"):
        yield own.get(name)
    yield next(iter(as_list(as_dict(root.get("sglext")).get("output_ids"))[choice : choice + 1]), None)
    yield [identity for identity, _ in scored]


def _first_ids(candidates: Iterator[Payload]) -> list[int] | None:
    for ids in candidates:
        if isinstance(ids, list) and ids and all(type(one) is int and 0 <= one < _ID_LIMIT for one in ids):
            return ids
    return None


def _scored_tokens(members: dict[str, Payload]) -> Iterator[tuple[Payload, Payload]]:
    """Yield the id and the log-probability of each sampled token. The id is None if the server sent no ids."""
    scores = members.get("logprobs")
    if isinstance(scores, dict) and isinstance(texts := scores.get("tokens"), list):  # the form of /completions
        for text, score in zip(texts, as_list(scores.get("token_logprobs")), strict=False):
            yield _id_in(text), score
        return
    if isinstance(scores, dict):
        scores = scores.get("content")
    for token in _dicts(scores):
        yield token.get("token_id", _id_in(token.get("token"))), token.get("logprob")
    for token in _dicts(as_dict(members.get("logprobsResult")).get("chosenCandidates")):
        yield token.get("tokenId"), token.get("logProbability")
    for token in _dicts(members.get("completion_probabilities")):
        yield token.get("id"), token.get("logprob")
    if scores is None:
        for token in as_list(as_dict(members.get("meta_info")).get("output_token_logprobs")):
            score, identity, *_ = [*as_list(token), None, None]
            yield identity, score


def _id_in(token: Payload) -> int | None:
    match = _ID_IN_TOKEN.fullmatch(str(token))
    if match is None:
        return None
    return int(match[1])


def _weight_versions(root: dict[str, Payload], own: dict[str, Payload]) -> tuple[WeightVersion, ...]:
    for members in (own, as_dict(own.get("meta_info")), as_dict(root.get("metadata"))):
        spans = _dicts(members.get("weight_versions"))
        if spans:
            return tuple(
                WeightVersion(str(span.get("version")), as_int(span.get("start")) or 0, as_int(span.get("end")))
                for span in spans
            )
        version = members.get("weight_version")
        if isinstance(version, str | int) and version != "":
            return (WeightVersion(str(version)),)
    return ()


def _dicts(elements: Payload) -> list[dict[str, Payload]]:
    return [element for element in as_list(elements) if isinstance(element, dict)]
