"""One `chat()` over seven providers, recorded: thin clients over the official SDKs, sync, async and streaming."""

from trace_recorder.clients.anthropic import AnthropicClient
from trace_recorder.clients.azure import AzureClient
from trace_recorder.clients.client import Client
from trace_recorder.clients.doubao import DoubaoClient
from trace_recorder.clients.factory import create_client
from trace_recorder.clients.google import GoogleClient
from trace_recorder.clients.ollama import OllamaClient
from trace_recorder.clients.openai import OpenAIClient, OpenAICompatibleClient
from trace_recorder.clients.openrouter import OpenRouterClient
from trace_recorder.clients.streams import AsyncResponseStream, ResponseStream
from trace_recorder.clients.wire_formats.messages import MessageInput, MessagesInput
from trace_recorder.clients.wire_formats.stream_events import (
    Finished,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
)
from trace_recorder.clients.wire_formats.tools import ToolInput
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
