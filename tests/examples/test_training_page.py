"""The page on training: its blocks run against a server that states ids, and print what the page prints."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.processes import ROOT

PAGE = (ROOT / "docs/training.md").read_text("utf-8")
ANSWERS = [([1, 2], 7), ([1, 2, 7, 3], 8)]
"""The ids of each prompt, and the id of its answer."""


@pytest.fixture
def address() -> Iterator[str]:
    """The address of a server that answers as vLLM does."""
    answers = iter(ANSWERS)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert asked["return_token_ids"] is True
            prompt, said = next(answers)
            scored = {"content": [{"token": "x", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
            choice = {"index": 0, "message": {"role": "assistant", "content": f"said {said}"}, "finish_reason": "stop"}
            choice |= {"token_ids": [said], "logprobs": scored}
            body = {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice]}
            data = json.dumps(body | {"prompt_token_ids": prompt}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def test_every_block_runs(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is recorded, its rollout is the one of the page, and each export has its tokens."""
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    page, _, _ = PAGE.partition("## A trained step")  # `nox -s training` runs it
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [program, reading] = [text for language, text in blocks if language == "python"]
    [printed] = [text for language, text in blocks if not language]
    [shown] = [text for language, text in blocks if language == "console"]
    [exports] = [text for language, text in blocks if language == "sh"]

    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    read = subprocess.run([sys.executable, "-c", reading], check=True, timeout=300, capture_output=True, text=True)
    command, _, figures = shown.partition("\n")
    written = [invoke(*shlex.split(line)[1:]).exit_code for line in exports.splitlines()]
    [row] = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    [episode] = map(json.loads, (tmp_path / "traces.jsonl").read_text().splitlines())

    assert read.stdout == printed
    assert invoke(*shlex.split(command)[2:]).stdout.rstrip() == figures.rstrip()
    assert (written, row["input_ids"], row["assistant_masks"]) == ([0, 0], [1, 2, 7, 3, 8], [0, 0, 1, 0, 1])
    assert [node["token_ids"] for node in episode["traces"][0]["nodes"] if node["sampled"]] == [[1, 2, 7], [3, 8]]
