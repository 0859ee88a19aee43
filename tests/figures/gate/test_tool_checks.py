"""The rules about tools, and the assertions of a test, which are the same functions."""

from __future__ import annotations

import re
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from tests.figures.gate.recorded_runs import answer, checked, recorded_run, tool
from trace_recorder import TrajectoryRecorder
from trace_recorder.figures.assertions import TrajectoryAssertions
from trace_recorder.figures.gate.checked_run import CheckedRun
from trace_recorder.figures.gate.rules import ArgumentRule, CountRange, ToolComparison
from trace_recorder.figures.gate.tool_checks import (
    check_arguments,
    check_counts,
    check_forbidden,
    check_in_order,
    compare_tools,
    values_at,
)

GOLDEN = ("look", "read", "read", "write")


def run_of(path: Path, *names: str) -> CheckedRun:
    """Return a run in which each answer calls one tool. Each call has its number as an argument."""
    calls = [answer(None, tool(name, f"call_{number}", number=number)) for number, name in enumerate(names, 1)]
    return checked(recorded_run(path, [*calls, answer("Done.")]))


def texts(violations: Any) -> list[str]:
    return [str(violation) for violation in violations]


ORDER = "order than in the golden run:"
COMPARED: list[tuple[tuple[str, ...], ToolComparison, list[str]]] = [
    (GOLDEN, "order", []),
    (
        ("read", "look", "read", "write"),
        "order",
        [f"tools: step 1: another {ORDER} [-look read-]{{+read look+}} read write"],
    ),
    (("look", "read", "read"), "order", ["tools: other calls than in the golden run: look read read[- write-]"]),
    (
        ("look", "read", "ask", "read", "write"),
        "order",
        ["tools: step 3: other calls than in the golden run: look read{+ ask+} read write"],
    ),
    (("write", "read", "look", "read"), "counts", []),
    (("look", "read", "write"), "counts", ["tools: step 2: read is called once, and 2 times in the golden run"]),
    (("write", "read", "look"), "set", []),
    (
        ("look", "ask", "read"),
        "set",
        [
            "tools: write is not called, but in the golden run",
            "tools: step 2: ask is called, but not in the golden run",
        ],
    ),
    (("ask",), "nothing", []),
]


@pytest.mark.parametrize(("names", "comparison", "expected"), COMPARED)
def test_tools_are_compared(
    names: tuple[str, ...], comparison: ToolComparison, expected: list[str], tmp_path: Path
) -> None:
    """Tools are compared by their order, their counts, their names, or not."""
    golden, live = run_of(tmp_path / "golden.json", *GOLDEN), run_of(tmp_path / "live.json", *names)

    assert texts(compare_tools(golden, live, comparison)) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([["look"], ["write", "read"]], []),
        ([["look"], ["read"], ["write"]], []),
        ([["read"], ["look", "write"]], [f"tools: step 1: another {ORDER} [-look read-]{{+read look+}} write"]),
    ],
)
def test_calls_of_one_answer_have_no_order(answers: list[list[str]], expected: list[str], tmp_path: Path) -> None:
    """A model that asks for the same tools at once, in another order, acts as before."""
    golden, live = (
        checked(recorded_run(tmp_path / name, [answer(None, *map(tool, names)) for names in run]))
        for name, run in (("golden.json", [["look"], ["read", "write"]]), ("live.json", answers))
    )

    assert texts(compare_tools(golden, live, "order")) == expected


def test_rules_about_tools_of_one_run(tmp_path: Path) -> None:
    """Each rule says what it expects and what the run has."""
    run = run_of(tmp_path / "run.json", *GOLDEN)
    counts = {"look": CountRange.of(1), "read": CountRange.of("..1"), "write": CountRange.of("2..3")}

    assert texts(check_in_order(run, ["look", "write"])) == []
    assert texts(check_in_order(run, ["write", "read"])) == [
        f"tools.in_order: write, read must be called in this order; read is not called after write: {[*GOLDEN]}"
    ]
    assert texts(check_forbidden(run, ["ask", "read"])) == [
        'tools.forbidden: step 2: read is called 2 times, and must not be called: {"number": 2}'
    ]
    assert texts(check_counts(run, counts | {"ask": CountRange.of("1..")})) == [
        "tools.counts: read is called 2 times, and must be called at most once",
        "tools.counts: write is called once, and must be called 2 to 3 times",
        "tools.counts: ask is called 0 times, and must be called at least once",
    ]


def agents_at_once(path: Path, orders: list[list[str]], names: list[str]) -> CheckedRun:
    """Return a run of agents that work at the same time: in each round, each agent of `names` calls a tool."""
    with TrajectoryRecorder(path, task="tea", strict=True) as recorder:
        contexts = [(name, copy_context(), tools) for name, tools in zip(names, orders, strict=True)]
        for name, context, _ in contexts:
            context.run(recorder.agent(name).__enter__)
        for turn in range(len(orders[0])):
            for name, context, tools in contexts:
                prompt = [{"role": "system", "content": f"You are the {name}."}]
                context.run(recorder.record_llm_interaction, prompt, answer(None, tool(tools[turn])), "openai", "m")
    return checked(path)


def test_agents_that_work_at_the_same_time_have_no_common_order(tmp_path: Path) -> None:
    """The calls of each agent are compared apart. Agents of one name are paired with agents that act alike."""
    first, second, third = ["look", "read"], ["ask", "ask"], ["look", "write"]
    golden = agents_at_once(tmp_path / "a.json", [first, second, third], ["scout", "boss", "scout"])
    same = agents_at_once(tmp_path / "b.json", [third, first, second], ["scout", "scout", "boss"])
    other = agents_at_once(tmp_path / "c.json", [third, ["look", "ask"], second], ["scout", "scout", "boss"])

    assert texts(compare_tools(golden, same, "order")) == []
    assert texts(compare_tools(golden, other, "order")) == [
        "tools: step 5: agent scout: other calls than in the golden run: look[- read-]{+ ask+}"
    ]


VALUE = {"a/b": {"~": [{"c": 1}]}, "": 2, "n": None}


@pytest.mark.parametrize(
    ("pointer", "values"),
    [
        ("", [VALUE]),
        ("/a~1b/~0/0/c", [1]),
        ("/", [2]),
        ("/n", [None]),
        ("/a~1b/~0/1", []),
        ("/a~1b/~0/-", []),
        ("/n/x", []),
        ("/x", []),
    ],
)
def test_a_pointer_is_that_of_rfc_6901(pointer: str, values: list[object]) -> None:
    """A pointer names a member or an element, with `~1` for a slash and `~0` for a tilde."""
    assert values_at(VALUE, pointer) == values


def writes(path: Path, *files: tuple[str, object]) -> CheckedRun:
    """Return a run that writes files."""
    calls = [tool("write", f"call_{name}", path=name, content=content) for name, content in files]
    return checked(recorded_run(path, [answer(None, *calls), answer("Done.")]))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ArgumentRule("write", "/path", one_of=("a.py", "b.md")), []),
        (ArgumentRule("write", "/path", one_of=("a.py",)), ['write /path: "b.md", and must be "a.py"']),
        (ArgumentRule("write", "/path", call=1, one_of=("a.py",)), []),
        (ArgumentRule("*", "/path", matches=re.compile(r"[.]py$")), ["write /path: \"b.md\", and must match '[.]py$'"]),
        (ArgumentRule("write", "/content", matches=re.compile("^[0-9]$")), []),
        (ArgumentRule("write", "/content", one_of=(1, 2)), ['write /content: "1", and must be 1 or 2']),
        (
            ArgumentRule("write", "/mode", call=2, one_of=("w",)),
            ['write /mode: there is no such argument in {"path": "b.md", "content": 2}'],
        ),
        (ArgumentRule("read", one_of=({},)), ["read is missing, so its arguments cannot be checked"]),
        (
            ArgumentRule("write", call=3, one_of=({},)),
            ["call 3 of write is missing, so its arguments cannot be checked"],
        ),
    ],
)
def test_a_rule_about_arguments(rule: ArgumentRule, expected: list[str], tmp_path: Path) -> None:
    """A rule applies to each call of a tool, or to one call. 1 and "1" are two values."""
    run = writes(tmp_path / "run.json", ("a.py", "1"), ("b.md", 2))

    assert [violation.message for violation in check_arguments(run, rule)] == expected


def test_arguments_are_compared_with_those_of_a_good_run(tmp_path: Path) -> None:
    """Changes are shown by member and by word. Times in the texts make no difference, and neither do calls that only
    one run has.
    """
    golden = writes(tmp_path / "a.json", ("a.py", "at 2025-06-12"), ("b.py", {"deep": [1, 2]}))
    live = writes(tmp_path / "b.json", ("a.py", "at 2026-01-01"), ("c.py", {"deep": [1, 3]}), ("d.py", "new"))

    assert texts(check_arguments(live, ArgumentRule("write"), golden)) == [
        "arguments: step 1: write arguments.path: [-b-]{+c+}.py",
        "arguments: step 1: write arguments.content.deep[1]: 3, and 2 in the golden run",
    ]
    assert texts(check_arguments(live, ArgumentRule("write", "/path", call=1), golden)) == []


def test_assertions_are_the_same_rules(tmp_path: Path) -> None:
    """Each assertion passes, or fails with the message of the rule."""
    recorded_run(tmp_path / "golden.json", [answer(None, tool("search", query="tea"), tokens=10), answer("Green.")])
    recorded_run(tmp_path / "run.json", [answer(None, tool("search", query="sencha"), tokens=20), answer("Green.")])
    run = TrajectoryAssertions(tmp_path / "run.jsonl")
    golden = tmp_path / "golden.jsonl"

    run.assert_tools_in_order("search")
    run.assert_not_called("delete")
    run.assert_arguments("search", "/query", equals="sencha")
    run.assert_arguments("search", "/query", one_of=["tea", "sencha"])
    run.assert_arguments("search", matches="sencha")
    run.assert_within(golden, tokens="+50%", steps="0%", cost=1.5)

    def failing(assertion: str, *arguments: Any, **options: Any) -> str:
        with pytest.raises(AssertionError) as failure:
            getattr(run, assertion)(*arguments, **options)
        return str(failure.value)

    assert failing("assert_tools_in_order", "search", "search") == (
        "search, search must be called in this order; search is not called after search: ['search']"
    )
    assert failing("assert_not_called", "search") == (
        'forbidden tools were called:\n  search is called once, and must not be called: {"query": "sencha"}'
    )
    assert failing("assert_arguments", "search", "/query", equals="tea") == (
        'search /query: "sencha", and must be "tea"'
    )
    assert failing("assert_arguments", "search", "/query", golden=golden) == "search /query: [-tea-]{+sencha+}"
    assert failing("assert_within", golden, tokens="+10%") == (
        "tokens: 32, and 22 in the golden run; at most 10% more is allowed"
    )


@pytest.mark.parametrize(
    ("assertion", "arguments", "options", "message"),
    [
        ("assert_arguments", ("a",), {}, "assert_arguments takes one of equals, one_of, matches and golden"),
        ("assert_arguments", ("a",), {"equals": 1, "matches": "1"}, "assert_arguments takes one of equals"),
        ("assert_arguments", ("a", "path"), {"equals": 1}, "'path' is not a JSON pointer"),
        ("assert_within", (), {"tokens": "+10%"}, "takes the golden run first"),
        ("assert_within", (), {}, "takes a limit of steps, tokens, cost or seconds"),
        ("assert_within", (), {"tokens": "ten"}, "'ten' is not a limit such as"),
    ],
)
def test_a_wrong_assertion_is_a_value_error(
    assertion: str, arguments: tuple[Any, ...], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """A wrong argument of an assertion is no failure of the run."""
    run = TrajectoryAssertions(recorded_run(tmp_path / "run.json", [answer("Green.")]).with_suffix(".jsonl"))

    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(run, assertion)(*arguments, **options)
