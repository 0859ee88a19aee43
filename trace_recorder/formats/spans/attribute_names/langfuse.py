"""The attributes of Langfuse."""

PREFIX = "langfuse.observation."

TYPE = f"{PREFIX}type"
INPUT = f"{PREFIX}input"
OUTPUT = f"{PREFIX}output"
MODEL = f"{PREFIX}model.name"
PARAMETERS = f"{PREFIX}model.parameters"
USAGE = f"{PREFIX}usage_details"
COST = f"{PREFIX}cost_details"
FIRST_TOKEN_TIME = f"{PREFIX}completion_start_time"
TOOLS = f"{PREFIX}metadata.tools"
