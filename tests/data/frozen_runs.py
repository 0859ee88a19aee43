"""The runs in `frozen/`: journals and documents of version 1, which must be read in the same way for ever.

`python -m tests.data.frozen_runs` makes all files anew. That is right only if a change of the format is intended, or if
a reader gets better on purpose. Look at the difference in git, file by file, before you commit it.

| directory | holds |
|---|---|
| `journals/` | journals: recorded by agents, imported, and written by hand for the members that remain |
| `documents/` | documents without a journal, inline and in deltas |
| `read/` | the whole document that each of these files must be read as |

Times, durations, ids and versions are replaced by fixed ones (`scripts/checkouts/journals.py`).
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.checkouts import recording as agents
from scripts.checkouts.journals import Canonical, line_of
from tests.formats.imported import import_file
from tests.journals import TIME, journal_of
from tests.limits import limited
from tests.processes import ROOT
from trace_recorder import TrajectoryRecorder, facts, load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.storage.journal_reader import SCHEMA, VERSION
from trace_recorder.storage.websocket_frames import marked

Payload = Any

DIRECTORY = Path(__file__).parent / "frozen"
IMPORTED = ("claude-code/weather.stream.jsonl", "har/weather.har", "vcr/weather.yaml", "atof/weather.jsonl")
_HOST = re.compile(rb'"host":"[^"]*"')
_MESSAGES = [agents.user("Mend it.")]


def answers(place: Path) -> None:
    """Record whole, streamed, broken and odd answers. Parts of streams are short, and begin within chunks."""
    recorder_of = limited(flush_bytes=400)
    large = "print(1)\n" * 1000  # a string of its own
    use = agents.tool_use("call_1", "read", path="a.py")
    result = {"role": "tool", "tool_call_id": "call_1", "content": large}
    messages = [*_MESSAGES, {"role": "assistant", "content": None, "tool_calls": [use]}, result]
    events = agents.chat_events(*(f"word {number} " for number in range(8)))
    with recorder_of(place / "run.json", task="answers") as recorder:
        replies = [
            agents.plain(agents.chat("I read.", use)),
            (200, agents.EVENTS, events),
            (200, agents.EVENTS, [b"".join(events), b""]),
            (200, agents.EVENTS, events[:2]),
            (502, {"content-type": "text/html"}, [b"<html>Bad gateway</html>"]),
            (200, {"content-type": "image/png"}, [b"\x89PNG\xff\xfe"]),
            *[agents.plain(agents.chat("last"))] * 3,
        ]
        client = agents.client_of(recorder, replies)
        url = agents.URL + "chat/completions"
        client.post(url, json={"model": "m", "messages": _MESSAGES, "tools": [{"type": "function", "function": use}]})
        for _ in range(3):
            client.post(url, json={"model": "m", "messages": messages, "stream": True})
        for _ in range(2):
            client.post(url, json={"model": "m", "messages": _MESSAGES, "temperature": 0.5})
        for body in (b'{"model": NaN}', b"\xff\xfe", b'["a"]'):
            client.post(url, content=body)


def ranges(place: Path) -> None:
    """Record a list of many ranges, and a list that refers to it. The document has deltas."""
    messages: list[Payload] = []
    with TrajectoryRecorder(place / "run.json", history="delta") as recorder:
        client = agents.client_of(recorder, [agents.plain(agents.chat("on"))] * 3)
        for number in range(16):
            messages += [agents.user(f"question {number}"), {"role": "assistant", "content": "the same"}]
        for more in range(3):
            sent = [*messages, *(agents.user(f"then {number}") for number in range(more))]
            client.post(agents.URL + "chat/completions", json={"model": "m", "messages": sent})


def by_hand(place: Path) -> None:
    """Write the members that no other run has. No member of this run is stored as items."""
    (place / "run.jsonl").write_bytes(journal_of(*((fact.kind, _data(fact)) for fact in _every_member())))


def _data(fact: facts.Fact) -> Payload:
    data = {}
    for names, values, absences in facts.own_and_foreign_members(type(fact)):
        members = zip(names, values(fact), absences, strict=True)
        data |= {name: value for name, value, absence in members if value is not absence}
    return data


_MASKED = {"seed": 7, "key": "[REDACTED:known-secret]"}


def _every_member() -> Iterator[facts.Fact]:
    """Yield facts with each member that a kind has."""
    machine = {"host": "elsewhere", "pid": 1, "process_start": 0.5, "recorder": "0.1", "python": "3.11.7"}
    origin = {"trajectory_id": "parent", "interaction_id": "llm_7", "by_hand": True}
    place = {"agent": "a", "agent_id": "a1", "parent_agent_id": "a0", "parent_execution_id": "tool_1"}
    step = {**place, "step_id": "step_1", "step_number": 3}
    headers = {"content-type": "application/json"}
    error = {"type": "TimeoutError", "message": "too slow"}
    yield facts.StartFact(
        **{"schema": SCHEMA, "version": VERSION, "trajectory_id": "frozen", "platform": "linux", **machine},
        parent="parent",
        provider="openai",
        model="m",
        max_steps=9,
        forked_at={"interaction_id": "llm_7", "step_number": None},
        replay_of="parent",
        task="mend it",
        session="chat 7",
        content="masked",
        metadata={"seed": 7, "key": "open"},
        redacted=1,
    )
    yield facts.AnnotationFact(key="note", value="a secret", redacted=1)
    yield facts.RedactionFact(of=2, value="[REDACTED:known-secret]", redacted=1)
    yield facts.RedactionFact(of=1, task="mend it", session="chat", metadata=_MASKED, redacted=1)
    yield facts.RemovalFact(rules=["text", "pattern"], places=3, redacted=1)
    yield facts.StepStartFact(**step, redacted=1)
    call = {"interaction_id": "llm_1", "api": "openai-chat", "provider": "openai", "model": "m", "method": "POST"}
    url = agents.URL + "chat/completions"
    asked = {"model": "m", "messages": _MESSAGES, "stream": True}
    sent = {**call, **step, "url": url, "headers": headers, "run_inferred": True}
    yield facts.LLMRequestFact(**sent, attempt=0, redacted=1, stream=True, items={}, body=asked)
    failed = {"interaction_id": "llm_1", "attempt": 0, "duration_seconds": 0.5}
    yield facts.LLMErrorFact(**failed, replayed_from=origin, type="ConnectError", message="refused", redacted=2)
    added = {"server": "vllm", "members": {"return_token_ids": True}}
    yield facts.LLMRequestFact(
        **sent,
        attempt=1,
        stream=True,
        inferred=True,
        added=added,
        connection_id="websocket_1",
        items={},
        body=asked,
    )
    events = agents.chat_events("Grü", "ße")
    part = b"".join(events[:2])
    answered = {"interaction_id": "llm_1", "attempt": 1, "replayed_from": origin, "status": 200, "headers": headers}
    yield facts.LLMStreamFact(
        **answered,
        time_to_first_token_seconds=0.25,
        bytes=len(part),
        zlib=base64.b64encode(zlib.compress(part)).decode(),
        chunk_ends="2*2",
        chunk_times="Uof",
    )
    yield facts.LLMResponseFact(
        **answered,
        duration_seconds=1.5,
        complete=False,
        stream=True,
        chunks=2,
        events=2,
        last_event=False,
        time_to_first_token_seconds=0.25,
        time_to_last_token_seconds=1.25,
        ended_by="TimeoutError: too slow",
        error=error,
        assembled={
            "id": "chat-s",
            "object": "chat.completion",
            "created": 1,
            "model": "m-1",
            "choices": [{"index": 0, "finish_reason": None, "message": {"content": "Grüße"}}],
        },
    )
    yield from _websocket(step, headers, error)
    yield from _tools_and_steps(step)
    yield facts.LLMInteractionFact(
        interaction_id="llm_2",
        **step,
        provider="anthropic",
        model="m",
        api="claude-code",
        duration_seconds=2.5,
        time_to_first_token_seconds=0.5,
        stream=True,
        complete=False,
        replayed_from=origin,
        items={},
        body={"messages": _MESSAGES, "tools": ["read"], "parameters": {"temperature": 0}},
        response={"content": "Half", "usage": {"input_tokens": 3}},
        error=error,
        ended_by="the caller closed it",
        redacted=1,
    )
    yield facts.AnnotationFact(lakeview_step=3, value="it went well")
    yield facts.RewardFact(name="tests", value=0.5, weight=2, step_number=3, explanation="half of them", redacted=1)
    yield facts.GapFact(time=TIME, what="record a request", why="OSError: disk full (7 more)", redacted=1)
    yield facts.SourceRecordFact(what="a line of the source", value={"type": "summary"}, redacted=1)
    yield facts.FinalizeFact(status="completed", success=True, execution_time=3.5, final_result={"files": ["a.py"]})
    yield facts.FinalizeFact(status="failed", success=None, execution_time=4, final_result=None, error=error)


def _tools_and_steps(step: Payload) -> Iterator[facts.Fact]:
    """Yield a tool that was joined from a session file, a generator, and the end of the step."""
    joined = {"execution_id": "tool_1", "name": "read", "call_id": "call_1", **step}
    yield facts.ToolCallFact(**joined, interaction_id="llm_1", began=TIME, arguments={"path": "a.py"})
    yield facts.ToolResultFact(**joined, success=True, duration_seconds=0.5, replayed=True, result="print()")
    counting = {"execution_id": "tool_2", "name": "count", **step}
    yield facts.ToolCallFact(**counting, arguments={})
    yield facts.ToolResultFact(
        **counting,
        success=None,
        yielded=2,
        ended_by="it was closed before its end",
        result=[1, 2],
        returned=3,
        error={"type": "OSError", "message": "no such file"},
    )
    yield from _messages_of_a_server(step)
    call = {"call_id": "call_1", "name": "read", "arguments": {"path": "a.py"}}
    yield facts.AgentStepFact(
        **step,
        state="completed",
        duration_seconds=3,
        items={},
        body={"llm_messages": _MESSAGES},
        llm_response={"content": "I read.", "tool_calls": [call]},
        tool_calls=[call],
        tool_results=[{"call_id": "call_1", "name": "read", "success": True, "result": "print()"}],
        reflection="good",
        error=None,
        redacted=1,
    )


def _messages_of_a_server(step: Payload) -> Iterator[facts.Fact]:
    """Yield a call of an MCP server with its answer, a line that is no message, and a call without an answer."""
    connection = {"connection_id": "mcp_1", "server": "files", "transport": "stdio"}
    meta = {"progressToken": 7, "claudecode/toolUseId": "call_2"}
    asked = {"name": "read", "arguments": {"path": "b.py"}, "_meta": meta}
    sent = {**step, **connection, "direction": "sent", "execution_id": "tool_9"}
    yield facts.MCPMessageFact(**sent, message=_message(id=7, method="tools/call", params=asked), redacted=1)
    progress = {"progressToken": 7, "progress": 1}
    received = {**connection, "direction": "received"}
    yield facts.MCPMessageFact(**received, message=_message(method="notifications/progress", params=progress))
    result = {"content": [{"type": "text", "text": "1"}], "structuredContent": {"lines": 1}, "isError": False}
    yield facts.MCPMessageFact(**received, message=_message(id=7, result=result))
    yield facts.MCPMessageFact(**received, text="Listening …")
    again = _message(id="8", method="tools/call", params={"name": "read", "arguments": {}})
    yield facts.MCPMessageFact(connection_id="mcp_1", direction="sent", message=again)
    yield facts.MCPEndFact(connection_id="mcp_1", exit_code=-9, ended_by="the server closed it", redacted=1)


def _websocket(step: Payload, headers: Payload, error: Payload) -> Iterator[facts.Fact]:
    """Yield a websocket with a message in each direction, and one that was refused."""
    address = {"api": "openai-realtime", "provider": "openai", "model": "gpt-realtime", **step}
    opened = {**address, "url": "wss://api.openai.com/v1/realtime", "headers": headers, "response_headers": headers}
    yield facts.WebsocketStartFact(
        **opened,
        connection_id="websocket_1",
        status=101,
        duration_seconds=0.25,
        subprotocol="realtime",
        redacted=1,
    )
    yield facts.WebsocketStartFact(**opened, connection_id="websocket_2", status=401, error=error)
    parts = (
        marked("sent", b'{"type":"input_audio_buffer.clear"}'),
        marked("received", b'{"type":\n"rate_limits.updated"}'),
    )
    for part, continues in zip(parts, (None, True), strict=True):
        yield facts.WebsocketFramesFact(
            connection_id="websocket_1",
            bytes=len(part),
            zlib=base64.b64encode(zlib.compress(part)).decode(),
            chunk_ends="1" if continues is None else "2",
            chunk_times="U",
            continues=continues,
            redacted=1,
        )
    yield facts.WebsocketEndFact(
        connection_id="websocket_1",
        duration_seconds=9.5,
        code=1011,
        sent=2,
        received=4,
        ended_by="the server closed it",
        reason="too busy",
        redacted=1,
    )


def _message(**members: Payload) -> Payload:
    return {"jsonrpc": "2.0", **members}


RUNS: dict[str, Callable[[Path], object]] = {
    "manual": agents.manual,
    "failed": agents.failed,
    "answers": answers,
    "ranges": ranges,
    "media": agents.media,
    "frames": agents.bedrock,
    "secrets": agents.secrets,
    "background": agents.background,
    "retries": agents.retries,
    "repeated": agents.repeated,
    "every member": by_hand,
}


def make(directory: Path) -> None:
    """Make all files anew in a directory."""
    shutil.rmtree(directory, ignore_errors=True)
    for name in ("journals", "documents", "read"):
        (directory / name).mkdir(parents=True)
    for name, run in RUNS.items():
        with tempfile.TemporaryDirectory() as place:
            run(Path(place))
            _keep(name, Path(place), directory)
    for source in IMPORTED:
        with tempfile.TemporaryDirectory() as place:
            imported = [*import_file(Source(DIRECTORY.parent / "foreign" / source), Path(place))]
            assert imported
            _keep(f"imported {source.partition('/')[0]}", Path(place), directory)
    for kind in ("journals", "documents"):
        for path in sorted((directory / kind).iterdir()):
            read = json.dumps(load(path).to_document("inline"), ensure_ascii=False, indent=1)
            (directory / "read" / f"{path.name}.read.json").write_text(read + "\n", encoding="utf-8")


def _keep(name: str, place: Path, directory: Path) -> None:
    """Write the journals and documents of a run in their fixed form."""
    form = Canonical((datetime.now(UTC).strftime("%Y-%m-%d"),), (str(place).encode(), str(ROOT).encode()))
    journals = sorted(place.glob("*.jsonl"))
    for path in journals:
        title = name if len(journals) == 1 else f"{name}, {path.stem}"
        data = _without_machine(form.journal(path.read_bytes()))
        (directory / "journals" / f"{title}.jsonl").write_bytes(data)
        document = path.with_suffix(".json")
        if document.exists():
            (directory / "documents" / f"{title}.json").write_bytes(form.text(document.read_bytes()))


def _without_machine(data: bytes) -> bytes:
    """Return a journal whose run was recorded elsewhere, so that its state is the same on every machine."""
    lines = []
    for line in data.splitlines(keepends=True):
        record = json.loads(line)
        if record["kind"] != "start":
            lines.append(line)
            continue
        data = line.partition(b'"data":')[2].rpartition(b',"crc"')[0]
        lines.append(line_of(1, record["time"].encode(), b"start", _HOST.sub(b'"host":"elsewhere"', data)))
    return b"".join(lines)


if __name__ == "__main__":
    make(DIRECTORY)
