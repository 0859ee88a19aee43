"""Any traffic: the caller gets the same as without a recorder, and the files are valid.

Bodies are arbitrary JSON, arbitrary bytes, and real bodies of every dialect with replaced parts. They are sent as
requests, and received plain and streamed, whole and in pieces.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import httpx
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import Answer, Wire
from tests.json_strategies import json_texts, json_values
from tests.poison.file_faults import faults
from tests.poison.mutations import BODIES, mutations
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.dialects.endpoints import recognise
from trace_recorder.values.messages import Payload

ADDRESSES = (
    "https://api.openai.com/v1/chat/completions",
    "https://api.openai.com/v1/responses",
    "https://api.openai.com/v1/completions",
    "https://api.openai.com/v1/embeddings",
    "https://api.anthropic.com/v1/messages",
    "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
    "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    "http://localhost:11434/api/chat",
    "http://localhost:11434/api/generate",
)
MEDIA = ("application/json", "text/event-stream", "application/x-ndjson", "text/html", "", "\x7f;;")
ODD_JSON = st.sampled_from(
    [
        *(
            b'{"a":NaN}',
            b'{"a":"\\ud800"}',
            b"[" * 5000,
            b'{"a":' * 5000,
            b'{"a":1e999}',
            b'{"a":1,"a":2}',
            b'"x"',
            b"",
        ),
        *(b"\xef\xbb\xbf{}", b'{"a":' + b"9" * 5000 + b"}", b"{} {}", b'{"messages":[{}', b'{"messages":{}}', b"null"),
    ]
)
BYTES = (
    st.binary(max_size=200)
    | json_texts(json_values).map(str.encode)
    | ODD_JSON
    | mutations().map(lambda one: json.dumps(one).encode())
)
STREAMS = st.lists(
    st.binary(max_size=20)
    | st.sampled_from(
        [b"data: ", b"data:", b"event: error\n", b"\n", b"\n\n", b"\r\n\r\n", b"\r", b"[DONE]", b": x\n\n"]
    )
    | mutations().map(lambda one: b"data: " + json.dumps(one).encode() + b"\n\n")
    | mutations().map(lambda one: json.dumps(one).encode() + b"\n"),
    max_size=12,
).map(b"".join)


def test_every_url_of_these_tests_is_a_model_s() -> None:
    """Every request to a URL of these tests is recorded."""
    urls = [httpx.URL(address) for address in ADDRESSES]

    assert [url for url in urls if recognise("POST", url.host, url.path).call is None] == []


def got(directory: Path, address: str, request: bytes, answer: Answer) -> tuple[object, list[str]]:
    """Return a recorded client's response, and the faults in the files."""
    recorder = TrajectoryRecorder(directory / f"{uuid.uuid4().hex}.json", task="x")
    with recorder, httpx.Client(transport=Wire(answer), trust_env=False) as client:
        response = recorder.wrap(client).post(address, content=request)
    assert len(load(recorder.trajectory_path).llm_interactions) == 1
    return (response.status_code, response.content), faults(recorder.trajectory_path)


@given(st.sampled_from(ADDRESSES), BYTES, BYTES, st.sampled_from(MEDIA), st.sampled_from([200, 200, 404, 529]))
def test_no_body_damages_a_record(
    tmp_path: Path, address: str, request: bytes, response: bytes, media: str, status: int
) -> None:
    """For any request and any answer, the caller gets the answer, and the files are valid."""
    answer = Answer(response, status, media)

    assert got(tmp_path, address, request, answer) == ((status, response), [])


@given(st.sampled_from(ADDRESSES), STREAMS, st.sampled_from(MEDIA[1:3]), st.integers(1, 30))
def test_no_stream_damages_a_record(tmp_path: Path, address: str, stream: bytes, media: str, size: int) -> None:
    """For any stream, in any pieces, the caller gets the stream, and the files are valid."""
    answer = Answer(stream, 200, media, size)

    assert got(tmp_path, address, b'{"stream": true}', answer) == ((200, stream), [])


@given(json_texts(json_values))
def test_recorded_json_equals_the_sent_and_received_json(tmp_path: Path, text: str) -> None:
    """A JSON body is recorded with the same values, however it was written."""
    body = f'{{"messages":[{text}],"x":{text}}}'
    recorder = TrajectoryRecorder(directory=tmp_path)
    with recorder, httpx.Client(transport=Wire(Answer(body.encode())), trust_env=False) as client:
        recorder.wrap(client).post(ADDRESSES[0], content=body.encode())

    [one] = load(recorder.trajectory_path).llm_interactions
    value: Payload = json.loads(body)
    assert json.dumps([one.raw_request, one.raw_response]) == json.dumps([value, value])


@pytest.mark.parametrize("name", sorted(BODIES))
def test_httpx2_is_as_safe(tmp_path: Path, name: str) -> None:
    """With httpx2, the caller gets any answer, and the files are valid."""
    body = json.dumps(BODIES[name]).encode()
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=body))
    with recorder, httpx2.Client(transport=transport) as client:
        response = recorder.wrap(client).post(ADDRESSES[0], content=body)

    assert (response.content, faults(recorder.trajectory_path)) == (body, [])
