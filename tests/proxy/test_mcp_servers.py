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
from trace_recorder.facts import GapFact, MCPMessageFact
from trace_recorder.proxy.server_exchange import ServerExchange
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


def test_a_path_names_the_run_of_the_messages(server: Server, tmp_path: Path) -> None:
    """The address of a server may begin as that of the models, so that its messages are in the same run."""
    with serving(Answer([json.dumps(RESULT).encode()], headers=JSON)) as sums:
        servers = {"sums": sums.url + "/mcp"}
        with proxying(tmp_path, {"openai": server.url}, mcp_servers=servers) as proxy:
            for attempt in (1, 2):
                httpx.post(f"{proxy.url}/run/task/g/{attempt}{PATH}", json={"messages": []})
            httpx.post(f"{proxy.url}/run/task/g/1/mcp/sums", json=ASKED, headers={"mcp-session-id": "s1"})

    first, second = proxy.runs()
    assert [result.result for step in first.agent_steps for result in step.tool_results] == ["3"]
    assert [result for step in second.agent_steps for result in step.tool_results] == []


BOMB = gzip.compress(events({"jsonrpc": "2.0", "id": 1, "result": {"text": "x" * 40_000_000}}))
LOST = {
    "too large": ("gzip", BOMB, "the answer cannot be decoded: TooLargeError"),
    "damaged": ("gzip", b"no gzip", "the answer cannot be decoded: error"),
    "unknown": ("br, own", b"anything", "the encoding 'br, own' of the answer is not known here"),
}


@pytest.mark.parametrize("why", LOST)
def test_an_answer_that_cannot_be_decoded_is_a_gap(why: str, server: Server, tmp_path: Path) -> None:
    """The client gets its bytes. The run says why they are not on file."""
    encoding, body, reason = LOST[why]
    with serving(Answer([body], headers={**STREAM, "content-encoding": encoding})) as sums:
        servers = {"sums": sums.url + "/mcp"}
        with proxying(tmp_path, {"openai": server.url}, mcp_servers=servers, command=["agent"]) as proxy:
            httpx.post(proxy.url + PATH, json={"messages": []})
            with httpx.stream("POST", proxy.url + "/mcp/sums", json=ASKED, headers={"mcp-session-id": "s"}) as answer:
                assert b"".join(answer.iter_raw()) == body

    [run] = proxy.runs()
    [gap] = run.gaps
    assert (gap.what, gap.why[: len(reason)]) == ("record a message received by the client of sums", reason)


def test_an_event_that_is_too_long_is_a_gap() -> None:
    """The events before and after it are messages, however the bytes are cut."""
    exchange = ServerExchange("sums", "s1")
    exchange.answered([(b"content-type", b"text/event-stream")])
    short, long = events(RESULT, end="\r\n"), b"data: " + b"x" * 70_000_000 + b"\r\n\r\n"
    data = short + long + short
    cuts = [0, *range(1, len(short) + 3), 30_000_000, 60_000_000, *range(len(data) - len(short) - 5, len(data))]

    facts = [
        fact
        for begin, end in zip(cuts, [*cuts[1:], None], strict=True)
        for fact in exchange.received(data[begin:end], is_last=end is None)
    ]

    assert [type(fact) for fact in facts] == [MCPMessageFact, GapFact, MCPMessageFact]
    assert isinstance(facts[1], GapFact)
    assert facts[1].why == "it has 70000010 bytes, and the limit is 67108864"
