"""Sub-agents of Qwen Code, Kimi Code, Cline and Copilot: their files, and the calls that started them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.cli.invoking import invoke
from tests.formats.files import PRODUCED, check_run, runs_of
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.run import ForeignRun
from trace_recorder.values.trajectory import Trajectory

_Line = dict[str, Any]
_SESSION = "11111111-0000-4000-8000-000000000001"
_CLINE = "1795881910000_abcde"


def _qwen(uuid: str, second: int, kind: str, *parts: _Line, **more: Any) -> _Line:
    role = "model" if kind == "assistant" else "user"
    about = {"uuid": uuid, "sessionId": _SESSION, "timestamp": f"2026-11-28T10:00:{second:02}.000Z", "type": kind}
    return {**about, "message": {"role": role, "parts": list(parts)}, **more}


def _call(call_id: str, name: str, **arguments: Any) -> _Line:
    return {"functionCall": {"id": call_id, "name": name, "args": arguments}}


def _result(call_id: str, name: str, output: str) -> _Line:
    return {"functionResponse": {"id": call_id, "name": name, "response": {"output": output}}}


_MAIN = [
    _qwen("a", 0, "user", {"text": "Fix it."}, parentUuid=None),
    _qwen("b", 1, "assistant", _call("c1", "agent", prompt="Look."), parentUuid="a", model="m"),
    _qwen("c", 8, "tool_result", _result("c1", "agent", "Nothing."), parentUuid="b"),
    _qwen("d", 9, "assistant", {"text": "Fixed."}, parentUuid="c", model="m"),
]


def _of_agent(agent: str, first: int, started: str | None = None) -> list[_Line]:
    """Return the lines of a sub-agent, which may start another one."""
    tokens = {"promptTokenCount": 50, "candidatesTokenCount": 2}
    asked = _call(started or "t1", "agent" if started else "shell", prompt="Deeper.")
    return [
        _qwen(f"{agent}1", first, "user", {"text": "Look."}, agentId=agent, parentUuid=None),
        _qwen(
            f"{agent}2",
            first,
            "assistant",
            {"text": "I look."},
            agentId=agent,
            parentUuid=f"{agent}1",
            usageMetadata=tokens,
        ),
        _qwen(f"{agent}3", first, "assistant", asked, agentId=agent, parentUuid=f"{agent}2"),
    ]


def _written(path: Path, lines: list[_Line]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _agent_file(directory: Path, agent: str, lines: list[_Line], **meta: Any) -> Path:
    path = _written(directory / f"agent-{agent}.jsonl", lines)
    path.with_suffix(".meta.json").write_text(json.dumps({"agentId": agent, **meta}))
    return path


def _read(path: Path, journals: Path) -> tuple[ForeignRun, Trajectory]:
    (run,) = runs_of(path)
    journals.mkdir(exist_ok=True)
    return run, check_run(run, journals)


def test_sub_agents_of_qwen_are_joined_at_any_depth(tmp_path: Path) -> None:
    """Lines with the text and the tool calls of one answer are one call. The model is that of the session."""
    session = _written(tmp_path / "chats" / f"{_SESSION}.jsonl", _MAIN)
    agents = tmp_path / "subagents" / _SESSION
    _agent_file(agents, "x", _of_agent("x", 3), toolUseId="c2", parentAgentId="y", depth=1, agentType="explorer")
    _agent_file(agents, "y", _of_agent("y", 2, started="c2"), toolUseId="c1", depth=0, agentType="worker")
    _, read = _read(session, tmp_path / "journals")
    seen = [(call.agent, call.agent_id, call.parent_agent_id, call.model) for call in read.llm_interactions]
    assert seen == [
        (None, None, None, "m"),
        ("worker", "y", None, "m"),
        ("explorer", "x", "y", "m"),
        (None, None, None, "m"),
    ]
    _, second, third, _ = read.llm_interactions
    assert [call.parent_execution_id for call in (second, third)] == ["execution-of-c1", "execution-of-c2"]
    assert (second.response.content, second.response.usage.output_tokens) == ("I look.", 2)
    assert [call.name for call in second.response.tool_calls] == ["agent"]


def test_the_executions_of_a_session_are_those_of_all_its_agents(tmp_path: Path) -> None:
    """`--join` adds the times of the tools that sub-agents called."""
    qwen = _written(tmp_path / "chats" / f"{_SESSION}.jsonl", _MAIN)
    ended = _qwen("x4", 5, "tool_result", _result("t1", "shell", "a"), agentId="x", parentUuid="x3")
    _agent_file(tmp_path / "subagents" / _SESSION, "x", [*_of_agent("x", 3), ended], toolUseId="c1")
    kimi = _kimi(tmp_path / "session_1", "main", 0)
    _kimi(tmp_path / "session_1", "agent-1", 1, {"type": "subagent.started"})
    cline = Path(shutil.copytree(PRODUCED / "cline-sessions", tmp_path / "cline"))
    document = json.loads((cline / "agent_1.messages.json").read_text())
    document["messages"][1]["content"].append({"type": "tool_use", "id": "t1", "name": "shell", "input": {}})
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a"}
    document["messages"].append({"role": "user", "content": [result], "ts": 1795881914500})
    (cline / "agent_1.messages.json").write_text(json.dumps(document))
    expected = {
        qwen: {(None, "c1"), ("x", "t1")},
        kimi: {(None, "call-of-main"), ("agent-1", "call-of-agent-1")},
        cline / f"{_CLINE}.messages.json": {(None, "c1"), (None, "c2"), ("agent_1", "t1")},
    }
    for path, executions in expected.items():
        (run,) = runs_of(path)
        assert {(tool.agent.agent_id, tool.call_id) for tool in run.executions} == executions


def test_a_file_of_a_sub_agent_may_be_damaged_or_lead_elsewhere(tmp_path: Path) -> None:
    session = _written(tmp_path / "chats" / f"{_SESSION}.jsonl", _MAIN)
    agents = tmp_path / "subagents" / _SESSION
    _agent_file(agents, "x", _of_agent("x", 3), toolUseId="c1").write_text('{"type": "user", "mess\n')
    elsewhere = _written(tmp_path / "elsewhere" / "agent-y.jsonl", _of_agent("y", 2))
    (agents / "agent-y.jsonl").symlink_to(elsewhere)
    run, read = _read(session, tmp_path / "journals")
    assert [call.agent for call in read.llm_interactions] == [None, None]
    assert [gap.what for gap in read.gaps] == ["line 1"]
    assert elsewhere not in run.source


def test_a_sub_agent_s_file_alone_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = _agent_file(tmp_path, "x", _of_agent("x", 3))
    run, _ = _read(path, tmp_path / "journals")
    assert (run.identity, run.session) == (f"{_SESSION}-agent-x", _SESSION)


def test_a_session_of_cline_has_its_facts_and_its_sub_agents(tmp_path: Path) -> None:
    """A sub-agent belongs to the call with its task. Another session's sub-agent in the directory is not read."""
    directory = Path(shutil.copytree(PRODUCED / "cline-sessions", tmp_path / _CLINE))
    usage = {"inputTokens": 220, "outputTokens": 15}
    facts = {"status": "completed", "prompt": "Fix it.", "provider": "openai", "metadata": {"usage": usage}}
    (directory / f"{_CLINE}.json").write_text(json.dumps(facts))
    other = json.loads((directory / "agent_1.messages.json").read_text())
    other["origin"]["parentThreadId"] = "another"
    (directory / "agent_0.messages.json").write_text(json.dumps(other))
    (directory / "agent_2.messages.json").write_text('{"messages": [')
    _, read = _read(directory / f"{_CLINE}.messages.json", tmp_path / "journals")
    calls = [
        (call.agent_id, call.parent_execution_id, call.response.usage.output_tokens) for call in read.llm_interactions
    ]
    assert calls == [(None, None, 10), ("agent_1", "execution-of-c2", 2), (None, None, 5)]
    assert (read.task, read.status, read.annotations["session_usage"]) == ("Fix it.", "completed", usage)
    assert [gap.what for gap in read.gaps] == ["to read agent_2.messages.json"]


def test_events_with_the_id_of_a_sub_agent_of_copilot_belong_to_it(tmp_path: Path) -> None:
    """The prompt of a sub-agent is an event. Each answer has the usage record with the id of its call."""

    def line(second: int, kind: str, agent: str | None = None, **data: Any) -> _Line:
        about = {"id": f"e{second}", "timestamp": f"2026-11-28T10:00:{second:02}.000Z"}
        return {"type": kind, "data": data, **about} | ({"agentId": agent} if agent else {})

    def usage(call_id: str, output: int) -> _Line:
        counts = {"inputTokens": 40, "outputTokens": output, "cacheReadTokens": 9, "reasoningTokens": 1}
        return {"apiCallId": call_id, **counts, "duration": 250, "timeToFirstTokenMs": 100, "finishReason": "stop"}

    asked = [{"toolCallId": "c1", "name": "task", "arguments": {"prompt": "Look."}}]
    lines = [
        line(0, "session.start", sessionId="s"),
        line(1, "user.message", content="Fix it."),
        line(2, "session.usage_record", usage=usage("p1", 10)),
        line(3, "assistant.message", content="I ask.", toolRequests=asked, apiCallId="p1"),
        line(4, "tool.execution_start", toolCallId="c1", toolName="task"),
        line(5, "subagent.started", "agent-1", toolCallId="c1", agentName="helper"),
        line(6, "user.message", "agent-1", content="Look.", transformedContent="Now. Look."),
        line(7, "session.usage_record", "agent-1", usage=usage("p2", 20)),
        line(8, "session.usage_record", usage=usage("p3", 30)),
        line(9, "assistant.message", "agent-1", content="Nothing.", parentToolCallId="c1", apiCallId="p2"),
        line(10, "tool.execution_complete", toolCallId="c1", success=True, result={"content": "Nothing."}),
        line(11, "assistant.message", content="Fixed.", apiCallId="p3"),
    ]
    _, read = _read(_written(tmp_path / "events.jsonl", lines), tmp_path / "journals")
    seen = [(call.agent, call.response.usage.output_tokens, call.duration_seconds) for call in read.llm_interactions]
    assert seen == [(None, 10, 0.25), ("helper", 20, 0.25), (None, 30, 0.25)]
    prompts = [[message.content for message in call.input_messages] for call in read.llm_interactions]
    assert prompts == [["Fix it."], ["Now. Look."], ["Fix it.", "I ask.", "Nothing."]]


def _kimi(directory: Path, agent: str, second: int, *events: _Line) -> Path:
    """Write the file of an agent of Kimi Code: its prompt, an answer with a tool call, events, a result, an answer."""

    def line(offset: int, name: str, **members: Any) -> _Line:
        return {"type": name, **members, "time": 1795881884000 + 1000 * (second + offset)}

    def step(offset: int, kind: str, **members: Any) -> _Line:
        return line(offset, "context.append_loop_event", event={"type": kind, **members})

    prompt = {"role": "user", "content": [{"type": "text", "text": f"Task of {agent}."}], "origin": {"kind": "user"}}
    lines = [
        {"type": "metadata", "protocol_version": "1.5"},
        line(0, "context.append_message", message=prompt),
        line(0, "llm.request", kind="loop", model="m"),
        step(0, "tool.call", toolCallId=f"call-of-{agent}", name="Agent", args={}),
        *({**event, **line(0, event["type"])} for event in events),
        step(9, "tool.result", toolCallId=f"call-of-{agent}", result={"output": "Done."}),
        step(9, "step.end", usage={"output": 3}),
        line(9, "llm.request", kind="loop", model="m"),
        step(9, "content.part", part={"type": "text", "text": f"Answer of {agent}."}),
        step(9, "step.end", usage={"output": 4}),
    ]
    return _written(directory / "agents" / agent / "wire.jsonl", lines)


def test_sub_agents_of_kimi_are_joined_at_any_depth(tmp_path: Path) -> None:
    """A sub-agent that no event names belongs to the session, too. No sub-agent is imported a second time."""

    def spawned(agent: str, parent: str, name: str) -> _Line:
        about = {"subagentName": name, "parentAgentId": parent, "parentToolCallId": f"call-of-{parent}"}
        return {"type": "subagent.spawned", "subagentId": agent, **about}

    session = tmp_path / "sessions" / "session_1"
    main = _kimi(session, "main", 0, spawned("agent-1", "main", "coder"))
    _kimi(session, "agent-0", 2, {"type": "subagent.started"})
    _kimi(session, "agent-1", 1, spawned("agent-0", "agent-1", "explore"))
    _kimi(session, "agent-2", 3, {"type": "subagent.started"})
    run, read = _read(main, tmp_path / "journals")
    agents = {
        (call.agent, call.agent_id, call.parent_agent_id, call.parent_execution_id) for call in read.llm_interactions
    }
    assert agents == {
        (None, None, None, None),
        ("coder", "agent-1", None, "execution-of-call-of-main"),
        ("explore", "agent-0", "agent-1", "execution-of-call-of-agent-1"),
        (None, "agent-2", None, None),
    }
    assert (run.identity, len(read.llm_interactions), read.task) == ("session_1", 8, "Task of main.")
    done = invoke("import", tmp_path / "sessions", "-o", tmp_path / "out")
    assert "1 run written, 3 files in other formats skipped" in done.output, done.output
    main.unlink()
    (alone,) = runs_of(session / "agents" / "agent-0" / "wire.jsonl")
    assert (alone.identity, alone.parent) == ("session_1-agent-0", "session_1")


_KEY = "sk-proj-" + "Zk3vQ9rT7wX1" * 4


def test_keys_in_the_files_beside_a_session_are_masked(tmp_path: Path) -> None:
    """The files of sub-agents, and those with facts of the session, are masked like the session itself."""
    cline = Path(shutil.copytree(PRODUCED / "cline-sessions", tmp_path / "cline"))
    agent = cline / "agent_1.messages.json"
    agent.write_text(agent.read_text().replace("Nothing.", _KEY))
    (cline / f"{_CLINE}.json").write_text(json.dumps({"prompt": f"Use {_KEY}.", "cwd": _KEY, "status": _KEY}))
    qwen = _written(tmp_path / "chats" / f"{_SESSION}.jsonl", _MAIN)
    meta = {"toolUseId": "c1", "agentType": _KEY, "description": _KEY}
    _agent_file(tmp_path / "subagents" / _SESSION, "x", [*_of_agent("x", 3), {"type": _KEY}], **meta)
    droid = Path(shutil.copy(PRODUCED / "droid" / "session.jsonl", tmp_path))
    droid.with_suffix(".settings.json").write_text(json.dumps({"model": _KEY, "tokenUsage": {"inputTokens": _KEY}}))
    grok = Path(shutil.copytree(PRODUCED / "grok", tmp_path / "grok")) / "build.jsonl"
    (grok.parent / "summary.json").write_text(json.dumps({"info": {"cwd": _KEY}, "generated_title": _KEY}))
    (grok.parent / "tool_definitions.json").write_text(json.dumps([{"name": _KEY}]))
    vibe = tmp_path / "vibe" / "journal"
    shutil.copytree(PRODUCED / "vibe", vibe)
    (vibe.parent / "meta.json").write_text(json.dumps({"config": {"model_name": _KEY}, "git_branch": _KEY}))
    for path in (cline / f"{_CLINE}.messages.json", qwen, droid, grok, *vibe.glob("*.jsonl")):
        (run,) = runs_of(path)
        journal = b"".join(journal_lines(run))
        assert b"[REDACTED" in journal, path
        assert _KEY.encode() not in journal, path
