"""Azure OpenAI: the model is the name of a deployment."""

from __future__ import annotations

import os
from typing import Any

from trace_recorder.clients.client import Side
from trace_recorder.clients.openai import OpenAICompatibleClient
from trace_recorder.errors import ClientError


class AzureClient(OpenAICompatibleClient):
    """Azure OpenAI: AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_VERSION (or OPENAI_API_VERSION), AZURE_OPENAI_API_KEY.

    In place of the key: AZURE_OPENAI_AD_TOKEN, or the SDK's `azure_ad_token` and `azure_ad_token_provider`.
    """

    provider = "azure"
    key_names = ("AZURE_OPENAI_API_KEY",)

    def _make(self, side: Side) -> Any:
        made = self._module.AzureOpenAI if side == "sync" else self._module.AsyncAzureOpenAI
        options = {"max_retries": 0, **self._options}
        if not any(options.get(name) for name in ("azure_ad_token", "azure_ad_token_provider")):
            token = os.environ.get("AZURE_OPENAI_AD_TOKEN")
            options |= {"azure_ad_token": token} if token and not options.get("api_key") else {"api_key": self._key()}
        options.setdefault("api_version", _set("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION", option="api_version"))
        if not options.get("base_url"):
            options.setdefault("azure_endpoint", _set("AZURE_OPENAI_ENDPOINT", option="azure_endpoint"))
        return made(**options)


def _set(*names: str, option: str) -> str:
    value = next(filter(None, map(os.environ.get, names)), None)
    if value is None:
        raise ClientError(
            f"AzureClient has no {option}: set {' or '.join(names)} in the environment, or give {option}=…"
        )
    return value
