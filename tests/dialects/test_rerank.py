"""Rankings: the query and the documents as messages, and the counts of each provider."""

from __future__ import annotations

import pytest

from trace_recorder.dialects import rerank
from trace_recorder.values.messages import LLMResponse, Message, Usage

RESULTS = [{"index": 1, "relevance_score": 0.9}]


@pytest.mark.parametrize("name", ["documents", "texts", "passages"])
def test_a_request_is_read(name: str) -> None:
    """The query is a message, and each document is a part of the next one, whatever form it has."""
    documents = ["tea", {"text": "cups", "title": "2"}, {"image": "data:x"}]
    reading = rerank.read_request({"model": "m", "query": "q", name: documents, "top_n": 1})

    parts = [{"type": "text", "text": "tea"}, {"type": "text", "text": "cups", "title": "2"}, {"image": "data:x"}]
    assert (reading.messages, reading.parameters, reading.model) == (
        [Message("user", "q"), Message("user", parts)],
        {"model": "m", "top_n": 1},
        "m",
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {
                "id": "1",
                "results": RESULTS,
                "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
            },
            LLMResponse(
                id="1",
                usage=Usage(extra={"search_units": 1}),
                extra={"results": RESULTS, "meta": {"api_version": {"version": "2"}}},
            ),
        ),
        (
            {"model": "m", "data": RESULTS, "usage": {"total_tokens": 9}},
            LLMResponse(model="m", usage=Usage(9, extra={"total_tokens": 9}), extra={"data": RESULTS}),
        ),
        (
            {"model": "m", "results": RESULTS, "usage": {"search_units": 1, "cost": 0.002}},
            LLMResponse(model="m", usage=Usage(cost=0.002, extra={"search_units": 1}), extra={"results": RESULTS}),
        ),
        (RESULTS, LLMResponse(extra={"results": RESULTS})),
    ],
    ids=["Cohere", "Voyage", "OpenRouter", "Text Embeddings Inference"],
)
def test_an_answer_is_read(body: object, expected: LLMResponse) -> None:
    """The results are as the provider has them, and what is counted is the usage."""
    assert rerank.read_response(body) == expected
