"""Figures over runs, and costs."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.counting import calls
from tests.formats.made import Payload, call, run, use
from trace_recorder.figures.cost import Cost, cost_of, prices
from trace_recorder.figures.stats import Stats, time_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.values.token_counts import Counts

LS = use("c1", command="ls")
FAILED = {"response": {}, "error": {"type": "rate_limit", "message": "later"}}


def price(provider: str, model: str, counts: Counts, at: datetime | None) -> float | None:
    """Return a table with one price."""
    return (counts.prompt or 0) * 0.001 if (provider, model) == ("openai", "m-1") else None


def used(**usage: Payload) -> Payload:
    """Return a response with these counts."""
    return {"usage": {"output_tokens": 1, **usage}}


def test_the_provider_s_own_cost_is_preferred() -> None:
    """A table is asked only if the provider stated no cost, and its figure is an estimate."""
    billed, priced, unknown = (
        turn.interaction
        for turn in turns_of(
            run(
                call(["q"], "a", response=used(input_tokens=10, cost=0.5)),
                call(["q"], "a", response=used(input_tokens=10)),
                call(["q"], "a", response=used(input_tokens=10), provider="ollama"),
            )
        )
    )

    assert cost_of(billed, price) == Cost(0.5, estimated=False)
    assert cost_of(priced, price) == Cost(0.01, estimated=True)
    assert cost_of(unknown, price) is None


def test_unknown_figures_are_counted_and_never_zero() -> None:
    """Each sum states how many calls it covers."""
    figures = Stats(price)
    for response in (used(input_tokens=10, cost=0.5), used(input_tokens=10), {}):
        figures.add(run(call(["q"], "a", response=response)))

    assert figures.every.costs.to_json() == {
        "currency": "USD",
        "stated": 0.5,
        "stated_calls": 1,
        "estimated": 0.01,
        "estimated_calls": 1,
        "unknown_calls": 1,
    }


def test_the_table_of_genai_prices_knows_its_providers() -> None:
    """A model is priced at its own provider, with cached tokens cheaper, and not at a provider that does not
    sell it.
    """
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    look_up = prices()
    assert look_up is not None

    plain = look_up("openai", "gpt-4o", Counts(1000, 10), None)
    cached = look_up("openai", "gpt-4o", Counts(1000, 10, cache_read=900), None)
    assert plain is not None
    assert cached is not None
    assert 0 < cached < plain
    assert look_up("ollama", "gpt-4o", Counts(1000, 10), None) is None
    assert look_up("openai", "no-such-model", Counts(1000, 10), None) is None


def test_figures_are_separate_for_each_model() -> None:
    """Each model has its own calls, failures, tokens and time."""
    figures = Stats(price)
    figures.add(run(call(["q"], "a", response=used(input_tokens=10)), call(["q"], "a", model="n", provider="groq")))
    figures.add(run(call(["q"], "a", response=used(input_tokens=20)), call(["q"]) | FAILED))

    models = figures.to_json()["models"]
    assert [
        (model["provider"], model["model"], model["calls"], model["failed"], model["tokens"]) for model in models
    ] == [
        ("openai", "m", 3, 1, {"prompt": 30, "completion": 2, "calls_without": 1}),
        ("groq", "n", 1, 0, {"calls_without": 1}),
    ]


def test_retries_and_incomplete_answers_are_counted() -> None:
    """A failed attempt is a retry and not a call. A stream that was cut off is not a failure."""
    attempts = [{"number": number, "timestamp": "2025-06-12T20:00:01+00:00"} for number in (0, 1, 2)]
    figures = Stats()
    figures.add(run(call(["q"], "a", attempts=attempts), call(["q"], "half", complete=False), call(["q"]) | FAILED))

    counted = figures.every.to_json()
    assert {name: counted[name] for name in ("calls", "failed", "incomplete", "attempts", "retries")} == {
        "calls": 3,
        "failed": 1,
        "incomplete": 1,
        "attempts": 5,
        "retries": 2,
    }


def test_the_cache_rate_covers_calls_that_state_cache_figures() -> None:
    """A call without figures of a cache does not lower the rate."""
    figures = Stats()
    figures.add(run(call(["q"], "a", response=used(input_tokens=100, cache_read_input_tokens=75))))
    figures.add(run(call(["q"], "a", response=used(input_tokens=900))))

    assert figures.every.to_json()["tokens"]["cache_hit_rate"] == 0.75


def test_tools_are_counted_by_calls_and_failures() -> None:
    """A call without a result is distinguished from a result without a recorded success."""
    step = {"timestamp": "2025-06-12T20:00:02+00:00", "state": "calling_tool", "step_number": 1}
    calls = [use("a"), use("b"), use("c", "search")]
    results = [{"call_id": "a", "success": False, "error": "no"}, {"call_id": "b", "result": "x"}]
    figures = Stats()
    figures.add(run(call(["q"], None, *calls), agent_steps=[{**step, "tool_calls": calls, "tool_results": results}]))

    assert figures.to_json()["tools"] == [
        {"name": "bash", "calls": 2, "failed": 1, "unanswered": 0, "outcome_unknown": 1, "calls_without_time": 2},
        {"name": "search", "calls": 1, "failed": 0, "unanswered": 1, "outcome_unknown": 0},
    ]


def test_a_replayed_tool_is_not_a_call() -> None:
    """Replayed results are counted separately, however many results a document has for one call."""
    step = {"timestamp": "2025-06-12T20:00:02+00:00", "state": "calling_tool", "step_number": 1}
    calls, results = [use("a")], [{"call_id": "a", "result": "x", "replayed": True}] * 2
    figures = Stats()
    figures.add(run(call(["q"], None, *calls), agent_steps=[{**step, "tool_calls": calls, "tool_results": results}]))

    counts = dict.fromkeys(("calls", "failed", "unanswered", "outcome_unknown"), 0)
    assert figures.to_json()["tools"] == [{"name": "bash", **counts, "replayed": 2}]


def executed(second: float, duration: float | None = None) -> Payload:
    """Return the result of a tool that ran at this second of the minute, or that only the next request shows."""
    known = {"timestamp": f"2025-06-12T20:00:{second:06.3f}+00:00", "duration_seconds": duration}
    return {"call_id": "c1", "name": "bash", "result": "x"} | (known if duration is not None else {})


def used_tools(*results: Payload) -> Payload:
    """Return the members of a run with a step that has these results."""
    step = {"timestamp": "2025-06-12T20:00:02+00:00", "state": "calling_tool", "step_number": 1}
    times = {"start_time": "2025-06-12T20:00:00+00:00", "end_time": "2025-06-12T20:00:05+00:00"}
    return {**times, "agent_steps": [{**step, "tool_calls": [LS], "tool_results": [*results]}]}


def test_the_time_of_models_and_tools_is_clock_time() -> None:
    """Models that work at once are counted once. A tool's time is the time in which no model worked."""
    made = run(
        call(["q"], None, LS, duration_seconds=0.5),  # 20:00:01 to 01.5
        call(["other"], "x", agent="other", duration_seconds=1.25),  # 20:00:02 to 03.25
        call(["q2"], "done", duration_seconds=1.0),  # 20:00:03 to 04
        **used_tools(executed(1.75, 0.5)),  # to 02.25
    )

    assert time_of(made) == {"total": 5.0, "llm": 2.5, "tool": 0.25, "idle": 2.25}


def test_the_time_between_two_calls_is_not_a_tool_s() -> None:
    """If nobody timed a tool, its time and the idle time are unknown, although the result is known."""
    made = run(call(["q"], None, LS, duration_seconds=0.5), call(["q2"], "done"), **used_tools(executed(0)))
    figures = Stats()
    figures.add(made)

    assert time_of(made) == {"total": 5.0, "llm": 0.75}
    assert figures.to_json()["tools"] == [
        {"name": "bash", "calls": 1, "failed": 0, "unanswered": 0, "outcome_unknown": 1, "calls_without_time": 1}
    ]


def test_pauses_between_attempts_are_time_of_the_call() -> None:
    """A call takes from the start of its first attempt to the end of its last attempt."""
    times = ({"timestamp": f"2025-06-12T20:00:0{second}+00:00", "duration_seconds": 0.25} for second in (1, 4))
    tried = [{"number": number, **time} for number, time in enumerate(times)]
    made = run(call(["q"], None, LS, attempts=tried), **used_tools(executed(4.5, 0.25)))

    assert time_of(made) == {"total": 5.0, "llm": 3.25, "tool": 0.25, "idle": 1.5}


def test_a_run_without_calls_has_only_its_length() -> None:
    """The distribution of the time is unknown. If the length is unknown too, no time is printed."""
    assert time_of(run(execution_time=7.5)) == {"total": 7.5}
    assert time_of(run()) == {}


def test_the_time_of_tools_is_computed_in_linear_work() -> None:
    """Twice as many calls take twice as much work."""

    def work(number: int) -> int:
        times = (f"2025-06-12T{number // 60:02}:{number % 60:02}:00+00:00" for number in range(number))
        made = run(*(call(["q"], None, LS, timestamp=time) for time in times))
        return calls(lambda: time_of(made))

    work(4)

    assert work(200) < 2.2 * work(100)
