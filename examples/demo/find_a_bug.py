"""An agent with a bug, for docs/inspect.md to find: `broken` keeps so little of old tool results that it gives up.

python -m examples.demo.find_a_bug trajectories    # needs no network; records broken.json and mended.json there
"""

import json
import sys
import tempfile
from pathlib import Path

from openai import OpenAI

from examples.demo import project
from examples.demo.agent import SYSTEM
from examples.demo.local_provider import LocalProvider
from examples.demo.loops.openai_chat import TOOLS
from examples.demo.tools import Toolbox
from trace_recorder import TrajectoryRecorder


def use_tool(recorder: TrajectoryRecorder, tools: Toolbox, call: object) -> str:
    arguments = json.loads(call.function.arguments)
    with recorder.tool_call(call.function.name, arguments, call.id) as execution:
        execution.result = tools.run(call.function.name, arguments).text
        if execution.result.startswith("exit code 1"):
            raise RuntimeError(execution.result)
    return execution.result


def agent(recorder: TrajectoryRecorder, client: OpenAI, tools: Toolbox, kept: int) -> str | None:
    messages: list = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": project.TASK}]
    while True:
        with recorder.step():
            message = client.chat.completions.create(model="demo-1", messages=messages, tools=TOOLS).choices[0].message
            for old in messages:
                if isinstance(old, dict) and old["role"] == "tool":
                    old["content"] = old["content"][-kept:]  # keeps prompts short: errors are at the end
            messages.append(message)
            if not message.tool_calls:
                return message.content
            for call in message.tool_calls:
                try:
                    result = use_tool(recorder, tools, call)
                except RuntimeError as error:
                    result = str(error)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


with LocalProvider() as provider, tempfile.TemporaryDirectory() as place:
    for name, kept in (("broken", 120), ("mended", 4000)):
        client = OpenAI(base_url=f"{provider.url}/v1", api_key="none")
        with TrajectoryRecorder(Path(sys.argv[1], f"{name}.json"), task="Mend the tests", provider="demo") as recorder:
            project.create(Path(place))
            answer = agent(recorder, recorder.wrap(client, provider="demo"), Toolbox(Path(place)), kept)
            recorder.finalize(success=project.tests_pass(Path(place)), final_result=answer)
