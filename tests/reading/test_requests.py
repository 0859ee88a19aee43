"""Reading requests one after another gives the same as reading each request alone."""

from __future__ import annotations

import json
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agreement import agrees
from tests.chat_calls import Answer, Wire
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.dialects import google_generate
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import History

ANSWER = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}],
}
ITEMS = {
    "user": {"role": "user", "content": "and now?"},
    "text": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
    "thought": {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    "call": {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
    "nameless": {"type": "function_call", "name": "bash", "arguments": "{}"},
    "result": {"type": "function_call_output", "call_id": "c", "output": "a.py"},
    "search": {"type": "web_search_call", "id": "ws", "status": "completed"},
    "nothing": None,
}
KINDS = st.lists(st.sampled_from(sorted(ITEMS)), max_size=6)
TURNS = st.lists(st.tuples(KINDS, st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=8)


def ask(recorder: TrajectoryRecorder, items: list[Payload]) -> None:
    content = json.dumps({"model": "m", "instructions": "be brief", "input": items}).encode()
    with httpx.Client(transport=Wire(Answer(json.dumps(ANSWER).encode())), trust_env=False) as client:
        recorder.wrap(client).post("https://api.openai.com/v1/responses", content=content)


@given(TURNS, st.sampled_from(["inline", "delta"]))
def test_items_that_form_one_message_are_joined(turns: list[tuple[list[str], int, int]], history: str) -> None:
    """A request gives the same messages alone and after the request before it, wherever it ends and whatever it
    drops.
    """
    numbers = count()
    items: list[Payload] = []
    with TemporaryDirectory() as directory:
        recorder = TrajectoryRecorder(Path(directory, "run.json"), history=history, strict=True)  # type: ignore[arg-type]
        for kinds, dropped, where in turns:
            del items[where : where + dropped]
            items += [one and {**one, "status": str(next(numbers))} for one in map(ITEMS.__getitem__, kinds)]
            ask(recorder, items)
            recorder.save_trajectory()
            assert agrees(recorder)
        recorder.finalize()
        assert agrees(recorder)


GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini:generateContent"
GENERATED = {"candidates": [{"content": {"role": "model", "parts": [{"text": "yes"}]}, "finishReason": "STOP"}]}
PARTS: dict[str, tuple[str, Payload]] = {
    "user": ("user", {"text": "and now?"}),
    "text": ("model", {"text": "yes"}),
    "signed": ("model", {"text": "", "thoughtSignature": "c2ln"}),
    "thought": ("model", {"text": "hm", "thought": True}),
    "call": ("model", {"functionCall": {"name": "bash", "args": {}}}),
    "result": ("user", {"functionResponse": {"name": "bash", "response": {"output": "a.py"}}}),
    "image": ("model", {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}),
}
GEMINI_TURNS = st.lists(
    st.tuples(st.lists(st.sampled_from([*sorted(PARTS), "nothing"]), max_size=6), st.integers(0, 3), st.integers(0, 9)),
    min_size=1,
    max_size=8,
)


@given(GEMINI_TURNS, st.sampled_from(["inline", "delta"]))
def test_contents_that_form_one_message_are_joined(turns: list[tuple[list[str], int, int]], history: History) -> None:
    """A request that cuts the contents of a streamed answer anywhere gives the same alone and after the request before
    it.
    """
    contents: list[Payload] = []
    with TemporaryDirectory() as directory:
        recorder = TrajectoryRecorder(Path(directory, "run.json"), history=history, strict=True)
        for kinds, dropped, where in turns:
            del contents[where : where + dropped]
            for kind in kinds:
                role, part = PARTS.get(kind, ("", None))
                contents.append(part and {"role": role, "parts": [part]})
            with httpx.Client(transport=Wire(Answer(json.dumps(GENERATED).encode())), trust_env=False) as client:
                recorder.wrap(client).post(GEMINI, json={"contents": contents})
            recorder.save_trajectory()
            assert agrees(recorder)
        recorder.finalize()
        assert agrees(recorder)
        for one in load(recorder.trajectory_path).llm_interactions:
            assert one.input_messages == google_generate.read_request(one.raw_request).messages


@pytest.mark.parametrize("history", ["inline", "delta"])
def test_an_item_without_a_message_does_not_separate_its_neighbours(tmp_path: Path, history: History) -> None:
    """If the first new item of a request gives no message, the last message before it is continued, and no other
    changes.
    """
    recorder = TrajectoryRecorder(tmp_path / "run.json", history=history, strict=True)
    items: list[Payload] = [ITEMS["user"], ITEMS["thought"]]
    ask(recorder, items)
    items += [ITEMS["nothing"], ITEMS["call"]]
    ask(recorder, items)
    recorder.update_lakeview(1, "shown anew")
    recorder.finalize()

    assert agrees(recorder)


def test_a_long_conversation_costs_its_new_messages(tmp_path: Path) -> None:
    """With deltas, each call of an agent's loop adds only its own messages to the document."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="delta")
    items: list[Payload] = [ITEMS["user"]]
    sizes = []
    for number in range(30):
        ask(recorder, items)
        recorder.save_trajectory()
        sizes.append(recorder.trajectory_path.stat().st_size)
        called = {**ITEMS["call"], "call_id": f"c{number}"}
        items += [ITEMS["thought"], called, {**ITEMS["result"], "call_id": f"c{number}", "output": "x" * 1000}]
    recorder.finalize()

    added = [after - before for before, after in pairwise(sizes[2:])]
    assert max(added) - min(added) < 100
