"""The values without the libraries that the package needs, as in an interpreter with the standard library alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx

from trace_recorder import TrajectoryRecorder, http_client, load

RECORD_AND_LOAD = """
import json, sys
for name in ("msgspec", "ahocorasick_rs", "pydantic"):
    sys.modules[name] = None
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.messages import Message
from trace_recorder.values.structs import replace

with TrajectoryRecorder(sys.argv[2]) as recorder:
    recorder.record_llm_interaction([{"role": "user", "content": "Hi"}], {"content": "Ho"}, "p", "m")
[one] = load(sys.argv[2]).llm_interactions
assert replace(one, model="n") != one == replace(one, source=None)
said = Message("user", "Hi", given={"role": "user", "content": "Hi"})
assert (one.response.content, list(one.input_messages)) == ("Ho", [said])
print(json.dumps(load(sys.argv[1]).to_document()))
"""


def test_the_standard_library_alone_gives_the_same(tmp_path: Path) -> None:
    """A run is recorded and read without these libraries, and a run recorded with them gives the same document."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    message = {"role": "assistant", "content": "Hi", "tool_calls": [call]}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    answer = {"id": "r", "model": "m", "choices": choices, "usage": {"prompt_tokens": 1}}
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
        with http_client(recorder=recorder, library="httpx", transport=transport, trust_env=False) as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "é"}], "temperature": 0.5}
            client.post("https://api.openai.com/v1/chat/completions", json=body)

    arguments = [sys.executable, "-c", RECORD_AND_LOAD, str(tmp_path / "run.json"), str(tmp_path / "without.json")]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)

    assert ended.stderr == ""
    assert json.loads(ended.stdout) == load(tmp_path / "run.json").to_document()
