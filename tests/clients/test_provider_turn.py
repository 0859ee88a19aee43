"""Reasoning is sent back unchanged to the provider that gave it, and left out for other providers, which the file
states.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from tests.clients.provider import client_at
from tests.processes import ROOT
from tests.provider import CHAT, GENERATED, MESSAGE, OLLAMA, plain, serving
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.clients import LLMResponse, Message, OpenAICompatibleClient, ToolResult

Payload = Any

CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "a"}}
BLOCKS = [
    {"type": "thinking", "thinking": "first", "signature": "sig-1"},
    {"type": "redacted_thinking", "data": "enc"},
    {"type": "text", "text": "I look."},
    {"type": "thinking", "thinking": "second", "signature": "sig-2"},
    CALL,
]
PARTS = [
    {"text": "first", "thought": True},
    {"text": "I look.", "thoughtSignature": "c2ln"},
    {"functionCall": {"name": "look", "args": {"at": "a"}}, "thoughtSignature": "c2lnMg=="},
    {"functionCall": {"name": "look", "args": {"at": "b"}}},
]
FIRST = [{"type": "summary_text", "text": "first"}]
CALLED = {"type": "function_call", "name": "look", "status": "completed"}
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": FIRST, "encrypted_content": "e1"},
    {**CALLED, "id": "fc_1", "call_id": "call_a", "arguments": '{"at": "a"}'},
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "e2"},
    {**CALLED, "id": "fc_2", "call_id": "call_b", "arguments": '{"at": "b"}'},
]
ARGUMENTS = '{ "at": "a" }'
TOOL_CALL = {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}
DETAILS = [{"type": "reasoning.text", "text": "first", "signature": "sig", "index": 0}]


def message(**said: Payload) -> Payload:
    spoken = {"role": "assistant", "content": "I look.", "tool_calls": [TOOL_CALL], **said}
    return {**CHAT, "choices": [{"index": 0, "finish_reason": "tool_calls", "message": spoken}]}


RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": ITEMS}
CONTENT = {"role": "model", "parts": PARTS}
GEMINI = {**GENERATED, "candidates": [{"content": CONTENT, "finishReason": "STOP", "index": 0}]}
LLAMA_CALL = {"function": {"name": "look", "arguments": {"at": "a"}}}
LLAMA_SAID = {"role": "assistant", "content": "I look.", "thinking": "first", "tool_calls": [LLAMA_CALL]}
SIGNED = {"role": "assistant", "content": "I look.", "tool_calls": [TOOL_CALL]}

TURNS: dict[str, tuple[Payload, Payload, tuple[str, str, int]]] = {
    # by client: (the first answer, the turn in the second request, its place there)
    "anthropic": ({**MESSAGE, "content": BLOCKS}, BLOCKS, ("messages", "content", 1)),
    "google": (GEMINI, CONTENT, ("contents", "", 1)),
    "ollama": ({**OLLAMA, "message": LLAMA_SAID}, LLAMA_SAID, ("messages", "", 1)),
    "openai": (message(), SIGNED, ("messages", "", 1)),
    "openrouter": (
        message(reasoning="first", reasoning_details=DETAILS),
        SIGNED | {"reasoning_details": DETAILS},
        ("messages", "", 1),
    ),
    "doubao": (message(reasoning_content="first"), SIGNED | {"reasoning_content": "first"}, ("messages", "", 1)),
}


def results(response: LLMResponse) -> list[ToolResult]:
    return [ToolResult(call.call_id, result="seen") for call in response.tool_calls]


@pytest.mark.parametrize("by", ["values", "document"])
@pytest.mark.parametrize("provider", TURNS)
def test_a_turn_is_sent_back_unchanged(provider, by):
    """The second request has the first answer's blocks, parts, arguments and signatures, in order."""
    answer, turn, (listed, member, place) = TURNS[provider]
    with serving(plain(answer)) as server, client_at(server, provider) as client:
        said = client.chat("Look.")
        spoken = said if by == "values" else {"role": "assistant", **json.loads(json.dumps(said.to_document()))}
        client.chat(["Look.", spoken, *results(said)])

    sent = server.bodies()[1][listed][place]
    assert (sent[member] if member else sent) == turn


def test_items_are_sent_back_unchanged():
    """The Responses API gets its encrypted reasoning items back, each before the call that followed it."""
    with serving(plain(RESPONSE)) as server, client_at(server, "openai", api="responses") as client:
        said = client.chat("Look.")
        client.chat(["Look.", said, *results(said)])

    assert server.bodies()[1]["input"][1:5] == ITEMS


def test_items_that_the_server_did_not_store_are_left_out():
    """With store=False, a reasoning item without encrypted content is not sent back, because the server did not store
    it.
    """
    bare = [{name: value for name, value in item.items() if name != "encrypted_content"} for item in ITEMS]
    with serving(plain({**RESPONSE, "output": bare})) as server, client_at(server, "openai", api="responses") as client:
        said = client.chat("Look.")
        client.chat(["Look.", said, *results(said)], store=False)

    assert [item.get("type") for item in server.bodies()[1]["input"][1:]] == [
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]


def test_a_turn_that_can_be_rebuilt_is_not_kept():
    """A turn of thinking, text and calls in this order is rebuilt from the response, and not kept besides."""
    blocks = [BLOCKS[0], BLOCKS[2], CALL]
    with serving(plain({**MESSAGE, "content": blocks})) as server, client_at(server, "anthropic") as client:
        said = client.chat("Look.")
        client.chat(["Look.", said, *results(said)])

    assert said.extra == {"content": [BLOCKS[0]]}
    assert server.bodies()[1]["messages"][1]["content"] == blocks


def test_a_changed_message_is_sent_as_changed():
    """If the caller shortens the text of an answer, the shortened text is sent, and the thinking before it."""
    with serving(plain({**MESSAGE, "content": BLOCKS})) as server, client_at(server, "anthropic") as client:
        said = client.chat("Look.")
        client.chat(["Look.", replace(said, content="…"), *results(said)])

    thinking = [block for block in BLOCKS if "thinking" in block["type"]]
    assert server.bodies()[1]["messages"][1]["content"] == [*thinking, {"type": "text", "text": "…"}, CALL]


def test_made_up_ids_are_unique_in_a_conversation():
    """Tool calls of a provider that gives no ids get ids that are unique in the conversation."""
    with serving(plain(GEMINI)) as server, client_at(server, "google") as client:
        first = client.chat("Look.")
        second = client.chat(["Look.", first, *results(first)])

    assert [call.call_id for call in (*first.tool_calls, *second.tool_calls)] == [
        "call_0",
        "call_1",
        "call_2",
        "call_3",
    ]


ANSWERS = {
    "anthropic": {**MESSAGE, "content": BLOCKS},
    "google": GEMINI,
    "openrouter": message(reasoning="first", reasoning_details=DETAILS),
    "openai": message(),
    "ollama": {**OLLAMA, "message": LLAMA_SAID},
}
REFUSED_ELSEWHERE = ("signature", "thoughtSignature", "reasoning_details", "first", "redacted")


@pytest.mark.parametrize("after", ANSWERS)
@pytest.mark.parametrize("before", ANSWERS)
def test_a_conversation_continues_with_a_second_provider(tmp_path, before, after):
    """A second provider gets text, calls and results, but no signed reasoning; the file states how many messages had
    it.
    """
    with serving(plain(ANSWERS[before])) as first, serving(plain(ANSWERS[after])) as second:
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            with client_at(first, before) as one, client_at(second, after) as other:
                turn = one.chat("Look.")
                other.chat(["Look.", turn, *results(turn)])
                other.chat(["Look.", turn, *results(turn), "And now?"])

    trajectory = load(recorder.trajectory_path)
    again = trajectory.llm_interactions[1].input_messages
    spoken = again[1]
    texts = (
        spoken.content if isinstance(spoken.content, str) else "".join(part.get("text", "") for part in spoken.content)
    )
    asked = [(call.name, call.arguments) for call in turn.tool_calls]
    answered = [message.content for message in again if message.role == "tool"]
    lost = before not in (after, "openai")
    assert (texts, [(call.name, call.arguments) for call in spoken.tool_calls]) == ("I look.", asked)
    assert answered == ["seen"] * len(asked)
    assert [call.call_id for call in spoken.tool_calls] == [m.call_id for m in again if m.role == "tool"]
    left_out = {"provider": after, "api": trajectory.llm_interactions[1].api, "messages": 1}
    assert trajectory.annotations == ({"reasoning_left_out": left_out} if lost else {})
    if lost:
        sent = json.dumps(second.bodies()[0]).replace("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", "")
        assert [word for word in REFUSED_ELSEWHERE if word in sent.replace("thoughtSignature", "")] == []


def test_a_call_of_another_provider_has_gemini_s_placeholder():
    """A tool call of another provider is sent to Gemini with the documented placeholder for its missing signature."""
    with serving(plain(GENERATED)) as server, client_at(server, "google") as client:
        spoken = {"role": "assistant", "tool_calls": [{"call_id": "c", "name": "look", "arguments": {}}]}
        client.chat(["Look.", spoken, ToolResult("c", result={"found": 3})])

    said, answered = server.bodies()[0]["contents"][1:]
    [call], [response] = said["parts"], answered["parts"]
    assert call["functionCall"] == {"id": "c", "name": "look", "args": {}}
    assert call["thoughtSignature"].startswith("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I")
    assert response["functionResponse"] == {"id": "c", "name": "look", "response": {"found": 3}}


def test_a_new_provider_is_four_lines():
    """The subclass in docs/clients.md is a working client."""
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    [block] = re.findall(r"### Another provider\n.*?```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, type[OpenAICompatibleClient]] = {}
    exec(block, names)
    DeepSeekClient = names["DeepSeekClient"]  # noqa: N806 - the class of the page
    with serving(plain(message(reasoning_content="first"))) as server:
        with DeepSeekClient("deepseek-v4", api_key="k", base_url=server.url) as client:
            said = client.chat("Look.")
            client.chat(["Look.", said, *results(said)])

    assert server.bodies()[1]["messages"][1] == SIGNED | {"reasoning_content": "first"}


def test_messages_of_a_recorded_run_can_be_continued(tmp_path):
    """Messages and responses from `load`, with their thinking, can continue a conversation."""
    blocks = [BLOCKS[0], BLOCKS[2], CALL]
    with serving(plain({**MESSAGE, "content": blocks})) as server, client_at(server, "anthropic") as client:
        with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
            client.chat([Message("system", "Be brief."), "Look."])
        [one] = load(recorder.trajectory_path).llm_interactions
        client.chat([*one.input_messages, one.response, *results(one.response)])

    assert server.bodies()[1]["system"] == "Be brief."
    assert server.bodies()[1]["messages"][1]["content"] == blocks
