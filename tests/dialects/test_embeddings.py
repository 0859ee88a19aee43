"""Embeddings: no messages, the usage, and no vectors outside the raw answer."""

from __future__ import annotations

import pytest

from trace_recorder.dialects import embeddings
from trace_recorder.values.messages import LLMResponse, RequestReading, Usage


def test_a_request_is_read():
    """The input of embeddings is a parameter, and there are no messages."""
    body = {"model": "m", "input": ["a", "b"], "dimensions": 8}
    assert embeddings.read_request(body) == RequestReading(parameters=body, model="m")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"object": "list", "data": [{"embedding": [0.1]}], "model": "m", "usage": {"prompt_tokens": 2}},
            LLMResponse(usage=Usage(2), model="m", extra={"object": "list"}),
        ),
        (
            {"model": "m", "embeddings": [[0.1]], "prompt_eval_count": 2, "load_duration": 9},
            LLMResponse(usage=Usage(2), model="m", extra={"load_duration": 9}),
        ),
        ({"embedding": [0.1]}, LLMResponse()),
        (
            {"embedding": [0.1], "embeddingsByType": {"float": [0.1]}, "inputTextTokenCount": 2},
            LLMResponse(usage=Usage(2)),
        ),
        ({"embedding": {"values": [0.1]}}, LLMResponse()),
        (
            {"embeddings": [{"values": [0.1]}], "usageMetadata": {"promptTokenCount": 2, "promptTokensDetails": []}},
            LLMResponse(usage=Usage(2, extra={"promptTokensDetails": []})),
        ),
        (
            {"predictions": [{"embeddings": {"values": [0.1], "statistics": {"token_count": 2}}}] * 2},
            LLMResponse(usage=Usage(4)),
        ),
        (
            {"id": "1", "embeddings": {"float": [[0.1]]}, "meta": {"billed_units": {"input_tokens": 2}}},
            LLMResponse(usage=Usage(2), id="1"),
        ),
        (
            {"data": [{"embedding": [0.1]}], "usage": {"total_tokens": 2}},
            LLMResponse(usage=Usage(2, extra={"total_tokens": 2})),
        ),
        ({"error": {"code": "401"}}, LLMResponse(extra={"error": {"code": "401"}})),
        ([0.1], LLMResponse()),
    ],
)
def test_an_answer_is_read_without_its_vectors(body, expected):
    """Each provider's answer gives its usage without the vectors."""
    assert embeddings.read_response(body) == expected
