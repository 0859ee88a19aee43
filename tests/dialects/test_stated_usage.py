"""A provider's usage means what the provider says: tables of payloads, with the tokens that were made and the bill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder import TrajectoryRecorder, load
from trace_recorder.dialects.anthropic_messages import read_response as read_message
from trace_recorder.dialects.manual import read_usage as read_manual_usage
from trace_recorder.dialects.openai_chat import read_usage
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import counts_of, stated_cost

REASONED = {"completion_tokens_details": {"reasoning_tokens": 94}}
MADE: dict[str, tuple[Payload, int | None]] = {
    "xai: reasoning apart": ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135, **REASONED}, 103),
    "openai: reasoning included": (
        {"prompt_tokens": 32, "completion_tokens": 103, "total_tokens": 135, **REASONED},
        103,
    ),
    "responses": (
        {
            "input_tokens": 32,
            "output_tokens": 103,
            "total_tokens": 135,
            "output_tokens_details": {"reasoning_tokens": 94},
        },
        103,
    ),
    "no total, more reasoning than answer": ({"prompt_tokens": 32, "completion_tokens": 9, **REASONED}, 103),
    "no total": ({"prompt_tokens": 32, "completion_tokens": 95, **REASONED}, 95),
    "google: reasoning only in the total": ({"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 120}, 111),
    "cached tokens only in the total": (
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115, "cache_read_input_tokens": 100},
        5,
    ),
    "a total of another kind": ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 50, **REASONED}, 9),
    "a total that is too small": ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 0}, 9),
    "nothing": ({"total_tokens": 12}, None),
}


@pytest.mark.parametrize("case", MADE)
def test_output_tokens_include_reasoning(case: str) -> None:
    """The total of each payload decides whether the completion tokens include the reasoning tokens."""
    usage, made = MADE[case]
    assert read_usage(usage).output_tokens == made


def openrouter(cost: Payload, upstream: Payload, own_key: Payload = None) -> Payload:
    """Return the members of OpenRouter's usage that state a cost."""
    return {"cost": cost, "is_byok": own_key, "cost_details": {"upstream_inference_cost": upstream}}


BILLS: dict[str, tuple[Payload, float | None]] = {
    "own key": (openrouter(0, 0.036, True), 0.036),
    "own key, with a fee": (openrouter(0.0018, 0.036, True), 0.0378),
    "own key, not marked": (openrouter(0, 0.036), 0.036),
    "own key, no cost upstream": (openrouter(0, None, True), None),
    "no own key": (openrouter(0.04, 0.036, False), 0.04),
    "not marked": (openrouter(0.04, 0.036), 0.04),
    "free, as the gateway says": (openrouter(0, None, False), 0.0),
    "ticks": ({"cost_in_usd_ticks": 232_856_000}, 0.0232856),
    "ticks beside a cost": ({"cost_in_usd_ticks": 10_000_000_000, "cost": 0}, 1.0),
    "an object": ({"cost": {"input_tokens_cost": 0.1, "total_cost": 0.25}}, 0.25),
    "0 from a client": ({"cost": 0}, None),
    "none": ({}, None),
    "not a number": ({"cost": "free"}, None),
}


@pytest.mark.parametrize("case", BILLS)
def test_the_bill_is_what_the_user_pays(case: str, tmp_path: Path) -> None:
    """The bill has the price of the gateway and of the provider behind it. A 0 for tokens is not a bill."""
    members, bill = BILLS[case]
    with TrajectoryRecorder(tmp_path / "a.json") as recorder:
        usage = {"prompt_tokens": 9171, "completion_tokens": 113, "total_tokens": 9284, **members}
        answer = {"choices": [{"message": {"role": "assistant", "content": "ok"}}], "usage": usage}
        recorder.record_llm_interaction(
            [{"role": "user", "content": "hi"}], answer, provider="openrouter", model="openai/gpt-5"
        )
    run = load(tmp_path / "a.json")
    [call] = run.llm_interactions
    assert (stated_cost(call), run.metrics.get("cost")) == (pytest.approx(bill), pytest.approx(bill))


def test_a_model_that_is_free_by_its_name_costs_nothing(tmp_path: Path) -> None:
    """A stated 0 is believed if the name of the model says that the model is free."""
    with TrajectoryRecorder(tmp_path / "a.json") as recorder:
        answer = {"content": "ok", "usage": {"input_tokens": 9, "output_tokens": 1, "cost": 0}}
        recorder.record_llm_interaction(
            [{"role": "user", "content": "hi"}], answer, provider="openrouter", model="z-ai/glm-4.5-air:free"
        )
    assert load(tmp_path / "a.json").metrics["cost"] == 0


def iteration(kind: str, sent: int, answered: int, **members: Payload) -> Payload:
    """Return one iteration of Anthropic's usage."""
    return {"type": kind, "input_tokens": sent, "output_tokens": answered, **members}


COMPACTED = {
    "input_tokens": 23_000,
    "output_tokens": 1_000,
    "cache_read_input_tokens": 0,
    "iterations": [
        iteration("compaction", 180_000, 3_500, cache_read_input_tokens=500),
        iteration("message", 23_000, 1_000, cache_read_input_tokens=0),
    ],
}
ITERATIONS: dict[str, tuple[Payload, tuple[int | None, ...]]] = {
    "compaction": (COMPACTED, (203_000, 4_500, None, 500)),
    "advisor": (
        {
            "input_tokens": 412,
            "output_tokens": 531,
            "iterations": [
                iteration("message", 412, 89),
                iteration("advisor_message", 823, 1_612, model="claude-opus-4-6", cache_creation_input_tokens=7),
                iteration("message", 0, 442),
            ],
        },
        (1_235, 2_143, 7, None),
    ),
    "one": ({"input_tokens": 3, "output_tokens": 4, "iterations": [iteration("message", 3, 4)]}, (3, 4, None, None)),
    "none yet": ({"input_tokens": 3, "output_tokens": 4, "iterations": []}, (3, 4, None, None)),
    "not counts": ({"input_tokens": 3, "output_tokens": 4, "iterations": [None, {"x": 1}]}, (3, 4, None, None)),
    "fewer than the message": (
        {"input_tokens": 3, "output_tokens": 40, "iterations": [iteration("message", 3, 4)]},
        (3, 40, None, None),
    ),
}


@pytest.mark.parametrize("case", ITERATIONS)
def test_the_usage_of_a_message_has_all_its_iterations(case: str) -> None:
    """Only `iterations` has the tokens of a compaction and of an advisor. Its sums are the usage."""
    stated, counts = ITERATIONS[case]
    usage = read_message({"type": "message", "content": [], "usage": stated}).usage
    assert counts == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
    )


def test_a_usage_in_a_document_is_not_added_up_again() -> None:
    """What was read is rendered into the document. The document is read as it was."""
    for stated in (COMPACTED, {"input_tokens": 9, **openrouter(0.0018, 0.036, True)}):
        usage = read_manual_usage(stated)
        assert read_manual_usage(usage.to_document()) == usage


def test_compaction_in_a_session_of_claude_code_is_counted(tmp_path: Path) -> None:
    """The lines of a session have the usage of the API, with the iterations."""
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "usage": COMPACTED,
    }
    shared = {"sessionId": "s", "version": "2.1.0", "cwd": "/app", "isSidechain": False, "userType": "external"}
    lines = [
        {
            **shared,
            "type": "user",
            "uuid": "u",
            "parentUuid": None,
            "timestamp": "2026-03-01T10:00:00.000Z",
            "message": {"role": "user", "content": "hi"},
        },
        {
            **shared,
            "type": "assistant",
            "uuid": "a",
            "parentUuid": "u",
            "timestamp": "2026-03-01T10:00:05.000Z",
            "requestId": "r",
            "message": message,
        },
    ]
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    metrics = load(path).metrics
    assert (metrics["total_input_tokens"], metrics["output_tokens"]) == (203_500, 4_500)


GOOGLE: dict[str, tuple[Payload, tuple[int, int]]] = {
    "thoughts apart": ({"totalTokenCount": 1179}, (648, 531)),
    "no total": ({}, (648, 531)),
    "thoughts included": ({"totalTokenCount": 1062}, (648, 414)),
}


@pytest.mark.parametrize("case", GOOGLE)
def test_google_s_output_has_the_thoughts_once(case: str, tmp_path: Path) -> None:
    """The total of each payload decides whether the candidates include the thoughts."""
    total, counts = GOOGLE[case]
    usage = {
        "promptTokenCount": 75,
        "candidatesTokenCount": 414,
        "toolUsePromptTokenCount": 573,
        "thoughtsTokenCount": 117,
        **total,
    }
    answer = {"candidates": [{"content": {"parts": [{"text": "ok"}]}}], "usageMetadata": usage}
    path = tmp_path / "a.json"
    with TrajectoryRecorder(path) as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "hi"}], answer, provider="google", model="gemini")
    [call] = load(path).llm_interactions
    counted = counts_of(replace(call, api="google-generate"))
    assert counted is not None
    assert (counted.prompt, counted.completion) == counts
