"""Sessions of `mcp`: what goes between client and server is on file, and sessions work as without a recorder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from inspect import signature
from pathlib import Path

import pytest
from mcp import ClientSession
from mcp.types import CreateMessageRequestParams, CreateMessageResult, TextContent

from tests.capture.mcp_calls import IS_SECOND_VERSION, KEY, connected, outcome
from tests.capture.misbehaving_mcp_server import LARGE
from tests.chat_calls import asked, call, said
from trace_recorder import (
    TrajectoryRecorder,
    UnsupportedClientError,
    instrument,
    load,
    uninstrument,
    unwrap,
    validate,
    wrap,
)
from trace_recorder.values.messages import MCPCall, Payload, ToolResult


def messages(path: Path, direction: str) -> list[Payload]:
    """Return the messages on file that went in a direction."""
    records = map(json.loads, path.with_suffix(".jsonl").read_text("utf-8").splitlines())
    of_servers = (record["data"] for record in records if record["kind"] == "mcp_message")
    return [data["message"] for data in of_servers if data["direction"] == direction]


def only_result(path: Path) -> ToolResult:
    """Return the result of the only tool of a run."""
    [result] = (result for step in load(path).agent_steps for result in step.tool_results)
    return result


def at_server(result: ToolResult) -> MCPCall:
    """Return the call of the server that a tool is."""
    [one] = result.mcp
    return one


CALLS = [
    ("add", {"a": 1, "b": 2}),
    *((name, {}) for name in ("fail", "refuse", "slow", "doubled", "unknown", "noise", "large", "image")),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_a_call_gets_what_it_gets_unrecorded(name: str, arguments: Payload, tmp_path: Path) -> None:
    """The result, or the error, is that of a session without a recorder. It is on file, once."""

    async def run() -> None:
        async with connected() as plain:
            expected = await outcome(plain.call_tool(name, arguments))
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap) as session:
                assert await outcome(session.call_tool(name, arguments)) == expected

    asyncio.run(run())

    result = only_result(tmp_path / "run.json")
    call_at_server = at_server(result)
    assert (result.name, call_at_server.server, call_at_server.version) == (name, "misbehaving", "1.2")
    assert result.success is (name not in {"fail", "refuse"})
    assert validate(tmp_path / "run.json").ok


def test_what_a_server_said_is_a_tool_s_result(tmp_path: Path) -> None:
    """One text is a str, other contents are the blocks. Structured content, progress and errors are the server's."""

    async def nothing(*_: object) -> None:
        """Take a notification."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap) as session:
                await session.call_tool("add", {"a": 1, "b": 2})
                await session.call_tool("slow", {}, progress_callback=nothing)
                await session.call_tool("image", {})
                await outcome(session.call_tool("fail", {}))
                await outcome(session.call_tool("refuse", {}))

    asyncio.run(run())

    added, slow, image, failed, refused = (
        result for step in load(tmp_path / "run.json").agent_steps for result in step.tool_results
    )
    assert (added.result, at_server(added).structured_content) == ("3", {"total": 3})
    assert (slow.result, at_server(slow).progress) == ("done", 2)
    assert [block["type"] for block in image.result] == ["text", "image"]
    assert (failed.error, failed.result, at_server(failed).success) == ("no such file", "no such file", False)
    assert (refused.error, at_server(refused).success) == ("MCP error -32602: unknown tool", False)


def test_the_messages_are_on_file_as_they_went(tmp_path: Path) -> None:
    """The handshake comes first. Each request has its answer."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap) as session:
                await session.list_tools()
                await session.call_tool("add", {"a": 1, "b": 2})

    asyncio.run(run())

    sent, received = messages(tmp_path / "run.json", "sent"), messages(tmp_path / "run.json", "received")
    methods = [message["method"] for message in sent]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert sent[-1]["params"]["arguments"] == {"a": 1, "b": 2}
    assert [message["id"] for message in received] == [message["id"] for message in sent if "id" in message]
    assert received[-1]["result"]["structuredContent"] == {"total": 3}


def test_each_run_of_a_session_has_the_handshake(tmp_path: Path) -> None:
    """A session that is older than the run tells the server's name in each run that uses it."""

    async def run() -> None:
        async with connected(wrap) as session:
            for number in (1, 2):
                with TrajectoryRecorder(tmp_path / f"{number}.json"):
                    await session.call_tool("add", {"a": number, "b": 0})

    asyncio.run(run())

    for number in (1, 2):
        result = only_result(tmp_path / f"{number}.json")
        assert (result.result, at_server(result).server) == (str(number), "misbehaving")
        methods = [message["method"] for message in messages(tmp_path / f"{number}.json", "sent")]
        assert methods[:3] == ["initialize", "notifications/initialized", "tools/call"]


def test_sessions_are_instrumented(tmp_path: Path) -> None:
    """`instrument()` records the sessions that are made after it, and `uninstrument()` ends that."""

    async def run() -> None:
        instrument()
        try:
            with TrajectoryRecorder(tmp_path / "run.json"):
                async with connected() as session:
                    await session.call_tool("add", {"a": 1, "b": 2})
                    uninstrument()
                    async with connected() as other:
                        await other.call_tool("add", {"a": 3, "b": 4})
        finally:
            uninstrument()

    asyncio.run(run())

    assert only_result(tmp_path / "run.json").result == "3"


def test_an_unwrapped_session_is_not_recorded(tmp_path: Path) -> None:
    """`unwrap` ends the recording of a session that goes on."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap) as session:
                await session.call_tool("add", {"a": 1, "b": 2})
                unwrap(session)
                await session.call_tool("add", {"a": 3, "b": 4})

    asyncio.run(run())

    assert only_result(tmp_path / "run.json").result == "3"


def test_a_session_that_reads_already_is_refused(tmp_path: Path) -> None:
    """`wrap` says what to do with a session whose messages it cannot see."""

    async def run() -> None:
        recorder = TrajectoryRecorder(tmp_path / "run.json")
        async with connected() as session:
            with pytest.raises(UnsupportedClientError, match=r"async with recorder\.wrap\(ClientSession"):
                recorder.wrap(session)
            assert await outcome(session.call_tool("add", {"a": 1, "b": 2})) == [{"type": "text", "text": "3"}]

    asyncio.run(run())


def test_a_server_that_dies_ends_its_tools(tmp_path: Path) -> None:
    """A call that a dead server never answered has failed, and says so."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap) as session:
                assert await outcome(session.call_tool("die", {})) == "Connection closed"

    asyncio.run(run())

    result = only_result(tmp_path / "run.json")
    assert (result.success, result.error) == (False, "no answer of the server is on file: the server closed it")


def test_a_cancelled_call_is_cancelled(tmp_path: Path) -> None:
    """The cancellation reaches the caller. `mcp` 2 tells the server, and then the call has no success and no error."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap) as session:
                task = asyncio.create_task(outcome(session.call_tool("never", {})))
                while not any(
                    message.get("method") == "tools/call" for message in messages(recorder.trajectory_path, "sent")
                ):
                    await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await outcome(session.call_tool("add", {"a": 1, "b": 2})) == [{"type": "text", "text": "3"}]

    asyncio.run(run())

    never, added = (result for step in load(tmp_path / "run.json").agent_steps for result in step.tool_results)
    is_told = "notifications/cancelled" in [message["method"] for message in messages(tmp_path / "run.json", "sent")]
    unknown = (False, "no answer of the server is on file: the client closed it")
    assert is_told is IS_SECOND_VERSION
    assert (never.success, never.error) == ((None, None) if is_told else unknown)
    assert added.result == "3"


def test_a_large_result_is_on_file(tmp_path: Path) -> None:
    """A result of megabytes is written whole."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap) as session:
                await session.call_tool("large", {})

    asyncio.run(run())

    assert only_result(tmp_path / "run.json").result == "x" * LARGE


def test_secrets_of_servers_are_masked(tmp_path: Path) -> None:
    """A key in the arguments or in a result is in neither file."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap) as session:
                got = await session.call_tool("secret", {"token": KEY})
                assert got.content[0].text == f"the key is {KEY}"

    asyncio.run(run())

    for suffix in (".json", ".jsonl"):
        assert KEY not in (tmp_path / "run").with_suffix(suffix).read_text("utf-8")
    assert only_result(tmp_path / "run.json").result == "the key is [REDACTED:openai-key]"


# ── joined to the model's calls ──────────────────────────────────────────────────────────────────────────────────────

BOTH = (("call_1", "add", '{"a": 1, "b": 2}'), ("call_2", "mcp__misbehaving__add", '{"a": 3, "b": 4}'))


def test_a_call_is_joined_by_its_name_and_arguments(tmp_path: Path) -> None:
    """The model's call is found by the bare name or the name with the server, and equal arguments, in any order."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            call(recorder, asked("add"), said(None, calls=BOTH))
            async with connected(recorder.wrap) as session:
                await session.call_tool("add", {"a": 3, "b": 4})
                await session.call_tool("add", {"a": 5, "b": 6})
                await session.call_tool("add", {"a": 1, "b": 2})

    asyncio.run(run())

    [step] = load(tmp_path / "run.json").agent_steps
    joined = {result.call_id: (result.result, at_server(result).joined_by) for result in step.tool_results}
    assert joined.pop("call_1") == ("3", "name")
    assert joined.pop("call_2") == ("7", "name")
    assert [*joined.values()] == [("11", None)]


def test_a_call_is_joined_by_the_id_in_its_request(tmp_path: Path) -> None:
    """An id that the client states decides, even between calls with equal names and arguments."""
    if "meta" not in signature(ClientSession.call_tool).parameters:
        pytest.skip("this version of mcp cannot send it")
    same = tuple((f"toolu_{number}", "mcp__sums__add", '{"a": 1, "b": 2}') for number in (1, 2))

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            call(recorder, asked("add"), said(None, calls=same))
            async with connected(recorder.wrap) as session:
                meta = {"claudecode/toolUseId": "toolu_2"}
                await session.call_tool("add", {"a": 1, "b": 2}, meta=meta)

    asyncio.run(run())

    [step] = load(tmp_path / "run.json").agent_steps
    [result] = step.tool_results
    assert (result.call_id, at_server(result).joined_by) == ("toolu_2", "id")


def test_a_call_inside_a_tool_of_the_agent_belongs_to_that_tool(tmp_path: Path) -> None:
    """The agent's function is the tool that the model asked for. What it asked of servers is part of it."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            call(recorder, asked("add"), said(None, calls=BOTH[:1]))
            async with connected(recorder.wrap) as session:

                @recorder.tool
                async def add(a: int, b: int) -> str:
                    first = await session.call_tool("add", {"a": a, "b": 0})
                    second = await session.call_tool("add", {"a": int(first.content[0].text), "b": b})
                    return str(second.content[0].text)

                assert await add(1, 2) == "3"

    asyncio.run(run())

    [step] = load(tmp_path / "run.json").agent_steps
    [result] = step.tool_results
    assert (result.call_id, result.result) == ("call_1", "3")
    assert [(one.tool, one.joined_by) for one in result.mcp] == [("add", "execution"), ("add", "execution")]


SEEN = [
    ("3", None),
    ('[{"type": "text", "text": "3"}]', None),
    ('{"content": [{"type": "text", "text": "3"}]}', None),
    ([{"type": "text", "text": "3"}], None),
    ('{"total": 3}', None),
    ("Wall time: 0.0349 seconds\nOutput:\n3", None),
    ([{"type": "text", "text": "Wall time: 0.1 seconds\nOutput:"}, {"type": "text", "text": "3"}], None),
    ("three", "three"),
    ("3 [cut]", "3 [cut]"),
]


@pytest.mark.parametrize(("seen", "difference"), SEEN)
def test_what_the_model_saw_is_compared_with_what_the_server_sent(
    seen: Payload, difference: str | None, tmp_path: Path
) -> None:
    """`sent` is what the model saw, if it is not the same, whatever form the client gave it."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            call(recorder, asked("add"), said(None, calls=BOTH[:1]))
            async with connected(recorder.wrap) as session:
                await session.call_tool("add", {"a": 1, "b": 2})
            answer = {"role": "tool", "tool_call_id": "call_1", "content": seen}
            request = json.loads(asked("add")) if isinstance(asked("add"), str) else asked("add")
            call(recorder, {**request, "messages": [*request["messages"], answer]}, said("It is 3."))

    asyncio.run(run())

    result = only_result(tmp_path / "run.json")
    assert (result.result, result.sent) == ("3", difference)


# ── a server asks for a call of a model ──────────────────────────────────────────────────────────────────────────────


def sampling(recorder: TrajectoryRecorder) -> Callable[..., Awaitable[CreateMessageResult]]:
    """Return a callback that calls a recorded model."""

    async def answer(_: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        await asyncio.sleep(0)
        content = params.messages[0].content
        assert isinstance(content, TextContent)
        call(recorder, asked(content.text), said("two", identity=f"chat for {content.text}"))
        return CreateMessageResult(role="assistant", model="m-1", content=TextContent(type="text", text="two"))

    return answer


def test_a_model_s_call_that_a_server_asks_for_is_inside_the_tool(tmp_path: Path) -> None:
    """The server is a sub-agent of the tool. The calls of the agent before and after are its own."""
    calls = [("call_1", "ask", "{}")]

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            call(recorder, asked("go"), said(None, calls=calls))
            async with connected(recorder.wrap, sampling_callback=sampling(recorder)) as session:
                await session.call_tool("ask", {})
                call(recorder, asked("and now?"), said("Done.", identity="chat-2"))

    asyncio.run(run())

    result = only_result(tmp_path / "run.json")
    assert (result.result, result.call_id, at_server(result).joined_by) == ("the model says: two", "call_1", "name")
    first, inner, last = load(tmp_path / "run.json").llm_interactions
    assert (inner.agent, inner.parent_execution_id, inner.response.content) == (
        "misbehaving",
        result.execution_id,
        "two",
    )
    assert [one.parent_execution_id for one in (first, last)] == [None, None]
    assert [one.agent for one in (first, last)] == [None, None]
    assert validate(tmp_path / "run.json").ok


def test_inside_a_tool_of_the_agent_the_call_belongs_to_that_tool(tmp_path: Path) -> None:
    """The agent's function is the tool. The sub-agent's parent is the agent that ran the function."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap, sampling_callback=sampling(recorder)) as session:

                @recorder.tool
                async def ask() -> str:
                    return str((await session.call_tool("ask", {})).content)

                with recorder.agent("researcher"):
                    await ask()

    asyncio.run(run())

    [inner] = load(tmp_path / "run.json").llm_interactions
    result = only_result(tmp_path / "run.json")
    assert (result.name, result.execution_id) == ("ask", inner.parent_execution_id)
    assert (inner.agent, inner.parent_agent_id) == ("misbehaving", "agent_1")


def test_between_two_open_tools_the_call_is_in_neither(tmp_path: Path) -> None:
    """No message says which of the tools asks for it."""

    async def run() -> None:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            async with connected(recorder.wrap, sampling_callback=sampling(recorder)) as session:
                never = asyncio.create_task(outcome(session.call_tool("never", {})))
                await asyncio.sleep(0)
                await session.call_tool("ask", {})
                never.cancel()
                await asyncio.gather(never, return_exceptions=True)

    asyncio.run(run())

    [call_of_model] = load(tmp_path / "run.json").llm_interactions
    assert (call_of_model.agent, call_of_model.parent_execution_id) == (None, None)
