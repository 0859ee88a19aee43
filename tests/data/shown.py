"""Two runs for tests of `show` and the viewer: a captured run, whose steps are derived, and a run that its agent
recorded by hand.
"""

from __future__ import annotations

from pathlib import Path

from tests.data.written import Writing, asked, called, said

SYSTEM = {"role": "system", "content": "You mend [b]code[/b]."}
TASK = {"role": "user", "content": "Mend a.py"}
READ = called("call_1", "read_file", path="a.py")
ASSISTANT = {"role": "assistant", "content": "I look.", "tool_calls": [READ]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "print(\x1b[1m)\nexit()"}
USAGE = {"prompt_tokens": 1200, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 1000}}
HALF = 'data: {"id": "c", "model": "gpt-4o", "choices": [{"index": 0, "delta": {"content": "Half an ans"}}]}\n\n'
JOINED = {"id": "c", "model": "gpt-4o", "choices": [{"index": 0, "message": {"content": "Half an ans"}}]}


def captured(path: Path, host: str = "elsewhere") -> Writing:
    """Record a call with a tool, a call that is refused and retried, a call that is cut off, and an open call."""
    writing = Writing(path, host, task="Mend a.py", provider="openai", model="gpt-4o", metadata={"seed": 7})
    writing.request(1, asked(SYSTEM, TASK))
    writing.response(1, body=said("I look.", READ, usage=USAGE))
    writing.request(2, asked(SYSTEM, TASK, ASSISTANT, RESULT))
    writing.response(2, status=429, body={"error": {"type": "rate_limit", "message": "later"}}, duration_seconds=0.02)
    writing.request(2, asked(SYSTEM, TASK, ASSISTANT, RESULT), attempt=1, inferred=True)
    writing.response(2, attempt=1, body=said("It prints nothing."), duration_seconds=75)
    writing.request(3, asked(SYSTEM, ASSISTANT, {"role": "user", "content": "Then mend it"}, stream=True))
    writing.stream(3, HALF)
    writing.response(3, stream=True, complete=False, ended_by="the caller closed it", assembled=JOINED)
    writing.request(4, asked(TASK))
    return writing


def by_hand(path: Path) -> Path:
    """Record two calls and two steps of an agent by hand."""
    writing = Writing(path, task="List", provider="anthropic", model="claude", max_steps=4)
    call = {"call_id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    result = {"call_id": "c1", "name": "bash", "success": True, "result": "a.py\nb.py", "error": None}
    denied = {"call_id": "c2", "name": "bash", "success": False, "result": None, "error": "denied"}
    first = {"content": "I list.", "tool_calls": [call], "usage": {"input_tokens": 9, "output_tokens": 2}}
    served_by = {"provider": "anthropic", "model": "claude"}
    asking = {"messages": [SYSTEM, TASK], "tools": ["bash"]}
    writing.add_body("llm_interaction", asking, interaction_id="llm_1", response=first, **served_by)
    told = {"llm_response": first, "tool_calls": [call], "tool_results": [result, denied], "reflection": None}
    step = {"step_number": 1, "state": "calling_tool", "error": None}
    writing.add_body("agent_step", {"llm_messages": [SYSTEM, TASK]}, **step, **told)
    writing.add("annotation", lakeview_step=1, value="It listed the files.")
    answering = {"messages": [{"role": "user", "tool_result": result}], "tools": []}
    writing.add_body("llm_interaction", answering, interaction_id="llm_2", response={"content": "Done."}, **served_by)
    told = {"llm_response": None, "tool_calls": None, "tool_results": None, "reflection": "Too easy."}
    writing.add_body("agent_step", {"llm_messages": None}, step_number=2, state="error", error="Bad: luck", **told)
    writing.add("annotation", key="judge", value={"score": 3})
    writing.add("reward", name="tests", value=0.5, weight=2.0, step_number=1, explanation="half of them")
    writing.add("gap", time="2025-06-12T20:05:50.000000+00:00", what="record a request", why="OSError: disk full")
    error = {"type": "RuntimeError", "message": "lost"}
    writing.add("finalize", status="failed", success=False, final_result=None, error=error, execution_time=8.25)
    writing.journal.close()
    return path
