"""The document of long conversations: each call adds only its new messages."""

from __future__ import annotations

import sys
from itertools import accumulate, repeat, takewhile
from pathlib import Path
from types import FrameType

import pytest

from tests.agreement import agrees, document
from tests.chat_calls import asked, call, said
from tests.counting import is_ours, kept_by, watch
from tests.journals import records_of
from tests.limits import limited
from trace_recorder import TrajectoryRecorder
from trace_recorder.reading.live_document.document_text import DocumentText
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.storage.items.table import JournalFile
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import History

LARGE = "x" * 101_000
CALLS = 6
LIMITS = DocumentLimits(inline_bytes=100_000, kept_bytes=0)
SOON_LONG = limited(document=LIMITS)
HISTORIES: list[History] = ["auto", "delta"]


def whole_prompts(recorder: TrajectoryRecorder, array: str, delta: str) -> list[bool]:
    """Return the entries of the document that have all of their messages, and not only the new ones."""
    parts: list[Payload] = document(recorder)[array]
    return [part[delta]["since"] is None for part in parts]


@pytest.mark.parametrize("history", HISTORIES)
def test_a_long_captured_conversation_becomes_deltas(history: History, tmp_path: Path) -> None:
    """A document that becomes too long is written again with deltas, from its first call on."""
    recorder = SOON_LONG(tmp_path / "run.json", history=history)
    texts = [LARGE]
    for number in range(CALLS):
        call(recorder, asked(*texts), said(f"yes {number}"))
        recorder.annotate("seen", number)  # this writes the document
        texts.append(f"more {number}")
    recorder.finalize()

    assert agrees(recorder)
    assert whole_prompts(recorder, "llm_interactions", "input_messages_delta") == [True] + [False] * (CALLS - 1)


@pytest.mark.parametrize("history", HISTORIES)
def test_calls_and_steps_recorded_by_hand_become_deltas(history: History, tmp_path: Path) -> None:
    recorder = SOON_LONG(tmp_path / "run.json", history=history)
    messages = [{"role": "user", "content": LARGE}]
    for number in range(CALLS):
        recorder.record_llm_interaction(messages, {"content": f"yes {number}"}, "p", "m")
        recorder.record_agent_step(number, "on", llm_messages=messages)
        messages = [*messages, {"role": "user", "content": f"more {number}"}]
    recorder.finalize()

    assert agrees(recorder)
    for array, delta in (("llm_interactions", "input_messages_delta"), ("agent_steps", "llm_messages_delta")):
        assert sum(whole_prompts(recorder, array, delta)) == 1


def test_alternating_agents_have_one_whole_prompt_each(tmp_path: Path) -> None:
    recorder = SOON_LONG(tmp_path / "run.json", history="delta")
    agents = [[f"{number}: {'x' * (50_000)}"] for number in range(4)]
    for turn in range(CALLS):
        for texts in agents:
            call(recorder, asked(*texts), said(f"yes {turn}"))
            texts.append(f"more {turn}")
        recorder.annotate("seen", turn)
    recorder.finalize()

    assert agrees(recorder)
    assert sum(whole_prompts(recorder, "llm_interactions", "input_messages_delta")) == len(agents)


def test_conversations_with_the_same_beginning_are_deltas_of_their_own(tmp_path: Path) -> None:
    recorder = SOON_LONG(tmp_path / "run.json", history="delta")
    for texts in (
        ["a", LARGE],
        ["a", LARGE, "b"],
        ["a", "c"],
        ["a", "c", "d"],
        ["a", LARGE, "b", "e"],
        ["a", LARGE, "f"],
    ):
        call(recorder, asked(*texts, tools=[{"type": "function", "function": {"name": "t"}}]), said("yes"))
        recorder.annotate("seen", texts[-1])
    recorder.finalize()

    assert agrees(recorder)


def test_large_responses_are_released_one_by_one(tmp_path: Path) -> None:
    """A write releases each response before it reads the next one, for the calls and for the steps."""
    recorder = SOON_LONG(tmp_path / "run.json")
    response = "large " * 50_000
    for number in range(3):
        call(recorder, asked(f"{number}?"), said(response))
    recorder.finalize()
    characters: list[int] = []

    def look(frame: FrameType) -> None:
        if frame.f_code is JournalFile.record_at.__code__:
            frames = takewhile(is_ours, accumulate(repeat(frame), lambda inner, _: inner.f_back))
            characters.append(kept_by([frame.f_locals for frame in frames]).characters)

    path = recorder.trajectory_path
    document = WholeDocument(path.with_suffix(".jsonl"), "auto", limits=LIMITS)
    watch(lambda: document.write(path), look)

    assert max(characters) < characters[0] + len(response) / 2


def test_no_call_is_kept_while_the_next_call_is_read(tmp_path: Path) -> None:
    """The test counts references, because an iterator's value is not among the variables of a frame."""
    recorder = SOON_LONG(tmp_path / "run.json")
    for number in range(3):
        call(recorder, asked(f"{number}?"), said("yes"))
    recorder.finalize()
    interactions: list[LLMInteraction] = []
    references: list[int] = []

    def look(frame: FrameType) -> None:
        if frame.f_code is DocumentText.interaction.__code__:
            interactions.append(frame.f_locals["interaction"])
        elif frame.f_code is JournalFile.record_at.__code__ and interactions:
            references.append(sys.getrefcount(interactions[-1]))

    path = recorder.trajectory_path
    document = WholeDocument(path.with_suffix(".jsonl"), "auto", limits=LIMITS)
    watch(lambda: document.write(path), look)

    listed = [object()]
    assert set(references) == {sys.getrefcount(listed[-1])}  # only the list of this test refers to the call


def test_a_call_is_read_again_once_for_its_interaction_and_its_step(tmp_path: Path) -> None:
    recorder = SOON_LONG(tmp_path / "run.json")
    for number in range(CALLS):
        call(recorder, asked(f"{number}?"), said("yes"))
    recorder.finalize()
    places: list[int] = []

    def look(frame: FrameType) -> None:
        if frame.f_code is JournalFile.record_at.__code__:
            places.append(frame.f_locals["offset"])

    path = recorder.trajectory_path
    document = WholeDocument(path.with_suffix(".jsonl"), "inline", limits=LIMITS)
    watch(lambda: document.write(path), look)

    records = [record.offset for record in records_of(path) if record.kind in {"llm_request", "llm_response"}]
    assert sorted(places) == sorted([*records, *records[:2]])  # the first members of the document need the first call
