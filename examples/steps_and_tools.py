"""Mark the steps, the tools and a sub-agent of an existing loop. Calls of the model need no mark.

python examples/steps_and_tools.py "What is 17 * 23?"
"""

import json
import sys

from openai import OpenAI

from trace_recorder import TrajectoryRecorder, tool

TASK = " ".join(sys.argv[1:]) or "What is 17 * 23?"
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "multiply", "parameters": PARAMETERS}}


@tool
def multiply(a: int, b: int) -> dict[str, int]:
    return {"product": a * b}


def agent(client: OpenAI, recorder: TrajectoryRecorder, task: str) -> str | None:
    messages: list = [{"role": "user", "content": task}]
    while True:
        with recorder.step() as step:
            reply = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL])
            answer = reply.choices[0].message
            if not answer.tool_calls:
                step.reflection = "nothing is left to compute"
                return answer.content
            messages.append(answer)
            for call in answer.tool_calls:
                result = multiply(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": f"It is {result['product']}."})


with TrajectoryRecorder(task=TASK) as recorder, recorder.agent("calculator"):
    recorder.finalize(success=True, final_result=agent(recorder.wrap(OpenAI()), recorder, TASK))
    print(recorder.trajectory_path)
