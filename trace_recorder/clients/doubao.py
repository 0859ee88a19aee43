"""Doubao, at Volcengine Ark (https://www.volcengine.com/docs/82379/1494384), which uses OpenAI's dialects."""

from __future__ import annotations

from trace_recorder.clients.openai import OpenAICompatibleClient


class DoubaoClient(OpenAICompatibleClient):
    """Doubao: ARK_API_KEY or DOUBAO_API_KEY; another address by ARK_BASE_URL or DOUBAO_BASE_URL.

    Reasoning goes back as `reasoning_content`, which Ark documents for its models from doubao-seed-1.8 and
    deepseek-v3.2 on; `reasoning_fields=()` sends none.
    """

    provider = "doubao"
    key_names = ("ARK_API_KEY", "DOUBAO_API_KEY")
    base_url = "https://ark.cn-beijing.volces.com/api/v3"
    base_url_names = ("ARK_BASE_URL", "DOUBAO_BASE_URL")
    reasoning_fields = ("reasoning_content",)
