"""Helpers of the tests of Bedrock: a question, keys, and the recorded calls of a run."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

from trace_recorder import LLMInteraction, load

MODEL = "us.amazon.nova-pro-v1:0"
ASK = [{"role": "user", "content": [{"text": "hello"}]}]
KEYS = {
    "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "aws_session_token": "session-token-of-the-test",
}


def only_call(path: Path) -> LLMInteraction:
    """Return the only interaction of a run."""
    [call] = load(path).llm_interactions
    return call


def lines_on_file(path: Path) -> str:
    """Return the recorded text of the stream of a run."""
    records = map(json.loads, path.with_suffix(".jsonl").read_text().splitlines())
    parts = [record["data"] for record in records if record["kind"] == "llm_stream"]
    assert {part["framing"] for part in parts} == {"aws-eventstream"}
    return b"".join(zlib.decompress(base64.b64decode(part["zlib"])) for part in parts).decode()
