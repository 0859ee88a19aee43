"""Estimates use every rate of the table. What has no rate is named."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import Answer, Wire
from tests.cli.invoking import invoke
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.figures.billed_units import with_billed_units
from trace_recorder.figures.cost import RunCosts, cost_of, costs_of_calls
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Choice, LLMResponse, Payload, Usage
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import Counts

pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
MILLION = 1_000_000


@pytest.fixture
def call(tmp_path: Path) -> LLMInteraction:
    """Return a call in November 2026. Later prices do not matter."""
    with TrajectoryRecorder(tmp_path / "made.json") as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "hi"}], "ok", provider="anthropic", model="m")
    [call] = load(tmp_path / "made.json").llm_interactions
    return replace(call, timestamp="2026-11-01T12:00:00+00:00")


def used(call: LLMInteraction, api: str, provider: str, model: str, usage: Usage, **extra: Payload) -> LLMInteraction:
    """Return the call with another model and usage."""
    response = LLMResponse("ok", model=model, usage=usage, choices=(Choice(0, "ok"),), extra=extra)
    return replace(call, api=api, provider=provider, model=model, response=response)


def sonnet(call: LLMInteraction, usage: Usage) -> LLMInteraction:
    """Return a call of Claude Sonnet 4.6: $3 in, $15 out, $3.75 and $6 written to a cache."""
    return used(call, "anthropic-messages", "anthropic", "claude-sonnet-4-6", usage)


def written(hour: int, minutes: int) -> Usage:
    """Return a usage that only wrote to the caches."""
    lifetimes = {"ephemeral_1h_input_tokens": hour, "ephemeral_5m_input_tokens": minutes}
    return Usage(0, 0, hour + minutes, 0, extra={"cache_creation": lifetimes})


@pytest.mark.parametrize(
    ("hour", "minutes", "dollars"), [(MILLION, 0, 6.0), (0, MILLION, 3.75), (MILLION // 2, MILLION // 2, 4.875)]
)
def test_writes_to_the_one_hour_cache_have_their_rate(
    call: LLMInteraction, hour: int, minutes: int, dollars: float
) -> None:
    """Tokens that are cached for an hour cost more than tokens that are cached for five minutes."""
    cost = cost_of(sonnet(call, written(hour, minutes)))
    assert cost is not None
    assert (cost.amount, cost.without_rate) == (pytest.approx(dollars), ())


def test_hour_writes_of_iterations_are_counted_once(call: LLMInteraction) -> None:
    """The usage of the message repeats what its iterations state."""
    whole = written(MILLION, 0)
    iterations = [{"type": "message", "input_tokens": 0, "cache_creation": whole.extra["cache_creation"]}]
    cost = cost_of(sonnet(call, replace(whole, extra={**whole.extra, "iterations": iterations})))
    assert cost is not None
    assert cost.amount == pytest.approx(6.0)


def test_bedrock_states_lifetimes_in_a_list(call: LLMInteraction) -> None:
    """A model whose table has no rate for an hour is priced without these tokens, and that is named."""
    usage = Usage(MILLION, 0, MILLION, 0, extra={"cacheDetails": [{"ttl": "1h", "inputTokens": MILLION}]})
    cost = cost_of(used(call, "bedrock-converse", "bedrock", "amazon.nova-pro-v1:0", usage))
    assert cost is not None
    assert (cost.amount, cost.without_rate) == (pytest.approx(0.8), ("cache_write_1h_tokens",))


def test_searches_have_their_rate(call: LLMInteraction) -> None:
    """A search costs a cent at Anthropic, and at OpenAI. Opening a page is not a search."""
    usage = Usage(0, 0, extra={"server_tool_use": {"web_search_requests": 3}})
    items: list[Payload] = [{"type": "web_search_call", "action": {"type": kind}} for kind in ("search", "open_page")]
    openai = used(call, "openai-responses", "openai", "gpt-4o", Usage(0, 0), output=[*items, {"type": "message"}])
    costs = cost_of(sonnet(call, usage)), cost_of(openai)
    assert [cost and round(cost.amount, 9) for cost in costs] == [0.03, 0.01]


def test_work_without_a_rate_is_named(call: LLMInteraction) -> None:
    """The amount has the tokens. The run has a call whose cost is not known in full."""
    made = used(
        call, "openai-responses", "openai", "gpt-4o", Usage(MILLION, 0), output=[{"type": "code_interpreter_call"}]
    )
    cost = cost_of(made)
    assert cost is not None
    assert (cost.amount, cost.without_rate) == (2.5, ("code_executions",))
    assert costs_of_calls([made]) == RunCosts(2.5, estimated=True, calls_without_price=1)


@pytest.mark.parametrize(
    ("tier", "dollars"),
    [("default", 1.25), ("auto", 1.25), (None, 1.25), ("flex", 0.625), ("priority", 2.5), ("batch", 0.625)],
)
def test_service_tiers_have_their_rates(call: LLMInteraction, tier: str | None, dollars: float) -> None:
    """The tier that the answer states decides, and not the tier that was asked for."""
    made = used(call, "openai-responses", "openai", "gpt-5", Usage(MILLION, 0), service_tier=tier)
    cost = cost_of(made)
    assert cost is not None
    assert (cost.amount, cost.without_rate) == (pytest.approx(dollars), ())


def test_a_tier_without_a_rate_has_no_price(call: LLMInteraction) -> None:
    """Tokens on special terms are not priced as usual tokens."""
    made = used(call, "openai-chat", "openai", "gpt-4o", Usage(9, 1), service_tier="scale")
    assert (cost_of(made), costs_of_calls([made])) == (None, RunCosts(calls_without_price=1))


def test_audio_has_its_rate(call: LLMInteraction) -> None:
    """OpenAI states sounds in details, and Google in a list of modalities."""
    spoken = {"prompt_tokens_details": {"audio_tokens": MILLION}}
    openai = used(call, "openai-chat", "openai", "gpt-audio", Usage(MILLION, 0, extra=spoken))
    heard = {"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": MILLION}]}
    google = used(call, "google-generate", "google", "gemini-2.5-flash", Usage(MILLION, 0, extra=heard))
    costs = cost_of(openai), cost_of(google)
    assert [cost and cost.amount for cost in costs] == [32.0, 1.0]


def test_an_advisor_is_priced_as_its_model(call: LLMInteraction) -> None:
    """The iterations of another model have the rates of that model."""
    iterations = [
        {"type": "message", "input_tokens": MILLION, "output_tokens": 100_000},
        {"type": "advisor_message", "model": "claude-opus-4-6", "input_tokens": 500_000, "output_tokens": 200_000},
    ]
    cost = cost_of(sonnet(call, Usage(1_500_000, 300_000, extra={"iterations": iterations})))
    of_sonnet, of_opus = 1 * 3 + 0.1 * 15, 0.5 * 5 + 0.2 * 25
    assert cost is not None
    assert (cost.amount, cost.without_rate) == (pytest.approx(of_sonnet + of_opus), ())


def test_a_stated_0_is_estimated(call: LLMInteraction) -> None:
    """A client without a price list states 0 for a paid model."""
    cost = cost_of(sonnet(call, Usage(MILLION, 0, cost=0)))
    assert cost is not None
    assert (cost.amount, cost.estimated) == (3.0, True)


@pytest.mark.parametrize(
    ("provider", "model", "usage", "extra", "dollars"),
    [
        ("openai", "whisper-1", {"type": "duration", "seconds": 3599.2}, {}, 0.36),
        ("openai", "whisper-1", {}, {"duration": 1800.0}, 0.18),
        ("groq", "whisper-large-v3", {}, {"duration": 3600}, 0.111),
        ("openai", "whisper-1", {}, {}, None),
        ("openai", "whisper-1", {"seconds": float("nan")}, {"duration": 3600}, None),
        ("openai", "gpt-4o-transcribe", {"type": "duration", "seconds": 60}, {}, None),
    ],
)
def test_transcriptions_are_priced_by_the_length_of_the_sound(  # noqa: PLR0913
    call: LLMInteraction, provider: str, model: str, usage: Payload, extra: dict[str, Payload], dollars: float | None
) -> None:
    """The length is in the usage, or in the answer. A model whose table has no rate for it has an unknown price."""
    cost = cost_of(used(call, "transcriptions", provider, model, Usage(extra=usage), **extra))
    assert (cost and cost.amount) == (None if dollars is None else pytest.approx(dollars))


def test_lists_price_a_run_that_has_only_a_transcription(tmp_path: Path) -> None:
    """The run states no tokens. A list reads only the members of the document that affect the price."""
    answer = {"text": "ok", "usage": {"type": "duration", "seconds": 100}}
    path = tmp_path / "run.json"
    wire = Wire(Answer(json.dumps(answer).encode()))
    with TrajectoryRecorder(path) as recorder, httpx.Client(transport=wire, trust_env=False) as client:
        recorder.wrap(client).post("https://api.openai.com/v1/audio/transcriptions", json={"model": "whisper-1"})
    [row] = json.loads(invoke("list", str(path), "--json").stdout)["trajectories"]
    assert (row["cost"], row["cost_estimated"], row["calls_without_price"]) == (0.01, True, 0)
    assert costs_of_calls(load(path).llm_interactions) == RunCosts(0.01, estimated=True)


def test_a_model_that_is_billed_by_the_hour_states_tokens_too(call: LLMInteraction) -> None:
    """Mistral states seconds beside tokens. Its table has a rate for hours alone."""
    usage = Usage(400, 30, extra={"prompt_audio_seconds": 3600})
    cost = cost_of(used(call, "transcriptions", "mistral", "voxtral-mini-2602", usage))
    assert cost is not None
    assert (cost.amount, cost.without_rate) == (pytest.approx(0.18), ())


@pytest.mark.parametrize(("sounds", "dollars"), [(400_000, 1.5), (MILLION, None)])
def test_sounds_of_openai_without_a_rate_are_left_out(call: LLMInteraction, sounds: int, dollars: float | None) -> None:
    """The table has $2.50 for texts of this model. Its sounds cost more, and are not priced as texts."""
    usage = Usage(MILLION, 0, extra={"prompt_tokens_details": {"audio_tokens": sounds}})
    cost = cost_of(used(call, "openai-chat", "openai", "gpt-4o-audio-preview", usage))
    assert (cost and (cost.amount, cost.without_rate)) == (dollars and (dollars, ("input_audio_tokens",)))


def test_cached_text_beside_speech_has_a_price(call: LLMInteraction) -> None:
    """A provider that states that no speech was cached has stated all that the price depends on."""
    cached = {"text_tokens": MILLION, "audio_tokens": 0, "image_tokens": 0}
    details = {"text_tokens": 2 * MILLION, "audio_tokens": MILLION, "cached_tokens_details": cached}
    usage = Usage(3 * MILLION, 0, cache_read_input_tokens=MILLION, extra={"input_token_details": details})
    cost = cost_of(used(call, "openai-realtime", "openai", "gpt-realtime", usage))
    assert cost is not None
    assert (cost.amount, cost.without_rate) == (pytest.approx(4 + 32 + 0.4), ())


def test_cached_text_beside_speech_has_a_price_if_google_lists_what_was_cached(call: LLMInteraction) -> None:
    """A list of the cached tokens by modality leaves out the modalities without any."""
    lists = {
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": MILLION}, {"modality": "AUDIO", "tokenCount": 1000}],
        "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": MILLION}],
    }
    usage = Usage(MILLION + 1000, 0, cache_read_input_tokens=MILLION, extra=lists)
    assert cost_of(used(call, "google-generate", "google", "gemini-2.5-flash", usage)) is not None


def test_cached_tokens_beside_speech_have_no_price_if_their_modality_is_not_stated(call: LLMInteraction) -> None:
    """Cached speech has another rate than cached text."""
    details = {"prompt_tokens_details": {"audio_tokens": MILLION}}
    usage = Usage(3 * MILLION, 0, cache_read_input_tokens=MILLION, extra=details)
    cost = cost_of(used(call, "openai-chat", "openai", "gpt-realtime", usage))
    assert cost is None or cost.amount is None


def test_speech_over_a_realtime_connection_has_its_rates(call: LLMInteraction) -> None:
    """Audio costs $32 in, $0.40 from the cache and $64 out, and text $4, $0.40 and $16."""
    cached = {"text_tokens": MILLION, "audio_tokens": MILLION, "image_tokens": 0}
    details = {"text_tokens": 2 * MILLION, "audio_tokens": 2 * MILLION, "cached_tokens_details": cached}
    usage = Usage(
        4 * MILLION,
        2 * MILLION,
        cache_read_input_tokens=2 * MILLION,
        extra={
            "input_token_details": details,
            "output_token_details": {"text_tokens": MILLION, "audio_tokens": MILLION},
        },
    )
    cost = cost_of(used(call, "openai-realtime", "openai", "gpt-realtime", usage))
    assert cost is not None
    assert (cost.amount, cost.without_rate) == (pytest.approx(4 + 32 + 2 * 0.4 + 16 + 64), ())


AUDIO, GOOGLE_AUDIO = {"audio_tokens": 1}, [{"modality": "AUDIO", "tokenCount": 1}]
SEARCHES = {"webSearchQueries": ["a"]}
IN_USAGE: list[dict[str, Payload]] = [
    {"cache_creation": {"ephemeral_1h_input_tokens": 1}},
    {"iterations": [{}, {"cache_creation": {"ephemeral_1h_input_tokens": 1}}]},
    {"cacheDetails": [{"ttl": "1h", "inputTokens": 1}]},
    {"server_tool_use": {"web_search_requests": 1}},
    *({name: 1} for name in ("num_search_queries", "prompt_audio_seconds", "seconds")),
    *({name: "fast"} for name in ("service_tier", "serviceTier", "speed", "inference_geo")),
    *({f"{name}_details": AUDIO} for name in ("prompt_tokens", "input_tokens", "input_token")),
    *({f"{name}_details": AUDIO} for name in ("completion_tokens", "output_tokens", "output_token")),
    *({f"{name}TokensDetails": GOOGLE_AUDIO} for name in ("prompt", "toolUsePrompt", "candidates", "cache")),
    *({f"{name}_tokens_by_modality": GOOGLE_AUDIO} for name in ("input", "output")),
]
IN_ANSWER: list[dict[str, Payload]] = [
    {"output": [{"type": "web_search_call"}]},
    {"groundingMetadata": SEARCHES},
    {"serviceTier": {"type": "priority"}},
    {"service_tier": "priority"},
    {"duration": 2.5},
]


@pytest.mark.parametrize("extra", IN_USAGE)
def test_each_member_of_a_usage_that_states_units_is_read(call: LLMInteraction, extra: dict[str, Payload]) -> None:
    """A usage with only one such member is enough."""
    api = "transcriptions" if "seconds" in extra else "openai-chat"
    counts = with_billed_units(used(call, api, "openai", "m", Usage(extra=extra)), Counts(1, 1))
    assert counts.units or counts.terms


@pytest.mark.parametrize("extra", IN_ANSWER)
def test_each_member_of_an_answer_that_states_units_is_read(call: LLMInteraction, extra: dict[str, Payload]) -> None:
    """An answer with only one such member is enough."""
    api = "transcriptions" if "duration" in extra else "openai-chat"
    counts = with_billed_units(used(call, api, "openai", "m", Usage(), **extra), Counts(1, 1))
    assert counts.units or counts.terms


def test_a_search_of_one_choice_is_a_unit(call: LLMInteraction) -> None:
    """Each choice of an answer may state its searches."""
    choices = (Choice(0, "ok"), Choice(1, "ok", extra={"groundingMetadata": SEARCHES}))
    searched = replace(call, response=LLMResponse("ok", choices=choices))
    assert with_billed_units(searched, Counts(1, 1)).units == (("web_searches", 1),)
