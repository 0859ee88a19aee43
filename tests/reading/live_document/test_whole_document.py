"""The whole document: the fold of the journal, with the history inline or as deltas, as its length requires."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import httpx
import pytest

from tests.agreement import agrees
from tests.chat_calls import Answer, Wire, asked, call, said, streamed
from tests.counting import watch
from tests.journals import journal_of
from tests.limits import limited
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.document import expand_deltas
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import History


@pytest.mark.parametrize("history", ["inline", "delta"])
def test_a_provider_s_text_is_not_taken_for_a_mark_of_the_document(tmp_path: Path, history: str) -> None:
    """Members and texts that look like the marks for shared texts are not replaced."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history=history)  # type: ignore[arg-type]
    hostile = {"request": 0, "input_messages": 0, "messages": 0, "said": '"request": 0, "input_messages": 0'}
    tool = {"type": "function", "function": {"name": "t", "parameters": hostile}}

    for text in ("a", "b"):
        answer = {**json.loads(said(text).body), **hostile}
        call(
            recorder, asked(hostile["said"], text, tools=[tool], metadata=hostile), Answer(json.dumps(answer).encode())
        )
    recorder.finalize()

    assert agrees(recorder)
    assert [call.response.extra["request"] for call in load(recorder.trajectory_path).llm_interactions] == [0, 0]


@pytest.mark.parametrize("history", ["inline", "delta"])
def test_half_a_surrogate_pair_leaves_the_document_readable(tmp_path: Path, history: History) -> None:
    """The document describes a text with half of a surrogate pair. All messages are in their positions."""
    request = {"interaction_id": "llm_1", "attempt": 0, "api": "openai-chat", "provider": "p", "model": "m"}
    body = {"body": {"model": "m", "messages": None}, "items": {"messages": [[0, 0]]}}
    failed = {"interaction_id": "llm_1", "attempt": 0, "type": "Error", "message": "\ud83d"}
    path = tmp_path / "run.jsonl"
    path.write_bytes(
        journal_of(
            ("start", {}),
            ("item", {"n": 0, "value": asked("a")["messages"][0]}),
            ("llm_request", request | body),
            ("llm_error", failed),
        )
    )

    WholeDocument(path, history).write(tmp_path / "run.json")

    (shown,) = expand_deltas(json.loads((tmp_path / "run.json").read_bytes()))["llm_interactions"]
    assert shown["input_messages"] == [{"role": "user", "content": "a"}]
    assert shown["error"]["message"] == {"__type__": "str", "repr": "'\\ud83d'"}


def test_an_error_of_a_stream_that_is_cut_within_a_character_is_text(tmp_path: Path) -> None:
    """The cut character is read as U+FFFD, as in the rest of a stream."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    stream = b'data: {"error":{"type":"overloaded","message":"bad \\ud83d"}}\n\n'

    call(recorder, asked("a", stream=True), Answer(stream, media="text/event-stream"))
    recorder.finalize()

    assert agrees(recorder)
    (one,) = load(recorder.trajectory_path).llm_interactions
    assert one.error is not None
    assert one.error.message == "bad \N{REPLACEMENT CHARACTER}"


def test_a_request_without_the_tool_s_result_gives_no_result(tmp_path: Path) -> None:
    """A request without a tool result answers no call, although it ends like the request before it."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    asks = said(None, calls=[("c1", "bash", "{}")])
    answer = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}

    call(recorder, asked("list"), asks)
    call(recorder, asked(answer, "again"), asks)
    call(recorder, asked("again"), said("done"))
    recorder.finalize()

    assert agrees(recorder)
    assert [len(step.tool_results) for step in load(recorder.trajectory_path).agent_steps] == [1, 0, 0]


def test_a_repeated_result_belongs_to_its_own_call(tmp_path: Path) -> None:
    """For calls without ids, the result of one call is not taken for the result of a later call."""
    recorder = limited(document=DocumentLimits(kept_bytes=0))(tmp_path / "run.json", strict=True)
    gemini = "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"
    asks = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    answers = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]}
    says = {"role": "model", "parts": [{"text": "fine"}]}
    user = {"role": "user", "parts": [{"text": "go"}]}

    def post(contents: list[Payload], content: Payload) -> None:
        answer = Answer(json.dumps({"candidates": [{"content": content}]}).encode())
        with recorder.wrap(httpx.Client(transport=Wire(answer))) as client:
            client.post(gemini, json={"contents": contents})
        recorder.save_trajectory()

    post([user], asks)
    post([user, asks, answers], says)
    post([user], says)
    post([user, asks, answers, user], asks)
    post([user, asks, answers], says)
    recorder.finalize()

    assert agrees(recorder)
    assert [len(step.tool_results) for step in load(recorder.trajectory_path).agent_steps] == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("kept_bytes", [0, 5_000, 10**6])
def test_a_document_that_grows_long_equals_a_document_of_deltas(tmp_path: Path, kept_bytes: int) -> None:
    """Reading the journal a second time gives the same."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    for number in range(1, 13):
        call(recorder, asked("x" * 10_000, str(number)), said("fine", identity=f"r{number}"))
        recorder.record_llm_interaction([{"role": "user", "content": "by hand"}], {"content": "x"}, "p", "m")
        call(recorder, {"model": "m", "messages": "no list"}, said("what?", identity=f"q{number}"))
    recorder.finalize()
    limits = DocumentLimits(inline_bytes=90_000, kept_bytes=kept_bytes)

    for name, history in (("long", "auto"), ("delta", "delta")):
        WholeDocument(tmp_path / "run.jsonl", history, limits=limits).write(tmp_path / f"{name}.json")

    assert (tmp_path / "long.json").read_bytes() == (tmp_path / "delta.json").read_bytes()
    assert (tmp_path / "long.json").stat().st_size < 90_000


def test_a_document_is_inline_up_to_the_limit_of_its_prompts(tmp_path: Path) -> None:
    """Prompts of exactly the limit are inline, those of calls and those of steps."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="inline", strict=True)
    for number in range(5):
        call(recorder, asked("x" * 10_000, str(number)), said("fine", identity=f"r{number}"))
    recorder.record_agent_step(1, "thinking", llm_messages=[{"role": "user", "content": "by hand"}])
    recorder.finalize()
    run = load(recorder.trajectory_path)
    prompts = [*(call.input_messages for call in run.llm_interactions), run.agent_steps[0].messages or []]
    texts = [json.dumps(message.to_document(), separators=(",", ":")) for prompt in prompts for message in prompt]
    size = sum(map(len, texts))
    histories = []

    for limit in (size, size - 1):
        WholeDocument(tmp_path / "run.jsonl", "auto", limits=DocumentLimits(inline_bytes=limit)).write(
            tmp_path / "again.json"
        )
        histories.append(json.loads((tmp_path / "again.json").read_bytes())["history"])

    assert histories == ["inline", "delta"]


def test_a_document_edited_by_somebody_is_replaced(tmp_path: Path) -> None:
    """The next write removes all bytes that somebody else has written into the document."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    for number in range(20):
        recorder.record_agent_step(number, "thinking")
    with recorder.trajectory_path.open("r+b") as file:
        file.write(b"x" * 2000)

    recorder.record_agent_step(20, "thinking")

    assert agrees(recorder)


def _streaming(parts: int) -> bytes:
    """Return a journal of one call whose stream has not ended."""
    texts = [streamed(f"word{number} ").body.replace(b"data: [DONE]\n\n", b"") for number in range(parts)]
    request = {"interaction_id": "llm_1", "attempt": 0, "api": "openai-chat", "body": asked("x", stream=True)}
    part = {"interaction_id": "llm_1", "attempt": 0, "status": 200}
    packed = [base64.b64encode(zlib.compress(text)).decode() for text in texts]
    return journal_of(
        ("start", {"schema_version": "1", "trajectory_id": "t"}),
        ("llm_request", request),
        *(("llm_stream", part | {"bytes": len(text), "zlib": one}) for text, one in zip(texts, packed, strict=True)),
    )


def test_an_open_stream_is_joined_once(tmp_path: Path) -> None:
    """The stream is joined once, however many parts it has, although a step shows it too."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(_streaming(60))
    names: list[str] = []

    watch(
        lambda: WholeDocument(path, "inline").write(tmp_path / "run.json"),
        lambda frame: names.append(frame.f_code.co_name),
    )

    [one] = json.loads((tmp_path / "run.json").read_bytes())["llm_interactions"]
    assert one["response"]["content"].endswith("word58 word59 ")
    assert names.count("join_chat_stream") == 1


def test_lines_in_any_order_are_read_as_load_reads_them(tmp_path: Path) -> None:
    """The line of the last item is moved to the beginning of the file."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="inline", strict=True)
    call(recorder, asked(*map(str, range(600))), said("fine"))
    recorder.finalize()
    journal = tmp_path / "run.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b'"kind":"item"' in line)
    journal.write_bytes(b"".join([lines[last], *lines[:last], *lines[last + 1 :]]))

    WholeDocument(journal, "inline").write(tmp_path / "again.json")

    document = json.loads((tmp_path / "again.json").read_bytes())
    run = load(journal)
    messages = [message.to_document() for message in run.llm_interactions[0].input_messages]
    assert (len(messages), document["llm_interactions"][0]["input_messages"]) == (600, messages)
    assert document["gaps"] == run.to_document()["gaps"]


def unpacked_parts(act: Callable[[], object]) -> int:
    """Return how many compressed parts are unpacked during a call of the function."""
    unpacked = 0

    def profile(_: FrameType, event: str, function: object) -> None:
        nonlocal unpacked
        unpacked += event == "c_call" and getattr(function, "__name__", "") == "decompress"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(before)
    return unpacked


@pytest.mark.parametrize(("error", "unpacked"), [(None, 0), ({"type": "overloaded", "message": "wait"}, 1)])
def test_an_ended_stream_is_unpacked_only_for_its_error(
    tmp_path: Path, error: dict[str, str] | None, unpacked: int
) -> None:
    """The assembled answer in the journal shows whether the stream has an error, even an error after its last event."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    answer = streamed("the error is", "here")
    failed = f"data: {json.dumps({'error': error})}\n\n".encode() if error else b""
    call(recorder, asked("a", stream=True), replace(answer, body=answer.body + failed))
    recorder.finalize()

    assert unpacked_parts(lambda: write(recorder.trajectory_path, tmp_path / "other.json")) == unpacked
    assert agrees(recorder)
    [shown] = load(recorder.trajectory_path).llm_interactions
    assert (shown.error and shown.error.type) == (error and error["type"])


def write(run: Path, path: Path) -> None:
    WholeDocument(run.with_suffix(".jsonl"), "auto").write(path)
