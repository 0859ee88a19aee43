"""The order of an answer's blocks, and how their texts are joined: the same in all dialects and in the document."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import Answer, Wire
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.dialects import anthropic_messages, google_generate, google_interactions, openai_chat
from trace_recorder.dialects.message_text import text_of
from trace_recorder.reading.document import from_document
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.values.messages import Block, LLMResponse, Message, Payload
from trace_recorder.values.trajectory import Trajectory

GOOGLE = "https://generativelanguage.googleapis.com/v1beta"


def thinking(text: str) -> Payload:
    return {"type": "thinking", "thinking": text, "signature": "c2ln"}


def text(said: str, **members: Payload) -> Payload:
    return {"type": "text", "text": said, **members}


def use(identity: str) -> Payload:
    return {"type": "tool_use", "id": identity, "name": "f", "input": {"at": identity}}


def function_call(identity: str) -> Payload:
    return {"type": "function_call", "call_id": identity, "name": "f", "arguments": f'{{"at": "{identity}"}}'}


def message(said: str) -> Payload:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}


def summary(said: str) -> Payload:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": said}]}


def called(identity: str) -> Payload:
    return {"functionCall": {"id": identity, "name": "f", "args": {"at": identity}}}


def step(kind: str, **members: Payload) -> Payload:
    return {"type": kind, **members}


SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
INTERLEAVED = (
    Block("reasoning", "alpha"),
    Block("tool_call", call_id="c1"),
    Block("reasoning", "beta"),
    Block("text", "so"),
    Block("tool_call", call_id="c2"),
)
ANSWERS: dict[str, tuple[str, Payload, tuple[Block, ...]]] = {
    "anthropic-messages": (
        "https://api.anthropic.com/v1/messages",
        {"content": [thinking("alpha"), use("c1"), thinking("be"), thinking("ta"), text("so"), use("c2")]},
        INTERLEAVED,
    ),
    "openai-responses": (
        "https://api.openai.com/v1/responses",
        {"output": [summary("alpha"), function_call("c1"), summary("beta"), message("so"), function_call("c2")]},
        INTERLEAVED,
    ),
    "google-generate": (
        f"{GOOGLE}/models/gemini:generateContent",
        {
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"text": "alpha", "thought": True},
                            called("c1"),
                            {"text": "beta", "thought": True},
                            {"text": "s"},
                            {"text": "o", "thoughtSignature": "c2ln"},
                            called("c2"),
                        ]
                    }
                }
            ]
        },
        INTERLEAVED,
    ),
    "google-interactions": (
        f"{GOOGLE}/interactions",
        {
            "status": "completed",
            "steps": [
                step("thought", summary=[text("al"), text("pha")]),
                step("function_call", id="c1", name="f", arguments={"at": "c1"}),
                step("thought", summary=[text("beta")]),
                step("model_output", content=[text("s"), text("o")]),
                step("function_call", id="c2", name="f", arguments={"at": "c2"}),
            ],
        },
        INTERLEAVED,
    ),
    "openai-chat": (
        "https://api.mistral.ai/v1/chat/completions",
        {
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": [text("alpha")]},
                            text("one"),
                            {"type": "thinking", "thinking": [text("beta")]},
                            text("two, as "),
                            {"type": "reference", "reference_ids": [1]},
                            text("says"),
                        ],
                        "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
                    },
                }
            ]
        },
        (
            Block("reasoning", "alpha"),
            Block("text", "one"),
            Block("reasoning", "beta"),
            Block("text", "two, as says"),
            Block("tool_call", call_id="c1"),
        ),
    ),
    "what a server's tool did": (
        "https://api.anthropic.com/v1/messages",
        {"content": [text("It "), text("rains", citations=[{"url": "u"}]), SEARCH, FOUND, text("."), text("So.")]},
        (Block("text", "It rains"), Block("other", position=1), Block("other", position=2), Block("text", ".So.")),
    ),
    "thinking that is not shown": (
        "https://api.openai.com/v1/responses",
        {"output": [summary(""), function_call("c1"), {"type": "reasoning", "summary": []}, function_call("c2")]},
        (
            Block("reasoning", ""),
            Block("tool_call", call_id="c1"),
            Block("reasoning", ""),
            Block("tool_call", call_id="c2"),
        ),
    ),
    "code that ran": (
        f"{GOOGLE}/models/gemini:generateContent",
        {"candidates": [{"content": {"parts": [{"text": "a"}, CODE, {"text": "b"}]}}]},
        (Block("text", "a"), Block("other", position=0), Block("text", "b")),
    ),
    "another candidate": (
        f"{GOOGLE}/models/gemini:generateContent",
        {"candidates": [{"content": {"parts": [{"text": "a"}]}}, {"content": {"parts": [CODE, {"text": "b"}]}}]},
        (Block("text", "a"),),
    ),
}
SIX = "anthropic-messages"


def recorded(path: Path, url: str, answer: Answer) -> Trajectory:
    """Return a run of one call, after a check that its live document equals its journal."""
    recorder = TrajectoryRecorder(path, strict=True)
    with recorder, httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client).post(url, json={"model": "m"})
        recorder.save_trajectory()
        assert json.loads(path.read_bytes())["llm_interactions"] == load(path).to_document()["llm_interactions"]
    run = load(path)
    assert json.loads(path.read_bytes()) == {**run.to_document(), "history": "inline"}
    return run


def response_of(run: Trajectory) -> LLMResponse:
    response = run.llm_interactions[0].response
    assert response is not None
    return response


@pytest.mark.parametrize("name", ANSWERS)
def test_blocks_are_in_the_order_of_the_answer(tmp_path: Path, name: str) -> None:
    """Thinking, texts, calls and other blocks are in their order, also in a document without its journal."""
    url, body, blocks = ANSWERS[name]
    run = recorded(tmp_path / "run.json", url, Answer(json.dumps(body).encode()))
    alone = from_document(json.loads((tmp_path / "run.json").read_bytes()), "run.json")

    response, again = response_of(run), response_of(alone)
    assert response.blocks == again.blocks == blocks
    several = len(response.choices) > 1
    assert [choice.blocks for choice in again.choices] == ([choice.blocks for choice in response.choices] * several)
    step = alone.agent_steps[0].llm_response
    assert step is not None
    assert step.blocks == blocks


@pytest.mark.parametrize("name", ["anthropic-messages", "openai-responses", "google-generate", "google-interactions"])
def test_separated_thoughts_are_joined_by_a_blank_line(tmp_path: Path, name: str) -> None:
    """Neighbouring texts are joined by nothing, and texts with a different block in between by a blank line."""
    url, body, _ = ANSWERS[name]
    response = response_of(recorded(tmp_path / "run.json", url, Answer(json.dumps(body).encode())))

    assert (response.reasoning, response.content) == ("alpha\n\nbeta", "so")
    assert [(call.call_id, call.arguments) for call in response.tool_calls] == [
        ("c1", {"at": "c1"}),
        ("c2", {"at": "c2"}),
    ]


def test_the_document_states_the_order_without_the_texts(tmp_path: Path) -> None:
    """Texts are in content and reasoning. The order names a call by its id, and a different block by its position in
    `extra`.
    """
    url, body, _ = ANSWERS["anthropic-messages"]
    recorded(tmp_path / "run.json", url, Answer(json.dumps(body).encode()))

    shown = json.loads((tmp_path / "run.json").read_bytes())["llm_interactions"][0]["response"]
    assert shown["blocks"] == [
        {"type": "reasoning", "characters": 5},
        {"type": "tool_call", "call_id": "c1"},
        {"type": "reasoning", "characters": 4},
        {"type": "text", "characters": 2},
        {"type": "tool_call", "call_id": "c2"},
    ]


def test_the_document_of_a_usual_answer_states_no_order(tmp_path: Path) -> None:
    """An answer that thinks, speaks and then calls has no blocks in its document. Its value in memory has them."""
    body = {"content": [thinking("al"), thinking("pha"), text("It "), text("is."), use("c1"), use("c2")]}
    run = recorded(tmp_path / "run.json", ANSWERS[SIX][0], Answer(json.dumps(body).encode()))

    assert "blocks" not in json.loads((tmp_path / "run.json").read_bytes())["llm_interactions"][0]["response"]
    assert response_of(run).blocks == (
        Block("reasoning", "alpha"),
        Block("text", "It is."),
        Block("tool_call", call_id="c1"),
        Block("tool_call", call_id="c2"),
    )


def test_a_stream_has_the_same_order(tmp_path: Path) -> None:
    """Deltas are joined without a separator, and the blocks of a stream are in its order."""
    events: list[Payload] = [{"type": "message_start", "message": {"role": "assistant", "content": []}}]
    for index, (begun, key, pieces) in enumerate(
        [
            ({"type": "thinking", "thinking": ""}, "thinking", ["al", "pha"]),
            ({"type": "tool_use", "id": "c1", "name": "f", "input": {}}, "partial_json", ['{"at":', '"c1"}']),
            ({"type": "thinking", "thinking": ""}, "thinking", ["be", "ta"]),
            ({"type": "text", "text": ""}, "text", ["s", "o"]),
            ({"type": "tool_use", "id": "c2", "name": "f", "input": {}}, "partial_json", ['{"at":"c2"}']),
        ]
    ):
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [
            {"type": "content_block_delta", "index": index, "delta": {"type": "d", key: piece}} for piece in pieces
        ]
    events.append({"type": "message_stop"})
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    response = response_of(recorded(tmp_path / "run.json", ANSWERS[SIX][0], Answer(stream, media="text/event-stream")))

    assert (response.blocks, response.reasoning, response.content) == (INTERLEAVED, "alpha\n\nbeta", "so")


@pytest.mark.parametrize(
    ("read", "element"),
    [
        (anthropic_messages.read_message, {"content": [thinking("a"), text("x"), use("c1"), thinking("b"), text("y")]}),
        (
            google_generate.read_message,
            {
                "parts": [
                    {"text": "a", "thought": True},
                    {"text": "x"},
                    called("c1"),
                    {"text": "b", "thought": True},
                    {"text": "y"},
                ]
            },
        ),
        (
            openai_chat.read_message,
            {
                "content": [
                    {"type": "thinking", "thinking": [text("a")]},
                    text("x"),
                    {"type": "thinking", "thinking": [text("b")]},
                    text("y"),
                ]
            },
        ),
        (
            google_interactions.read_message,
            {
                "content": [
                    step("thought", summary=[text("a")]),
                    text("x"),
                    step("function_call", id="c1", name="f", arguments={}),
                    step("thought", summary=[text("b")]),
                    text("y"),
                ]
            },
        ),
    ],
)
def test_an_answer_that_is_sent_back_is_read_the_same(read: object, element: Payload) -> None:
    """Texts with a different block between them are not joined in a request either."""
    role = "model" if "parts" in element else "assistant"
    said: list[Message] = read({"role": role, **element})  # type: ignore[operator]

    assert [(one.role, one.content, one.reasoning) for one in said] == [("assistant", "x\n\ny", "a\n\nb")]


def test_a_conversation_continues_after_a_server_s_tool(tmp_path: Path) -> None:
    """A request extends a conversation if it repeats an answer whose texts are separated by a server's search."""
    content = ANSWERS["what a server's tool did"][1]["content"]
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    answer = Answer(json.dumps({"id": "m", "content": content}).encode())
    ask = {"role": "user", "content": "rain?"}
    with recorder, httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client)
        for messages in ([ask], [ask, {"role": "assistant", "content": content}, ask]):
            client.post(ANSWERS[SIX][0], json={"model": "m", "messages": messages})

    assert [turn.relation for turn in turns_of(load(tmp_path / "run.json"))] == ["begins", "extends"]


def test_a_citation_within_a_sentence_does_not_split_it() -> None:
    """If Mistral splits a sentence at its citations, it is read as one text, in an answer and in a request."""
    body = ANSWERS["openai-chat"][1]["choices"][0]["message"]
    [message] = openai_chat.read_message({**body, "content": body["content"][3:]})

    assert text_of(message) == "two, as says"


@pytest.mark.parametrize("listed", [None, [], [{"type": "novelty"}], [{"type": "text"}], ["x"], {"type": "text"}])
def test_blocks_of_an_unknown_form_are_ignored(listed: Payload) -> None:
    """If a document's list of blocks has an unknown form, the answer has its blocks in the usual order."""
    document = {"llm_interactions": [{"timestamp": "t", "response": {"content": "a", "blocks": listed}}]}

    assert response_of(from_document(document, "x.json")).blocks == (Block("text", "a"),)
