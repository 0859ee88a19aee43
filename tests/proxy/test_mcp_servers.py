"""MCP servers over HTTP: the proxy passes the bytes, and records the messages in the program's run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import said
from tests.provider import Answer, Server, serving
from tests.proxy.running import PATH, proxying
from trace_recorder.values.messages import Payload

CALL = ("toolu_1", "mcp__sums__add", '{"a": 1, "b": 2}')
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
WELCOME = {"jsonrpc": "2.0", "id": 0, "result": {"serverInfo": {"name": "adder", "version": "7"}}}
ASKED = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 9, "progress": 1}}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "3"}]}}


def events(*messages: Payload, end: str = "\n") -> bytes:
    """Return messages as server-sent events."""
    return "".join(f"event: message{end}data: {json.dumps(one)}{end}{end}" for one in messages).encode()


JSON, STREAM = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
ANSWERS = {
    "one body": (JSON, [json.dumps(RESULT).encode()]),
    "a stream": (STREAM, [events(PROGRESS, RESULT)]),
    "a stream in pieces": (STREAM, [bytes([byte]) for byte in events(PROGRESS, RESULT, end="\r\n")]),
    "compressed": ({**STREAM, "content-encoding": "gzip"}, [gzip.compress(events(PROGRESS, RESULT))]),
}


@pytest.mark.parametrize("form", ANSWERS)
def test_messages_over_http_are_recorded(form: str, server: Server, tmp_path: Path) -> None:
    """The client gets the bytes of the server. The call is joined to the model's, and has the server's name."""
    headers, chunks = ANSWERS[form]
    server.answers = [Answer([said(None, calls=[CALL]).body])]
    welcome = Answer([json.dumps(WELCOME).encode()], headers={**JSON, "mcp-session-id": "s1"})
    with serving(welcome, Answer(chunks, headers=headers)) as sums:
        servers = {"sums": sums.url + "/mcp"}
        with proxying(tmp_path, {"openai": server.url}, mcp_servers=servers, command=["agent"]) as proxy:
            url = proxy.url + "/mcp/sums"
            assert httpx.post(url, json=HELLO).headers["mcp-session-id"] == "s1"
            httpx.post(proxy.url + PATH, json={"messages": [{"role": "user", "content": "add"}]})
            with httpx.stream("POST", url, json=ASKED, headers={"mcp-session-id": "s1"}) as answer:
                assert b"".join(answer.iter_raw()) == b"".join(chunks)
        assert [request.path for request in sums.requests] == ["/mcp", "/mcp"]

    [run] = proxy.runs()
    [result] = run.agent_steps[0].tool_results
    [call] = result.mcp
    assert (result.call_id, result.result) == ("toolu_1", "3")
    assert (call.server, call.version, call.joined_by) == ("sums", "7", "name")


def test_a_server_that_is_not_there_is_an_error(server: Server, tmp_path: Path) -> None:
    """The proxy answers as for any upstream that cannot be reached."""
    servers = {"sums": "http://127.0.0.1:9/mcp"}
    with proxying(tmp_path, {"openai": server.url}, mcp_servers=servers, command=["agent"]) as proxy:
        assert httpx.post(proxy.url + "/mcp/sums", json=HELLO).status_code == 502
        assert httpx.post(proxy.url + "/mcp/others", json=HELLO).status_code == 404
