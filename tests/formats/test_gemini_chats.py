"""Streamed chats of google-genai, which sends an answer back chunk by chunk: each view has the answer as one
message.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import types

from tests.provider import Answer, Server, serving, stream
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.dialects.google_generate import read_request
from trace_recorder.formats.invariant.writing import to_invariant
from trace_recorder.formats.pi.writing import to_traces
from trace_recorder.formats.training.openai_finetuning import to_openai_finetuning
from trace_recorder.formats.training.trl import to_trl
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.values.messages import Message, Payload, ToolCall
from trace_recorder.values.trajectory import History

THOUGHT: Payload = {"text": "Hm", "thought": True}
CALL: Payload = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
SIGNED: Payload = {"text": "", "thoughtSignature": "c2ln"}


def chunks(*groups: list[Payload]) -> Answer:
    """Return a streamed answer, each of whose chunks has these parts."""
    events: list[Payload] = [{"candidates": [{"content": {"role": "model", "parts": parts}}]} for parts in groups]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    return stream(*(f"data: {json.dumps(event)}\r\n\r\n".encode() for event in events))


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"rain in {city}"


@contextmanager
def chatting(path: Path, *answers: Answer, history: History = "inline", **config: Any) -> Iterator[tuple[Any, Server]]:
    """Yield a recorded chat with a model that gives these answers."""
    recorder = TrajectoryRecorder(path, history=history, strict=True)
    with serving(*answers) as server, recorder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = recorder.wrap(genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.url)))
        yield client.chats.create(model="gemini", config=types.GenerateContentConfig(**config)), server


def say(chat: Any, text: str) -> None:
    for _ in chat.send_message_stream(text):
        pass


def roles_and_texts(messages: list[Payload]) -> list[Payload]:
    return [[message["role"], message["content"]] for message in messages]


ANSWERS = (
    chunks([THOUGHT], [{"text": "The fir"}], [{"text": "st answ"}], [{"text": "er"}, SIGNED]),
    chunks([{"text": "The sec"}], [{"text": "ond"}]),
    chunks([{"text": "The third"}]),
)
SAID = [["user", "one"], ["assistant", "The first answer"], ["user", "two"], ["assistant", "The second"]]
SAID += [["user", "three"], ["assistant", "The third"]]


@pytest.fixture(params=["inline", "delta"])
def chat(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run of three streamed turns, in either form of its document."""
    with chatting(tmp_path / "run.json", *ANSWERS, history=request.param) as (chat, server):
        for text in ("one", "two", "three"):
            say(chat, text)
        sent = [len(body["contents"]) for body in server.bodies()]  # type: ignore[index]
    assert sent[0] == 1
    assert sent[1] > 3  # the SDK keeps a content for each chunk
    return tmp_path / "run.json"


def test_an_answer_that_is_sent_back_is_one_message(chat: Path) -> None:
    """The contents of one answer are read as one message, from the journal and from the document."""
    run = load(chat)
    shown = run.to_document()["llm_interactions"][-1]["input_messages"]
    (chat.parent / "alone.json").write_bytes(chat.read_bytes())
    alone = load(chat.parent / "alone.json").llm_interactions[-1].input_messages

    assert [one["role"] for one in shown] == ["user", "assistant", "user", "assistant", "user"]
    assert [turn.relation for turn in turns_of(run)] == ["begins", "extends", "extends"]
    assert [one.to_document() for one in alone] == shown
    for message, said in zip(run.llm_interactions[-1].input_messages, SAID, strict=False):
        whole = (
            message.content if isinstance(message.content, str) else "".join(p["text"] for p in message.content or ())
        )
        assert [message.role, whole] == said


def test_a_row_for_training_has_each_answer_once(chat: Path) -> None:
    """One row has the whole conversation, each answer once and unchanged."""
    run = load(chat)

    assert [roles_and_texts(row["messages"]) for row in to_openai_finetuning(run)] == [SAID]
    assert [roles_and_texts(row["messages"]) for row in to_trl(run)] == [SAID]
    assert [row["messages"][1]["weight"] for row in to_openai_finetuning(run)] == [1]


def test_traces_have_each_answer_once(chat: Path) -> None:
    """Formats of traces have the same messages."""
    [traced] = to_traces(load(chat))
    messages = [line["message"] for line in traced if line.get("type") == "message"]
    events = to_invariant(load(chat))

    assert [[message["role"], _text(message["content"])] for message in messages] == SAID
    assert [[event["role"], _text(event["content"])] for event in events] == SAID


def _text(content: Payload) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if part.get("type", "text") == "text")


def test_a_call_answered_by_the_sdk_is_one_message(tmp_path: Path) -> None:
    """A call that the SDK answers by itself is one message of the assistant, in any number of chunks."""
    called = chunks([THOUGHT], [{"text": "I "}], [{"text": "look"}], [CALL], [SIGNED])
    told = chunks([{"text": "It "}], [{"text": "rains"}])
    with chatting(tmp_path / "run.json", called, told, chunks([{"text": "yes"}]), tools=[weather]) as (chat, _):
        say(chat, "weather?")
        say(chat, "sure?")
    run = load(tmp_path / "run.json")

    last = run.llm_interactions[-1].input_messages
    assert [one.role for one in last] == ["user", "assistant", "tool", "assistant", "user"]
    [call] = last[1].tool_calls
    assert (call.name, call.arguments, last[2].call_id) == ("weather", {"city": "Oslo"}, call.call_id)
    for rows in (to_openai_finetuning(run), to_trl(run)):
        assert [[message["role"] for message in row["messages"]] for row in rows] == [
            ["user", "assistant", "tool", "assistant", "user", "assistant"]
        ]
        assert [message["content"] for message in rows[0]["messages"]] == [
            "weather?",
            "I look",
            "rain in Oslo",
            "It rains",
            "sure?",
            "yes",
        ]
    assert len(to_traces(run)) == 1
    assert [one["role"] for one in to_invariant(run)] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


@pytest.mark.parametrize(
    ("contents", "messages"),
    [
        (
            [
                {"role": "model", "parts": [{"text": "a"}]},
                None,
                {"role": "model", "parts": [{"text": "b"}, {"text": "c"}]},
            ],
            [Message("assistant", "abc")],
        ),
        (
            [{"role": "model", "parts": [part]} for part in ({"text": "a"}, CALL, {"text": "b"}, {"text": "c"})],
            [
                Message(
                    "assistant",
                    "a\n\nbc",
                    (ToolCall("call_0", "weather", {"city": "Oslo"}, call_id_made_up=True),),
                )
            ],
        ),
        (
            [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}, {"role": "user", "parts": [{"text": "c"}]}],
            [Message("user", "ab"), Message("user", "c")],
        ),
    ],
)
def test_contents_that_are_one_message(contents: list[Payload], messages: list[Message]) -> None:
    """Consecutive contents of a model are one message. Contents of a user stay separate."""
    assert read_request({"contents": contents}).messages == messages
