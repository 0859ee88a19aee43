"""Embeddings, of OpenAI's dialect (/embeddings) and of Ollama's (/api/embed, /api/embeddings).

There is no conversation: the input is a parameter, and the vectors are only in the raw answer.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import Members, as_text
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.dialects.sse import unstreamed
from trace_recorder.values.messages import JoinedStream, LLMResponse, Payload, RequestReading, Usage


def read_request(body: Payload) -> RequestReading:
    """Read the JSON that was sent."""
    parameters = Members(body).all()
    return RequestReading(parameters=parameters, model=as_text(parameters.get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 no calls here
    """Read the JSON that came, without its vectors."""
    members = Members(body)
    for vectors in ("data", "embeddings", "embedding"):
        members.array(vectors)
    usage = read_usage(members.object("usage"))
    if not usage.is_known and (tokens := members.integer("prompt_eval_count")) is not None:
        usage = Usage(input_tokens=tokens)
    return LLMResponse(usage=usage, model=members.text("model"), id=members.text("id"), extra=members.rest())


def join_stream(text: str) -> JoinedStream:
    """Read the answer: embeddings are not streamed."""
    return unstreamed(text)
