"""Groups of runs: which group a run is in, and the same figures, intervals and pairs as from scipy."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np
import pytest
from scipy import stats

from tests.formats.made import Payload, call, run, use
from trace_recorder import QueryError, Trajectory, compare
from trace_recorder.figures.groups import FIGURES, GroupedRuns
from trace_recorder.figures.intervals import Estimate
from trace_recorder.figures.run_measures import MAX_NAME_CHARACTERS, RunMeasures, measures_from, measures_of

MODELS = ("openai/a", "openai/b", "vllm/c")
Interval = tuple[float | None, float | None]


def measured(seed: int, runs: int) -> Iterator[RunMeasures]:
    """Yield the measures of runs of three models over tasks, some with unknown values."""
    chosen = random.Random(seed)
    for _ in range(runs):
        model = chosen.choices(MODELS, [5, 3, 1])[0]
        yield RunMeasures(
            "completed",
            success=chosen.choice([True, True, False, None]),
            task=chosen.choice([f"task {chosen.randint(1, 14)}", None]),
            models=(model,),
            cost=chosen.choice([chosen.expovariate(9), None]),
            tokens=chosen.randint(0, 5000),
            seconds=chosen.lognormvariate(1, 1),
            calls=chosen.randint(1, 9),
            tool_calls=chosen.randint(0, 9),
            tool_errors=chosen.randint(0, 2),
        )


def ends(estimate: Estimate | None) -> Interval:
    assert estimate is not None
    return estimate.low, estimate.high


def of_scipy(values: Sequence[float]) -> Interval:
    """Return the interval of the median."""
    interval = stats.quantile_test(values, q=0, p=0.5).confidence_interval(0.95)
    return (None, None) if math.isnan(interval.low) else (interval.low, interval.high)


def added_in_squares(value: float, interval: Interval, other: float, other_interval: Interval) -> Interval:
    """Return the interval of the difference of two values with these intervals."""
    (low, high), (other_low, other_high) = interval, other_interval
    if low is None or high is None or other_low is None or other_high is None:
        return None, None
    down = math.sqrt((value - low) ** 2 + (other_high - other) ** 2)
    up = math.sqrt((high - value) ** 2 + (other - other_low) ** 2)
    return value - other - down, value - other + up


@pytest.mark.parametrize(("seed", "runs"), [(1, 12), (2, 60), (3, 400)])
def test_groups_equal_those_of_scipy(seed: int, runs: int) -> None:
    """Shares, medians, quartiles, differences and pairs by task of generated runs are those of scipy and numpy."""
    groups, by_model = GroupedRuns(["model"]), defaultdict[str, list[RunMeasures]](list)
    for one in measured(seed, runs):
        groups.add(one)
        by_model[one.models[0]].append(one)
    comparison = groups.comparison("openai/b")

    for group in comparison.groups:
        check_group(group, by_model[str(group.key[0])])
    others = by_model["openai/b"]
    for difference in comparison.differences:
        check_difference(difference, by_model[str(difference.key[0])], others)
    assert {difference.key[0] for difference in comparison.differences} == by_model.keys() - {"openai/b"}
    assert {difference.reference for difference in comparison.differences} <= {("openai/b",)}


def known(runs: Sequence[RunMeasures], name: str) -> list[float]:
    return [value for one in runs if (value := getattr(one, name)) is not None]


def check_group(group: Payload, runs: Sequence[RunMeasures]) -> None:
    judged = known(runs, "success")
    assert (group.runs, group.judged, group.succeeded) == (len(runs), len(judged), sum(judged))
    if judged:
        expected = stats.binomtest(int(sum(judged)), len(judged)).proportion_ci(0.95, "wilson")
        assert ends(group.success) == pytest.approx([*expected])
    for name in FIGURES:
        values, spread = known(runs, name), group.figures[name]
        if not values:
            assert spread is None
            continue
        assert (spread.runs, spread.least, spread.most) == (len(values), min(values), max(values))
        quartiles = [spread.low_quartile, spread.median.value, spread.high_quartile]
        assert [*quartiles, spread.total] == pytest.approx([*np.percentile(values, [25, 50, 75]), sum(values)])
        assert ends(spread.median) == of_scipy(values)


def check_difference(difference: Payload, runs: Sequence[RunMeasures], others: Sequence[RunMeasures]) -> None:
    shares = []
    for judged in (known(runs, "success"), known(others, "success")):
        interval = stats.binomtest(int(sum(judged)), len(judged)).proportion_ci(0.95, "wilson")
        shares += [sum(judged) / len(judged), (interval.low, interval.high)]
    assert ends(difference.success) == pytest.approx(added_in_squares(*shares))
    tasks = {one.task for one in runs} & {one.task for one in others} - {None}
    assert (difference.pairs and difference.pairs.tasks) == (len(tasks) or None)
    for name in FIGURES:
        values, other_values = known(runs, name), known(others, name)
        if not values or not other_values:
            assert difference.figures[name] is None
            continue
        assert difference.figures[name].value == pytest.approx(median(values) - median(other_values))
        expected = added_in_squares(median(values), of_scipy(values), median(other_values), of_scipy(other_values))
        assert ends(difference.figures[name]) == pytest.approx(expected)
        paired = [
            median(one) - median(other)
            for task in tasks
            if (one := known([one for one in runs if one.task == task], name))
            and (other := known([one for one in others if one.task == task], name))
        ]
        if paired:
            result = difference.pairs.figures[name]
            assert (result.tasks, result.difference.value) == (len(paired), pytest.approx(median(paired)))
            assert ends(result.difference) == pytest.approx(of_scipy(paired))
    if tasks:
        check_paired_success(difference.pairs.success, runs, others, tasks)


def check_paired_success(
    success: Payload, runs: Sequence[RunMeasures], others: Sequence[RunMeasures], tasks: set[str | None]
) -> None:
    """Compare the pairs with those of rates, and the interval with the formula of Bonett and Price."""
    signs = []
    for task in tasks:
        judged = known([one for one in runs if one.task == task], "success")
        other_judged = known([one for one in others if one.task == task], "success")
        if judged and other_judged:
            signs.append(np.sign(round(np.mean(judged) - np.mean(other_judged), 12)))
    if not signs:
        assert success is None
        return
    better, worse, tasks_judged = signs.count(1), signs.count(-1), len(signs)
    assert (success.better, success.worse, success.equal) == (better, worse, signs.count(0))
    shares = np.array([better + 1, worse + 1]) / (tasks_judged + 2)
    error = stats.norm.ppf(0.975) * math.sqrt((shares.sum() - (shares[0] - shares[1]) ** 2) / (tasks_judged + 2))
    center = shares[0] - shares[1]
    assert success.difference.value == pytest.approx((better - worse) / tasks_judged)
    assert ends(success.difference) == pytest.approx((max(-1.0, center - error), min(1.0, center + error)))


# ── which group a run is in ──────────────────────────────────────────────────────────────────────────────────────────

USED = {"usage": {"input_tokens": 10, "output_tokens": 5, "cost": 0.25}}
LS, CAT = use("c1", command="ls"), use("c2", name="cat", path="a")
FAILED = {"response": {}, "error": {"type": "rate_limit", "message": "later"}}


def made(*calls: Payload, **root: Payload) -> Trajectory:
    return run(*calls, **{"status": "completed", **root})


RUNS = [
    made(call(["q"], "a", response=USED), start_time="2025-06-12T23:30:00-02:00", success=True, metadata={"env": "x"}),
    made(call(["q"], "a", response=USED), call(["q"], "b", response=USED, model="n"), success=False, task="other"),
    made(call(["q"], "b", response=USED, model="n", agent="sub"), call(["q"], "a", response=USED), success=True),
    made(call(["q"], "a", LS, LS, CAT, response=USED), success=None, metadata={"env": ["x", 1]}),
    made(task=None, status="failed"),
    made(call(["q"], "a", response=USED), metadata={"replay_of": {"trajectory_id": "t0", "file": "a.json"}}),
    made(call(["q"], "a", response=USED), status="running"),
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("model", {"openai/m": 2, "openai/m + openai/n": 2, None: 1}),
        ("provider", {"openai": 4, None: 1}),
        ("task", {"try": 3, "other": 1, None: 1}),
        ("agent", {"sub": 1, None: 4}),
        ("tool", {"bash": 1, "cat": 1, None: 4}),
        ("day", {"2025-06-13": 1, None: 4}),
        ("status", {"completed": 4, "failed": 1}),
        ("meta:env", {"x": 1, "x\n1": 1, None: 3}),
    ],
)
def test_a_run_is_in_the_group_of_its_values(by: str, expected: dict[str | None, int]) -> None:
    """A run is in one group, by all of its models, and only tools put it into several. Replays are left out."""
    comparison = compare(iter(RUNS), by=by)

    assert {group.key[0]: group.runs for group in comparison.groups} == expected
    assert (comparison.runs, comparison.replays, comparison.running) == (5, 1, 1)
    assert (comparison.differences == ()) == (by == "tool")


def test_a_tool_s_group_has_the_calls_of_the_tool() -> None:
    """The tool calls of a group are those of its tool; other figures are those of the whole runs."""
    groups = {group.key[0]: group.figures for group in compare(RUNS, by="tool").groups}

    calls = {name: figures["tool_calls"] and figures["tool_calls"].total for name, figures in groups.items()}
    costs = {name: figures["cost"] and figures["cost"].total for name, figures in groups.items()}
    assert calls == {"bash": 2, "cat": 1, None: 0}
    assert costs == {"bash": 0.25, "cat": 0.25, None: 1.25}


def test_an_unjudged_run_did_not_fail() -> None:
    """The share of successes leaves out runs whose success is unknown."""
    [group, *_] = compare([RUNS[0], RUNS[3]], by="model").groups

    assert (group.runs, group.judged, group.succeeded, group.success and group.success.value) == (2, 1, 1, 1.0)


@pytest.mark.parametrize(
    ("calls", "cost", "tokens"),
    [
        ([call(["q"], "a", response=USED), call(["q"], **FAILED)], 0.25, 15),
        ([call(["q"], "a", response=USED), call(["q"], "a")], None, None),
        ([call(["q"], "a", response={"usage": {"input_tokens": 3, "output_tokens": 1}})], None, 4),
        ([call(["q"], **FAILED)], None, None),
        ([], None, None),
    ],
)
def test_a_figure_that_is_unknown_in_part_is_unknown(
    calls: list[Payload], cost: float | None, tokens: float | None
) -> None:
    """A failed call costs nothing that is known, and an answered call without figures makes the sums unknown."""
    measures = measures_of(made(*calls))

    assert (measures.cost, measures.tokens) == (cost, tokens)


@pytest.mark.parametrize("usage", [{"cost": 1e308}, {"input_tokens": 10**308}])
def test_a_figure_that_nobody_measured_is_unknown(usage: Payload) -> None:
    """Absurd numbers in files do not stop a comparison, and are in no sum."""
    absurd = made(call(["q"], "a", response={"usage": {"input_tokens": 1, "output_tokens": 1, "cost": 1, **usage}}))
    [group] = compare([absurd, absurd, RUNS[0]], by="status").groups
    known = {name: spread and spread.runs for name, spread in group.figures.items()}

    assert known["tokens" if "input_tokens" in usage else "cost"] == 1


def test_a_long_name_is_cut_and_stays_distinct() -> None:
    """Two tasks that differ only at their ends are two groups, with bounded names."""
    runs = [made(task="x" * 10_000 + end, success=True) for end in "abb"]
    comparison = compare(runs, by="task")

    assert [group.runs for group in comparison.groups] == [2, 1]
    assert all(len(str(group.key[0])) < MAX_NAME_CHARACTERS + 20 for group in comparison.groups)


def test_measures_are_read_as_they_were_written() -> None:
    """Measures are the same after they were kept as JSON, also if a text cannot be encoded."""
    for one in [*RUNS, made(task="\ud800", agent="\udfff", metadata={"\ud801": "\ud801"})]:
        measures = measures_of(one)
        assert measures_from(measures.to_text()) == measures


def test_two_groupings_compare_within_the_first() -> None:
    """Each group is compared with the group of the same first name that has the reference's second name."""
    comparison = compare(RUNS, by=["status", "task"])

    assert [group.key for group in comparison.groups] == [
        ("completed", "try"),
        ("completed", "other"),
        ("failed", None),
    ]
    assert [(one.key, one.reference) for one in comparison.differences] == [
        (("completed", "other"), ("completed", "try"))
    ]
    facts = comparison.to_json()
    assert facts["groups"][1]["key"] == {"status": "completed", "task": "other"}
    assert [entry["names"] for entry in facts["by"]] == [["completed", "failed"], ["try", "other", None]]


def test_a_path_is_not_a_run() -> None:
    """The message says how to load the runs of a directory."""
    with pytest.raises(TypeError, match=r"takes loaded runs, such as those of load_all\(directory\), and got str"):
        compare("trajectories", by="model")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("by", "against", "message"),
    [
        ("modl", None, "runs cannot be grouped by 'modl'; the groupings are model, provider, task"),
        ("meta", None, "runs cannot be grouped by 'meta'"),
        ("model:x", None, "runs cannot be grouped by 'model:x'"),
        ([], None, "one grouping, or by two different ones"),
        (["model", "model"], None, "one grouping, or by two different ones"),
        (["model", "task", "day"], None, "one grouping, or by two different ones"),
        ("task", "tri", "no run has the task 'tri' to compare with; the groups are 'try', 'other'"),
    ],
)
def test_a_wrong_grouping_or_reference_is_refused(by: str | list[str], against: str | None, message: str) -> None:
    """The message says which groupings or groups there are."""
    with pytest.raises(QueryError, match=message.replace("(", r"\(")):
        compare(RUNS, by=by, against=against)
