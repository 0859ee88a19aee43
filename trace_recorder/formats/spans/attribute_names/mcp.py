"""OpenTelemetry's semantic conventions for the Model Context Protocol, and the general attributes that they use.

https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
"""

METHOD = "mcp.method.name"
PROTOCOL_VERSION = "mcp.protocol.version"
REQUEST_ID = "jsonrpc.request.id"
STATUS_CODE = "rpc.response.status_code"
TRANSPORT = "network.transport"
PROTOCOL = "network.protocol.name"

CALL_TOOL = "tools/call"
TOOL_ERROR = "tool_error"
"""The `error.type` of a tool whose result states a failure. An error of the protocol has its code."""
