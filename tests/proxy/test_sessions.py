"""A request belongs to the run that a header, its path, the program, or the conversation names."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

from tests.counting import kept_by
from tests.provider import Server
from tests.proxy.running import RunningProxy, proxying
from tests.waiting import wait_until
from trace_recorder import TrajectoryRecorder
from trace_recorder.proxy.run_names import RunNames, session_name
from trace_recorder.proxy.sessions import Session, SessionKey, SessionRequest
from trace_recorder.recording.run import Run
from trace_recorder.values.trajectory import Trajectory

CHAT_PATH = "openai/v1/chat/completions"


@pytest.fixture
def proxy(server: Server, tmp_path: Path) -> Iterator[RunningProxy]:
    with proxying(tmp_path, {"openai": server.url}) as proxy:
        yield proxy


def ask(proxy: RunningProxy, *texts: str, path: str = CHAT_PATH, **headers: str) -> None:
    """Send a prompt with these texts, which are the user's and the assistant's in turn."""
    roles = ["user", "assistant"] * len(texts)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    assert httpx.post(f"{proxy.url}/{path}", headers=sent, json={"messages": messages}).status_code == 200


def prompts(run: Trajectory) -> list[str]:
    """Return the last message of the prompt of each call of a run."""
    return [str(call.input_messages[-1].content) for call in run.llm_interactions]


@pytest.mark.parametrize("name", ["x_claude_code_session_id", "session_id", "thread_id"])
def test_sessions_with_ids_are_separate(proxy: RunningProxy, name: str) -> None:
    """Sessions with ids that take turns are separate runs, each of which states how the proxy recognised it."""
    for number in range(3):
        for session in ("first", "second"):
            ask(proxy, f"{session} {number}", **{name: session})
    assert [prompts(run) for run in proxy.runs()] == [
        [f"{session} {number}" for number in range(3)] for session in ("first", "second")
    ]
    assert [run.session for run in proxy.runs()] == ["first", "second"]
    assert [run.metadata for run in proxy.runs()] == [
        {"session_from": "header", "session_header": name.replace("_", "-"), "session_id": session}
        for session in ("first", "second")
    ]


def test_a_header_of_the_user_s_is_preferred_to_known_headers(server: Server, tmp_path: Path) -> None:
    with proxying(tmp_path, {"openai": server.url}, header="X-My-Session") as proxy:
        ask(proxy, "one", x_my_session="a", session_id="s")
        ask(proxy, "two", x_my_session="b", session_id="s")
    assert [run.metadata["session_id"] for run in proxy.runs()] == ["a", "b"]


def test_a_path_may_name_task_group_and_attempt(proxy: RunningProxy, server: Server) -> None:
    """Task, group and attempt in the path of a request are recorded, and removed before the request is forwarded."""
    ask(proxy, "one", path=f"run/fix%20it/g1/0/{CHAT_PATH}")
    ask(proxy, "two", path=f"run/fix%20it/g1/1/{CHAT_PATH}")
    ask(proxy, "three", path=f"run/fix%20it/g1/0/{CHAT_PATH}")
    assert [(run.task, prompts(run), run.metadata) for run in proxy.runs()] == [
        ("fix it", ["one", "three"], {"session_from": "path", "group": "g1", "attempt": "0"}),
        ("fix it", ["two"], {"session_from": "path", "group": "g1", "attempt": "1"}),
    ]
    assert {path for path, _, _ in server.requests} == {"/v1/chat/completions"}


def test_names_with_slashes_in_a_path_are_distinguished(proxy: RunningProxy) -> None:
    """Tasks and groups whose names have slashes, such as repositories, are told apart."""
    ask(proxy, "one", path=f"run/a%2Fb/c/0/{CHAT_PATH}")
    ask(proxy, "two", path=f"run/a/b%2Fc/0/{CHAT_PATH}")
    assert [(run.task, run.metadata["group"]) for run in proxy.runs()] == [("a/b", "c"), ("a", "b/c")]


def test_without_a_name_a_run_is_a_conversation(proxy: RunningProxy) -> None:
    """A request without a session name belongs to the run whose prompt it continues.

    An equal first question starts a new run.
    """
    ask(proxy, "a")
    ask(proxy, "b")
    ask(proxy, "a", "hi", "a2")
    ask(proxy, "b", "hi", "b2")
    ask(proxy, "a", "hi", "a2", "hi", "a3")
    assert [prompts(run) for run in proxy.runs()] == [["a", "a2", "a3"], ["b", "b2"]]
    assert {run.metadata["session_from"] for run in proxy.runs()} == {"conversation (inferred)"}


def test_sub_agents_are_agents_of_the_run_with_their_parents(proxy: RunningProxy) -> None:
    """The sub-agents that Claude Code and Codex name in headers are agents of the run, with their parents."""
    claude = {"x_claude_code_session_id": "c"}
    ask(proxy, "main", **claude)
    ask(proxy, "child", **claude, x_claude_code_agent_id="a1")
    ask(proxy, "grandchild", **claude, x_claude_code_agent_id="a2", x_claude_code_parent_agent_id="a1")
    ask(proxy, "child again", **claude, x_claude_code_agent_id="a1")
    for name in ("/root", "/root/look", "/root/look/deeper", "/root/look"):
        ask(proxy, name, session_id="x", x_codex_turn_metadata=json.dumps({"agent_name": name}))
    assert [
        [(call.agent, call.agent_id, call.parent_agent_id) for call in run.llm_interactions] for run in proxy.runs()
    ] == [
        [
            (None, None, None),
            ("a1", "agent_1", None),
            ("a2", "agent_2", "agent_1"),
            ("a1", "agent_1", None),
        ],
        [
            (None, None, None),
            ("/root/look", "agent_1", None),
            ("/root/look/deeper", "agent_2", "agent_1"),
            ("/root/look", "agent_1", None),
        ],
    ]


def agents_of(proxy: RunningProxy) -> list[list[tuple[str | None, str | None, str | None]]]:
    """Return the agent, its id and the id of its parent, for each call of each run."""
    return [
        [(call.agent, call.agent_id, call.parent_agent_id) for call in run.llm_interactions] for run in proxy.runs()
    ]


def test_a_thread_of_codex_is_a_sub_agent(proxy: RunningProxy) -> None:
    """Codex's first kind of sub-agents has the name of the main agent, and a thread of its own."""
    codex = {"session_id": "s", "x_codex_turn_metadata": '{"agent_name": "/root"}'}
    ask(proxy, "main", **codex, thread_id="s")
    child = {"x_openai_subagent": "collab_spawn", "thread_id": "t1", "x_codex_parent_thread_id": "s"}
    ask(proxy, "child", **codex, **child)
    ask(proxy, "grandchild", **codex, **child | {"thread_id": "t2", "x_codex_parent_thread_id": "t1"})
    ask(proxy, "compaction", **codex, thread_id="s", x_openai_subagent="compact")
    assert agents_of(proxy) == [
        [(None, None, None), ("t1", "agent_1", None), ("t2", "agent_2", "agent_1"), (None, None, None)]
    ]


@pytest.mark.parametrize("name", ["session_id", "x_session_id"])
def test_a_session_of_opencode_may_be_a_sub_agent_s(proxy: RunningProxy, name: str) -> None:
    """opencode's sub-agents have sessions of their own, which belong to the run of the main session."""
    ask(proxy, "main", **{name: "s"})
    ask(proxy, "child", **{name: "t1"}, x_parent_session_id="s")
    ask(proxy, "grandchild", **{name: "t2"}, x_parent_session_id="t1")
    ask(proxy, "main again", **{name: "s"})
    assert agents_of(proxy) == [
        [(None, None, None), ("t1", "agent_1", None), ("t2", "agent_2", "agent_1"), (None, None, None)]
    ]
    assert [run.metadata["session_id"] for run in proxy.runs()] == ["s"]


def test_copilot_says_only_that_a_sub_agent_sends(server: Server, tmp_path: Path) -> None:
    with proxying(tmp_path, {"openai": server.url}, command=["copilot"]) as proxy:
        ask(proxy, "main", x_interaction_type="conversation-user")
        ask(proxy, "child", x_interaction_type="conversation-subagent")
        ask(proxy, "main again")
    assert agents_of(proxy) == [[(None, None, None), ("conversation-subagent", "agent_1", None), (None, None, None)]]


@pytest.mark.parametrize("turn", ["", "{", "[]", '{"agent_name": 3}', '{"agent_name": ""}'])
def test_a_header_without_an_agent_is_the_main_agent_s(proxy: RunningProxy, turn: str) -> None:
    ask(proxy, "one", session_id="x", x_codex_turn_metadata=turn)
    assert [call.agent for call in proxy.runs()[0].llm_interactions] == [None]


def test_a_resumed_session_names_the_earlier_run(server: Server, tmp_path: Path) -> None:
    """A session that continues after its run has ended, or after a restart of the proxy, names the earlier run."""
    with proxying(tmp_path, {"openai": server.url}, idle_seconds=0.01) as proxy:
        ask(proxy, "one", session_id="s/1")
        wait_until(lambda: proxy.sessions.end_idle(time.monotonic()) or proxy.runs()[0].status == "completed")
        time.sleep(1.1)  # files are named by the second
        ask(proxy, "two", session_id="s/1")
    time.sleep(1.1)
    with proxying(tmp_path, {"openai": server.url}) as again:
        ask(again, "three", session_id="s/1")
        ask(again, "another", session_id="s-1")
    first, second, third, other = (*proxy.runs(), *again.runs())
    assert [run.metadata.get("resumed_from", {}).get("trajectory_id") for run in (first, second, third, other)] == [
        None,
        first.trajectory_id,
        second.trajectory_id,
        None,
    ]
    assert (first.status, first.success, first.annotations) == (
        "completed",
        None,
        {"ended_by_proxy": "after 0.01 s without a request; whether it succeeded is unknown"},
    )


def test_a_program_may_be_idle_for_long(server: Server, tmp_path: Path) -> None:
    """The run of a program that the proxy started ends when the program exits, however long it is idle."""
    for command, count in (["agent"], 1), ([], 2):
        with proxying(tmp_path, {"openai": server.url}, command=command) as proxy:
            ask(proxy, "one", session_id="s")
            for _ in range(20):  # the program may have its answer while the proxy is still busy with the request
                proxy.sessions.end_idle(time.monotonic() + 100_000)
                ask(proxy, "two", session_id="s")
                if len(proxy.sessions.documents) == 2:
                    break
        assert len(proxy.runs()) == count


def test_a_long_conversation_is_continued(proxy: RunningProxy) -> None:
    """A request with a long prompt, compressed or not, continues its conversation."""
    texts = [f"{number} " + "word " * 600 for number in range(101)]
    ask(proxy, *texts[:99])
    ask(proxy, *texts)
    body = json.dumps(
        {
            "messages": [
                {"role": ("user", "assistant")[at % 2], "content": text}
                for at, text in enumerate([*texts, "hi", "go on"])
            ]
        }
    )
    httpx.post(f"{proxy.url}/{CHAT_PATH}", content=gzip.compress(body.encode()), headers={"content-encoding": "gzip"})
    assert [[len(call.input_messages) for call in run.llm_interactions] for run in proxy.runs()] == [[99, 101, 103]]


def test_idle_runs_are_ended_before_descriptors_run_out(server: Server, tmp_path: Path) -> None:
    """If descriptors run short, the run that was idle for longest ends first, and no run is lost."""
    with proxying(tmp_path, {"openai": server.url}, max_open=2) as proxy:
        for session in "abac":
            ask(proxy, session, session_id=session)
        ended = [run.annotations.get("ended_by_proxy") for run in proxy.runs()]
    assert ended == [None, "to make room for another run; whether it succeeded is unknown", None]
    assert [prompts(run) for run in proxy.runs()] == [["a", "a"], ["b"], ["c"]]


def test_runs_of_one_second_have_different_names(server: Server, tmp_path: Path) -> None:
    """Runs that begin in the same second have different names, and each resumed run names the run before it."""
    with proxying(tmp_path, {"openai": server.url}, max_open=1) as proxy:
        for session in "ababab":
            ask(proxy, session, session_id=session)
    runs = proxy.runs()
    assert len({path.name for path in proxy.sessions.documents}) == 6
    assert [run.metadata.get("resumed_from") for run in runs[2:]] == [
        {"trajectory_id": run.trajectory_id, "file": path.name}
        for run, path in zip(runs[:4], proxy.sessions.documents, strict=False)
    ]


def test_the_directory_is_listed_once_however_many_sessions_begin(tmp_path: Path) -> None:
    """Only the first session that names itself lists the directory. Each finds its earlier run."""
    for session in "ab":
        for number in range(3):
            name = f"trajectory_2026110{number}_000000{session_name('header', session, str)}"
            (tmp_path / f"{name}.json").touch()
            (tmp_path / f"{name}.jsonl").touch()
    listings: list[str] = []

    class Listed(type(tmp_path)):  # type: ignore[misc]
        def glob(self, pattern: str) -> Iterator[Path]:
            listings.append(pattern)
            return iter(super().glob(pattern))

    names = RunNames(Listed(tmp_path))

    def find() -> list[str | None]:
        return [(names.earlier(session_name("header", session, str)) or {}).get("file") for session in "abcabc"]

    last = [f"trajectory_20261102_000000{session_name('header', session, str)}.json" for session in "ab"]
    assert (find(), len(listings)) == ([*last, None, *last, None], 1)


@contextmanager
def each_call(look: Callable[[FrameType], object]) -> Iterator[None]:
    """Call `look` at the beginning of each call of a function, in the threads that start within the block."""
    threading.setprofile(lambda frame, event, _: look(frame) if event == "call" else None)
    try:
        yield
    finally:
        threading.setprofile(None)


def test_the_event_loop_looks_for_no_name(server: Server, tmp_path: Path) -> None:
    """A thread of its own looks for the names of a run, and creates its files."""
    threads: set[str] = set()

    def note(frame: FrameType) -> None:
        if frame.f_code in {RunNames.earlier.__code__, RunNames.new_path.__code__}:
            threads.add(threading.current_thread().name)

    with each_call(note), proxying(tmp_path, {"openai": server.url}) as proxy:
        ask(proxy, "one", session_id="a")
        ask(proxy, "two")
    assert threads == {"trace-recorder-begin_0"}


@pytest.mark.parametrize("why", ["idle", "no room"])
def test_the_event_loop_ends_no_run(server: Server, tmp_path: Path, why: str) -> None:
    """A thread of its own writes the end of a run and its document, which takes long for a long run."""
    threads: list[str] = []

    def note(frame: FrameType) -> None:
        if frame.f_code is Run.finish.__code__:
            threads.append(threading.current_thread().name)

    max_open = 1 if why == "no room" else None
    with each_call(note), proxying(tmp_path, {"openai": server.url}, max_open=max_open) as proxy:
        ask(proxy, "one", session_id="a")
        if why == "idle":
            proxy.sessions.end_idle(time.monotonic() + 100_000)
        ask(proxy, "two", session_id="b")
    assert threads == ["trace-recorder-end_0"] * 2
    assert [run.status for run in proxy.runs()] == ["completed"] * 2


def test_a_run_begins_when_the_run_that_makes_room_has_ended(server: Server, tmp_path: Path) -> None:
    """No more runs are open than the limit allows, although a thread ends them."""
    is_ending, may_end = threading.Event(), threading.Event()

    def wait(frame: FrameType) -> None:
        if frame.f_code is Run.finish.__code__:
            is_ending.set()
            may_end.wait(60)

    with (
        each_call(wait),
        proxying(tmp_path, {"openai": server.url}, max_open=1) as proxy,
        ThreadPoolExecutor(1) as pool,
    ):
        ask(proxy, "one", session_id="a")
        second = pool.submit(ask, proxy, "two", session_id="b")
        assert is_ending.wait(60)
        ask_other = httpx.get(f"{proxy.url}/openai/v1/models")
        begun = len(proxy.sessions.documents)
        may_end.set()
        second.result()
    assert (ask_other.status_code, begun, [prompts(run) for run in proxy.runs()]) == (200, 1, [["one"], ["two"]])


def test_idle_runs_end_without_another_request(server: Server, tmp_path: Path) -> None:
    """The proxy looks for idle runs by itself."""
    with proxying(tmp_path, {"openai": server.url}, idle_seconds=0.05) as proxy:
        ask(proxy, "one", session_id="a")
        wait_until(lambda: proxy.runs()[0].status == "completed")
        [run] = proxy.runs()
    assert (run.status, run.annotations["ended_by_proxy"].partition(";")[0]) == (
        "completed",
        "after 0.05 s without a request",
    )


def test_a_session_forgets_its_oldest_agents(tmp_path: Path) -> None:
    """The memory of a session does not grow with the number of its sub-agents."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    session, kept = Session(SessionKey("header", "a"), recorder, copy_context()), []
    for number in range(1200):
        agent = {"x-claude-code-agent-id": str(number)}
        session.context_for(SessionRequest("/", (), agent.get, "anthropic-messages", b"{}", []))
        kept.append(len(session.agents))
    assert max(kept) == kept[-1] < 600


def test_a_call_without_a_session_is_not_in_the_run_of_another(server: Server, tmp_path: Path) -> None:
    """If no run can be begun for a session, its call is forwarded, and the open run has none of it."""

    class Failing(RunNames):
        def new_path(self, name: str) -> Path:
            raise OSError(name)

    with proxying(tmp_path, {"openai": server.url}) as proxy:
        ask(proxy, "one", session_id="a")
        proxy.sessions._names = Failing(tmp_path)
        ask(proxy, "two", session_id="b")
        ask(proxy, "three", session_id="a")
    assert [prompts(run) for run in proxy.runs()] == [["one", "three"]]
    assert len(server.requests) == 3


def test_requests_that_come_together_begin_one_run(proxy: RunningProxy) -> None:
    """The first requests of a session may come at the same time. They are calls of one run."""
    with ThreadPoolExecutor(8) as pool:
        for asked in [pool.submit(ask, proxy, str(number), session_id="a") for number in range(8)]:
            asked.result()
    assert [len(run.llm_interactions) for run in proxy.runs()] == [8]


@pytest.mark.parametrize("key", ["sk-ant-api03-" + "aB3xY9kQ7m" * 4, "my-own-key-of-no-known-form"])
@pytest.mark.parametrize("place", ["header", "path"])
def test_a_session_id_that_is_a_secret_is_not_in_a_file_s_name(
    proxy: RunningProxy, tmp_path: Path, key: str, place: str
) -> None:
    """A session that is named by a key has a digest in the name of its files, and the key is in no file."""
    named = {"session_id": key} if place == "header" else {"path": f"run/{key}/g/0/{CHAT_PATH}"}
    ask(proxy, "one", authorization=f"Bearer {key}", **named)
    proxy.sessions.end()
    names = [path.name for path in tmp_path.iterdir()]
    assert [name for name in names if key[:12] in name] == []
    assert [path.name for path in tmp_path.iterdir() if key.encode() in path.read_bytes()] == []


def test_a_request_that_is_not_json_is_forwarded_and_recorded(proxy: RunningProxy, server: Server) -> None:
    """A request that is not JSON is forwarded, and recorded in a run of its own."""
    bodies = [b"{", b"{", b"[" * 50_000]
    for body in bodies:
        httpx.post(f"{proxy.url}/{CHAT_PATH}", content=body)
    calls: list[Any] = [run.llm_interactions for run in proxy.runs()]
    assert ([len(call) for call in calls], [body for _, _, body in server.requests]) == ([1, 1, 1], bodies)


def test_an_ended_conversation_leaves_nothing_in_memory(server: Server, tmp_path: Path) -> None:
    """The proxy forgets the prompt of a conversation whose run has ended. So its memory does not grow."""
    with proxying(tmp_path, {"openai": server.url}, max_open=1) as proxy:
        kept = []
        for number in range(6):
            ask(proxy, f"conversation {number}")
            kept.append(kept_by(proxy.sessions._conversations).objects)
    assert kept == kept[:1] * 6
