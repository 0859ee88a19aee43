"""The rules about a whole run: errors, figures, models, prompts and the result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.data.written import Writing, asked, said
from tests.figures.gate.recorded_runs import QUESTION, SYSTEM, answer, checked, recorded_run, tool
from trace_recorder import TrajectoryRecorder
from trace_recorder.figures.gate.checked_run import CheckedRun
from trace_recorder.figures.gate.gate import violations_of
from trace_recorder.figures.gate.rules import ErrorRules, FigureLimits, Limit, PromptComparison, ResultRules, Rules
from trace_recorder.figures.gate.run_checks import (
    check_failures,
    check_limits,
    check_models,
    check_prompts,
    check_result,
)
from trace_recorder.values.llm_interaction import ErrorInfo


def texts(violations: Any) -> list[str]:
    return [str(violation) for violation in violations]


def failing(path: Path, *failures: tuple[str, str]) -> CheckedRun:
    """Return a run whose tools fail with these messages."""
    with TrajectoryRecorder(path, task="tea", strict=True) as recorder:
        calls = [tool(name, f"call_{number}") for number, (name, _) in enumerate(failures)]
        recorder.record_llm_interaction([QUESTION], answer(None, *calls), "openai", "m")
        for number, (name, message) in enumerate(failures):
            with pytest.raises(OSError, match="gone"), recorder.tool_call(name, {}, call_id=f"call_{number}"):
                raise OSError(message)
        recorder.finalize(success=True)
    return checked(path)


def test_errors_that_the_good_run_has_are_allowed(tmp_path: Path) -> None:
    """A new error breaks the rule, also a second one of a known kind. Times in messages make no difference."""
    golden = failing(tmp_path / "a.json", ("fetch", "gone at 12:00:01"))
    live = failing(tmp_path / "b.json", ("fetch", "gone at 13:30:59"), ("fetch", "gone at 1:1"), ("ask", "gone"))

    assert texts(check_failures(live, ErrorRules(), golden)) == [
        "errors: step 1: fetch: OSError: gone at 1:1",
        "errors: step 1: ask: OSError: gone",
    ]
    allowed = ErrorRules(allowed=(re.compile("^ask: "), re.compile("1:1$")))
    assert texts(check_failures(live, allowed, golden)) == []
    assert texts(check_failures(live, ErrorRules(compare=False))) == []
    assert len(texts(check_failures(live, ErrorRules()))) == 3


def test_failed_calls_steps_and_runs_are_errors(tmp_path: Path) -> None:
    """The error of a call names its step, and the error of a run ends the list."""
    run = checked(recorded_run(tmp_path / "run.json", [ValueError("refused")]), error=ErrorInfo("RuntimeError", "lost"))

    assert texts(check_failures(run, ErrorRules())) == [
        "errors: step 1: llm_1: ValueError: refused",
        "errors: the run: RuntimeError: lost",
    ]


TOKENS = [
    ("+10%", 100, 110, ""),
    ("+10%", 100, 111, "tokens: 111, and 100 in the golden run; at most 10% more is allowed"),
    ("+10%", 100, 1, ""),
    ("10%", 100, 90, ""),
    ("10 %", 100, 89, "tokens: 89, and 100 in the golden run; at most 10% less is allowed"),
    ("+0%", 1000, 1001, "tokens: 1,001, and 1,000 in the golden run; at most 0% more is allowed"),
    (1100, 5, 1100, ""),
    (1100, 5, 1101, "tokens: 1,101, and at most 1,100 are allowed"),
]


@pytest.mark.parametrize(("limit", "before", "now", "expected"), TOKENS)
def test_a_limit(limit: str | float, before: int, now: int, expected: str, tmp_path: Path) -> None:
    """A limit is in per cent of the good run, or absolute."""
    golden = checked(recorded_run(tmp_path / "a.json", [answer("Green.", tokens=before - 1)]))
    live = checked(recorded_run(tmp_path / "b.json", [answer("Green.", tokens=now - 1)]))
    limits = FigureLimits(None, Limit.of(limit), None, None)

    assert [violation.message for violation in check_limits(live, limits, golden)] == [expected] * bool(expected)


def test_every_figure_has_a_limit(tmp_path: Path) -> None:
    """Steps, tokens, cost and seconds are compared. By default, a fifth more of the first three is allowed."""
    golden = checked(recorded_run(tmp_path / "a.json", [answer("1"), answer("2", cost=1.0)]), execution_time=2.0)
    live = checked(recorded_run(tmp_path / "b.json", [answer("1", cost=1.0)] * 3), execution_time=3.0)

    beyond = ["steps: 3, and 2 in", "tokens: 33, and 22 in", "cost: 3, and 1.5 in", "seconds: 3, and 2 in"]
    limits = FigureLimits(*[Limit.of("+20%")] * 4)
    found = [violation.message for violation in check_limits(live, limits, golden)]
    assert [message[: len(part)] for message, part in zip(found, beyond, strict=True)] == beyond
    assert len([*check_limits(live, FigureLimits(), golden)]) == 3


def test_an_unknown_figure_breaks_a_rule_but_no_default(tmp_path: Path) -> None:
    """A limit of the user's needs the figure. A default limit does not."""
    known = checked(recorded_run(tmp_path / "a.json", [answer("1")]))
    unknown = checked(recorded_run(tmp_path / "b.json", [answer("1", cost=None)], model="unheard of"))
    limits = FigureLimits(None, None, Limit.of("+10%"), None)

    assert texts(check_limits(unknown, limits, known)) == [
        "limits: cost: unknown in this run, so the limit cannot be checked"
    ]
    assert texts(check_limits(known, limits, unknown)) == [
        "limits: cost: unknown in the golden run, so the limit cannot be checked"
    ]
    assert texts(check_limits(unknown, FigureLimits(), known)) == []


def test_models_are_compared(tmp_path: Path) -> None:
    """The models of both runs are named, with the step of the first new one."""
    golden = checked(recorded_run(tmp_path / "a.json", [answer("1"), answer("2")], model="small"))
    live = checked(recorded_run(tmp_path / "b.json", [answer("1"), answer("2")], model="large"))

    assert texts(check_models(golden, golden)) == []
    assert texts(check_models(golden, live)) == ["models: step 1: large, and small in the golden run"]


def asking(path: Path, *prompts: Sequence[Any], turns: int = 1) -> CheckedRun:
    """Return a run with calls of these prompts, with a tool between two calls."""
    answers = [answer(None, tool("look", f"call_{number}")) for number in range(turns)]
    first = recorded_run(path, [*answers, answer("Green.")], prompt=prompts[0])
    if len(prompts) == 1:
        return checked(first)
    with TrajectoryRecorder(path.with_name("many.json"), task="tea", strict=True) as recorder:
        for prompt in prompts:
            recorder.record_llm_interaction([*prompt], answer("Green."), "openai", "m")
    return checked(path.with_name("many.json"))


BRIEF = {"role": "system", "content": "Be kind and brief."}
MORE = {"role": "user", "content": "And oolong?"}
PROMPTS: list[tuple[list[Any], list[Any], PromptComparison, list[str]]] = [
    ([SYSTEM, QUESTION], [SYSTEM, QUESTION], "all", []),
    (
        [SYSTEM, QUESTION],
        [BRIEF, QUESTION],
        "instructions",
        ["prompts: step 1: system message: Be kind{+ and brief+}."],
    ),
    (
        [SYSTEM, QUESTION],
        [QUESTION],
        "all",
        ['prompts: system message of step 1 in the golden run is missing: "Be kind."'],
    ),
    (
        [SYSTEM, QUESTION],
        [SYSTEM, QUESTION, MORE],
        "all",
        ['prompts: step 1: user message is not in the golden run: "And oolong?"'],
    ),
    ([SYSTEM, QUESTION], [SYSTEM, MORE], "instructions", []),
    ([SYSTEM, QUESTION], [BRIEF, MORE], "nothing", []),
]


@pytest.mark.parametrize(("before", "now", "comparison", "expected"), PROMPTS)
def test_prompts_are_compared(
    before: list[Any], now: list[Any], comparison: PromptComparison, expected: list[str], tmp_path: Path
) -> None:
    """Changed, missing and new messages of the agent are shown."""
    golden, live = asking(tmp_path / "a.json", before), asking(tmp_path / "b.json", now)

    assert texts(check_prompts(golden, live, comparison)) == expected


def test_more_turns_are_no_change_of_a_prompt(tmp_path: Path) -> None:
    """Answers, tool results, and how often a message is sent make no difference to the rule about prompts."""
    golden = asking(tmp_path / "a.json", [SYSTEM, QUESTION], turns=1)
    live = asking(tmp_path / "b.json", [SYSTEM, QUESTION], turns=4)

    assert texts(check_prompts(golden, live, "all")) == []
    assert texts(check_prompts(live, golden, "all")) == []


def test_calls_at_once_may_come_in_any_order(tmp_path: Path) -> None:
    """Judges with one system prompt and a question each, in two orders, are equal runs."""
    judges = [[SYSTEM, {"role": "user", "content": f"Judge answer {number}."}] for number in range(5)]
    (tmp_path / "live").mkdir()
    golden = asking(tmp_path / "a.json", *judges)
    live = asking(tmp_path / "live" / "b.json", *reversed(judges))

    assert violations_of(golden, live, Rules()) == []


def test_tools_and_parameters_are_parts_of_the_prompt(tmp_path: Path) -> None:
    """A changed description of a tool and a changed parameter are shown with their paths."""
    runs = []
    for name, described, temperature in (("a", "Look around.", 0), ("b", "Look twice.", 1)):
        offered = {"type": "function", "function": {"name": "look", "description": described}}
        writing = Writing(tmp_path / f"{name}.jsonl")
        for call in (1, 2):
            writing.request(call, asked(QUESTION, tools=[offered], temperature=temperature))
            writing.response(call, body=said("Green."))
        writing.journal.close()
        runs.append(checked(tmp_path / f"{name}.jsonl"))

    assert texts(check_prompts(*runs, "all")) == [
        "prompts: step 1: tools[0].function.description: Look[- around-]{+ twice+}.",
        "prompts: step 1: parameters.temperature: 1, and 0 in the golden run",
    ]


def test_texts_of_ignore_make_no_difference(tmp_path: Path) -> None:
    """A text that a pattern matches is ignored in prompts, arguments, errors and the result."""
    runs = []
    for name in ("a", "b"):
        prompt = [{"role": "user", "content": f"Work in /tmp/{name}."}]
        recorded_run(tmp_path / f"{name}.json", [answer(f"See /tmp/{name}.")], prompt=prompt)
        run = checked(tmp_path / f"{name}.json")
        runs.append(CheckedRun(run.trajectory, (re.compile(r"/tmp/\w+"),)))

    assert violations_of(*runs, Rules(result=ResultRules(compare="text"))) == []


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            ResultRules(),
            [
                "result: status: failed, and completed in the golden run",
                "result: success: false, and true in the golden run",
            ],
        ),
        (
            ResultRules("text"),
            [
                "result: status: failed, and completed in the golden run",
                "result: success: false, and true in the golden run",
                "result: final result: It is[- green-]{+ black+}.",
            ],
        ),
        (ResultRules("nothing", contains=("black", "It")), []),
        (ResultRules("nothing", contains=("tea",)), ["result: final result: \"It is black.\", and must contain 'tea'"]),
        (
            ResultRules("nothing", matches=re.compile("^Green")),
            ["result: final result: \"It is black.\", and must match '^Green'"],
        ),
    ],
)
def test_the_end_of_a_run(rules: ResultRules, expected: list[str], tmp_path: Path) -> None:
    """The outcome, the text of the result, and conditions on the text."""
    golden = recorded_run(tmp_path / "a.json", [answer("It is green.")], success=True)
    live = recorded_run(tmp_path / "b.json", [answer("It is black.")], success=False)

    assert texts(check_result(checked(live, status="failed"), rules, checked(golden))) == expected


def test_a_good_run_that_nobody_judged_asks_for_no_success(tmp_path: Path) -> None:
    """An unknown success of the good run is not compared. A known one is compared with an unknown one."""
    judged = checked(recorded_run(tmp_path / "a.json", [answer("1")], success=True))
    unjudged = checked(recorded_run(tmp_path / "b.json", [answer("1")]))

    assert texts(check_result(judged, ResultRules(), unjudged)) == []
    assert texts(check_result(unjudged, ResultRules(), judged)) == [
        "result: success: unknown, and true in the golden run"
    ]
