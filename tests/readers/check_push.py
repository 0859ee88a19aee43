"""Have `trace-recorder export --push` send a dataset by Invariant's own client to a server of ours, and see what came.

needs: Python >= 3.11; trace-recorder[cli,invariant], from here
usage: PYTHONPATH=. python -m tests.readers.check_push DIRECTORY

The server gets what is in the file, in one request, with the key in its header; where it refuses, or nobody
listens, or something is missing, the command says so and exits with 1; and nowhere does it print the key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.capture.server import Answer, plain, serving
from tests.readers.reading import Reader, directory, finish, rows

SECRET = "a-key-that-nobody-may-see"
RUNS = [str(path) for path in sorted((directory() / "runs").iterdir()) if path.is_dir()]
NOBODY = "http://127.0.0.1:9"
Ended = subprocess.CompletedProcess[str]


def push(url: str, *arguments: str, key: str = SECRET) -> Ended:
    """What the command did: what it printed on both streams has no key in it."""
    command = [sys.executable, "-m", "trace_recorder", "export", *RUNS, "-f", "invariant", "--push", "a-dataset"]
    environment = {**os.environ, "INVARIANT_API_KEY": key, "NO_PROXY": "*"}
    ended = subprocess.run(
        [*command, "--push-url", url, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert SECRET not in ended.stdout + ended.stderr, "it printed the key"
    return ended


def arrives() -> None:
    """What is in the file is what the server gets, and the ids that it gives are printed."""
    with (
        tempfile.TemporaryDirectory() as place,
        serving(plain({"id": ["1", "2"], "dataset": "d", "username": "u"})) as server,
    ):
        file = Path(place, "set.jsonl")
        ended = push(server.url, "-o", str(file))
        assert (ended.returncode, ended.stdout) == (0, "1\n2\n"), ended.stderr
        [(path, headers, body)] = server.requests
        sent, (_, *written) = json.loads(body), map(json.loads, file.read_text(encoding="utf-8").splitlines())
    assert path == "/api/v1/push/trace"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert sent["dataset"] == "a-dataset"
    for member in ("messages", "annotations", "metadata"):
        assert sent[member] == [trace[member] for trace in written], member
    assert len(written) == sum(
        trace["name"] in {one["name"] for one in written} for trace in rows("invariant.jsonl")[1:]
    )


def without_a_file() -> None:
    """Nothing but the ids goes to stdout."""
    with serving(plain({"id": ["7"]})) as server:
        ended = push(server.url)
        assert (ended.returncode, ended.stdout, len(server.requests)) == (0, "7\n", 1), ended.stderr


def refused(answer: Answer, *said: str) -> None:
    """The exit code is 1, and the server's status and message are printed."""
    with serving(answer) as server:
        ended = push(server.url)
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    last = ended.stderr.splitlines()[-1]
    assert all(word in last for word in said), last


def unreachable() -> None:
    """That nobody listens is a sentence."""
    ended = push(NOBODY)
    assert ended.returncode == 1
    assert f"could not be sent to {NOBODY}" in ended.stderr.splitlines()[-1], ended.stderr


def without_a_key() -> None:
    """Nothing is sent."""
    with serving(plain({"id": []})) as server:
        ended = push(server.url, key="")
        assert (ended.returncode, server.requests) == (1, [])
    assert "INVARIANT_API_KEY" in ended.stderr


def echoed() -> None:
    """A server that repeats the key does not get it printed."""
    refused(plain({"detail": f"Bearer {SECRET} is not known"}, 403), "HTTP 403", "[REDACTED] is not known")


reader = Reader("invariant-sdk: push by `export --push`", "pushes to a server of ours", "invariant-sdk")
reader.take("a dataset, with its file", arrives)
reader.take("a dataset, without", without_a_file)
reader.take("a refusal: 401", lambda: refused(plain({"detail": "who are you"}, 401), "HTTP 401", "who are you"))
reader.take("a refusal: 422", lambda: refused(plain({"detail": "not so"}, 422), "HTTP 422", "not so"))
reader.take("a refusal: 500", lambda: refused(plain("down", 500), "HTTP 500", "down"))
reader.take("an answer that is none", lambda: refused(plain({"no": "ids"}), "could not be sent"))
reader.take("a refusal that repeats the key", echoed)
reader.take("nobody listens", unreachable)
reader.take("no key", without_a_key)
finish(reader)
