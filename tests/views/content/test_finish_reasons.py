"""Training data has no answer that was cut off, is incomplete or is empty, unless an option asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.invoking import app
from tests.data.written import Writing, asked, said
from tests.views.made import assistant, call, run, use
from trace_recorder import Trajectory, load
from trace_recorder.values.messages import LLMResponse
from trace_recorder.views import preference_pairs, to_hierarchy, to_openai_finetuning, to_traces, to_trl
from trace_recorder.views.content.finish_reasons import CUT_OFF, SILENT, ending_of, fault_of
from trace_recorder.views.training.branches import NOT_WHOLE
from trace_recorder.views.training.trl import BEHIND

Payload = Any


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("length", ["length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "incomplete"]),
        ("filter", ["content_filter", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "refusal"]),
        ("failed", ["MALFORMED_FUNCTION_CALL", "failed", "cancelled", "insufficient_system_resource"]),
        ("paused", ["pause_turn"]),
        ("tools", ["tool_calls", "tool_use", "function_call", "requires_action"]),
        ("stop", ["stop", "end_turn", "STOP", "completed", "stop_sequence", "eos"]),
        (None, ["a word of tomorrow", None]),
    ],
)
def test_why_an_answer_ended_is_said_in_the_words_of_every_dialect(ending: str | None, words: list[str | None]) -> None:
    """Only an answer that ended by itself, or with tool calls, is an example for training."""
    assert [ending_of(word) for word in words] == [ending] * len(words)
    fault = None if ending in {"stop", "tools", None} else CUT_OFF
    assert [fault_of(LLMResponse("a", finish_reason=word)) for word in words] == [fault] * len(words)


CUT = {"finish_reason": "length"}
REFUSED = {"extra": {"refusal": "I will not."}}


def _faulty(content: str | None, **response: Payload) -> Trajectory:
    """Return a run with a good answer, a faulty one, and another good one."""
    after = ["q", assistant("a"), "go on"]
    last = [*after, assistant(content), "again"] if content else [*after, "again"]
    return run(call(["q"], "a"), call(after, content, response=response), call(last, "c"))


@pytest.mark.parametrize(
    ("faulty", "why"), [(_faulty("b", **CUT), CUT_OFF), (_faulty(None, **REFUSED), SILENT), (_faulty(" \n"), SILENT)]
)
def test_a_faulty_answer_weighs_nothing(faulty: Trajectory, why: str) -> None:
    """The answer is context if the agent continued from it. It is counted, and so is a refusal."""
    rows, left_out = to_openai_finetuning.with_report(faulty)

    weighed = {(one["content"], one["weight"]) for row in rows for one in row["messages"] if one["role"] == "assistant"}
    assert {one for one in weighed if one[1]} == {("a", 1), ("c", 1)}
    refusals = {"refusals in answers": 1} if faulty.llm_interactions[1].response.extra else {}  # type: ignore[union-attr]
    assert left_out == {why: 1, **refusals}


def test_a_refusal_is_no_empty_answer() -> None:
    """A run with only a refusal gives no rows, and the report says so."""
    refused = run(call(["q"], None, response=REFUSED))

    assert to_openai_finetuning.with_report(refused) == ([], {SILENT: 1, "refusals in answers": 1})
    assert [to_trl(refused, form) for form in ("messages", "prompt_completion")] == [[], []]


@pytest.mark.parametrize("feedback", [{"blockReason": "OTHER"}, {"block_reason": "OTHER"}])
def test_a_blocked_prompt_is_no_empty_answer(feedback: Payload) -> None:
    """Google's reason is counted, in both spellings."""
    blocked = call(["q"], None, api="google-generate", response={"extra": {"promptFeedback": feedback}})

    left_out = {SILENT: 1, "blocked prompts or contents in answers": 1}
    assert to_openai_finetuning.with_report(run(blocked)) == ([], left_out)


def test_no_row_ends_with_an_answer_that_was_cut_off() -> None:
    """The last good answer ends it."""
    made = run(call(["q"], "a"), call(["q", assistant("a"), "more"], "b", response=CUT))

    assert [[message["content"] for message in row["messages"]] for row in to_openai_finetuning(made)] == [["q", "a"]]


def test_tools_that_were_asked_for_halfway_are_not_learnt() -> None:
    """An answer that was cut off in the middle of its arguments is cut off."""
    assert to_openai_finetuning(run(call(["q"], None, use("c1"), response=CUT))) == []


def test_rows_for_trl_end_before_it() -> None:
    """Messages of TRL have no weights, so a completion after the answer is in another row."""
    made = _faulty("b", **CUT)

    [row], left_out = to_trl.with_report(made)
    assert [message["content"] for message in row["messages"]] == ["q", "a"]
    assert left_out == {CUT_OFF: 1, BEHIND: 1}
    rows = [[[one["content"] for one in row[part]] for part in ("prompt", "completion")] for row in _completions(made)]
    assert rows == [[["q"], ["a"]], [["q", "a", "go on", "b", "again"], ["c"]]]


def _completions(made: Trajectory) -> list[Payload]:
    return to_trl(made, "prompt_completion")


def test_tokens_of_it_are_masked() -> None:
    """The tokens are context, each of them."""

    def sampled(prompt: list[int], ids: list[int]) -> Payload:
        choice = {"index": 0, "content": "x", "finish_reason": "stop", "extra": {"token_ids": ids}}
        return {"choices": [choice], "extra": {"prompt_token_ids": prompt}}

    after = ["q", assistant("a"), "more"]
    cut = call(["q"], "a", response=sampled([1], [2]) | CUT)
    [row] = to_trl(run(cut, call(after, "b", response=sampled([1, 2, 3], [4]))), "tokens")

    assert (row["input_ids"], row["assistant_masks"]) == ([1, 2, 3, 4], [0, 0, 0, 1])


def _scored(value: float, *calls: Payload) -> Trajectory:
    return run(*calls, rewards=[{"name": "r", "value": value}])


def test_no_pair_has_one() -> None:
    """Such a run is not chosen, and no other run is preferred to it."""
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
def test_it_is_there_where_that_is_asked_for(view: Callable[[Trajectory], list[Payload]], faulty: Payload) -> None:
    """With `include_incomplete` every answer of the model is trained on."""
    [row] = view(run(faulty))

    assert row["messages"][-1].get("weight", 1) == 1
    assert row["messages"][-1]["content"] == (faulty["response"]["content"] or "")


def test_what_is_not_whole_is_still_counted_as_that() -> None:
    """A stream that broke off, a call that failed."""
    _, left_out = to_openai_finetuning.with_report(run(call(["q"], "b", complete=False)))

    assert left_out == {NOT_WHOLE: 1}


def test_other_formats_say_why_in_their_own_words() -> None:
    """The Hierarchy has a truncation, Pi a length and an error."""
    cut, filtered = (
        run(call(["q"], "b", response={"finish_reason": word}), status="completed") for word in ("MAX_TOKENS", "SAFETY")
    )

    assert to_hierarchy(cut)["execution_metrics"]["termination_reason"] == "TRUNCATION"
    reasons = [to_traces(one)[0][-1]["message"]["stopReason"] for one in (cut, filtered)]
    assert reasons == ["length", "error"]


def test_export_leaves_it_out_and_takes_it_when_told(tmp_path: Path) -> None:
    """The command line counts it, and has an option for it."""
    writing = Writing(tmp_path / "cut.jsonl", task="cut")
    writing.request(1, asked({"role": "user", "content": "q"}))
    body = said("half an ans")
    body["choices"][0]["finish_reason"] = "length"
    writing.response(1, body=body)
    writing.journal.close()
    assert load(writing.path).llm_interactions[0].response is not None
    export = ["export", str(writing.path), "-f", "openai", "-o"]

    told = CliRunner().invoke(app, [*export, str(tmp_path / "a.jsonl")])
    assert (told.exit_code, f"left out: 1 x {CUT_OFF}" in told.output) == (0, True)
    assert (tmp_path / "a.jsonl").read_text() == ""
    told = CliRunner().invoke(app, [*export, str(tmp_path / "b.jsonl"), "--include-incomplete"])
    assert json.loads((tmp_path / "b.jsonl").read_text())["messages"][-1]["content"] == "half an ans"
    refused = CliRunner().invoke(app, [*export[:3], "atif", "-o", str(tmp_path), "--include-incomplete"])
    assert refused.exit_code == 1
