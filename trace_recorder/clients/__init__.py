"""One `chat()` over seven providers, recorded: thin clients over the official SDKs, sync, async and streaming."""

from trace_recorder.clients.client import Client
from trace_recorder.clients.providers import (
    AnthropicClient,
    AzureClient,
    DoubaoClient,
    GoogleClient,
    OllamaClient,
    OpenAIClient,
    OpenAICompatibleClient,
    OpenRouterClient,
    create_client,
)
from trace_recorder.clients.streams import AsyncResponseStream, ResponseStream
from trace_recorder.clients.wire_formats.inputs import MessageInput, MessagesInput, ToolInput
from trace_recorder.clients.wire_formats.wire_format import (
    Finished,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
)
from trace_recorder.values.messages import LLMResponse, Message, ToolCall, ToolResult

__all__ = [
    "AnthropicClient",
    "AsyncResponseStream",
    "AzureClient",
    "Client",
    "DoubaoClient",
    "Finished",
    "GoogleClient",
    "LLMResponse",
    "Message",
    "MessageInput",
    "MessagesInput",
    "OllamaClient",
    "OpenAIClient",
    "OpenAICompatibleClient",
    "OpenRouterClient",
    "ReasoningDelta",
    "ResponseStream",
    "StreamEvent",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolInput",
    "ToolResult",
    "create_client",
]
