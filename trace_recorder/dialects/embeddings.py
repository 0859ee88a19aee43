"""Embeddings, of OpenAI's dialect (/embeddings) and of Ollama's (/api/embed, /api/embeddings).

Embeddings have no conversation: the input is a parameter, and only the raw answer has the vectors.
"""

from __future__ import annotations

from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_text
from trace_recorder.dialects.openai_chat import not_found, read_usage
from trace_recorder.dialects.stream_framing import unstreamed
from trace_recorder.values.messages import JoinedStream, LLMResponse, Payload, RequestReading, Usage
from trace_recorder.values.token_counts import WHOLE


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    parameters = Members(body).all()
    return RequestReading(parameters=parameters, model=as_text(parameters.get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 no calls here
    """Read a response's JSON, without its vectors."""
    members = Members(body)
    for vectors in ("data", "embeddings", "embedding"):
        members.array(vectors)
    usage = read_usage(members.object("usage"))
    if not usage.is_known and (tokens := members.integer("prompt_eval_count")) is not None:
        usage = Usage(input_tokens=tokens)
    return LLMResponse(usage=usage, model=members.text("model"), id=members.text("id"), extra=members.rest())


def join_stream(text: str) -> JoinedStream:
    """Read the body of an answer. Embeddings are not streamed."""
    return unstreamed(text)


DIALECT = Dialect(
    name="embeddings",
    addresses={r"^/api/(?:.*/)?(?:embeddings|embed)/?$": "ollama", r"/(?:embeddings|embed)/?$": "openai"},
    sdks=("openai", "ollama"),
    headers={},
    operation="embeddings",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
)
