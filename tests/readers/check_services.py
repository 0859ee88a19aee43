"""Have `trace-recorder export` send runs to Langfuse and LangSmith by their own clients, to a local server.

needs: trace-recorder[cli,langfuse,langsmith], from here
usage: PYTHONPATH=. python -m tests.readers.check_services DIRECTORY

The received data is compared with the exchanged contents of each script. If the server refuses, the command reports it,
and with --resume sends what is missing. No output contains a key.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests import provider
from tests.contents.comparing import compare
from tests.contents.script import Tokens
from tests.contents.shown import Conversation, decoded
from tests.provider import Answer, Request, whole
from tests.readers.reading import Reader, directory, finish
from trace_recorder import TrajectoryRecorder

Json = Any
SECRET = "sk-a-key-that-nobody-may-see"
PROJECT = (
    b'[{"id": "00000000-0000-0000-0000-000000000007", "tenant_id": "00000000-0000-0000-0000-000000000008",'
    b' "name": "default", "start_time": "2025-10-09T00:00:00", "reference_dataset_id": null}]'
)
NO_TOKENS = Tokens(0, 0, 0)
"""The usage of a replayed answer."""
ACCEPTED = b'{"accepted": 1, "rejected": 0, "errors": [], "results": []}'
SCRIPTED = sorted((directory() / "contents" / "runs").glob("*.json"))


@dataclass
class Service:
    """A service that accepts everything or refuses everything. `requests` has the accepted requests, unpacked."""

    status: int = 200
    url: str = ""
    requests: list[Request] = field(default_factory=list)

    def answer_to(self, request: Request) -> Answer:
        """Answer a request."""
        path = urlsplit(request.path).path
        if not request.body and path.endswith("/sessions"):
            return whole(PROJECT, self.status)
        if request.body and self.status < 300:
            self.requests.append(request._replace(body=_unpacked(request)))
        return whole(ACCEPTED if path.endswith("scores") else b"{}", self.status)


def _unpacked(request: Request) -> bytes:
    match request.headers.get("content-encoding"):
        case "gzip":
            return gzip.decompress(request.body)
        case "zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(request.body)
        case _:
            return request.body


@contextmanager
def serving() -> Iterator[Service]:
    """Run a service during a block."""
    service = Service()
    with provider.serving(service.answer_to) as server:
        service.url = server.url
        yield service


def export(service: str, url: str, *arguments: object, keys: bool = True) -> subprocess.CompletedProcess[str]:
    """Return the result of the command, after a check that its output contains no key."""
    names = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGSMITH_API_KEY")
    environment = {**os.environ, "NO_PROXY": "*", **dict.fromkeys(names, SECRET if keys else "")}
    command = [sys.executable, "-m", "trace_recorder", "export", "-f", service, "--endpoint", url]
    ended = subprocess.run(
        [*command, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert SECRET not in ended.stdout + ended.stderr, "it printed the key"
    return ended


# ── what came ────────────────────────────────────────────────────────────────────────────────────────────────────────


def langfuse_calls(server: Service) -> Iterator[tuple[list[Json], Json, Json, bool]]:
    """Yield the generations, as prompt, answer, tokens, and whether they failed."""
    for path, _, body in server.requests:
        if path == "/api/public/otel/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    said = {one.key: one.value.string_value for one in span.attributes}
                    if said["langfuse.observation.type"] == "generation":
                        gave = json.loads(said.get("langfuse.observation.output", "null"))
                        usage = json.loads(said.get("langfuse.observation.usage_details", "null"))
                        yield json.loads(said["langfuse.observation.input"]), gave, usage, span.status.code == 2


def langsmith_runs(server: Service) -> list[Json]:
    """Return the runs, joined from the parts of each request."""
    by_id: dict[str, Json] = {}
    for path, headers, body in server.requests:
        if not path.startswith("/runs/"):
            continue
        if path.endswith("/batch"):
            by_id.update((run["id"], run) for run in json.loads(body)["post"])
            continue
        boundary = re.search(r'boundary="?([^";]+)', headers["content-type"])[1]  # type: ignore[index]
        for part in body.split(f"--{boundary}".encode())[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            name = re.search(rb'name="([^"]+)"', head)[1].decode()  # type: ignore[index]
            _, identity, *member = name.split(".")
            value = json.loads(content.strip())
            by_id.setdefault(identity, {}).update({member[0]: value} if member else value)
    return [*by_id.values()]


def langsmith_calls(server: Service) -> Iterator[tuple[list[Json], Json, Json, bool]]:
    """Yield the LLM runs, as prompt, answer, tokens, and whether they failed, in the order of time."""
    for run in sorted(langsmith_runs(server), key=lambda run: run["dotted_order"]):
        if run["run_type"] == "llm":
            gave = run["outputs"]
            yield run["inputs"]["messages"], gave.get("messages", [None])[0], gave.get("usage_metadata"), "error" in run


def conversations(calls: Iterator[tuple[list[Json], Json, Json, bool]], service: str, base: Path) -> list[Conversation]:
    """Return calls in the form of the scripts."""
    talks = []
    for prompt, answer, usage, failed in calls:
        talk = Conversation()
        for message in prompt:
            _say(talk, message, base)
        talk.failures += failed
        if not failed:
            _say(talk, answer, base)
            counted = _tokens(usage, service)
            talk.messages[-1].tokens = counted if counted != NO_TOKENS else None
        talks.append(talk)
    return talks


def _say(talk: Conversation, raw: Json, base: Path) -> None:
    if raw["role"] == "tool":
        talk.result(raw["tool_call_id"], raw["content"], base)
        return
    message = talk.say(raw["role"], raw["content"], base, thought=raw.get("reasoning_content") or "")
    parts = raw["content"] if isinstance(raw["content"], list) else []
    message.images = [decoded(part["image_url"]["url"]) for part in parts if part["type"] == "image_url"]
    for call in raw.get("tool_calls", ()):
        talk.call(message, call["id"], call["function"]["name"], call["function"]["arguments"])


def _tokens(usage: Json, service: str) -> Tokens:
    if service == "langsmith":
        cached = usage["input_token_details"].get("cache_read", 0)
        return Tokens(usage["input_tokens"], usage["output_tokens"], cached)
    read, write = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
    return Tokens(usage["input"] + read + write, usage["output"] + usage.get("output_reasoning_tokens", 0), read)


CALLS = {"langfuse": langfuse_calls, "langsmith": langsmith_calls}


def contents(service: str, run: Path) -> None:
    """Check that the service gets the exchanged content."""
    with serving() as server:
        ended = export(service, server.url, run)
        assert ended.returncode == 0, ended.stderr
        shown = conversations(CALLS[service](server), service, run.parent)
    outcomes = compare(run.stem, "otlp", [], run.parent, lambda *_: shown)
    assert not [one for one in outcomes if one.equal is not True], outcomes


def rewards_and_resume(service: str) -> None:
    """Check that a refusing server costs an exit code, that --resume sends everything with the rewards, and nothing
    twice.
    """
    with tempfile.TemporaryDirectory() as place, serving() as server:
        path = Path(place, "run.json")
        with TrajectoryRecorder(path, task="ask", provider="openai", model="m") as recorder:
            recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
            recorder.reward("exact", 0.5, explanation="nearly")
        server.status = 400
        assert export(service, server.url, path).returncode == 1
        server.status = 200
        assert export(service, server.url, path, "--resume").returncode == 0
        sent = len(server.requests)
        assert len([*CALLS[service](server)]) == 1
        score = next(json.loads(body) for where, _, body in server.requests if "score" in where or "feedback" in where)
        assert "exact" in json.dumps(score)
        assert "0.5" in json.dumps(score)
        assert export(service, server.url, path, "--resume").returncode == 0
        assert len(server.requests) == sent
        bare = export(service, server.url, path, "--no-content")
        assert bare.returncode == 0
        assert b"nearly" not in b"".join(body for _, _, body in server.requests[sent:])


def without_keys(service: str) -> None:
    """Check that nothing is sent without a key, and that the command names the variable."""
    with serving() as server:
        ended = export(service, server.url, SCRIPTED[0], keys=False)
        assert (ended.returncode, len(server.requests)) == (1, 0), ended.stderr
        assert f"{service.upper()}_" in ended.stderr


readers = []
for name in CALLS:
    what = f"{len(SCRIPTED)} scripted runs, sent by {name}'s client, and two tests of rewards and keys"
    reader = Reader(f"{name}: contents that a server of ours received", what, name)
    for file in SCRIPTED:
        reader.take(file.stem, lambda name=name, file=file: contents(name, file))
    reader.take("rewards, --resume, --no-content", lambda name=name: rewards_and_resume(name))
    reader.take("no keys", lambda name=name: without_keys(name))
    readers.append(reader)
finish(*readers)
