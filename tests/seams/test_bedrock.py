"""Bedrock by the real boto3, and by Anthropic's client for Bedrock: the bytes that the server sends are recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.isolation.outcomes import in_all
from tests.provider import Answer, Server, plain, serving
from tests.seams.bedrock import ASK, KEYS, MODEL, lines_on_file, only_call
from tests.seams.frames import CLAUDE, CONVERSE, TYPE, WHOLE, cut, delta, frame, wrapped
from trace_recorder import TrajectoryRecorder, fork, instrument, load, replay, uninstrument
from trace_recorder.dialects.stream_framing import encode_line

boto3 = pytest.importorskip("boto3", reason="boto3 has an environment of its own")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # botocore leaves the socket of a broken stream open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Payload = Any


def bedrock(url: str, **more: Payload) -> Payload:
    """Return a client."""
    return boto3.client("bedrock-runtime", endpoint_url=url, region_name="us-east-1", **KEYS, **more)


@contextmanager
def recorded(path: Path, *answers: Answer) -> Iterator[tuple[Payload, Server]]:
    """Yield a wrapped client, its server, and a run in `path`."""
    with serving(*answers) as server, TrajectoryRecorder(path, strict=True) as recorder:
        yield recorder.wrap(bedrock(server.url)), server


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream_of_converse_is_recorded(tmp_path: Path, size: int) -> None:
    """botocore and the recording read the same events from chunks of any size, and the frames can be rebuilt."""
    path = tmp_path / "a.json"
    with recorded(path, cut(CONVERSE, size)) as (client, _):
        answer = client.converse_stream(modelId=MODEL, messages=ASK, system=[{"text": "Be brief."}])
        events = list(answer["stream"])
    call = only_call(path)

    texts = [event["contentBlockDelta"]["delta"].get("text", "") for event in events if "contentBlockDelta" in event]
    assert (call.api, call.provider, call.model, call.complete) == ("bedrock-converse", "bedrock", MODEL, True)
    assert (call.response.content, call.response.reasoning) == ("".join(texts), "I greet.")
    assert [(tool_call.call_id, tool_call.name, tool_call.arguments) for tool_call in call.response.tool_calls] == [
        ("t1", "bash", {"command": "ls"})
    ]
    assert (call.response.finish_reason, call.response.usage.input_tokens) == ("tool_use", 3)
    assert [(message.role, message.content) for message in call.input_messages] == [
        ("system", "Be brief."),
        ("user", "hello"),
    ]
    assert b"".join(map(encode_line, lines_on_file(path).splitlines())) == b"".join(CONVERSE)
    assert load(path).metrics["total_input_tokens"] == 10


def test_a_whole_answer_of_converse_is_recorded(tmp_path: Path) -> None:
    """The body of an answer of Converse is recorded unchanged, and the request's parameters and tools are read."""
    body = {
        "output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5},
        "metrics": {"latencyMs": 3},
    }
    spec = {"name": "bash", "description": "Run it.", "inputSchema": {"json": {"type": "object"}}}
    with recorded(tmp_path / "a.json", plain(body)) as (client, server):
        client.converse(
            modelId=MODEL, messages=ASK, inferenceConfig={"maxTokens": 5}, toolConfig={"tools": [{"toolSpec": spec}]}
        )
    call = only_call(tmp_path / "a.json")

    assert (call.response.content, call.raw_response, call.raw_request) == ("hi", body, server.bodies()[0])
    assert [(tool.name, tool.description, tool.parameters) for tool in call.tools] == [
        ("bash", "Run it.", {"type": "object"})
    ]
    assert call.parameters["inferenceConfig"] == {"maxTokens": 5}


def test_a_stream_of_invoke_model_is_recorded(tmp_path: Path) -> None:
    """Events that InvokeModel encodes in base64 are recorded as JSON, so that their text is masked and joined."""
    path = tmp_path / "a.json"
    model = "anthropic.claude-sonnet-4-v1:0"
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    with recorded(path, cut(CLAUDE, 5)) as (client, _):
        answer = client.invoke_model_with_response_stream(modelId=model, body=json.dumps(body))
        events = [json.loads(event["chunk"]["bytes"]) for event in answer["body"]]
    call = only_call(path)

    said = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    assert (call.api, call.model, call.response.content) == ("anthropic-messages", model, said)
    assert "Gr\\u00fc" in lines_on_file(path)
    assert b"".join(map(encode_line, lines_on_file(path).splitlines())) == b"".join(CLAUDE)


@pytest.mark.parametrize(
    ("body", "answer", "prompt", "content", "tokens"),
    [
        ({"prompt": "hi"}, {"generation": "ho", "prompt_token_count": 3, "stop_reason": "stop"}, "hi", "ho", 3),
        ({"inputText": "hi"}, {"inputTextTokenCount": 3, "results": [{"outputText": "ho"}]}, "hi", "ho", 3),
        ({"prompt": "hi"}, {"outputs": [{"text": "ho", "stop_reason": "stop"}]}, "hi", "ho", None),
        (
            {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
            {"output": {"message": {"role": "assistant", "content": [{"text": "ho"}]}}, "usage": {"inputTokens": 3}},
            *("hi", "ho", 3),
        ),
    ],
    ids=["Llama", "Titan", "Mistral", "Nova"],
)
def test_bodies_of_other_model_makers_are_read(
    tmp_path: Path, body: Payload, answer: Payload, prompt: str, content: str, tokens: int | None
) -> None:
    """The prompt, completion and token counts of models of other makers are read."""
    with recorded(tmp_path / "a.json", plain(answer)) as (client, _):
        client.invoke_model(modelId="maker.model-v1:0", body=json.dumps(body))["body"].read()
    call = only_call(tmp_path / "a.json")

    assert [message.content for message in call.input_messages] == [prompt]
    assert (call.response.content, call.response.usage.input_tokens) == (content, tokens)


def test_a_stream_with_an_exception_is_recorded(tmp_path: Path) -> None:
    """A stream with an exception frame is recorded with its received part and the exception of botocore."""
    failed = frame("throttlingException", {"message": "Too many requests."}, "exception")
    with recorded(tmp_path / "a.json", cut([*CONVERSE[:7], failed], 9)) as (client, _):
        stream = client.converse_stream(modelId=MODEL, messages=ASK)["stream"]
        with pytest.raises(boto3.exceptions.botocore.exceptions.EventStreamError):
            list(stream)
    call = only_call(tmp_path / "a.json")

    assert (call.response.content, call.complete) == ("Grüße", False)
    assert call.error is not None
    assert "Too many requests." in str(call.error)


@pytest.mark.parametrize(
    "failure",
    [
        frame("throttlingException", {"message": "Too many requests."}, "exception"),
        frame("internal", {}, "error", {":error-code": "throttling", ":error-message": "Too many requests. {},"}),
    ],
    ids=["exception", "error"],
)
def test_a_failing_stream_of_invoke_model_is_recorded(tmp_path: Path, failure: bytes) -> None:
    """A failed stream of InvokeModel has the error, and its frames can be rebuilt."""
    path = tmp_path / "a.json"
    with recorded(path, cut([*CLAUDE[:4], failure], 9)) as (client, _):
        answer = client.invoke_model_with_response_stream(modelId="anthropic.claude-3", body=b'{"messages":[]}')
        with pytest.raises(boto3.exceptions.botocore.exceptions.EventStreamError):
            list(answer["body"])
    call = only_call(path)

    assert (call.response.content, call.complete) == ("Grüße", False)
    assert call.error is not None
    assert call.error.message.startswith("Too many requests.")
    assert b"".join(map(encode_line, lines_on_file(path).splitlines())) == b"".join([*CLAUDE[:4], failure])


def test_a_stream_that_stops_being_frames_is_incomplete(tmp_path: Path) -> None:
    """A stream with bytes that are not a frame is recorded as incomplete, and the caller gets botocore's own error."""
    answer = Answer([CONVERSE[0], b"x" * 40], 200, TYPE)
    with serving(answer) as server, TrajectoryRecorder(tmp_path / "a.json") as recorder:
        client = recorder.wrap(bedrock(server.url))
        with pytest.raises(Exception, match=r"(?i)checksum|length"):
            list(client.converse_stream(modelId=MODEL, messages=ASK)["stream"])
    assert only_call(tmp_path / "a.json").complete is False


def test_no_key_is_in_the_files(tmp_path: Path) -> None:
    """No file has parts of the signature, the session's token, or a key that the model streams in pieces."""
    path = tmp_path / "a.json"
    key = "sk-ant-api03-" + "Ab3dEf6hIj9k" * 7
    pieces = [wrapped({"outputText": key[at : at + 6]}) for at in range(0, len(key), 6)]
    with recorded(path, cut(pieces, 50)) as (client, _):
        answer = client.invoke_model_with_response_stream(modelId="amazon.titan-text-v1", body=b'{"inputText":"hi"}')
        list(answer["body"])
    text = path.with_suffix(".jsonl").read_text() + lines_on_file(path)

    assert key not in str(only_call(path).response.content)
    assert not [value for value in (*KEYS.values(), "AWS4-HMAC-SHA256", key[13:60]) if value in text]


def test_anthropic_s_client_for_bedrock_is_recorded(tmp_path: Path) -> None:
    """Anthropic's client for Bedrock over httpx can be wrapped, recorded and replayed."""
    anthropic = pytest.importorskip("anthropic")
    path = tmp_path / "a.json"

    def ask(url: str, bind: Any) -> list[str]:
        client = bind(
            anthropic.AnthropicBedrock(base_url=url, aws_region="us-east-1", aws_access_key="a", aws_secret_key="s")
        )
        body = {"model": "anthropic.claude-3", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        with client.messages.stream(**body) as stream:
            return list(stream.text_stream)

    with serving(cut(CLAUDE, 11)) as server, TrajectoryRecorder(path) as recorder:
        said = ask(server.url, recorder.wrap)
    with replay(path) as answers:
        again = ask("http://127.0.0.1:9", answers.wrap)

    assert (said, again) == (["Grü", "ße"], ["Grü", "ße"])
    assert only_call(path).response.content == "Grüße"
    assert server.requests[0][1]["authorization"].startswith("AWS4-HMAC-SHA256")
    assert "AWS4-HMAC" not in path.with_suffix(".jsonl").read_text()


def test_an_instrumented_process_records_boto3(tmp_path: Path) -> None:
    """In an instrumented process, each call of an unwrapped client is recorded once."""
    with serving(cut(CONVERSE, 100)) as server, TrajectoryRecorder(tmp_path / "a.json"):
        instrument()
        try:
            list(bedrock(server.url).converse_stream(modelId=MODEL, messages=ASK)["stream"])
        finally:
            uninstrument()

    assert only_call(tmp_path / "a.json").response.content == "Grüße"


CALLS: dict[str, tuple[Callable[[Payload], Payload], Answer]] = {
    "converse": (lambda client: client.converse(modelId=MODEL, messages=ASK)["output"], plain(WHOLE)),
    "converse, streamed": (
        lambda client: list(client.converse_stream(modelId=MODEL, messages=ASK)["stream"]),
        cut(CONVERSE, 9),
    ),
    "invoke": (
        lambda client: client.invoke_model(modelId=MODEL, body=b'{"messages": []}')["body"].read(),
        plain(WHOLE),
    ),
    "invoke, streamed": (
        lambda client: list(
            client.invoke_model_with_response_stream(modelId=MODEL, body=b'{"messages": []}')["body"],
        ),
        cut(CLAUDE, 9),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_replay_answers_boto3(tmp_path: Path, name: str) -> None:
    """In a replay, the caller gets the recorded answer without a server, and the call names the recorded call."""
    call, answer = CALLS[name]
    with recorded(tmp_path / "run.json", answer) as (client, _):
        came = call(client)
    with replay(tmp_path / "run.json") as run, TrajectoryRecorder(tmp_path / "again.json") as recorder:
        again = call(recorder.wrap(run.wrap(bedrock("http://127.0.0.1:9"))))
    with replay(tmp_path / "run.json", instrument=True):
        anywhere = call(bedrock("http://127.0.0.1:9"))

    assert (again, anywhere) == (came, came)
    assert only_call(tmp_path / "again.json").replayed_from is not None


def test_a_masked_stream_is_replayed_as_frames(tmp_path: Path) -> None:
    """botocore accepts replayed frames that have a mask in place of a key."""
    key = "sk-ant-api03-" + "Ab3dEf6hIj9k" * 7
    pieces = [*CONVERSE[:5], delta(1, text=f"It is {key}."), *CONVERSE[-2:]]

    def texts(client: Payload) -> str:
        events = client.converse_stream(modelId=MODEL, messages=ASK)["stream"]
        return "".join(
            event["contentBlockDelta"]["delta"].get("text", "") for event in events if "contentBlockDelta" in event
        )

    with recorded(tmp_path / "run.json", cut(pieces, 9)) as (client, _):
        came = texts(client)
    with replay(tmp_path / "run.json") as run:
        again = texts(run.wrap(bedrock("http://127.0.0.1:9")))

    assert came == f"It is {key}."
    assert again.startswith("It is ")
    assert key not in again


def test_a_fork_refuses_changes_of_signed_requests(tmp_path: Path) -> None:
    """A fork sends an unchanged signed request, and refuses a changed one, because its signature would be wrong."""
    call, answer = CALLS["converse"]
    with recorded(tmp_path / "run.json", answer) as (client, _):
        call(client)
    with serving(answer) as server:
        with fork(tmp_path / "run.json", at="llm_1", recorder=TrajectoryRecorder(tmp_path / "fork.json")) as branch:
            call(branch.wrap(bedrock(server.url)))
        once = boto3.session.Config(retries={"total_max_attempts": 1})
        with pytest.raises(boto3.exceptions.botocore.exceptions.ConnectionClosedError) as refused:
            with fork(tmp_path / "run.json", at="llm_1", model="other") as branch:
                call(branch.wrap(bedrock(server.url, config=once)))

    assert ["signed" in text for _, text, *_ in in_all(refused.value)].count(True) > 0
    assert len(server.requests) == 1
    assert only_call(tmp_path / "fork.json").response.content == "hi"


def test_rotating_headers_are_not_recorded(tmp_path: Path) -> None:
    """The date, signature and attempt id of a request are not recorded, so that equal calls have equal records."""
    with recorded(tmp_path / "run.json", plain(WHOLE)) as (client, server):
        for _ in range(3):
            client.converse(modelId=MODEL, messages=ASK)
    records = map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines())
    headers = [record["data"].get("headers") for record in records if record["kind"] == "llm_request"]

    assert headers == [headers[0]] * 3
    assert not {"authorization", "x-amz-date", "x-amz-security-token", "amz-sdk-invocation-id"} & {
        name.lower() for name in headers[0]
    }
    assert {"authorization", "x-amz-date"} <= server.requests[0][1].keys()
