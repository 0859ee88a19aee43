"""What a call used beside plain tokens, as far as it has a price of its own.

`with_billed_units` adds to the counts of a call: tokens that were written to a cache for an hour, tokens of sounds and
images, seconds of sound, and searches and other tools that the provider ran. The terms say how the provider served the
call: as a batch, with priority, or in a quick mode. The names of units and terms are those of genai-prices. The sources
of the members are the providers' references of their usage objects, and what genai-prices itself reads from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from trace_recorder.dialects.dialect import operation_of
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import Counts

_MODALITIES = {"audio": "audio", "image": "image", "document": "image", "video": "video"}
_BY_MODALITY = {
    "promptTokensDetails": "input_{}_tokens",
    "toolUsePromptTokensDetails": "input_{}_tokens",
    "candidatesTokensDetails": "output_{}_tokens",
    "cacheTokensDetails": "cache_{}_read_tokens",
    "input_tokens_by_modality": "input_{}_tokens",
    "output_tokens_by_modality": "output_{}_tokens",
}
"""Google's lists of counts by modality, with the name of the unit."""
_DETAILS = {
    "prompt_tokens_details": "input_{}_tokens",
    "input_tokens_details": "input_{}_tokens",
    "input_token_details": "input_{}_tokens",
    "completion_tokens_details": "output_{}_tokens",
    "output_tokens_details": "output_{}_tokens",
    "output_token_details": "output_{}_tokens",
}
"""OpenAI's objects with counts such as `audio_tokens`, with the name of the unit."""
_WITH_UNITS = frozenset(
    {*_BY_MODALITY, *_DETAILS, "cache_creation", "cacheDetails", "iterations", "server_tool_use", "num_search_queries"}
)
"""The members of usage objects that have units. Most usage objects have none of them."""
_WHOLE = {f"cache_{modality}_read_tokens": f"input_{modality}_tokens" for modality in ("audio", "image", "video")}
"""Cached tokens of a modality, each with the count that includes them. No cached token of a modality is a fact too.

Without that fact, the price of a call with cached tokens and tokens of the modality is not known.
"""
_TOOL_ITEMS = {
    "web_search_call": "web_searches",
    "file_search_call": "storage_searches",
    "code_interpreter_call": "code_executions",
    "image_generation_call": "generated_images",
}
"""The items of an answer for work of OpenAI's own tools. Each kind of work is billed beside the tokens."""
_MOST_SECONDS = 10**9
_TERMS = frozenset({"service_tier", "serviceTier", "speed", "inference_geo"})
"""The members of answers and of usage objects that state terms. Most have none of them."""
_USUAL = frozenset({"default", "standard", "auto", "on_demand", "not_available", "global"})
"""The names of the usual terms, which have the usual prices."""


def with_billed_units(call: LLMInteraction, counts: Counts) -> Counts:
    """Return the counts of a call with its other units and its terms."""
    units: dict[str, int] = {}
    for name, number in (*_units_of_usage(call.response.usage.extra), *_units_of_answer(call)):
        units[name] = units.get(name, 0) + number
    units["audio_seconds"] = units["input_audio_seconds"] = _seconds_of_sound(call)
    terms = dict(_terms(call))
    present = tuple(
        sorted((name, number) for name, number in units.items() if number > 0 or units.get(_WHOLE.get(name, "")))
    )
    if not present and not terms:
        return counts
    return replace(counts, units=present, terms=tuple(sorted(terms.items())))


def _units_of_usage(usage: dict[str, Payload]) -> Iterator[tuple[str, int]]:
    if _WITH_UNITS.isdisjoint(usage):
        return
    yield "cache_write_1h_tokens", _hour_writes(usage)
    yield "web_searches", as_int(as_dict(usage.get("server_tool_use")).get("web_search_requests")) or 0
    yield "web_searches", as_int(usage.get("num_search_queries")) or 0
    for member in _DETAILS.keys() & usage.keys():
        unit, details = _DETAILS[member], as_dict(usage[member])
        cached = as_dict(details.get("cached_tokens_details"))
        for modality in ("audio", "image"):
            yield unit.format(modality), as_int(details.get(f"{modality}_tokens")) or 0
            if cached:
                yield f"cache_{modality}_read_tokens", as_int(cached.get(f"{modality}_tokens")) or 0
    for member in _BY_MODALITY.keys() & usage.keys():
        unit = _BY_MODALITY[member]
        if unit == _BY_MODALITY["cacheTokensDetails"]:
            yield from ((name, 0) for name in _WHOLE)
        for detail in map(as_dict, as_list(usage[member])):
            name = _MODALITIES.get(str(detail.get("modality")).lower())
            if name is not None:
                yield unit.format(name), as_int(detail.get("tokenCount", detail.get("tokens"))) or 0


def _hour_writes(usage: dict[str, Payload]) -> int:
    """Return how many tokens were written to the one-hour cache, as Anthropic or Bedrock states it."""
    sources = [usage, *map(as_dict, as_list(usage.get("iterations")))]
    first, *others = (
        as_int(as_dict(source.get("cache_creation")).get("ephemeral_1h_input_tokens")) or 0 for source in sources
    )
    details = map(as_dict, as_list(usage.get("cacheDetails")))
    of_bedrock = sum(as_int(detail.get("inputTokens")) or 0 for detail in details if detail.get("ttl") == "1h")
    return max(first, sum(others)) + of_bedrock


def _seconds_of_sound(call: LLMInteraction) -> int:
    """Return how many seconds of sound a model has read, rounded up.

    Mistral states them beside the tokens. Others state them for a transcription in place of tokens: in its usage, or in
    the whole answer.
    """
    usage = call.response.usage
    seconds = as_number(usage.extra.get("prompt_audio_seconds"))
    if usage.input_tokens is None and operation_of(call.api) == "transcription":
        seconds = as_number(usage.extra.get("seconds", call.response.extra.get("duration")))
    if seconds is None or not 0 <= seconds <= _MOST_SECONDS:
        return 0
    return math.ceil(seconds)


def _units_of_answer(call: LLMInteraction) -> Iterator[tuple[str, int]]:
    """Yield a unit for each work of the provider's own tools. Opening a page, and a search in it, are not searches."""
    response = call.response
    for item in map(as_dict, as_list(response.extra.get("output"))):
        action = as_dict(item.get("action")).get("type")
        unit = _TOOL_ITEMS.get(str(item.get("type")))
        if unit is not None and action in (None, "search"):
            yield unit, 1
    for extra in (response.extra, *[choice.extra for choice in response.choices]):
        searches = 0
        if "groundingMetadata" in extra:
            searches = len(as_list(as_dict(extra["groundingMetadata"]).get("webSearchQueries")))
        if searches:
            model = str(response.model or call.model)
            if "gemini-2" in model or "gemini-1" in model:  # they are billed by request
                searches = 1
            yield "web_searches", searches


def _terms(call: LLMInteraction) -> Iterator[tuple[str, str]]:
    """Yield the terms of a call that are not the usual ones. An answer states them, or its usage does."""
    usage, extra = call.response.usage.extra, call.response.extra
    if _TERMS.isdisjoint(usage) and _TERMS.isdisjoint(extra):
        return
    bedrock = as_dict(extra.get("serviceTier")).get("type")
    for tier in (usage.get("service_tier"), usage.get("serviceTier"), extra.get("service_tier"), bedrock):
        if not isinstance(tier, str) or tier.lower() in _USUAL:
            continue
        if tier.lower() == "batch":
            yield "processing", "batch"
        else:
            yield "service_tier", tier.lower()
    for name in ("speed", "inference_geo"):
        value = usage.get(name)
        if isinstance(value, str) and value and value.lower() not in _USUAL:
            yield name, value.lower()
