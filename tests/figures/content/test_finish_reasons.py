"""Training data has no answer that is cut off, incomplete or empty, unless an option includes such answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.data.written import Writing, asked, said
from tests.formats.made import assistant, call, run, use
from trace_recorder import Trajectory, load
from trace_recorder.figures.content.finish_reasons import CUT_OFF, SILENT, ending_of, fault_of
from trace_recorder.formats.training.branches import NOT_WHOLE
from trace_recorder.formats.training.trl import AFTER_FAULT
from trace_recorder.values.messages import LLMResponse
from trace_recorder.views import preference_pairs, to_hierarchy, to_openai_finetuning, to_traces, to_trl

Payload = Any


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("length", ["length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "incomplete", "max_messages"]),
        ("filter", ["content_filter", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "refusal"]),
        ("failed", ["MALFORMED_FUNCTION_CALL", "failed", "cancelled", "insufficient_system_resource"]),
        ("failed", ["turn_detected", "client_cancelled"]),
        ("paused", ["pause_turn", "steered"]),
        ("tools", ["tool_calls", "tool_use", "function_call", "requires_action"]),
        ("stop", ["stop", "end_turn", "STOP", "completed", "stop_sequence", "eos"]),
        (None, ["a word of tomorrow", None]),
    ],
)
def test_only_an_answer_that_ended_by_itself_is_trained_on(ending: str | None, words: list[str | None]) -> None:
    """In every dialect, an answer is an example for training only if it ended by itself or with tool calls."""
    assert [ending_of(word) for word in words] == [ending] * len(words)
    fault = None if ending in {"stop", "tools", None} else CUT_OFF
    assert [fault_of(LLMResponse("a", finish_reason=word)) for word in words] == [fault] * len(words)


CUT = {"finish_reason": "length"}
REFUSED = {"extra": {"refusal": "I will not."}}


def _faulty(content: str | None, **response: Payload) -> Trajectory:
    """Return a run with a good answer, a faulty answer, and a second good answer."""
    after = ["q", assistant("a"), "go on"]
    last = [*after, assistant(content), "again"] if content else [*after, "again"]
    return run(call(["q"], "a"), call(after, content, response=response), call(last, "c"))


@pytest.mark.parametrize(
    ("faulty", "why"), [(_faulty("b", **CUT), CUT_OFF), (_faulty(None, **REFUSED), SILENT), (_faulty(" \n"), SILENT)]
)
def test_a_faulty_answer_has_no_weight(faulty: Trajectory, why: str) -> None:
    """A faulty answer or a refusal is counted. It is context in a row if the agent continued from it."""
    rows, left_out = to_openai_finetuning.with_report(faulty)

    weighed = {(one["content"], one["weight"]) for row in rows for one in row["messages"] if one["role"] == "assistant"}
    assert {one for one in weighed if one[1]} == {("a", 1), ("c", 1)}
    refusals = {"refusals in answers": 1} if faulty.llm_interactions[1].response.extra else {}  # type: ignore[union-attr]
    assert left_out == {why: 1, **refusals}


def test_a_refusal_is_not_counted_as_an_empty_answer() -> None:
    """A run with only a refusal gives no rows, and the report counts the refusal."""
    refused = run(call(["q"], None, response=REFUSED))

    assert to_openai_finetuning.with_report(refused) == ([], {SILENT: 1, "refusals in answers": 1})
    assert [to_trl(refused, form) for form in ("messages", "prompt_completion")] == [[], []]


@pytest.mark.parametrize("feedback", [{"blockReason": "OTHER"}, {"block_reason": "OTHER"}])
def test_a_blocked_prompt_is_not_counted_as_an_empty_answer(feedback: Payload) -> None:
    """Google's reason for blocking a prompt is counted, in both spellings."""
    blocked = call(["q"], None, api="google-generate", response={"extra": {"promptFeedback": feedback}})

    left_out = {SILENT: 1, "blocked prompts or contents in answers": 1}
    assert to_openai_finetuning.with_report(run(blocked)) == ([], left_out)


def test_no_row_ends_with_an_answer_that_was_cut_off() -> None:
    """If the last answer of a run was cut off, the row ends with the last good answer."""
    made = run(call(["q"], "a"), call(["q", assistant("a"), "more"], "b", response=CUT))

    assert [[message["content"] for message in row["messages"]] for row in to_openai_finetuning(made)] == [["q", "a"]]


def test_a_call_with_incomplete_arguments_is_not_learned() -> None:
    """An answer that was cut off within the arguments of a tool call counts as cut off."""
    assert to_openai_finetuning(run(call(["q"], None, use("c1"), response=CUT))) == []


def test_rows_for_trl_end_before_a_faulty_answer() -> None:
    """TRL's messages have no weights, so answers after a faulty one are the completion of a separate row."""
    made = _faulty("b", **CUT)

    [row], left_out = to_trl.with_report(made)
    assert [message["content"] for message in row["messages"]] == ["q", "a"]
    assert left_out == {CUT_OFF: 1, AFTER_FAULT: 1}
    rows = [[[one["content"] for one in row[part]] for part in ("prompt", "completion")] for row in _completions(made)]
    assert rows == [[["q"], ["a"]], [["q", "a", "go on", "b", "again"], ["c"]]]


def _completions(made: Trajectory) -> list[Payload]:
    return to_trl(made, "prompt_completion")


def test_tokens_of_a_faulty_answer_are_masked() -> None:
    """All tokens of a faulty answer are context."""

    def sampled(prompt: list[int], ids: list[int]) -> Payload:
        choice = {"index": 0, "content": "x", "finish_reason": "stop", "extra": {"token_ids": ids}}
        return {"choices": [choice], "extra": {"prompt_token_ids": prompt}}

    after = ["q", assistant("a"), "more"]
    cut = call(["q"], "a", response=sampled([1], [2]) | CUT)
    [row] = to_trl(run(cut, call(after, "b", response=sampled([1, 2, 3], [4]))), "tokens")

    assert (row["input_ids"], row["assistant_masks"]) == ([1, 2, 3, 4], [0, 0, 0, 1])


def _scored(value: float, *calls: Payload) -> Trajectory:
    return run(*calls, rewards=[{"name": "r", "value": value}])


def test_no_pair_has_a_run_with_a_faulty_last_answer() -> None:
    """Such a run is neither the chosen nor the rejected run of a pair, and is counted."""
    runs = [
        _scored(1.0, call(["q"], "a")),
        _scored(0.5, call(["q"], "b")),
        _scored(0.0, call(["q"], "c", response=CUT)),
    ]
    last_cut = _scored(2.0, call(["q"], "d"), call(["q", assistant("d"), "x"], "e", response=CUT))

    found, left_out = preference_pairs.with_report([*runs, last_cut], "r")
    pairs = [*found]
    assert [(one["chosen"][0]["content"], one["rejected"][0]["content"]) for one in pairs] == [("a", "b")]
    assert left_out["runs with an answer that was cut off, incomplete or empty"] == 1
    every = [*preference_pairs([*runs, last_cut], "r", include_incomplete=True)]
    assert [one["rejected"][0]["content"] for one in every] == ["a", "b", "c"]


INCLUDED: list[Callable[[Trajectory], list[Payload]]] = [
    lambda made: to_openai_finetuning(made, include_incomplete=True),
    lambda made: to_trl(made, include_incomplete=True),
]


@pytest.mark.parametrize("view", INCLUDED)
@pytest.mark.parametrize(
    "faulty", [call(["q"], "b", response=CUT), call(["q"], "b", complete=False), call(["q"], None)]
)
def test_a_faulty_answer_is_trained_on_if_asked(view: Callable[[Trajectory], list[Payload]], faulty: Payload) -> None:
    """With `include_incomplete` every answer of the model is trained on."""
    [row] = view(run(faulty))

    assert row["messages"][-1].get("weight", 1) == 1
    assert row["messages"][-1]["content"] == (faulty["response"]["content"] or "")


def test_an_incomplete_stream_is_counted_as_incomplete() -> None:
    """A stream that broke off is counted as an answer that is not whole, and not as one that was cut off."""
    _, left_out = to_openai_finetuning.with_report(run(call(["q"], "b", complete=False)))

    assert left_out == {NOT_WHOLE: 1}


def test_other_formats_have_their_own_words_for_finish_reasons() -> None:
    """The Hierarchy states a truncation, and Pi a length or an error."""
    cut, filtered = (
        run(call(["q"], "b", response={"finish_reason": word}), status="completed") for word in ("MAX_TOKENS", "SAFETY")
    )

    assert to_hierarchy(cut)["execution_metrics"]["termination_reason"] == "TRUNCATION"
    reasons = [to_traces(one)[0][-1]["message"]["stopReason"] for one in (cut, filtered)]
    assert reasons == ["length", "error"]


def test_export_omits_faulty_answers_unless_asked(tmp_path: Path) -> None:
    """`export` counts the omitted answers, and has an option that includes them."""
    writing = Writing(tmp_path / "cut.jsonl", task="cut")
    writing.request(1, asked({"role": "user", "content": "q"}))
    body = said("half an ans")
    body["choices"][0]["finish_reason"] = "length"
    writing.response(1, body=body)
    writing.journal.close()
    assert load(writing.path).llm_interactions[0].response is not None
    export = ["export", str(writing.path), "-f", "openai", "-o"]

    told = invoke(*export, tmp_path / "a.jsonl")
    assert (told.exit_code, f"left out: 1 x {CUT_OFF}" in told.output) == (0, True)
    assert (tmp_path / "a.jsonl").read_text() == ""
    told = invoke(*export, tmp_path / "b.jsonl", "--include-incomplete")
    assert json.loads((tmp_path / "b.jsonl").read_text())["messages"][-1]["content"] == "half an ans"
    refused = invoke(*export[:3], "atif", "-o", tmp_path, "--include-incomplete")
    assert refused.exit_code == 1
