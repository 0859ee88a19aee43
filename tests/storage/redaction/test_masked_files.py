"""Redaction in a run's files: secrets are masked, and no record, stream or id is damaged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_calls import Answer, asked, call, said, streamed
from tests.journals import folded, records_of
from tests.json_strategies import json_objects
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.storage.redaction.redactor import Redactor
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import Payload


def digits_out(text: str) -> str:
    return re.sub(r"\d", "#", text)


def long_words_out(text: str) -> str:
    return re.sub(r"[A-Za-z0-9+/=]{24,}", "***", text)


def no_provider(text: str) -> str:
    return text.replace("openai", "provider").replace("completed", "done")


def all_out(_: str) -> str:
    return ""


def backwards(text: str) -> str:
    return text[::-1]


@pytest.mark.parametrize("redact", [digits_out, long_words_out, no_provider, all_out, backwards])
def test_a_user_s_redactor_changes_only_texts(tmp_path: Path, redact: Redactor) -> None:
    """The user's redactor is not called for ids, kinds, providers, stored streams, or references to stored texts."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", redact=redact)
    recorder.start()
    call(recorder, asked("call 555 " * 900), said("at 555", identity="chat-7"))
    call(recorder, asked("again", stream=True), streamed("number ", "555"))
    recorder.finalize(success=True)

    trajectory = load(recorder.trajectory_path)

    first, second = trajectory.llm_interactions
    assert (
        trajectory.status,
        first.interaction_id,
        second.interaction_id,
        first.provider,
        first.api,
        second.stream,
    ) == (*("completed", "llm_1", "llm_2", "openai", "openai-chat", True),)
    assert (first.input_messages[0].content, first.response and first.response.content) == (
        redact("call 555 " * 900),
        redact("at 555"),
    )
    assert [gap.what for gap in trajectory.gaps] == []


@pytest.mark.parametrize("text", ["a\u2028b 555", "a\x85b 555", "[555]", "data: 5", "\ud83d"], ids=ascii)
def test_a_redactor_does_not_break_a_stream(tmp_path: Path, text: str) -> None:
    """The user's redactor changes only the texts of a stream's events, whatever characters it returns."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", redact=digits_out)
    recorder.start()
    event = json.dumps(
        {"id": "s", "choices": [{"index": 0, "delta": {"content": text}}]}, ensure_ascii=text == "\ud83d"
    )
    call(
        recorder,
        asked("x", stream=True),
        Answer(f"data: {event}\n\ndata: [DONE]\n\n".encode(), media="text/event-stream"),
    )
    recorder.finalize()

    [one] = load(recorder.trajectory_path).llm_interactions
    assert one.raw_stream is not None
    masked_event = json.loads(one.raw_stream.removeprefix("data: ").partition("\n\n")[0])
    assert (masked_event["choices"][0]["delta"]["content"], one.raw_stream[-14:]) == (
        digits_out(text),
        "data: [DONE]\n\n",
    )


@pytest.mark.parametrize("redact", [default_redactor, digits_out])
def test_a_long_line_of_a_stream_is_masked_as_a_whole(tmp_path: Path, redact: Redactor) -> None:
    """A key in a line of 300 KB is masked wherever the line is cut for writing, and the parts can be joined."""
    key = "sk-proj-" + "a1B2c3D4" * 8
    recorder = TrajectoryRecorder(tmp_path / "run.json", redact=redact)
    recorder.start()
    text = f"{key} " * 4000
    event = json.dumps({"id": "s", "choices": [{"index": 0, "delta": {"content": text}}]})
    body = f"data: {event}\n\ndata: [DONE]\n\n".encode()
    call(recorder, asked("x", stream=True), Answer(body, media="text/event-stream", size=4000))
    recorder.finalize()

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (one.raw_stream or "").count(key) == 0
    assert (one.response and one.response.content) == redact(text)


def test_a_failing_redactor_drops_the_record(tmp_path: Path) -> None:
    """An unmasked record is not written, a gap gives the reason, and the run continues."""

    def choosy(text: str) -> str:
        if "poison" in text:
            raise ValueError("no poison please")
        return text

    recorder = TrajectoryRecorder(tmp_path / "run.json", redact=choosy)
    recorder.annotate("a", "fine")
    recorder.annotate("b", "poison")
    recorder.annotate("c", "fine too")
    recorder.finalize()

    trajectory = load(recorder.trajectory_path)
    assert (trajectory.annotations, [gap.why for gap in trajectory.gaps]) == (
        {"a": "fine", "c": "fine too"},
        ["ValueError: no poison please"],
    )


@given(
    json_objects,
    st.sampled_from(["12345678", "nabcdefgh", "u0041bcdefg", "assistant", "choices", "REDACTED", "llm_request"]),
)
def test_no_secret_makes_a_record_unreadable(tmp_path: Path, value: Payload, secret: str) -> None:
    """Every record can be read, and every call has its messages, for any password in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DB_PASSWORD", secret)
        recorder = TrajectoryRecorder(directory=tmp_path)
        recorder.start()
    call(recorder, asked("hi\nabcdefgh A12345678", x=value, seed=12345678), said("1712345678 \nabcdefgh"))
    recorder.finalize(success=True)

    trajectory = folded(recorder.trajectory_path.with_suffix(".jsonl").read_bytes())

    [one] = trajectory.llm_interactions
    assert (records_of(recorder.trajectory_path)[-1].kind, trajectory.gaps, one.provider) == ("finalize", (), "openai")
    assert (one.parameters["seed"], one.response and one.response.usage and one.response.usage.input_tokens) == (
        12345678,
        7,
    )


def test_a_document_counts_the_masked_secrets(tmp_path: Path) -> None:
    """The number of masked secrets is the sum over the records, in the live document and in that from the journal."""
    key = "sk-proj-" + "aB3dE6gH9kLmNpQ2" * 3
    recorder = TrajectoryRecorder(tmp_path / "run.json", task=f"use {key}", history="delta")
    recorder.start()
    for number in range(12):
        call(recorder, asked(f"call {number} with {key} and {key}"), said(f"used {key}", identity=f"chat-{number}"))
    recorder.finalize(success=True)

    told = sum(record.data.get("redacted", 0) for record in records_of(recorder.trajectory_path))
    written = json.loads(recorder.trajectory_path.read_text())["metrics"]["redactions"]
    assert (written, load(recorder.trajectory_path).metrics["redactions"], told) == (37, 37, 37)


def test_a_run_without_secrets_counts_zero(tmp_path: Path) -> None:
    """The document of a run without secrets has the number 0 of masked secrets."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    recorder.finalize()

    assert json.loads(recorder.trajectory_path.read_text())["metrics"]["redactions"] == 0
