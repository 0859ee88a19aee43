"""Readers need no `is None`: in memory every call has a response and a usage. Files have only the known values."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import Answer, asked, call, said, streamed
from tests.journals import journal_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Payload, Usage

REFUSAL = Answer(b'{"error":{"type":"rate_limit","message":"slow"}}', status=429)
REQUEST = {"interaction_id": "llm_1", "attempt": 0, "api": "openai-chat", "provider": "p", "model": "m"}
IN_FLIGHT = journal_of(
    ("start", {}),
    ("item", {"n": 0, "value": {"role": "user", "content": "a"}}),
    ("llm_request", REQUEST | {"body": {"model": "m", "messages": None}, "items": {"messages": [[0, 0]]}}),
)


def refused(recorder: TrajectoryRecorder) -> None:
    call(recorder, asked("a"), REFUSAL)


def broken(recorder: TrajectoryRecorder) -> None:
    with pytest.raises(httpx.ConnectError):
        call(recorder, asked("a"), httpx.ConnectError("nobody"))


def failed_by_hand(recorder: TrajectoryRecorder) -> None:
    recorder.record_llm_interaction(asked("a")["messages"], ValueError("no"), "p", "m")


def nothing_by_hand(recorder: TrajectoryRecorder) -> None:
    recorder.record_llm_interaction(asked("a")["messages"], None, "p", "m")


@pytest.fixture(params=["journal", "document alone"])
def read(request: pytest.FixtureRequest) -> Callable[[TrajectoryRecorder], LLMInteraction]:
    """Read the only call of a run, from its journal or from its document without the journal."""

    def of(recorder: TrajectoryRecorder) -> LLMInteraction:
        recorder.finalize()
        if request.param == "document alone":
            recorder.trajectory_path.with_suffix(".jsonl").unlink()
        (one,) = load(recorder.trajectory_path).llm_interactions
        return one

    return of


def shown(recorder: TrajectoryRecorder) -> Payload:
    """Return the response of the only call in the document."""
    (one,) = json.loads(recorder.trajectory_path.read_bytes())["llm_interactions"]
    return one["response"]


@pytest.mark.parametrize("fail", [refused, broken, failed_by_hand, nothing_by_hand])
def test_a_call_without_an_answer_has_an_empty_response(
    tmp_path: Path,
    read: Callable[[TrajectoryRecorder], LLMInteraction],
    fail: Callable[[TrajectoryRecorder], None],
) -> None:
    """The response in memory is an empty text that is marked as empty. The document has `{}`."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    fail(recorder)

    one = read(recorder)

    assert (one.response.content, one.response.tool_calls, one.response.usage) == (None, (), Usage())
    assert (one.answered, shown(recorder), one.to_document()["response"]) == (False, {}, {})
    assert pickle.loads(pickle.dumps(one.response)) == one.response


def test_an_open_call_has_an_empty_response(tmp_path: Path) -> None:
    """The response is empty, because no part of the answer has arrived."""
    (tmp_path / "run.jsonl").write_bytes(IN_FLIGHT)

    (one,) = load(tmp_path / "run.jsonl").llm_interactions

    assert (one.response.content, one.response.usage, one.answered) == (None, Usage(), False)


@pytest.mark.parametrize("answer", [streamed("hello"), Answer(b'{"choices":[]}'), Answer(b"{}")])
def test_an_answer_without_tokens_has_an_empty_usage(
    tmp_path: Path, read: Callable[[TrajectoryRecorder], LLMInteraction], answer: Answer
) -> None:
    """Every count is None, and the document has no `usage`. An empty answer counts as an answer too."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    call(recorder, asked("a"), answer)

    one = read(recorder)

    assert (one.response.usage, one.answered, "usage" in shown(recorder)) == (Usage(), True, False)


@pytest.mark.parametrize("response", ["yes", {"content": "yes"}, {"content": "yes", "usage": None}])
def test_a_call_by_hand_has_a_usage(
    tmp_path: Path, read: Callable[[TrajectoryRecorder], LLMInteraction], response: Payload
) -> None:
    """A response that was recorded without tokens has a usage without counts."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.record_llm_interaction(asked("a")["messages"], response, "p", "m")

    one = read(recorder)

    assert (one.response.content, one.response.usage, one.answered) == ("yes", Usage(), True)


def test_known_counts_are_numbers(tmp_path: Path, read: Callable[[TrajectoryRecorder], LLMInteraction]) -> None:
    """Stated counts are numbers beside unknown counts."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    call(recorder, asked("a"), said("yes"))

    usage = read(recorder).response.usage

    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (7, 2, None)


def test_a_new_response_has_an_empty_usage() -> None:
    """A new value has an empty usage by itself."""
    assert LLMResponse().usage == Usage()
