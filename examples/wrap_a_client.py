"""Wrap an LLM client. Two lines in an agent record every call.

OPENAI_API_KEY=… python examples/wrap_a_client.py "What is 17 * 23?"
"""

import json
import os
import sys

from openai import OpenAI

from trace_recorder import TrajectoryRecorder

MODEL = os.environ.get("MODEL", "gpt-4o")
TASK = " ".join(sys.argv[1:]) or "What is 17 * 23?"
PARAMETERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
MULTIPLY = {"type": "function", "function": {"name": "multiply", "parameters": PARAMETERS}}


def agent(client: OpenAI, question: str) -> str:
    messages = [{"role": "user", "content": question}]
    while True:
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=[MULTIPLY])
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message)
        for call in message.tool_calls:
            numbers = json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(numbers["a"] * numbers["b"])})


with TrajectoryRecorder(task=TASK) as recorder:  # the first line
    client = recorder.wrap(OpenAI())  # the second: the same client, which is now recorded
    recorder.finalize(success=True, final_result=agent(client, TASK))
print(recorder.trajectory_path)
