"""Rankings of documents by how well they fit a query (/rerank), of Cohere, Jina, Voyage, OpenRouter, Together, vLLM and
others, and of ranking models at Bedrock.

The query is a message of the user, and the documents are the parts of a second one. The answer has positions and
scores, and no text: they are in `extra`. Providers count search units or tokens, and have different places for them.
"""

from __future__ import annotations

from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.embeddings import read_input_usage
from trace_recorder.dialects.json_access import Members, as_dict, as_text, text_part
from trace_recorder.dialects.openai_chat import not_found
from trace_recorder.dialects.stream_framing import unstreamed
from trace_recorder.values.messages import LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.token_counts import WHOLE

_DOCUMENTS = ("documents", "texts", "passages")


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    query = members.take("query")
    documents = [_part(document) for name in _DOCUMENTS for document in members.array(name)]
    messages = []
    if query is not None:
        messages.append(Message("user", query if isinstance(query, str) else [_part(query)]))
    if documents:
        messages.append(Message("user", documents))
    parameters = members.all()
    return RequestReading(messages, parameters=parameters, model=as_text(parameters.get("model")))


def _part(document: Payload) -> Payload:
    if isinstance(document, str):
        return text_part(document)
    text = as_dict(document).get("text")
    if not isinstance(text, str):
        return document
    return text_part(text, {name: value for name, value in as_dict(document).items() if name not in ("text", "type")})


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 no calls here
    """Read a response's JSON. Text Embeddings Inference answers with the list alone."""
    if isinstance(body, list):
        body = {"results": body}
    members = Members(body)
    usage = read_input_usage(members)
    return LLMResponse(usage=usage, model=members.text("model"), id=members.text("id"), extra=members.rest())


DIALECT = Dialect(
    name="rerank",
    addresses={r"/(?:rerank|reranking)/?$": "cohere", r"/model/[^/]*rerank[^/]*/invoke$": "bedrock"},
    sdks=(),
    headers={},
    operation="rerank",
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
