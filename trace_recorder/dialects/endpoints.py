"""Recognises LLM calls and polls by their addresses, and finds their dialect and provider.

`recognise` is the one question that everybody asks about a request: the seams, the proxy, a replay, an import. Each
`DIALECT` lists the addresses of its dialect. An address is recognised by the end of its path, so proxies, gateways and
local servers are recognised too. The body is not examined. If only the host and the port are known, as for a
connection, `is_model_server` tells whether a provider serves models there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from trace_recorder.dialects.dialect import DIALECTS, dialect_of
from trace_recorder.dialects.stream_framing import MEDIA_TYPE
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.loopback import LOOPBACK_NAMES
from trace_recorder.signal_handlers import ours
from trace_recorder.values.structs import Struct

PROVIDER_OF_HOST: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (provider, lazy_pattern(rf"(?:^|\.)(?:{pattern})$"))
    for provider, pattern in (
        ("openai", r"api\.openai\.com"),
        ("azure", r"(?:openai|cognitiveservices)\.azure\.(?:com|us|cn)|(?:services|models)\.ai\.azure\.com"),
        ("bedrock", r"bedrock-[a-z-]+\.[a-z0-9-]+\.(?:amazonaws\.com(?:\.cn)?|api\.aws)"),
        ("doubao", r"volces\.com|volcengineapi\.com|bytepluses\.com"),
        ("openrouter", r"openrouter\.ai"),
        ("anthropic", r"anthropic\.com|aws-external-anthropic\.[a-z0-9-]+\.api\.aws"),
        ("google", r"googleapis\.com"),
        ("ollama", r"ollama\.com"),
        ("groq", r"groq\.com"),
        ("mistral", r"mistral\.ai"),
        ("deepseek", r"deepseek\.com"),
        ("together", r"together\.(?:xyz|ai)"),
        ("fireworks", r"fireworks\.ai"),
        ("xai", r"x\.ai"),
        ("perplexity", r"perplexity\.ai"),
        ("cerebras", r"cerebras\.ai"),
        ("moonshot", r"moonshot\.(?:cn|ai)"),
        ("qwen", r"dashscope(?:-[a-z]+)?\.aliyuncs\.com"),
        ("zhipu", r"bigmodel\.cn|z\.ai"),
        ("siliconflow", r"siliconflow\.(?:cn|com)"),
        ("minimax", r"minimaxi?\.(?:com|io|chat)"),
        ("hunyuan", r"hunyuan\.cloud\.tencent\.com"),
        ("deepinfra", r"deepinfra\.com"),
        ("sambanova", r"sambanova\.ai"),
        ("vercel", r"ai-gateway\.vercel\.sh"),
        ("cloudflare", r"gateway\.ai\.cloudflare\.com"),
        ("nvidia", r"integrate\.api\.nvidia\.com"),
        ("cohere", r"cohere\.(?:com|ai)"),
        ("jina", r"jina\.ai"),
        ("voyage", r"voyageai\.com"),
        ("writer", r"writer\.com"),
        ("portkey", r"portkey\.ai"),
        ("huggingface", r"huggingface\.co"),
        ("github", r"models\.(?:github\.ai|inference\.ai\.azure\.com)"),
    )
)

_MODEL_LABEL = lazy_pattern(
    r"(?:^|\.)(?:api|api-inference|router|ai-gateway|gateway|models|services|openai|cognitiveservices|openrouter"
    r"|ollama|open|ark|codestral|generativelanguage|(?:[a-z0-9-]+-)?aiplatform|bedrock-[a-z-]+|dashscope(?:-[a-z]+)?|hunyuan"
    r"|aws-external-anthropic)\."
)
"""Parts of a provider's host name that distinguish its model servers from its websites, storage and mail."""

BASE_URL_VARIABLES: Mapping[str, tuple[str, str]] = {
    "openai": ("OPENAI_BASE_URL", "/v1"),
    "anthropic": ("ANTHROPIC_BASE_URL", ""),
    "google": ("GOOGLE_GEMINI_BASE_URL", ""),
    "ollama": ("OLLAMA_HOST", ""),
}
"""For each SDK: the environment variable that sets the SDK's server, and the path at the end of its value."""
_ALL_BASE_URL_VARIABLES = (
    *(variable for variable, _ in BASE_URL_VARIABLES.values()),
    *("OPENAI_API_BASE", "AZURE_OPENAI_ENDPOINT", "GOOGLE_VERTEX_BASE_URL"),
)

_OTHER_OPERATIONS = lazy_pattern(
    r"/(?:files|uploads?|batches|vector_stores|fine[_-]tuning|fine[_-]tunes|cachedContents|containers|evals|traces"
    r"|telemetry|feedback|input_tokens|count[_-]tokens|tokenize|detokenize|cancel|client_secrets|operations"
    r"|api/(?:show|pull|push|create|copy|blobs))(?:/|$)|:(?:countTokens|computeTokens)$|openai\.com/v1/conversations"
)
"""Addresses of a provider's operations that are not LLM calls, although a client may send a POST to them."""

_MODEL_IN_PATH = lazy_pattern(r"/(?:models|deployments)/([^/:]+)|/model/(.+)/(?:converse|invoke)")
_OLLAMA_PORT = 11434
_DEFAULT_PORTS = {"https": 443}
_STREAMING_PATH = lazy_pattern(
    r":(?:streamGenerateContent|streamRawPredict)$|/(?:converse-stream|invoke-with-response-stream)$"
)


STREAM_TYPES = (
    *("text/event-stream", "application/x-ndjson", "application/jsonl", "application/stream+json"),
    MEDIA_TYPE,
)


class Endpoint(Struct, frozen=True):
    """The facts in the address of an LLM call: the dialect, the provider, the model, and whether it streams.

    `model` is the model or, at Azure, the deployment. `streams` is True if the path requests a stream.
    """

    api: str
    provider: str
    model: str | None
    streams: bool


class Poll(Struct, frozen=True):
    """A request that polls or cancels a response that a provider makes in the background."""

    api: str
    response_id: str


class Recognition(Struct, frozen=True):
    """What the dialects say about a request. At most one of the members is set.

    `call` is the endpoint if the request is an LLM call. `poll` is the polled response if the request is a poll.
    """

    call: Endpoint | None = None
    poll: Poll | None = None
    may_be_call: bool = False
    """Whether the request is a POST that matches no dialect, and none of `_OTHER_OPERATIONS`, such as an upload.

    It may be an LLM call in an unknown dialect if its host serves models (`is_model_server`).
    """


UNRECOGNISED = Recognition()
"""The request is neither an LLM call nor a poll, and cannot be a call in an unknown dialect."""


@lru_cache(maxsize=256)
def recognise(method: str, host: str, path: str, port: int | None = None) -> Recognition:
    """Return what the dialects say about a request. `path` is the path of its URL, without the query."""
    if method == "POST":
        call = _recognise_call(host, path, port)
        if call is not None:
            return Recognition(call=call)
    for api, dialect in DIALECTS.items():
        if dialect.background is not None:
            match = dialect.background.path.search(path)
            if match is None:
                continue
            expected_method = "POST" if match[2] else "GET"
            if method == expected_method:
                return Recognition(poll=Poll(api, match[1]))
    if method != "POST" or _OTHER_OPERATIONS.search(host + path) is not None:
        return UNRECOGNISED
    return Recognition(may_be_call=True)


DIALECTS.on_change.append(recognise.cache_clear)


def _recognise_call(host: str, path: str, port: int | None) -> Endpoint | None:
    for api, dialect in DIALECTS.items():
        for pattern, default in dialect.addresses.items():
            if re.search(pattern, path):
                streams = _STREAMING_PATH.search(path) is not None
                return Endpoint(api, provider_of(host, path, default, port), _model_in(path), streams)
    return None


@lru_cache(maxsize=64)
def recognise_websocket(url: str) -> Endpoint | None:
    """Return the endpoint of a websocket, or None if no dialect is spoken over websockets at this address.

    The model is in the query (`model`, or `deployment` at Azure), or in the path, or nowhere.
    """
    parts = urlsplit(url)
    host, path, query = parts.hostname or "", parts.path, dict(parse_qsl(parts.query))
    for api, dialect in DIALECTS.items():
        if dialect.websockets is None:
            continue
        for pattern, default in dialect.websockets.addresses.items():
            if re.search(pattern, path):
                model = query.get("model") or query.get("deployment") or _model_in(path)
                return Endpoint(api, provider_of(host, path, default, parts.port), model, streams=True)
    return None


DIALECTS.on_change.append(recognise_websocket.cache_clear)


def _model_in(path: str) -> str | None:
    match = _MODEL_IN_PATH.search(path)
    if match is None:
        return None
    return unquote(match[match.lastindex or 0])


def sdk_of(endpoint: Endpoint) -> str | None:
    """Return the name of the SDK that calls an endpoint, or None if no SDK is known."""
    dialect = dialect_of(endpoint.api)
    if dialect is None or not dialect.sdks:
        return None
    if endpoint.provider in dialect.sdks:
        return endpoint.provider
    return dialect.sdks[0]


@lru_cache(maxsize=64)
def is_stream_type(content_type: str) -> bool | None:
    """Whether a response of this type is a stream. None means that the request decides (`asks_for_stream`)."""
    media = content_type.split(";", maxsplit=1)[0].strip().lower()
    if media in STREAM_TYPES:
        return True
    if media == "application/json":
        return False
    return None


def asks_for_stream(endpoint: Endpoint, request: bytes) -> bool:
    """Whether a request asks for a stream."""
    if endpoint.streams or b'"stream"' not in request:  # a request may have megabytes
        return endpoint.streams
    compact = request.replace(b" ", b"")
    return b'"stream":true' in compact or b'"stream":"true"' in compact  # the second one is a field of a form


def with_model(path: str, model: str) -> str:
    """Return the path with its model replaced by `model`.

    In a path of Azure, the model is a deployment. A path without a model is unchanged.
    """
    match = _MODEL_IN_PATH.search(path)
    if match is None:
        return path
    start, end = match.span(match.lastindex or 0)
    return f"{path[:start]}{quote(model, safe='')}{path[end:]}"


def provider_of(host: str, path: str, default: str, port: int | None = None) -> str:
    """Return the provider at a host, by the name of the host, or else by path or port, or else `default`."""
    provider = provider_of_host(host)
    if provider is not None:
        return provider
    if "/openai/deployments/" in path:
        return "azure"
    if port == _OLLAMA_PORT and default != "bedrock":
        return "ollama"
    return default


def provider_of_host(host: str) -> str | None:
    """Return the provider by the name of a host, or None for any other host."""
    return next((provider for provider, pattern in PROVIDER_OF_HOST if pattern.search(host)), None)


def is_model_server(host: str, port: int | None, environment: Mapping[str, str]) -> bool:
    """Whether a host and port serve models: a provider's host, or a server that an SDK's environment variable names."""
    name = canonical_host(host)
    if _is_provider(name, port):
        return True
    urls = map(environment.get, _ALL_BASE_URL_VARIABLES)
    return (name, port) in [_address_of(url) for url in urls if url]


def canonical_host(host: str) -> str:
    """Return the name under which hosts are compared. All names of this machine become "localhost"."""
    name = host.lower().rstrip(".")
    if name in LOOPBACK_NAMES:
        return "localhost"
    return name


@lru_cache(maxsize=256)
def _is_provider(host: str, port: int | None) -> bool:
    if port == _OLLAMA_PORT:
        return True
    return _MODEL_LABEL.search(host) is not None and provider_of_host(host) is not None


@lru_cache(maxsize=64)
def _address_of(url: str) -> tuple[str, int]:
    """Return the host and the port of a URL, which may lack its scheme. The host is empty if the URL is invalid."""
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        return canonical_host(parts.hostname or ""), parts.port or _DEFAULT_PORTS.get(parts.scheme, 80)
    except ours(ValueError):
        return "", 0
