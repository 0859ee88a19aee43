"""Azure OpenAI: the model is the name of a deployment."""

from __future__ import annotations

import os
from typing import Any

from trace_recorder.clients.client import Side
from trace_recorder.clients.openai import OpenAICompatibleClient
from trace_recorder.errors import ClientError

_TOKENS = ("azure_ad_token", "azure_ad_token_provider")


class AzureClient(OpenAICompatibleClient):
    """Azure OpenAI: AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_VERSION (or OPENAI_API_VERSION), AZURE_OPENAI_API_KEY.

    In place of the key: AZURE_OPENAI_AD_TOKEN, or the SDK's `azure_ad_token` and `azure_ad_token_provider`.
    """

    provider = "azure"
    key_names = ("AZURE_OPENAI_API_KEY",)

    def _make(self, side: Side) -> Any:
        made = self._module.AzureOpenAI if side == "sync" else self._module.AsyncAzureOpenAI
        version = self._setting("api_version", "AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")
        where = {} if self._options.get("base_url") else self._setting("azure_endpoint", "AZURE_OPENAI_ENDPOINT")
        return made(**{"max_retries": 0, **self._options, **version, **where, **self._credential()})

    def _credential(self) -> dict[str, Any]:
        if any(self._options.get(name) for name in _TOKENS):
            return {}
        token = os.environ.get("AZURE_OPENAI_AD_TOKEN")
        return {"azure_ad_token": token} if token and not self._options.get("api_key") else {"api_key": self._key()}

    def _setting(self, option: str, *names: str) -> dict[str, Any]:
        value = self._options.get(option) or next(filter(None, map(os.environ.get, names)), None)
        if value is None:
            raise ClientError(
                f"AzureClient has no {option}: set {' or '.join(names)} in the environment, or pass {option}=…"
            )
        return {option: value}
