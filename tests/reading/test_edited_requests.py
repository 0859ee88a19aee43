"""Histories that agents edit, read request by request: the same result as reading each request whole, at less cost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests import histories
from tests.chat_calls import Wire, said
from tests.counting import calls
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.reading.document import from_document
from trace_recorder.values.messages import Payload

Element = Callable[[int], Payload]

CHAT = ("https://api.openai.com/v1/chat/completions", "messages")
RESPONSES = ("https://api.openai.com/v1/responses", "input")
GEMINI = ("https://generativelanguage.googleapis.com/v1beta/models/g:generateContent", "contents")

KINDS: dict[tuple[str, str], list[Element]] = {
    CHAT: [
        lambda n: {"role": "user", "content": f"question {n}"},
        lambda n: {"role": "assistant", "tool_calls": [histories.turn(n)[0]["tool_calls"][0]]},
        lambda n: {"role": "tool", "tool_call_id": f"call_{n}", "content": "done"},
        lambda n: {"role": "tool", "content": f"{n}, without an id"},
        lambda _: None,
    ],
    RESPONSES: [
        lambda n: {"role": "user", "content": f"question {n}"},
        lambda n: {"type": "reasoning", "id": f"rs_{n}", "summary": [{"type": "summary_text", "text": f"thought {n}"}]},
        lambda n: {"type": "function_call", "call_id": f"c{n}", "name": "bash", "arguments": "{}"},
        lambda n: {"type": "function_call_output", "call_id": f"c{n}", "output": "done"},
        lambda n: {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"answer {n}"}]},
        lambda _: None,
    ],
    GEMINI: [
        lambda n: {"role": "user", "parts": [{"text": f"question {n}"}]},
        lambda n: {"role": "model", "parts": [{"text": f"answer {n}"}]},
        lambda n: {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {"n": n}}}]},
        lambda n: {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"n": n}}}]},
    ],
}


def edited(kinds: list[Element], seed: int) -> Iterator[list[Payload]]:
    """Yield a history that grows, and is edited at random in its beginning, middle and end."""
    chosen = random.Random(seed)
    history: list[Payload] = []
    for number in range(40):
        history = [*history, *(chosen.choice(kinds)(10 * number + more) for more in range(chosen.randrange(4)))]
        for _ in range(chosen.choice([0, 0, 1, 2])):
            at = chosen.randrange(len(history) + 1)
            new = [chosen.choice(kinds)(1000 + 10 * number) for _ in range(chosen.randrange(3))]
            history = history[:at] + new + history[at + chosen.randrange(3) :]
        yield history


def record(path: Path, url: str, name: str, requests: Iterator[list[Payload]]) -> None:
    recorder = TrajectoryRecorder(path)
    with httpx.Client(transport=Wire(said("yes")), trust_env=False) as client:
        recorder.wrap(client)
        for history in requests:
            client.post(url, content=json.dumps({"model": "m", name: history}))
    recorder.finalize()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dialect", KINDS, ids=["chat", "responses", "gemini"])
def test_an_edited_history_is_read_like_its_whole_request(tmp_path: Path, dialect: tuple[str, str], seed: int) -> None:
    """Edits, and several elements that are one message, make no difference, in the document too."""
    record(tmp_path / "run.json", *dialect, edited(KINDS[dialect], seed))
    trajectory = load(tmp_path / "run.json")
    document = from_document(json.loads((tmp_path / "run.json").read_text()), "it")

    for one, written in zip(trajectory.llm_interactions, document.llm_interactions, strict=True):
        whole = dialect_of(one.api).read_request(one.raw_request)  # type: ignore[union-attr]
        assert [*one.input_messages] == [*whole.messages]
        assert [message.to_document() for message in written.input_messages] == [
            message.to_document() for message in whole.messages
        ]


@pytest.mark.parametrize("pattern", histories.PATTERNS, ids=lambda pattern: pattern.__name__)
def test_each_call_of_an_edited_history_costs_the_same(tmp_path: Path, pattern: histories.Pattern) -> None:
    """Each call costs the same to read, however long the repeated history is."""
    counted = []
    for turns in (20, 40, 60):
        path = histories.record(tmp_path / f"{turns}.json", pattern, turns)
        counted.append(calls(lambda path=path: [len(call.input_messages) for call in load(path).llm_interactions]))  # type: ignore[misc]

    assert counted[2] - counted[1] <= 1.1 * (counted[1] - counted[0])


def test_instructions_and_lists_of_tools_are_stored_once(tmp_path: Path) -> None:
    """Two agents that take turns share their instructions and tools, and so does a call with other parameters."""
    tools = [{"name": "bash", "input_schema": {"type": "object", "title": "Bash"}}]
    bodies: list[Payload] = [
        {"model": model, "system": "You help.", "tools": tools, "messages": [{"role": "user", "content": f"{number}"}]}
        for number, model in enumerate(["a", "b", "a", "b"])
    ]
    in_other_order = [{"name": "bash", "input_schema": {"title": "Bash", "type": "object"}}]
    bodies.append({**bodies[0], "tools": in_other_order, "max_tokens": 9})
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    with httpx.Client(transport=Wire(said("yes")), trust_env=False) as client:
        recorder.wrap(client)
        for body in bodies:
            client.post("https://api.anthropic.com/v1/messages", content=json.dumps(body))
    recorder.finalize()
    *same, other = load(tmp_path / "run.json").llm_interactions

    offered, instructions = [one.tools[0] for one in same], [one.input_messages[0] for one in [*same, other]]
    assert all(tool is offered[0] for tool in offered)
    assert all(message is instructions[0] for message in instructions)
    assert [one.input_messages[1].content for one in same] == ["0", "1", "2", "3"]
    assert json.dumps(other.tools[0].raw) == json.dumps(in_other_order[0]), "the model saw the members in this order"
