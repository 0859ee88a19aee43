"""The types that a user's type checker finds in the docs' code and in the results of calls."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT

CALLS = """
from typing import Any, assert_type

import anthropic
import httpx
import httpx2
import ollama
import openai
import polars
from google import genai

import trace_recorder
from trace_recorder.clients import AnthropicClient, Client, LLMResponse, create_client

assert_type(trace_recorder.http_client(), httpx2.Client)
assert_type(trace_recorder.http_client(library="httpx", timeout=3), httpx.Client)
assert_type(trace_recorder.async_http_client(), httpx2.AsyncClient)
assert_type(trace_recorder.async_http_client(library="httpx"), httpx.AsyncClient)
assert_type(trace_recorder.wrap(openai.OpenAI()), openai.OpenAI)

assert_type(AnthropicClient().sdk, anthropic.Anthropic)
assert_type(create_client("anthropic").async_sdk, anthropic.AsyncAnthropic)
assert_type(create_client("openrouter").sdk, openai.OpenAI)
assert_type(create_client("azure").async_sdk, openai.AsyncOpenAI)
assert_type(create_client("google").sdk, genai.Client)
assert_type(create_client("ollama").sdk, ollama.Client)

assert_type(trace_recorder.to_dataframe([], "runs", library="polars"), polars.DataFrame)
assert_type(trace_recorder.to_dataframe(trace_recorder.load("a.json")), Any)


def ask(client: Client, name: str) -> LLMResponse:
    assert_type(create_client(name).sdk, Any)
    return client.chat("hello", [print, {"name": "bash"}])


with trace_recorder.TrajectoryRecorder() as recorder, recorder.step() as step:
    assert_type(step, trace_recorder.Step)
    trace_recorder.validate(recorder.trajectory_path).ok
"""


def first_block(page: str) -> str:
    """Return the first block of Python on a page."""
    found = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found.group(1)


def test_a_user_s_files_have_their_types(tmp_path: Path) -> None:
    """Under `mypy --strict`, the first blocks of two pages and the results of calls have the right types, and a mistake
    is found.
    """
    (tmp_path / "readme.py").write_text(first_block("README.md"))
    (tmp_path / "clients.py").write_text(first_block("docs/clients.md"))
    (tmp_path / "calls.py").write_text(CALLS)
    (tmp_path / "wrong.py").write_text("import trace_recorder\n\ntrace_recorder.http_client().no_such_method()\n")

    files = [str(tmp_path / name) for name in ("readme.py", "clients.py", "calls.py", "wrong.py")]
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files],
        cwd=ROOT,  # the directory in whose cache the check of the package has left the types of the SDKs
        capture_output=True,
        text=True,
        check=False,
    )

    *errors, _ = re.sub(r"^\S*/", "", ended.stdout, flags=re.MULTILINE).splitlines()
    assert (errors, ended.stderr) == (
        ['wrong.py:3: error: "Client" has no attribute "no_such_method"  [attr-defined]'],
        "",
    )
