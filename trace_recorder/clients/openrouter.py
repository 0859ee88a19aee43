"""OpenRouter, which uses OpenAI's dialects and accepts the reasoning of many models in later requests."""

from __future__ import annotations

from trace_recorder.clients.openai import OpenAICompatibleClient


class OpenRouterClient(OpenAICompatibleClient):
    """OpenRouter: OPENROUTER_API_KEY; another address by OPENROUTER_BASE_URL.

    Reasoning is sent back as `reasoning_details` with signatures, or as text if there are no details.
    """

    provider = "openrouter"
    key_names = ("OPENROUTER_API_KEY",)
    base_url = "https://openrouter.ai/api/v1"
    base_url_names = ("OPENROUTER_BASE_URL",)
    reasoning_fields = ("reasoning_details", "reasoning")
