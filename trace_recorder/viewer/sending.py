"""What a recorded request needs to be sent again: headers, and the variable of the environment that has the key.

The address of a recorded request may be hostile. So a key's variable is named only where the address is a plain HTTPS
one whose host is a provider's own. The page writes the command and the program that are copied (`viewer_page/`).
"""

from __future__ import annotations

import re

from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.dialects.endpoints import provider_of_host
from trace_recorder.viewer.parts import Json

_PLAIN_HTTPS = re.compile(r"https://([A-Za-z0-9.-]+)(?::443)?(?=[/?#]|$)")
"""An address in which nothing stands before the host: programs disagree where the host of any other begins."""
_VARIABLES = {
    "azure": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "doubao": "ARK_API_KEY",
    "github": "GITHUB_TOKEN",
    "google": "GEMINI_API_KEY",
    "huggingface": "HF_TOKEN",
    "qwen": "DASHSCOPE_API_KEY",
    "vercel": "AI_GATEWAY_API_KEY",
}
"""The variables that are not the provider's name with `_API_KEY`."""
_HEADERS = {"anthropic": "x-api-key", "azure": "api-key", "google": "x-goog-api-key"}
"""The headers of keys that are not `Authorization: Bearer`, by the provider whose own dialect takes them."""


def sending_of(url: str | None, api: str | None) -> Json:
    """Return the headers to send, and the header and the variable of the key; no key for an unknown host."""
    dialect = dialect_of(api)
    headers: Json = {"Content-Type": "application/json", **(dialect.headers if dialect else {})}
    match = _PLAIN_HTTPS.match(url or "")
    provider = provider_of_host(match[1].lower()) if match else None
    return {"headers": headers, "key": _key(provider, dialect.sdks if dialect else ()) if provider else None}


def _key(provider: str, sdks: tuple[str, ...]) -> Json:
    variable = _VARIABLES.get(provider, f"{provider.upper()}_API_KEY")
    header = _HEADERS.get(provider)
    if header is None or (provider != "azure" and provider not in sdks):
        return {"header": "Authorization", "prefix": "Bearer ", "variable": variable}
    return {"header": header, "prefix": "", "variable": variable}
