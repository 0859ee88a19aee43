"""Secrets in one request that are searched for together: no secret hides a second secret."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from trace_recorder import TrajectoryRecorder
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

KEY = "sk-proj-ZZZDEF1234567890abcdefGHIJKL1234567890"
PASSWORD = "Tr0ub4dor3xyz"


def answer(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"choices": [{"message": {"role": "assistant", "content": "hi"}}]})


def test_many_keys_in_a_message_hide_none_in_a_later_message(tmp_path: Path) -> None:
    """The first look stops at a dense part. Later messages are then searched completely."""
    dense = [
        {"type": "text", "text": f"sk-proj-abcDEF1234567890abcdefGHIJKL12345678{number:02}"} for number in range(40)
    ]
    texts = [dense, f"mine: {KEY}", f"the password: {PASSWORD}"]
    body = {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        client = recorder.wrap(httpx.Client(transport=httpx.MockTransport(answer)))
        client.post("https://api.openai.com/v1/chat/completions", json=body)

    journal = (tmp_path / "run.jsonl").read_text()
    assert [secret for secret in ("sk-proj-abcDEF", KEY, PASSWORD) if secret in journal] == []


@pytest.mark.parametrize(
    "texts",
    [
        (f"go to ?password%3D{PASSWORD} now", f"and ?password%3D{PASSWORD}9 too"),
        ("see https://bob:hunter9@db.example.com/x", f"mail foo@bar.org then postgres://root:{PASSWORD}@db/app"),
    ],
    ids=["percent-encoded", "in URLs"],
)
def test_a_secret_in_one_string_hides_none_in_the_next(texts: tuple[str, str]) -> None:
    """Strings of JSON are searched together, and each is searched to its end."""
    masked, count = Redaction(default_redactor, {}).mask(json.dumps(dict(enumerate(texts)))[1:-1])

    assert (PASSWORD in masked, count) == (False, 2)
