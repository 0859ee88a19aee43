"""Record messages, responses and steps of an existing loop by hand, whatever client the loop uses.

python examples/attach_to_a_loop.py
"""

from trace_recorder import TrajectoryRecorder


def ask_the_model(messages: list[dict]) -> dict:
    """Stand in for your own client, which takes messages and returns an answer."""
    if messages[-1]["role"] == "tool":
        return {"content": f"There are {messages[-1]['content']} files.", "finish_reason": "stop"}
    call = {"call_id": "call_1", "name": "count_files", "arguments": {"path": "."}}
    return {"content": "I count them.", "finish_reason": "tool_calls", "tool_calls": [call]}


def agent(recorder: TrajectoryRecorder, task: str) -> str:
    messages = [{"role": "user", "content": task}]
    for step in range(1, 10):
        response = ask_the_model(messages)
        recorder.record_llm_interaction(
            messages, response, provider="my-server", model="my-model", tools=["count_files"]
        )
        calls = response.get("tool_calls", [])
        results = [{"call_id": call["call_id"], "success": True, "result": 3} for call in calls]
        state = "calling_tool" if calls else "completed"
        recorder.record_agent_step(step, state, messages, response, tool_calls=calls, tool_results=results)
        if not calls:
            return response["content"]
        messages += [{"role": "assistant", **response}, {"role": "tool", "call_id": "call_1", "content": "3"}]
    raise RuntimeError("no answer after 10 steps")


recorder = TrajectoryRecorder()
recorder.start(task="How many files are here?", provider="my-server", model="my-model", max_steps=10)
answer = agent(recorder, "How many files are here?")
recorder.finalize(success=True, final_result=answer)
print(recorder.trajectory_path)
