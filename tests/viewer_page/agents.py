"""Agents that record the runs of the page's tests: `python -m tests.viewer_page.agents DIRECTORY SCENARIO [N]`.

Each uses the real SDK against a provider on 127.0.0.1, and the recorder as a user does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openai import OpenAI

from tests.viewer_page import scripts
from tests.viewer_page.provider import Reply, provider
from trace_recorder import TrajectoryRecorder

Messages = list[dict[str, Any]]


def tool_list(*names: str) -> list[dict[str, Any]]:
    """Declarations of tools."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return [{"type": "function", "function": {"name": n, "description": f"{n}.", "parameters": schema}} for n in names]


class Agent:
    """A loop over a conversation."""

    def __init__(
        self, recorder: TrajectoryRecorder, client: OpenAI, messages: Messages, model: str = "gpt-5-mini"
    ) -> None:
        self.recorder = recorder
        self.client = client
        self.messages = messages
        self.model = model
        self.tools: dict[str, Callable[..., Any]] = {}
        self.parameters: dict[str, Any] = {"temperature": 0.2}

    def turn(self, *, stream: bool = False) -> bool:
        """Make a call, and run the requested tools. Return whether a tool was requested."""
        more: dict[str, Any] = {"tools": tool_list(*self.tools)} if self.tools else {}
        if stream:
            more |= {"stream": True, "stream_options": {"include_usage": True}}
        response = self.client.chat.completions.create(
            model=self.model, messages=self.messages, **more, **self.parameters
        )
        message = _joined(response) if stream else response.choices[0].message.model_dump(exclude_none=True)
        self.messages.append(message)
        calls = message.get("tool_calls") or []
        for call in calls:
            result = self._run(call["function"]["name"], call["function"]["arguments"])
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return bool(calls)

    def _run(self, name: str, arguments: str) -> Any:
        try:
            result = self.recorder.tool(self.tools[name])(**json.loads(arguments))
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        return result if isinstance(result, str) else json.dumps(result)


def _joined(stream: Any) -> dict[str, Any]:
    text, calls = "", []
    for event in stream:
        for choice in event.choices:
            text += choice.delta.content or ""
            calls += [call.model_dump(exclude_none=True, exclude={"index"}) for call in choice.delta.tool_calls or ()]
    return {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})


def failing(directory: Path, model: str = "gpt-5-mini", fixed: str = scripts.FIXED) -> Path:
    """Record a run with failed tools, a retry, a sub-agent, a rewritten history, other tools, an image, and a
    reward.
    """
    task = "Fix the failing test in tests/test_amounts.py: cents are lost."
    with provider(scripts.failing(fixed)) as url, TrajectoryRecorder(task=task, directory=directory) as recorder:
        client = recorder.wrap(OpenAI(base_url=url, api_key="sk-none", max_retries=2))
        messages: Messages = [{"role": "system", "content": scripts.SYSTEM}, {"role": "user", "content": task}]
        agent = Agent(recorder, client, messages, model)
        agent.tools = _failing_tools(recorder, client)
        for number in range(7):
            agent.turn(stream=True)
            if number == 2:
                _compact(agent)
            if number == 4:
                _show_picture(agent)
                agent.parameters = {"temperature": 0.7}
                del agent.tools["ask_reviewer"]
                agent.tools["screenshot"] = screenshot
        recorder.annotate("reviewed", value=True)
        recorder.reward("tests_pass", 1.0, explanation="all tests of the project pass")
        recorder.finalize(success=True, final_result=scripts.REPORT)
        return recorder.trajectory_path


def screenshot() -> Any:
    return {"width": 96, "height": 64, "covered": [1, 2, 3]}


def search(pattern: str) -> Any:
    return {"pattern": pattern, "found": ["a.py:3", "b.py:17"], "more": None}


def _failing_tools(recorder: TrajectoryRecorder, client: OpenAI) -> dict[str, Callable[..., Any]]:
    def run_tests(path: str, verbose: bool) -> str:
        time.sleep(0.12)
        return scripts.TEST_OUTPUT if verbose else f"{path}: 90 passed in 0.31s"

    def read_file(path: str) -> str:
        if path == "missing.py":
            raise FileNotFoundError(2, "No such file or directory", path)
        return scripts.SOURCE

    def ask_reviewer(question: str) -> str:
        with recorder.agent("reviewer"):
            reviewer = Agent(recorder, client, [{"role": "user", "content": question}], "gpt-5-nano")
            reviewer.tools = {"search": search}
            while reviewer.turn():
                time.sleep(0.02)
        return str(reviewer.messages[-1]["content"])

    def write_file(path: str, content: str) -> str:
        time.sleep(0.03)
        return f"wrote {len(content)} characters to {path}"

    return {"run_tests": run_tests, "read_file": read_file, "ask_reviewer": ask_reviewer, "write_file": write_file}


def _compact(agent: Agent) -> None:
    """Shorten an old tool result, reword the task, and drop a result."""
    agent.messages[1]["content"] += " Keep the unit out of it."
    agent.messages[3]["content"] = "1 failed, 89 passed; the output was shortened."


def _show_picture(agent: Agent) -> None:
    url = f"data:image/png;base64,{scripts.png(96, 64)}"
    parts = [{"type": "text", "text": "This is the coverage."}, {"type": "image_url", "image_url": {"url": url}}]
    agent.messages.append({"role": "user", "content": parts})


def hostile(directory: Path) -> Path:
    """Record a run in which every text tries to break out of the page."""
    text = scripts.HOSTILE_TEXT
    replies = (
        Reply(text, [("look", {"path": text})], reasoning=text),
        Reply(None, [("look", "no JSON " + text)]),
        Reply("x" * 5_000_000),
    )
    with provider(replies) as url, TrajectoryRecorder(task=text, directory=directory) as recorder:
        client = recorder.wrap(OpenAI(base_url=url, api_key="sk-none"))
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA<svg onload=alert(1)>"}}
        svg = {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zy8+"}}
        content = [{"type": "text", "text": text}, image, svg]
        agent = Agent(recorder, client, [{"role": "user", "content": content}])

        def look(path: str) -> str:
            return text

        agent.tools = {"look": look}
        agent.turn()
        try:
            agent.turn()
        except json.JSONDecodeError:
            agent.messages.append({"role": "tool", "tool_call_id": "call_1_0", "content": "no JSON"})
        agent.turn()
        recorder.finalize(success=False, final_result=text)
        return recorder.trajectory_path


def read_file(path: str) -> str:
    return f"# {path}\n" + "".join(f"line_{n} = {n * 7}\n" for n in range(12))


def wait(number: int) -> str:
    return f"waited for {number}"


def long(directory: Path, steps: int) -> Path:
    """Record a run of this many steps. The prompts of 1,000 steps are 100 MB if written out."""
    replies = [
        Reply(f"Step {n}: I read file {n}.", [("read_file", {"path": f"src/module_{n}.py"})]) for n in range(steps - 1)
    ]
    with provider([*replies, Reply("All files are read.")]) as url:
        with TrajectoryRecorder(task=f"Read {steps} files", directory=directory) as recorder:
            client = recorder.wrap(OpenAI(base_url=url, api_key="sk-none"))
            agent = Agent(recorder, client, [{"role": "user", "content": "Read every file, one after the other."}])
            agent.tools = {"read_file": read_file}
            for _ in range(steps):
                agent.turn()
            recorder.finalize(success=True)
            return recorder.trajectory_path


def live(directory: Path) -> None:
    """Record a run that makes a step for each line of standard input, and ends with it."""
    replies = [Reply(f"This is live answer {n}.", [("wait", {"number": n})]) for n in range(1, 200)]
    with provider(replies) as url, TrajectoryRecorder(task="A run that is watched", directory=directory) as recorder:
        client = recorder.wrap(OpenAI(base_url=url, api_key="sk-none"))
        agent = Agent(recorder, client, [{"role": "user", "content": "Go on."}])
        agent.tools = {"wait": wait}
        print(recorder.trajectory_path, flush=True)
        for _ in sys.stdin:
            agent.turn()
            print("turn", flush=True)
        recorder.finalize(success=True)


def main(arguments: list[str]) -> None:
    """Record one scenario, or all scenarios that end by themselves."""
    directory, scenario, *more = arguments
    where = Path(directory)
    if scenario == "all":
        runs = {"short": long(where, 10), "failing": failing(where)}
        runs |= {"other": failing(where, "gpt-5", scripts.OTHER_FIX), "hostile": hostile(where)}
        print(json.dumps({name: path.name for name, path in runs.items()}))
    elif scenario == "long":
        long(where, int(more[0]))
    else:
        {"failing": failing, "hostile": hostile, "live": live}[scenario](where)


if __name__ == "__main__":
    main(sys.argv[1:])
