"""Runs that are unusual, for the tests of the page: `python -m tests.viewer_page.unusual_runs DIRECTORY`."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from openai import OpenAI

from tests.capture.mcp_run import record_tools_of_server
from tests.chat_calls import CHAT, asked, call, said
from tests.journals import line, records_of
from tests.proxy.running import proxying
from tests.viewer_page.agents import Messages, tool_list
from tests.viewer_page.hard_to_draw import hard_to_draw
from tests.viewer_page.killed_run import killed_run
from tests.viewer_page.provider import Reply, provider
from trace_recorder import TrajectoryRecorder, fork, load, replay

HOSTILE_URL = "-o\x1a\x1c\ntouch 'X'\n\x1b[201~ü"


def hostile_address(directory: Path) -> Path:
    """Record a call to OpenAI, and a call whose URL was replaced by a hostile one."""
    with TrajectoryRecorder(task="Send it again", directory=directory) as recorder:
        call(recorder, asked("hi"), said("hello"))
        call(recorder, asked("hi, it's \x1b \u202e"), said("hello"))
    path = recorder.trajectory_path
    records = records_of(path)
    last = max(record.seq for record in records if record.kind == "llm_request")
    lines = [
        line(
            record.seq,
            record.kind,
            {**record.data, "url": HOSTILE_URL} if record.seq == last else record.data,
            record.time,
        )
        for record in records
    ]
    path.with_suffix(".jsonl").write_bytes(b"".join(lines))
    return path


def sub_agent(directory: Path) -> Path:
    """Record a step in which a sub-agent with a different model makes the last call."""
    with TrajectoryRecorder(directory / "sub_agent.json", task="Ask a helper") as recorder:
        with recorder.step():
            call(recorder, asked("plan", model="large-1"), said("I ask a helper."))
            with recorder.agent("helper"):
                call(recorder, asked("look", model="small-1"), said("I am the helper."))
        call(recorder, asked("go on", model="large-1"), said("The end."))
    return recorder.trajectory_path


def at_temperature(directory: Path, temperature: float) -> Path:
    """Record a run that differs from other runs only in its temperature and in one message of its prompt."""
    with TrajectoryRecorder(directory / f"at_{temperature}.json", task="Ask twice") as recorder:
        call(recorder, asked("hello"), said("Hello."))
        messages = asked(f"it is {temperature} degrees", temperature=temperature)
        call(recorder, messages, said("The same answer."))
    return recorder.trajectory_path


def forked(parent: Path) -> Path:
    """Fork a run from its second step, with a different answer."""
    with fork(parent, at_step=1, answer=json.loads(said("I need no helper.").body)) as branch, branch.recorder.step():
        call(branch, asked("plan", model="large-1"), said(""))
    return branch.recorder.trajectory_path


def given_up(directory: Path) -> Path:
    """Record a run without success with a priced model. The second of its three steps fails."""
    with TrajectoryRecorder(directory / "given_up.json", task="Find the word") as recorder:
        for word in ("one", "two"):
            body = asked(f"find {word}", model="gpt-4o")
            call(recorder, body, said(f"I look for {word}.", calls=[(f"call_{word}", "find", f'{{"word": "{word}"}}')]))
            with suppress(LookupError):
                recorder.tool(find)(word)
        call(recorder, asked("and now?", model="gpt-4o"), said("It is not there."))
        recorder.finalize(False, "not found")
    return recorder.trajectory_path


def replayed(source: Path) -> Path:
    """Record a replay of a run."""
    with replay(source) as run, TrajectoryRecorder(source.with_name("again.json"), task="Ask twice again") as recorder:
        http = recorder.wrap(run.http_client("httpx"))
        for one in load(source).llm_interactions:
            http.post(CHAT, json=one.raw_request)
    return recorder.trajectory_path


def child(source: Path) -> Path:
    """Record a run as a process does that is started during another run."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRACE_RECORDER_PARENT", str(load(source).trajectory_id))
        with TrajectoryRecorder(source.with_name("child.json"), task="Help another process") as recorder:
            call(recorder, asked("help"), said("I help."))
    return recorder.trajectory_path


def find(word: str) -> str:
    """Return where a word is in the text. One word is nowhere."""
    if word == "two":
        raise LookupError(word)
    return f"{word} is on page 1"


COLOURED = (
    "\x1b[1;31mFAILED\x1b[0m tests/a.py\n\x1b[38;5;46mgreen\x1b[39m \x1b[48;2;255;200;0mon yellow\x1b[0m\n"
    "\x1b[2K\x1b[1Gprogress \x1b[8mhidden\x1b[0m \x1b[38:2::1:2:3mcolons\x1b[m <b onclick=x>\x1b[7mtag\x1b[m</b>\n"
    "\x1b]0;title\x07after \x1b[3"
)


def coloured(directory: Path) -> Path:
    """Record a tool whose output has the escape sequences of a terminal."""
    with TrajectoryRecorder(directory / "coloured.json", task="Run the tests in colours") as recorder:
        call(recorder, asked("go"), said("I run them.", calls=[("c1", "bash", '{"command": "pytest --color=yes"}')]))
        result = {"role": "tool", "tool_call_id": "c1", "content": COLOURED}
        call(recorder, asked("go", result), said("The end."))
    return recorder.trajectory_path


def proxied(directory: Path) -> Path:
    """Record a session of a program through the proxy: a call for a title, and two calls of its conversation."""
    replies = (
        Reply("Listing files"),
        Reply("I list them.", [("bash", {"command": "ls"})]),
        Reply("There is one file."),
    )
    question: Messages = [{"role": "user", "content": "Which files are there?"}]
    with (
        provider(replies) as url,
        proxying(directory, {"local": url}, command=["agent"]) as proxy,
        OpenAI(base_url=f"{proxy.url}/local", api_key="sk-none") as client,
    ):
        title = [{"role": "system", "content": "Write a title."}, {"role": "user", "content": "Which files are there?"}]
        client.chat.completions.create(model="small-1", messages=title)
        for _ in range(2):
            reply = client.chat.completions.create(model="large-1", messages=question, tools=tool_list("bash"))
            question += [reply.choices[0].message.model_dump(exclude_none=True)]
            question += [{"role": "tool", "tool_call_id": "call_1_0", "content": "a.txt"}]
    return proxy.sessions.documents[0]


def main(directory: Path) -> None:
    """Record the runs, and print their names."""
    runs = {"hardToDraw": hard_to_draw(directory), "hostileAddress": hostile_address(directory)}
    runs |= {"killed": killed_run(directory), "coloured": coloured(directory)}
    runs |= {"givenUp": given_up(directory)}
    runs |= {"subAgent": sub_agent(directory)}
    runs |= {"fork": forked(runs["subAgent"])}
    runs |= {"cool": at_temperature(directory, 0.5), "warm": at_temperature(directory, 1.5)}
    runs |= {"proxied": proxied(directory)}
    runs |= {"replay": replayed(runs["warm"]), "child": child(runs["coloured"])}
    runs |= {"servers": record_tools_of_server(directory / "servers.json")}
    print(json.dumps({name: path.name for name, path in runs.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
