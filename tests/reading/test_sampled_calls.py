"""A server behind a tap asks for a call of a model: it is inside the server's tool if there is only one answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.written import Writing, asked, said
from trace_recorder import load
from trace_recorder.reading.mcp_calls import MOST_CALLS_WHILE_ASKED
from trace_recorder.values.messages import Payload

TOOL = {"name": "ask", "arguments": {}}


class _Tapped:
    """A run with the messages of a tap between the calls of the model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = Writing(path.with_suffix(".jsonl"), provider="openai", model="m")
        self._calls = 0

    def message(self, direction: str, identity: str, **members: Payload) -> None:
        message = {"jsonrpc": "2.0", "id": identity, **members}
        self._writing.add("mcp_message", connection_id="c1", direction=direction, server="sums", message=message)

    def call_tool(self, identity: str) -> None:
        self.message("sent", identity, method="tools/call", params=TOOL)

    def ask_for_call(self) -> None:
        self.message("received", "ask", method="sampling/createMessage", params={"messages": []})

    def answer(self, text: str) -> None:
        content = {"type": "text", "text": text}
        self.message("sent", "ask", result={"role": "assistant", "model": "m", "content": content})

    def call_model(self, text: str, **about: Payload) -> None:
        self._calls += 1
        self._writing.request(self._calls, asked({"role": "user", "content": f"q{self._calls}"}), **about)
        self._writing.response(self._calls, body=said(text))

    def executions(self) -> list[str | None]:
        """End the run. Return the execution in which each call of the model is."""
        self.message("received", "1", result={"content": [{"type": "text", "text": "done"}]})
        self._writing.add("finalize", status="completed", success=True, final_result=None, execution_time=3.0)
        self._writing.journal.close()
        run = load(self.path.with_suffix(".jsonl"))
        known = {result.execution_id for step in run.agent_steps for result in step.tool_results}
        executions = [call.parent_execution_id for call in run.llm_interactions]
        assert {*executions} <= {None, *known}
        return executions


@pytest.fixture
def run(tmp_path: Path) -> _Tapped:
    """Return a run in which the tool of a server is open."""
    made = _Tapped(tmp_path / "run")
    made.call_model("before")
    made.call_tool("1")
    return made


def test_the_only_call_with_the_answer_s_text_is_inside_the_tool(run: _Tapped) -> None:
    """Calls before the request, with another text, and after the answer are the agent's own."""
    run.ask_for_call()
    run.call_model("two")
    run.call_model("other")
    run.answer("two")
    run.call_model("two")

    executions = run.executions()
    assert executions[1] is not None
    assert [executions[0], *executions[2:]] == [None, None, None]


def test_of_two_calls_with_the_same_text_neither_is_inside(run: _Tapped) -> None:
    run.ask_for_call()
    run.call_model("two")
    run.call_model("two")
    run.answer("two")

    assert run.executions() == [None, None, None]


def test_with_two_open_tools_no_call_is_inside(run: _Tapped) -> None:
    run.call_tool("2")
    run.ask_for_call()
    run.call_model("two")
    run.answer("two")

    assert run.executions() == [None, None]


def test_a_call_of_a_stated_sub_agent_stays_where_it_is(run: _Tapped) -> None:
    run.ask_for_call()
    run.call_model("two", agent="scout", agent_id="a1")
    run.answer("two")

    assert run.executions() == [None, None]


def test_a_request_without_an_answer_is_forgotten(run: _Tapped) -> None:
    """What is kept for a request does not grow with the calls of the run. An answer that comes then joins nothing."""
    run.ask_for_call()
    run.call_model("two")
    for _ in range(MOST_CALLS_WHILE_ASKED):
        run.call_model("other")
    run.answer("two")

    assert {*run.executions()} == {None}
