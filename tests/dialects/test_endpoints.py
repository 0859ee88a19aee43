"""Which URLs are LLM calls, in which dialect, and of which provider."""

from __future__ import annotations

import pytest

from trace_recorder.dialects.endpoints import Endpoint, is_model_server, provider_of, recognise

VERTEX = "/v1/projects/p/locations/l/publishers"

CALLS = {
    "/v1/chat/completions": ("openai-chat", None, False),
    "/v1/chat/completions/": ("openai-chat", None, False),
    "/openai/deployments/d/chat/completions": ("openai-chat", "d", False),
    "/v1/responses": ("openai-responses", None, False),
    "/v1/completions": ("openai-completions", None, False),
    "/v1/embeddings": ("embeddings", None, False),
    "/api/embed": ("embeddings", None, False),
    "/v1/messages": ("anthropic-messages", None, False),
    "/anthropic/v1/messages": ("anthropic-messages", None, False),
    f"{VERTEX}/anthropic/models/c@1:rawPredict": ("anthropic-messages", "c@1", False),
    f"{VERTEX}/anthropic/models/c@1:streamRawPredict": ("anthropic-messages", "c@1", True),
    "/v1beta/models/m:generateContent": ("google-generate", "m", False),
    f"{VERTEX}/google/models/m:streamGenerateContent": ("google-generate", "m", True),
    "/v1internal:generateContent": ("google-code-assist", None, False),
    "/v1internal:streamGenerateContent": ("google-code-assist", None, True),
    "/v1beta/interactions": ("google-interactions", None, False),
    "/api/chat": ("ollama-chat", None, False),
    "/api/generate": ("ollama-generate", None, False),
    "/inference/v1/generate": ("vllm-generate", None, False),
    "/generate": ("sglang-generate", None, False),
    "/completion": ("llama-completion", None, False),
    "/v1/realtime": ("openai-realtime", None, False),
    "/v1/responses/compact": ("openai-compaction", None, False),
    "/v1/images/generations": ("images", None, False),
    "/openai/deployments/d/images/edits": ("images", "d", False),
    f"{VERTEX}/google/models/imagen-4:predict": ("images", "imagen-4", False),
    "/v1/audio/speech": ("speech", None, False),
    "/v1/audio/transcriptions": ("transcriptions", None, False),
    "/v1/audio/translations": ("transcriptions", None, False),
    "/v2/rerank": ("rerank", None, False),
    "/v1/moderations": ("moderations", None, False),
    "/v1beta/models/m:embedContent": ("embeddings", "m", False),
    "/v1beta/models/m:batchEmbedContents": ("embeddings", "m", False),
    f"{VERTEX}/google/models/text-embedding-005:predict": ("embeddings", "text-embedding-005", False),
}

OTHER_TRAFFIC = (
    "/v1/messages/count_tokens",
    "/v1/messages/batches",
    "/v1/responses/input_tokens",
    "/v1/chat/completions/chatcmpl-1",
    "/v1/models",
    "/v1/files",
    "/v1/batches",
    "/v1beta/models/m:countTokens",
    "/v1internal:countTokens",
    "/v1internal:loadCodeAssist",
    "/v1beta/models/m:asyncBatchEmbedContent",
    "/v1/projects/p/locations/l/endpoints/e:predict",
    "/v1/images",
    "/api/show",
    "/oauth/token",
)


@pytest.mark.parametrize("path", CALLS)
def test_an_llm_call_is_recognised_by_its_path(path: str) -> None:
    """The end of the path gives the dialect, and the model or deployment if the path has it."""
    api, model, streams = CALLS[path]

    assert recognise("POST", "api.openai.com", path).call == Endpoint(api, "openai", model, streams)


BEDROCK = {
    "/model/anthropic.claude-v1%3A0/invoke": ("anthropic-messages", "anthropic.claude-v1:0", False),
    "/model/us.anthropic.claude/invoke-with-response-stream": ("anthropic-messages", "us.anthropic.claude", True),
    "/model/arn:aws:bedrock:us-east-1:1:inference-profile/p/converse": (
        "bedrock-converse",
        "arn:aws:bedrock:us-east-1:1:inference-profile/p",
        False,
    ),
    "/model/amazon.nova/converse-stream": ("bedrock-converse", "amazon.nova", True),
    "/model/meta.llama/invoke": ("bedrock-invoke", "meta.llama", False),
    "/model/amazon.titan-embed-text-v2%3A0/invoke": ("embeddings", "amazon.titan-embed-text-v2:0", False),
    "/model/cohere.rerank-v3-5%3A0/invoke": ("rerank", "cohere.rerank-v3-5:0", False),
    "/model/amazon.nova-canvas-v1%3A0/invoke": ("images", "amazon.nova-canvas-v1:0", False),
}


@pytest.mark.parametrize("path", BEDROCK)
@pytest.mark.parametrize("host", ["bedrock-runtime.us-east-1.amazonaws.com", "127.0.0.1"])
def test_calls_of_bedrock_are_recognised_by_their_path(path: str, host: str) -> None:
    """The path has the model, or the name of a profile, and names the provider, at any host."""
    api, model, streams = BEDROCK[path]

    assert recognise("POST", host, path).call == Endpoint(api, "bedrock", model, streams)


@pytest.mark.parametrize("path", OTHER_TRAFFIC)
def test_other_requests_are_not_calls(path: str) -> None:
    """Requests that ask no model for an answer, and other protocols, are not recorded."""
    assert recognise("POST", "api.openai.com", path).call is None


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_post_is_a_call(method: str) -> None:
    """A request to the same URL with a different method reads or deletes stored objects."""
    assert recognise(method, "api.openai.com", "/v1/responses").call is None


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.x.ai", "xai"),
        ("max.ai", "openai"),
        ("notopenrouter.ai", "openai"),
        ("openrouter.ai.evil.example", "openai"),
        ("ark.ap-southeast.bytepluses.com", "doubao"),
        ("eu-west-1.aiplatform.googleapis.com", "google"),
        ("mine.openai.azure.us", "azure"),
        ("models.inference.ai.azure.com", "github"),
        ("api.z.ai", "zhipu"),
        ("dashscope-us.aliyuncs.com", "qwen"),
        ("api.minimaxi.com", "minimax"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "bedrock"),
        ("s3.amazonaws.com", "openai"),
    ],
)
def test_a_provider_is_known_by_its_host(host: str, provider: str) -> None:
    """A host's name, or the name of a parent domain, gives the provider. A name that only has the same ending
    does not.
    """
    assert provider_of(host, "/v1/chat/completions", "openai") == provider


def test_azure_and_ollama_are_recognised_on_unknown_hosts() -> None:
    """Azure's paths and Ollama's port give the provider on an unknown host."""
    azure = provider_of("gateway.example", "/openai/deployments/d/chat/completions", "openai", 443)
    ollama = provider_of("127.0.0.1", "/v1/chat/completions", "openai", 11434)

    assert (azure, ollama) == ("azure", "ollama")


MODELS = (
    *("api.openai.com", "eu.api.openai.com", "r.openai.azure.com", "r.services.ai.azure.com", "API.Anthropic.com."),
    *("bedrock-runtime.us-east-1.amazonaws.com", "ark.cn-beijing.volces.com", "openrouter.ai", "api.groq.com"),
    *("generativelanguage.googleapis.com", "us-central1-aiplatform.googleapis.com", "aiplatform.googleapis.com"),
    *("ollama.com", "codestral.mistral.ai", "dashscope-intl.aliyuncs.com", "open.bigmodel.cn", "api.z.ai", "api.x.ai"),
    *("api.hunyuan.cloud.tencent.com", "ai-gateway.vercel.sh", "gateway.ai.cloudflare.com", "integrate.api.nvidia.com"),
    *("router.huggingface.co", "models.github.ai", "models.inference.ai.azure.com", "api.together.xyz"),
)
OTHERS = (
    *("storage.googleapis.com", "gmail.googleapis.com", "huggingface.co", "docs.anthropic.com", "www.openai.com"),
    *("tos-cn-beijing.volces.com", "console.groq.com", "x.ai", "api.example.com", "s3.amazonaws.com", "localhost"),
)


def test_model_hosts_are_distinguished_from_a_provider_s_other_hosts() -> None:
    """The host of a connection decides. The port of Ollama is enough."""
    assert [host for host in MODELS if not is_model_server(host, 443, {})] == []
    assert [host for host in OTHERS if is_model_server(host, 443, {})] == []
    assert is_model_server("10.0.0.1", 11434, {})


def test_environment_variables_name_hosts_of_models() -> None:
    """A URL may have a scheme and a port or not. Every name of this machine is the same host."""
    environment = {
        "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1",
        "ANTHROPIC_BASE_URL": "https://gate.example.com",
        "OLLAMA_HOST": "box:1234",
        "GOOGLE_GEMINI_BASE_URL": "http://[::1",
    }
    asked = [
        ("localhost", 8000),
        ("127.0.0.1", 8001),
        ("gate.example.com", 443),
        ("gate.example.com", 80),
        ("box", 1234),
    ]

    assert [is_model_server(host, port, environment) for host, port in asked] == [True, False, True, False, True]
