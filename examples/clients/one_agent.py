"""Run one agent with seven providers. The loop is written once for each of three forms: sync, async, streamed.

python -m examples.clients.one_agent anthropic claude-sonnet-4-5 "How many lines do the text files have together?"
"""

import sys
from pathlib import Path

from trace_recorder import TrajectoryRecorder
from trace_recorder.clients import Client, LLMResponse, TextDelta, ToolResult, create_client

SYSTEM = {"role": "system", "content": "You answer questions about files. Look at them before you answer."}


def list_files(directory: str) -> list[str]:
    """List the files of a directory."""
    return sorted(path.name for path in Path(directory).iterdir())


def count_lines(path: str) -> int:
    """Count the lines of a text file."""
    return len(Path(path).read_text().splitlines())


def add(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


TOOLS = {tool.__name__: tool for tool in (list_files, count_lines, add)}


def results(response: LLMResponse) -> list[ToolResult]:
    return [ToolResult(call.call_id, result=TOOLS[call.name](**call.arguments)) for call in response.tool_calls]


def agent(client: Client, question: str, **params) -> str:
    messages = [SYSTEM, question]
    while (response := client.chat(messages, TOOLS.values(), **params)).tool_calls:
        messages += [response, *results(response)]
    return response.content


async def async_agent(client: Client, question: str, **params) -> str:
    messages = [SYSTEM, question]
    while (response := await client.achat(messages, TOOLS.values(), **params)).tool_calls:
        messages += [response, *results(response)]
    return response.content


def streaming_agent(client: Client, question: str, **params) -> str:
    messages, response = [SYSTEM, question], None
    while response is None or response.tool_calls:
        for event in (stream := client.stream(messages, TOOLS.values(), **params)):
            print(event.text if isinstance(event, TextDelta) else "", end="", flush=True)
        response = stream.response
        messages += [response, *results(response)]
    return response.content


if __name__ == "__main__":
    provider, model, question = sys.argv[1:]
    recording = TrajectoryRecorder(task=question, provider=provider, model=model)
    with recording as recorder, create_client(provider, model) as client:  # it follows the recorder that is current
        recorder.finalize(success=True, final_result=agent(client, question))
    print(recorder.trajectory_path)
