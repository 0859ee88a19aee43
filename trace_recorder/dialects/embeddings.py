"""Embeddings, of OpenAI's dialect (/embeddings), of Cohere's (/embed), of Ollama's (/api/embed, /api/embeddings), of
Google's (:embedContent, :batchEmbedContents, and :predict of embedding models), and of embedding models at Bedrock.

Embeddings have no conversation: the input is a parameter, and only the raw answer has the vectors.
"""

from __future__ import annotations

from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_dict, as_int, as_list, as_text
from trace_recorder.dialects.openai_chat import not_found, read_usage
from trace_recorder.dialects.stream_framing import unstreamed
from trace_recorder.values.messages import LLMResponse, Payload, RequestReading, Usage
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import WHOLE


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    parameters = Members(body).all()
    return RequestReading(parameters=parameters, model=as_text(parameters.get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 no calls here
    """Read a response's JSON, without its vectors."""
    members = Members(body)
    usage = read_input_usage(members)
    for vectors in ("data", "embeddings", "embedding", "embeddingsByType", "predictions"):
        members.take(vectors)
    return LLMResponse(usage=usage, model=members.text("model"), id=members.text("id"), extra=members.rest())


def read_input_usage(members: Members) -> Usage:
    """Take the usage of an answer for which a model has read tokens and made none.

    OpenAI has a `usage`. A total alone is the number of input tokens, as at Voyage. Cohere states what is billed in
    `meta`, and Google states tokens in `usageMetadata`, or for each vector.
    """
    counts = members.object("usage")
    if not counts:
        meta = members.nested("meta")
        counts = {**meta.object("tokens"), **meta.object("billed_units")}
    of_google = Members(members.object("usageMetadata"))
    usage = read_usage(counts)
    if usage.input_tokens is not None:
        return usage
    alternatives = (
        of_google.integer("promptTokenCount"),
        members.first_integer("prompt_eval_count", "inputTextTokenCount"),
        as_int(counts.get("total_tokens")),
        _of_vectors(members),
    )
    tokens = next((count for count in alternatives if count is not None), None)
    return replace(usage, input_tokens=tokens, extra=usage.extra | of_google.rest())


def _of_vectors(members: Members) -> int | None:
    predictions = map(as_dict, as_list(members.get("predictions")))
    statistics = [as_dict(as_dict(vector.get("embeddings")).get("statistics")) for vector in predictions]
    counts = [as_int(counted.get("token_count")) for counted in statistics]
    known = [count for count in counts if count is not None]
    if not known:
        return None
    return sum(known)


DIALECT = Dialect(
    name="embeddings",
    addresses={
        r"^/api/(?:.*/)?(?:embeddings|embed)/?$": "ollama",
        r"/(?:embeddings|embed)/?$": "openai",
        r"/model/[^/]*embed[^/]*/invoke$": "bedrock",
        r":(?:embedContent|batchEmbedContents)$|/models/[^/:]*embedding[^/:]*:predict$": "google",
    },
    sdks=("openai", "ollama", "google"),
    headers={},
    operation="embeddings",
    read_request=read_request,
    read_response=read_response,
    join_stream=unstreamed,
    not_found=not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
