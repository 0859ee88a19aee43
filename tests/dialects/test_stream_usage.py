"""Streams whose provider states tokens only on request: readers and the log say what to set."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.processes import ROOT
from tests.provider import CHAT, CHAT_STREAM, DROP, Answer, chat_chunk, plain, serving, stream
from trace_recorder import load
from trace_recorder.values.messages import Payload

USAGE_ADVICE = 'stream_options={"include_usage": True}'
PROGRAM = """
import json, logging, sys

sys.modules["httpx._main"] = None  # httpx's own command line takes half of the time that its import takes
import httpx
from trace_recorder import TrajectoryRecorder

path, url, sent, times, *level = sys.argv[1:]
if level:
    logging.basicConfig(level=level[0], format="%(name)s %(message)s")
with TrajectoryRecorder(path) as recorder, recorder.wrap(httpx.Client()) as client:
    for _ in range(int(times)):
        try:
            client.post(url, json=json.loads(sent))
        except httpx.HTTPError:
            pass
"""
ASKED = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


def usage_chunk(**members: Payload) -> bytes:
    """Return the last chunk of a stream, which has no choice."""
    return b"data: " + json.dumps({"id": "chatcmpl-2", "choices": [], **members}).encode() + b"\n\n"


USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
COMPLETION = b'data: {"id": "c", "choices": [{"index": 0, "text": "hi", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
RESPONSES = (
    b'event: response.completed\ndata: {"type": "response.completed", "response": {"id": "r", "status": "completed", '
    b'"output": []}}\n\n'
)
LEFT_OUT: Mapping[str, tuple[str, Payload, Answer]] = {
    "chat": ("/v1/chat/completions", ASKED, stream(*CHAT_STREAM)),
    "completions": ("/v1/completions", {"model": "m", "prompt": "h", "stream": True}, stream(COMPLETION)),
    "asked not to": (
        "/v1/chat/completions",
        {**ASKED, "stream_options": {"include_usage": False}},
        stream(*CHAT_STREAM[:-1], usage_chunk(usage=None), CHAT_STREAM[-1]),
    ),
}
"""Streams without a usage, because no client requested it: the URL, the request, and the response."""
TOLD: Mapping[str, tuple[str, Payload, Answer]] = {
    "asked for": (
        "/v1/chat/completions",
        {**ASKED, "stream_options": {"include_usage": True}},
        stream(*CHAT_STREAM[:-1], usage_chunk(usage=USAGE), CHAT_STREAM[-1]),
    ),
    "sent all the same": (
        "/v1/chat/completions",
        ASKED,
        stream(*CHAT_STREAM[:-1], usage_chunk(usage=USAGE), CHAT_STREAM[-1]),
    ),
    "sent by Groq": (
        "/v1/chat/completions",
        ASKED,
        stream(*CHAT_STREAM[:-1], usage_chunk(x_groq={"usage": USAGE}), CHAT_STREAM[-1]),
    ),
    "asked for in vain": (
        "/v1/chat/completions",
        {**ASKED, "stream_options": {"include_usage": True}},
        stream(*CHAT_STREAM),
    ),
    "no stream": ("/v1/chat/completions", {**ASKED, "stream": False}, plain({**CHAT, "usage": None})),
    "broken off": ("/v1/chat/completions", ASKED, stream(chat_chunk("hi"), DROP)),
    "refused": ("/v1/chat/completions", ASKED, Answer([b'{"error": {"message": "no"}}'], status=400)),
    "another dialect": ("/v1/responses", {"model": "m", "input": "h", "stream": True}, stream(RESPONSES)),
}
"""Calls for which the advice would be wrong."""


def recorded(path: Path, case: tuple[str, Payload, Answer], times: int = 1, *level: str) -> tuple[str, list[object]]:
    """Return the stderr of a program that records calls, and the bodies that it sent. `level` is the level of
    its log.
    """
    where, sent, answer = case
    with serving(answer) as server:
        code = subprocess.run(
            [sys.executable, "-c", PROGRAM, path, server.url + where, json.dumps(sent), str(times), *level],
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        return code.stderr, server.bodies()


@pytest.mark.parametrize("case", LEFT_OUT)
def test_missing_tokens_that_nobody_requested_are_explained(case: str, tmp_path: Path) -> None:
    """`show` explains them for the call and for the run, and so does `stats`, with either file of the run."""
    path = tmp_path / "run.json"
    _, sent = recorded(path, LEFT_OUT[case], times=2)

    assert sent == [LEFT_OUT[case][1]] * 2
    _check_explained(path)
    path.with_suffix(".jsonl").unlink()
    _check_explained(path)


def _check_explained(path: Path) -> None:
    shown = [line.split() for line in invoke("show", path).stdout.splitlines() if line.startswith("  tokens")]
    of_run = f"tokens not stated by 2 streams: set {USAGE_ADVICE} in the request".split()
    of_call = f"tokens not stated: set {USAGE_ADVICE} in the request".split()
    assert shown == [of_run, of_call, of_call]
    counted = [line for line in invoke("stats", path).stdout.splitlines() if line.startswith("tokens")]
    assert counted == [f"tokens  not stated by 2 calls (2 streams: set {USAGE_ADVICE} in the request)"]
    assert json.loads(invoke("stats", path, "--json").stdout)["llm"]["tokens"] == {
        "calls_without": 2,
        "streams_without_include_usage": 2,
    }


@pytest.mark.parametrize("case", TOLD)
def test_no_other_call_gets_the_advice(case: str, tmp_path: Path) -> None:
    """If tokens are stated or were requested, or if the option would not help, there is no advice."""
    path = tmp_path / "run.json"
    said, _ = recorded(path, TOLD[case], 1, "INFO")

    assert "include_usage" not in said
    assert len(load(path).llm_interactions) == 1
    assert USAGE_ADVICE not in invoke("show", path).stdout + invoke("stats", path).stdout
    assert "streams_without_include_usage" not in invoke("stats", path, "--json").stdout


@pytest.mark.parametrize("case", ["chat", "completions"])
def test_the_log_has_the_advice_once_a_process(case: str, tmp_path: Path) -> None:
    """The message is logged once at INFO, for any number of streams."""
    printed, _ = recorded(tmp_path / "run.json", LEFT_OUT[case], 3, "INFO")

    message = f"the tokens of a streamed call are not stated: set {USAGE_ADVICE} in the request (logged once)"
    assert [line for line in printed.splitlines() if line.startswith("trace_recorder ")] == [
        f"trace_recorder {message}"
    ]


def test_an_agent_without_a_log_has_an_empty_stderr(tmp_path: Path) -> None:
    """The advice is not a warning, so Python prints it only if the agent configures a log."""
    printed, _ = recorded(tmp_path / "run.json", LEFT_OUT["chat"], 3)

    assert printed == ""
