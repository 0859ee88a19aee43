"""Every place in which a secret may be: after the run no byte of the two files has it, unpacked or not."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import CHAT as ADDRESS
from tests.chat_calls import Answer, Wire, asked, call, run_of, said, streamed
from tests.journals import records_of
from tests.provider import CHAT, chat_chunk, plain, serving, stream
from tests.secrets.corpus import keys
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import Payload

SHAPED = next(key.longest for key in keys() if key.service == "Groq")
KEY = f"gsk_{SHAPED}"
"""A key of a known form."""
VALUE = 'Winter-is-c0ming/and"so\\on'
"""The value of an environment variable, which has no known form."""

_PACKED = re.compile(rb'"(?:zlib|base64)":"([^"]*)"')


def bytes_of(path: Path) -> bytes:
    """Return every byte of both files, and of the compressed parts in them."""
    files = [path.read_bytes(), path.with_suffix(".jsonl").read_bytes()]
    packed = [base64.b64decode(found[1]) for file in files for found in _PACKED.finditer(file)]
    streams = b"".join(zlib.decompress(one) for one in packed if one.startswith(b"\x78"))
    said_in_them = b"".join(re.findall(rb'"content": ?"([^"]*)"', streams))
    return b"\n".join([*files, *packed, streams, said_in_them])


def leaks(path: Path, *secrets: str) -> list[str]:
    """Return the secrets, or halves of secrets, that are in the files of a run."""
    there = bytes_of(path)
    spelled = {
        spelled: secret
        for secret in secrets
        for spelled in (secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret)))
    }
    halves = {
        half: one
        for spelling, one in spelled.items()
        for half in (spelling[: len(spelling) // 2 + 2], spelling[len(spelling) // 2 :])
        if len(half) > 7
    }
    return sorted({f"{one}: {part}" for part, one in {**spelled, **halves}.items() if part.encode() in there})


class TroubleError(Exception):
    """An exception with a secret in its message."""


Record = Callable[[TrajectoryRecorder, str], None]
PLACES: dict[str, Record] = {
    "messages by hand": lambda r, s: r.record_llm_interaction([{"role": "user", "content": s}], "x", "p", "m"),
    "response by hand": lambda r, s: r.record_llm_interaction([], {"content": [{"a": s}]}, "p", "m"),
    "tools by hand": lambda r, s: r.record_llm_interaction([], None, "p", "m", [{"name": "t", "description": s}]),
    "provider": lambda r, s: r.record_llm_interaction([], "x", s, "m"),
    "model": lambda r, s: r.record_llm_interaction([], "x", "p", f"org/{s}"),
    "a failed call by hand": lambda r, s: r.record_llm_interaction([], TroubleError(s), "p", "m"),
    "messages of a step": lambda r, s: r.record_agent_step(1, "thinking", [{"role": "user", "content": s}]),
    "response of a step": lambda r, s: r.record_agent_step(1, "thinking", llm_response={"content": s}),
    "a tool's arguments": lambda r, s: r.record_agent_step(
        1, "x", tool_calls=[{"name": "t", "call_id": "1", "arguments": {"a": [s]}}]
    ),
    "a tool's output": lambda r, s: r.record_agent_step(
        1, "x", tool_results=[{"call_id": "1", "result": f"PATH=/bin\nMY_TOKEN={s}\nHOME=/root\n"}]
    ),
    "a tool's error": lambda r, s: r.record_agent_step(
        1, "x", tool_results=[{"call_id": "1", "success": False, "error": s}]
    ),
    "reflection": lambda r, s: r.record_agent_step(1, "x", reflection=s),
    "error of a step": lambda r, s: r.record_agent_step(1, "x", error=TroubleError(s)),
    "state": lambda r, s: r.record_agent_step(1, s),
    "annotation": lambda r, s: r.annotate("a", {"b": [s]}),
    "name of an annotation": lambda r, s: r.annotate(s, 1),
    "a name in an annotation": lambda r, s: r.annotate("a", {s: 1}),
    "lakeview": lambda r, s: r.update_lakeview(1, s),
    "explanation": lambda r, s: r.reward("a", 1, explanation=s),
    "name of a reward": lambda r, s: r.reward(s, 1),
    "bytes": lambda r, s: r.annotate("a", s.encode()),
    "an object's repr": lambda r, s: r.annotate("a", {s}),
    "gap": lambda r, s: run_of(r).guard.queue_failure(f"read {s}", f"it was {s}"),
    "request": lambda r, s: call(r, asked(f"use {s}!", user=s, metadata={"a": s}), said("x")),
    "large message": lambda r, s: call(r, asked(f"{'x ' * 3000}{s} {'y ' * 3000}"), said("x")),
    "request that is no JSON": lambda r, s: call(r, f"key={s} ", said("x")),
    "request in other bytes": lambda r, s: post(r, b"\xff\xfe" + s.encode() + b"\xff", said("x")),
    "authorization token for an MCP server": lambda r, s: call(
        r, asked("x", mcp_servers=[{"url": f"https://u:{s[:6]}@h/", "authorization_token": s}]), said("x")
    ),
    "response": lambda r, s: call(r, asked("x"), said(f"it is {s}.")),
    "response that is no JSON": lambda r, s: call(r, asked("x"), Answer(f"<p>{s}</p>".encode(), media="text/html")),
    "response in other bytes": lambda r, s: call(r, asked("x"), Answer(b"\xff" + s.encode() + b"\xff")),
    "a tool call's arguments": lambda r, s: call(
        r, asked("x"), said(None, calls=[("c", "bash", json.dumps({"command": f"curl -H 'x-api-key: {s}'"}))])
    ),
    "an error that repeats the key": lambda r, s: call(
        r, asked("x"), Answer(json.dumps({"error": {"message": f"Incorrect API key: {s}."}}).encode(), status=401)
    ),
    "a name in a response": lambda r, s: call(r, asked("x"), Answer(json.dumps({s: {s: s}}).encode())),
    "stream": lambda r, s: call(r, asked("x", stream=True), streamed("it is ", s, " .")),
    "stream, letter by letter": lambda r, s: call(r, asked("x", stream=True), streamed("it is ", *s, " .", "done")),
    "stream, three letters an event": lambda r, s: call(
        r, asked("x", stream=True), streamed("is:", *(s[at : at + 3] for at in range(0, len(s), 3)))
    ),
    "stream, its bytes cut anywhere": lambda r, s: call(
        r, asked("x", stream=True), Answer(streamed("it is ", s).body, media="text/event-stream", size=7)
    ),
    "stream that is no JSON": lambda r, s: call(
        r, asked("x", stream=True), Answer(f"data: {s}\n\nid: 1\n\n".encode(), media="text/event-stream")
    ),
    "a comment in a stream": lambda r, s: call(
        r, asked("x", stream=True), Answer(f": {s}\n\ndata: {s[:5]}\n\n".encode(), media="text/event-stream")
    ),
    "failing connection": lambda r, s: refused(r, httpx.ConnectError(f"no route to https://u:{s}@h/")),
    "failing stream": lambda recorder, secret: broken(recorder, secret),  # noqa: PLW0108 - it is defined below
    "final result": lambda r, s: None,
}  # fmt: skip


def post(recorder: TrajectoryRecorder, body: bytes, answer: Answer | Exception, **more: Payload) -> None:
    with httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client).post(ADDRESS, content=body, **more)


def refused(recorder: TrajectoryRecorder, error: Exception) -> None:
    with pytest.raises(httpx.ConnectError):
        call(recorder, asked("x"), error)


class Breaking(httpx.SyncByteStream):
    def __init__(self, message: str) -> None:
        self._message = message

    def __iter__(self):
        yield chat_chunk("hi")
        raise httpx.ReadError(self._message)


class BreakingWire(httpx.BaseTransport):
    def __init__(self, message: str) -> None:
        self._message = message

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Breaking(self._message))


def broken(recorder: TrajectoryRecorder, secret: str) -> None:
    with httpx.Client(transport=BreakingWire(f"lost {secret}"), trust_env=False) as client:
        with pytest.raises(httpx.ReadError):
            recorder.wrap(client).post(ADDRESS, json=asked("x", stream=True))


@pytest.mark.parametrize("secret", [KEY, VALUE], ids=["a key", "a value of the environment"])
@pytest.mark.parametrize("place", PLACES)
def test_no_byte_of_a_secret_is_in_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, secret: str
) -> None:
    """For a secret in any place, the files have the mask with its name, and are valid."""
    monkeypatch.setenv("APP_DB_PASSWORD", VALUE)
    recorder = TrajectoryRecorder(
        tmp_path / "run.json", task=f"use {secret}", metadata={"a": {secret: [secret]}}, provider="p", model=secret
    )
    recorder.start()

    PLACES[place](recorder, secret)
    recorder.finalize(success=True, final_result={"x": secret})

    path = recorder.trajectory_path
    assert (leaks(path, secret), [finding for finding in validate(path).findings if finding.severity == "error"]) == (
        [],
        [],
    )


@pytest.mark.parametrize("place", [place for place in PLACES if place != "final result"])
def test_masked_secrets_are_counted(tmp_path: Path, place: str) -> None:
    """Each record in which something was masked says how many secrets, and no other record does."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="x")
    recorder.start()

    PLACES[place](recorder, KEY)
    recorder.finalize(success=True)

    wrong = []
    for record in records_of(recorder.trajectory_path):
        text = json.dumps(record.data)
        if "zlib" in record.data:
            text += zlib.decompress(base64.b64decode(record.data["zlib"])).decode()
        if record.data.keys() & {"base64", "assembled"}:  # an assembled stream was masked in its parts
            continue
        masks = text.count("[REDACTED:")
        if (masks > 0) != (record.data.get("redacted", 0) > 0):
            wrong.append((record.kind, masks, record.data.get("redacted")))
    assert wrong == []


@pytest.mark.parametrize("where", ["bearer", "x-api-key", "cookie", "query", "user of the URL", "proxy-authorization"])
def test_headers_and_urls_of_a_request_have_no_secret(tmp_path: Path, where: str) -> None:
    """Headers, cookies and the URL are recorded without their secrets, and so is an answer that repeats them."""
    secret = "opaque-Secret-0f-the-user"
    headers = {"bearer": {"authorization": f"Bearer {secret}"}, "query": {}, "user of the URL": {}}
    url = {
        "query": f"{ADDRESS}?key={secret}",
        "user of the URL": ADDRESS.replace("https://", f"https://me:{secret}@"),
    }
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    answer = Answer(json.dumps({"error": {"message": f"bad credentials {secret}"}}).encode(), status=401)

    with httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client).post(
            url.get(where, ADDRESS), json=asked("x"), headers=headers.get(where, {where: secret})
        )
    recorder.finalize()

    assert leaks(recorder.trajectory_path, secret) == []


def test_a_real_client_s_key_and_headers_are_not_in_the_files(tmp_path: Path) -> None:
    """The call may be plain or streamed, and the answer may repeat the key, the cookies and extra headers."""
    key, cookie, extra = "my-own-key-without-shape", "session=0123456789abcdef", "extra-header-s3cret"
    letters = [chat_chunk(letter) for letter in f"{key} {extra} "]
    with serving(plain({**CHAT, "echo": [key, cookie, extra]}), stream(*letters, b"data: [DONE]\n\n")) as server:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            client = recorder.wrap(
                openai.OpenAI(api_key=key, base_url=f"{server.url}/v1", default_headers={"Cookie": cookie})
            )
            more = {"X-Internal-Auth": extra}
            client.chat.completions.create(model="m", messages=[], extra_headers=more)
            for _ in client.chat.completions.create(model="m", messages=[], stream=True, extra_headers=more):
                pass

    assert leaks(recorder.trajectory_path, key, cookie, extra) == []


@pytest.mark.parametrize("pause", [0.0, 1.2])
def test_a_secret_over_several_parts_of_a_stream_is_masked(tmp_path: Path, pause: float) -> None:
    """If a part of a stream ends in the middle of a secret, the beginning of the secret waits for the next part."""
    half = len(KEY) // 2
    events = [*(chat_chunk(letter) for letter in f"it is {KEY[:half]}"), pause]
    events += [*(chat_chunk(letter) for letter in f"{KEY[half:]} so"), b"data: [DONE]\n\n"]
    with serving(stream(*events)) as server:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            client = recorder.wrap(openai.OpenAI(api_key="x", base_url=f"{server.url}/v1"))
            for _ in client.chat.completions.create(model="m", messages=[], stream=True):
                pass

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (one.response and one.response.content, leaks(recorder.trajectory_path, KEY)) == (
        "it is [REDACTED:groq-key] so",
        [],
    )


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.sampled_from([KEY, VALUE]))
def test_a_streamed_secret_is_masked_in_any_pieces(tmp_path: Path, sizes: list[int], secret: str) -> None:
    """No secret is in the stream, in whatever pieces its text arrives. The rest of the text is unchanged."""
    text, pieces = f"Grüße: {secret} and {secret}", []
    for size in sizes * 40:
        pieces.append(text[:size])
        text = text[size:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("APP_DB_PASSWORD", VALUE)
        recorder = TrajectoryRecorder(directory=tmp_path)
        recorder.start()
    call(recorder, asked("x", stream=True), streamed(*filter(None, [*pieces, text])))
    recorder.finalize()

    [one] = load(recorder.trajectory_path).llm_interactions
    content = (one.response and one.response.content) or ""
    assert (leaks(recorder.trajectory_path, secret), content.partition("[")[0]) == ([], "Grüße: ")


# ── redactors of the user's ──────────────────────────────────────────────────────────────────────────────────────


def raising(_: str) -> str:
    raise RuntimeError("no")


def rubbish(_: str) -> object:
    return b"rubbish"


def works(redact: Payload) -> bool:
    return surrogates in (redact if isinstance(redact, tuple) else (redact,))


def surrogates(text: str) -> str:
    return text + "\ud800"


@pytest.mark.parametrize(
    "redact",
    [raising, rubbish, lambda _: None, surrogates, (default_redactor, rubbish), (surrogates, str.upper)],
)
def test_a_faulty_redactor_harms_nobody(tmp_path: Path, redact: Payload) -> None:
    """If a redactor raises, or returns no text or half a character, its value is not recorded, and the run says so."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", redact=redact, task="mend it")
    recorder.start()
    call(recorder, asked("one"), said("two"))
    call(recorder, asked("one", stream=True), streamed("a", "b"))
    recorder.annotate("a", KEY)
    recorder.finalize(True, "done")

    records = records_of(recorder.trajectory_path)
    fails = not works(redact)
    assert [records[0].kind, records[-1].kind if not fails else "finalize"] == ["start", "finalize"]
    assert {"finalize", "gap"} <= {record.kind for record in records} if fails else True
    assert load(recorder.trajectory_path).status == "completed"
    json.loads(recorder.trajectory_path.read_text(encoding="utf-8"))
