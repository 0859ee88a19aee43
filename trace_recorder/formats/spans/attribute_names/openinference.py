"""OpenInference's conventions."""

KIND = "openinference.span.kind"
SESSION = "session.id"
AGENT_NAME = "agent.name"
INPUT = "input.value"
OUTPUT = "output.value"
INPUT_MIME_TYPE = "input.mime_type"
OUTPUT_MIME_TYPE = "output.mime_type"

MODEL = "llm.model_name"
PROVIDER = "llm.provider"
FINISH_REASON = "llm.finish_reason"
PARAMETERS = "llm.invocation_parameters"
COST = "llm.cost.total"

TOOL_NAME = "tool.name"
TOOL_CALL_ID = "tool_call.id"

TOOLS = "llm.tools"
"""The beginning of the names of the tools: the number of the tool follows."""
INPUT_MESSAGES = "llm.input_messages"
"""The beginning of the names of the prompt's messages: the number of the message follows."""
OUTPUT_MESSAGES = "llm.output_messages"
"""The beginning of the names of the answer's messages: the number of the message follows."""
TOKEN_COUNT = "llm.token_count"  # noqa: S105 - no secret
"""The beginning of the names of the token counts."""
