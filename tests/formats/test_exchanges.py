"""HTTP that other tools recorded: HAR files, cassettes and claude-tap's traces are read like our own recordings.

The files in tests/data/foreign were made with the real tools and SDKs against the tests' scripted provider.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.formats.files import PRODUCED, check_run, results_in, runs_of, said_in
from tests.formats.imported import import_file
from tests.provider import running
from trace_recorder import TrajectoryFormatError, load, replay
from trace_recorder.decompression import FREE_BYTES
from trace_recorder.formats.foreign_runs.exchanges import without_encoding
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import read_foreign_runs
from trace_recorder.rerun.recorded import Recording
from trace_recorder.rerun.serving import ReplayServer

_KEY = "an-ordinary-looking-value-17"
_URL = "https://api.openai.com/v1/chat/completions"
_TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
_CITIES = [("get_weather", {"city": "Tokyo"}), ("get_weather", {"city": "Paris"})]
_WEATHER = "It is sunny in Tokyo, and it rains in Paris."


def _answer(text: str = "hi", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]} | more


def _asked(text: str = "Hello") -> str:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]})


def _taped(answer: Any, status: Any = 200, asked: str = "", url: str = _URL, **response: Any) -> dict[str, Any]:
    headers = {"Authorization": [f"Bearer {_KEY}"], "Cookie": ["a=b"], "x-stainless-retry-count": ["0"]}
    request = {"method": "POST", "uri": url, "body": asked or _asked(), "headers": headers}
    body = {"string": json.dumps(answer)}
    about = {"status": {"code": status, "message": ""}, "headers": {"content-type": ["application/json"]}}
    return {"request": request, "response": {**about, "body": body, **response}}


def _cassette(directory: Path, *interactions: dict[str, Any]) -> Path:
    path = directory / "cassette.json"
    path.write_text(json.dumps({"version": 1, "interactions": interactions}))
    return path


def _ask_both(url: str, wrap: Any = lambda client: client) -> list[Any]:
    """Repeat the calls of the agent that made the produced files, and return the answers."""
    with (
        wrap(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)) as chat,
        wrap(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)) as claude,
    ):
        messages: Any = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Tokyo and Paris?"},
        ]
        first = chat.chat.completions.create(model="gpt-5", messages=messages, tools=_TOOLS).choices[0].message
        messages.append(first.model_dump(exclude_none=True))
        for call, weather in zip(first.tool_calls, ("sunny", "rain"), strict=True):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": weather})
        options = {"include_usage": True}
        chunks = chat.chat.completions.create(
            model="gpt-5", messages=messages, tools=_TOOLS, stream=True, stream_options=options
        )
        streamed = "".join((chunk.choices[0].delta.content or "") if chunk.choices else "" for chunk in chunks)
        asked: Any = [{"role": "user", "content": "And now?"}]
        with claude.messages.stream(model="claude-x", max_tokens=99, messages=asked) as stream:
            return [len(first.tool_calls), streamed, stream.get_final_text()]


@contextmanager
def _served(path: Path) -> Iterator[ReplayServer]:
    server = ReplayServer(replay(path))
    with running(server):
        yield server


def test_a_form_is_read_as_capture_reads_it(tmp_path: Path) -> None:
    """A multipart form in a cassette is on file as JSON, without its boundary."""
    form = '--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--xyz--\r\n'
    taped = _taped({"text": "hello"}, asked=form, url="https://api.openai.com/v1/audio/transcriptions")
    taped["request"]["headers"]["Content-Type"] = ["multipart/form-data; boundary=xyz"]
    [imported] = import_file(Source(_cassette(tmp_path, taped)), tmp_path / "runs")
    [call] = load(imported.path).llm_interactions

    assert (call.raw_request, call.model, call.response.content) == ({"model": "whisper-1"}, "whisper-1", "hello")
    assert "xyz" not in imported.path.with_suffix(".jsonl").read_text()


@pytest.mark.parametrize("name", ["vcr/weather.yaml", "har/weather.har"])
def test_recorded_http_is_read_and_answers_the_agent_again(name: str, tmp_path: Path) -> None:
    """The calls are those of the provider's script. A replay and `serve` give the real SDKs the same answers again."""
    if name.endswith(".yaml"):
        pytest.importorskip("yaml")
    (run,) = runs_of(PRODUCED / name)
    read = check_run(run, tmp_path)
    usage = [(67, 19), (179, 11), (12, 6)]
    texts = ["Let me look.", _WEATHER, "It is sunny."]
    assert [(one["saw"], one["text"], one.get("asked")) for one in said_in(read)] == [
        (2, texts[0], _CITIES),
        (5, texts[1], None),
        (1, texts[2], None),
    ]
    assert [
        (call.response.usage.input_tokens, call.response.usage.output_tokens) for call in read.llm_interactions
    ] == usage
    assert [result[3] for result in results_in(read)] == ["sunny", "rain"]
    assert [call.api for call in read.llm_interactions] == ["openai-chat", "openai-chat", "anthropic-messages"]
    assert (read.gaps, read.annotations) == ((), {"other_requests": 1})
    (imported,) = import_file(Source(PRODUCED / name), tmp_path / "out")
    with replay(imported.path) as again:
        assert _ask_both("http://127.0.0.1:9", again.wrap) == [
            2,
            *texts[1:],
        ]
    with _served(imported.path) as server:
        assert _ask_both(server.url) == [2, *texts[1:]]


@pytest.mark.parametrize("name", ["weather.jsonl", "weather.compact.json"])
def test_a_trace_of_claude_tap_has_its_calls(name: str, tmp_path: Path) -> None:
    (run,) = runs_of(PRODUCED / "claude-tap" / name)
    read = check_run(run, tmp_path)
    assert [(one["saw"], one["text"], one.get("asked")) for one in said_in(read)] == [
        (2, "Let me look.", _CITIES),
        (5, _WEATHER, None),
    ]
    first, second = read.llm_interactions
    assert [one.response.usage.output_tokens for one in (first, second)] == [23, 14]
    assert (first.timestamp, first.duration_seconds, first.stream) == ("2026-11-25T10:48:22.864223+00:00", 0.041, True)
    (imported,) = import_file(Source(PRODUCED / "claude-tap" / name), tmp_path / "out")
    with replay(imported.path, strict=False) as again:
        client = again.wrap(anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="none"))
        sent = json.loads((PRODUCED / "claude-tap" / "weather.jsonl").read_text().splitlines()[0])["request"]["body"]
        with client.messages.stream(**{name: one for name, one in sent.items() if name != "stream"}) as stream:
            assert [block.type for block in stream.get_final_message().content] == ["text", "tool_use", "tool_use"]


def test_a_stream_without_its_events_is_read_and_cannot_be_replayed(tmp_path: Path) -> None:
    """claude-tap keeps the events of streams only if an option asks for them."""
    line = json.loads((PRODUCED / "claude-tap" / "weather.jsonl").read_text().splitlines()[0])
    del line["response"]["sse_events"]
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(line) + "\n")
    run = load(path)
    assert [(one["text"], one["asked"]) for one in said_in(run)] == [("Let me look.", _CITIES)]
    (imported,) = import_file(Source(path), tmp_path / "out")
    sent = {name: one for name, one in line["request"]["body"].items() if name != "stream"}
    with replay(imported.path, strict=False) as again:
        client = again.wrap(anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="none"))
        with pytest.raises(Exception, match="events of its stream are not in the recording"):
            client.messages.stream(**sent).__enter__().get_final_message()


def test_a_stream_without_its_events_does_not_count_as_failed(tmp_path: Path) -> None:
    """An equal request after such a stream is a separate call, and not its next attempt."""
    line = json.loads((PRODUCED / "claude-tap" / "weather.jsonl").read_text().splitlines()[0])
    del line["response"]["sse_events"]
    path = tmp_path / "trace.jsonl"
    path.write_text((json.dumps(line) + "\n") * 2)
    assert [one["text"] for one in said_in(load(path))] == ["Let me look."] * 2


def test_repeated_blobs_are_read_within_a_limit(tmp_path: Path) -> None:
    """A small bundle whose records repeat a blob could otherwise become a huge run."""
    bundle = json.loads((PRODUCED / "claude-tap" / "weather.compact.json").read_text())
    reference = {"__claude_tap_blob_ref__": {"hash": "h"}}
    bundle["blobs"] = {"h": {"payload": {"role": "user", "content": "x" * 1000}}}
    for record in bundle["records"]:
        record["request"]["body"]["messages"] = [reference] * 4
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(bundle))
    for limit, calls, gaps in ((10_000, 2, []), (6000, 1, ["line 2"]), (3000, 0, ["line 1"])):
        (run,) = read_foreign_runs(Source(path, max_run_bytes=limit))
        trajectory = check_run(run, tmp_path)
        assert (len(trajectory.llm_interactions), [gap.what for gap in trajectory.gaps]) == (calls, gaps)


def test_only_listed_headers_are_kept_and_keys_are_masked_everywhere(tmp_path: Path) -> None:
    path = _cassette(tmp_path, _taped(_answer(f"Your key is {_KEY}."), url=f"{_URL}?key=second-{_KEY}&api-version=1"))
    (imported,) = import_file(Source(path), tmp_path / "out")
    written = b"".join(file.read_bytes() for file in imported.path.parent.iterdir())
    assert _KEY.encode() not in written
    (exchange,) = Recording(imported.path).exchanges
    assert {name: getattr(exchange.call.sent, name) for name in ("url", "headers")} == {
        "url": f"{_URL}?api-version=1",
        "headers": {"x-stainless-retry-count": "0"},
    }


def test_a_failed_and_repeated_request_is_one_call_with_attempts(tmp_path: Path) -> None:
    error = {"error": {"message": "busy", "type": "rate_limit_error"}}
    path = _cassette(tmp_path, _taped(error, 429), _taped(error, 429), _taped(_answer()), _taped(_answer("again")))
    first, second = load(path).llm_interactions
    assert ([attempt.status for attempt in first.attempts], first.response.content) == ([429, 429, 200], "hi")
    assert ([attempt.status for attempt in second.attempts], second.response.content) == ([200], "again")


def test_a_compressed_body_is_read_within_a_limit(tmp_path: Path) -> None:
    headers = {"content-type": ["application/json"], "content-encoding": ["gzip"]}
    body = gzip.compress(json.dumps(_answer()).encode())
    taped = _taped(None, headers=headers)
    taped["response"]["body"] = {"base64_string": base64.b64encode(body).decode()}
    assert load(_cassette(tmp_path, taped)).llm_interactions[0].response.content == "hi"
    taped["response"]["body"] = {"base64_string": base64.b64encode(body[:-20]).decode()}
    [gap] = load(_cassette(tmp_path, taped)).gaps
    assert (gap.what, gap.why) == ("the response of interaction 1", "its compressed data is not complete")
    bomb = zlib.compress(b"x" * 100_000_000)
    cut, why = without_encoding(bomb, [(b"content-encoding", b"deflate")])
    assert (len(cut), why) == (FREE_BYTES, f"it decompresses to more than {FREE_BYTES} bytes")


def test_a_compressed_body_of_several_members_is_read_whole() -> None:
    """Some servers compress each part of a response separately. Bytes after the last member are ignored."""
    headers = [(b"content-encoding", b"gzip")]
    parts = gzip.compress(b"one, ") + gzip.compress(b"two")
    assert without_encoding(parts + b"junk", headers) == (b"one, two", None)
    assert without_encoding(parts[:-3], headers) == (b"one, two", "its compressed data is not complete")
    many = gzip.compress(b"") * 101
    assert without_encoding(many, headers) == (b"", "its compressed data has more than 100 members")
    filled = gzip.compress(b"x" * FREE_BYTES) + gzip.compress(b"y" * 1_000_000)
    cut, why = without_encoding(filled, headers)
    assert (len(cut) - FREE_BYTES, why) == (1, f"it decompresses to more than {FREE_BYTES} bytes")


def test_all_compressed_bodies_together_are_read_within_a_limit(tmp_path: Path) -> None:
    headers = {"content-type": ["application/json"], "content-encoding": ["gzip"]}
    body = {"base64_string": base64.b64encode(gzip.compress(json.dumps(_answer("hi" * 10_000)).encode())).decode()}
    path = _cassette(tmp_path, *(_taped(None, asked=_asked(f"{n}"), headers=headers, body=body) for n in range(3)))
    (run,) = read_foreign_runs(Source(path, max_run_bytes=50_000))
    trajectory = check_run(run, tmp_path)
    assert [len(call.response.content or "") for call in trajectory.llm_interactions] == [20_000, 20_000]
    assert [gap.what for gap in trajectory.gaps] == ["interaction 3 and those after it"]


def test_yaml_without_a_library_or_with_aliases_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text("interactions:\n- &a [x]\n- &b [*a, *a]\n- [*b, *b]\nversion: 1\n")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "yaml", None)
        with pytest.raises(TrajectoryFormatError, match=r"needs PyYAML: pip install 'trace-recorder\[imports\]'"):
            load(path)
    pytest.importorskip("yaml")
    with pytest.raises(TrajectoryFormatError, match="has aliases"):
        load(path)
    path.write_text("interactions:\n" + "[" * 5000)
    with pytest.raises(TrajectoryFormatError, match=r"too deep|not YAML"):
        load(path)


def _entry(time: str, answer: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    request = {"method": "POST", "url": _URL, "headers": [], "postData": {"mimeType": "application/json"}}
    request["postData"] |= {"text": _asked(time)}
    headers = [{"name": "Content-Type", "value": "application/json"}]
    response: dict[str, Any] = {"status": 0, "_error": "net::ERR_ABORTED", "headers": []}
    if answer is not None:
        response = {"status": 200, "headers": headers, "content": {"text": json.dumps(answer)} | more}
    return {"startedDateTime": time, "time": 1500, "request": request, "response": response}


def test_entries_of_a_har_file_are_read_in_the_order_of_their_start(tmp_path: Path) -> None:
    """A body may be base64, and a response may be missing. Requests that are not LLM calls are only counted."""
    encoded = {"text": base64.b64encode(json.dumps(_answer("2")).encode()).decode(), "encoding": "base64"}
    other = _entry("2026-01-01T00:00:00Z", _answer("private"))
    other["request"]["url"] = "https://example.com/mail"
    entries = [_entry("2026-01-01T00:00:03Z", None), other, _entry("2026-01-01T00:00:01Z", _answer("2"), **encoded)]
    path = tmp_path / "x.har"
    path.write_text(
        json.dumps({"log": {"version": "1.2", "creator": {"name": "c", "version": "1"}, "entries": entries}})
    )
    run = load(path)
    second, third = run.llm_interactions
    assert (second.response.content, second.duration_seconds, second.timestamp[-14:]) == (
        "2",
        1.5,
        "1.000000+00:00",
    )
    assert third.error is not None
    assert (third.error.message, run.annotations) == ("net::ERR_ABORTED", {"other_requests": 1})
    assert "private" not in json.dumps(run.to_document())


@pytest.mark.parametrize(
    ("content", "gaps"),
    [
        ({"size": 0, "mimeType": "x-unknown"}, []),
        ({"size": 0, "text": ""}, []),
        ({"size": 9}, ["the response of entry 1"]),
    ],
)
def test_an_error_without_a_body_is_a_failure(content: Any, gaps: list[str], tmp_path: Path) -> None:
    """An equal request after the error is its next attempt, although only the status of the error is known."""
    entry = _entry("2026-01-01T00:00:01Z", _answer())
    failed = {**entry, "response": {"status": 429, "headers": [], "content": content}}
    path = tmp_path / "x.har"
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": [failed, entry]}}))
    run = load(path)
    [call] = run.llm_interactions
    assert [attempt.error.status for attempt in call.attempts if attempt.error] == [429]
    assert (call.response.content, [gap.what for gap in run.gaps]) == ("hi", gaps)
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": [failed]}}))
    [call] = load(path).llm_interactions
    assert call.error is not None
    assert call.error.status == 429


def test_an_error_with_half_of_a_surrogate_pair_is_imported(tmp_path: Path) -> None:
    """A message that UTF-8 cannot express becomes its description."""
    entry = _entry("2026-01-01T00:00:01Z", None)
    entry["response"]["_error"] = "net::\ud83d"
    path = tmp_path / "x.har"
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": [entry]}}))

    [call] = load(path).llm_interactions

    assert call.error is not None
    assert (call.error.type, "net::" in call.error.message) == ("no response", True)


_NO_BODY = "it has no body, or its base64 body cannot be decoded"


@pytest.mark.parametrize("body", [{}, {"base64_string": "%"}, None])
def test_a_response_of_a_cassette_without_its_body_is_a_gap(body: Any, tmp_path: Path) -> None:
    run = load(_cassette(tmp_path, _taped(None, body=body)))
    assert [call.answered for call in run.llm_interactions] == [False]
    assert [(gap.what, gap.why) for gap in run.gaps] == [("the response of interaction 1", _NO_BODY)]


def test_a_response_without_its_status_is_a_gap(tmp_path: Path) -> None:
    run = load(_cassette(tmp_path, _taped(_answer(), status={})))
    assert [(gap.what, gap.why) for gap in run.gaps] == [("the response of interaction 1", "it has no status")]


def test_a_response_of_claude_tap_without_its_body_is_a_gap(tmp_path: Path) -> None:
    line = json.loads((PRODUCED / "claude-tap" / "weather.jsonl").read_text().splitlines()[0])
    line["response"] |= {"body": None, "sse_events": []}
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(line) + "\n")
    assert [(gap.what, gap.why) for gap in load(path).gaps] == [("the response of line 1", _NO_BODY)]


@pytest.mark.parametrize("content", [{"size": 9}, {"text": "%", "encoding": "base64"}])
def test_a_response_of_a_har_file_without_its_body_is_a_gap(content: Any, tmp_path: Path) -> None:
    """Browsers do not keep all bodies. An equal request after it is a separate call, because the first request did not
    fail.
    """
    entry = _entry("2026-01-01T00:00:01Z", _answer())
    first = {**entry, "response": {**entry["response"], "content": content}}
    path = tmp_path / "x.har"
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": [first, entry]}}))
    run = load(path)
    assert [call.response.content for call in run.llm_interactions] == [None, "hi"]
    assert [(gap.what, gap.why) for gap in run.gaps] == [("the response of entry 1", _NO_BODY)]
