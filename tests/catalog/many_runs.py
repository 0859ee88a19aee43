"""Directories with runs of many kinds, for the tests of the index, and a simple evaluation of each query."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from trace_recorder import Trajectory, TrajectoryRecorder
from trace_recorder.catalog.query import CHOICES, FIELDS, STATUSES, Term, parse_query
from trace_recorder.catalog.searched_values import NUMBERS
from trace_recorder.figures.cost import cost_of

WORDS = ("alpha", "beta", "Gamma", "exit code 1", "naïve café", "foo-bar_baz", "δέλτα", "x" * 300, "tail end")
TOOLS = ("bash", "read file", "a>b")
MODELS = (("openai", "gpt-4o"), ("anthropic", "claude-x"), ("ollama", "m"))
TAGS: tuple[dict[str, Any], ...] = ({}, {"tags": ["audit", "two words", 3]}, {"tag": "audit"}, {"tags": {"kind": "b"}})
"""The tags that the metadata of runs state, in each form."""
QUERY_FIELDS = ("words", *FIELDS)
"""Every field of the query language, and "words" for terms without a field."""


def record_run(path: Path, seed: int) -> Path:
    """Record a run by hand. Equal seeds give runs with equal contents."""
    chosen = random.Random(seed)
    provider, model = chosen.choice(MODELS)
    task = f"Task {chosen.choice(WORDS[:5])}"
    metadata: dict[str, Any] = {"env": chosen.choice("ab"), **TAGS[seed % len(TAGS)]}
    session = ("chat 1", "chat 2", None)[seed % 3]
    with suppress(RuntimeError), TrajectoryRecorder(path, task=task, session=session, metadata=metadata) as run:
        for number in range(chosen.randint(1, 4)):
            calls = [
                {"id": f"c{number}{at}", "name": chosen.choice(TOOLS), "arguments": {"cmd": chosen.choice(WORDS)}}
                for at in range(chosen.randint(0, 3))
            ]
            asked = [{"role": "user", "content": f"{chosen.choice(WORDS)} {chosen.choice(WORDS)}"}]
            usage = {"input_tokens": chosen.randint(1, 99), "output_tokens": 5} if chosen.random() < 0.7 else None
            said = {"content": chosen.choice(WORDS), "tool_calls": calls} | ({"usage": usage} if usage else {})
            answer = ValueError("refused") if chosen.random() < 0.1 else said
            with run.agent("sub") if number == 2 else nullcontext():
                run.record_llm_interaction(asked, answer, provider, model)
            if calls and answer is said and seed % 2:
                _run_tools(run, calls[: seed % 4], fails=number % 2 == 0)
        if seed % 3 == 0:
            run.annotate("team", chosen.choice("xy"))
            run.annotate("tags", ["later"])
        if chosen.random() < 0.4:
            run.reward("solved", chosen.choice([0.0, 0.5, 1.0]))
        if chosen.random() < 0.3:
            raise RuntimeError("broken")
        run.finalize(success=chosen.choice([True, False, None]))
    return path


def _run_tools(run: TrajectoryRecorder, calls: list[dict[str, Any]], *, fails: bool) -> None:
    """Run the tools of some calls, of which the first may fail."""
    for number, call in enumerate(calls):
        with suppress(ValueError), run.tool_call(call["name"], call["arguments"], call["id"]):
            if fails and number == 0:
                raise ValueError("no such file")


def settle(directory: Path) -> None:
    """Set the times of runs' files to the past, so that an index keeps the runs."""
    for path in directory.rglob("*.json*"):
        if path.is_file():
            then = path.stat().st_mtime - 10
            os.utime(path, (then, then))


def make_runs(directory: Path, count: int) -> Path:
    """Write runs to several directories, with files between them that are not runs, and an unfinished run."""
    for seed in range(count):
        record_run(directory / ("", "below", "below/deeper")[seed % 3] / f"run{seed}.json", seed)
    (directory / "damaged.json").write_text("{}")
    unfinished = record_run(directory / "unfinished.json", 99)
    journal = unfinished.with_suffix(".jsonl")
    journal.write_bytes(b"".join(line for line in journal.read_bytes().splitlines(True) if b'"finalize"' not in line))
    unfinished.unlink()
    settle(directory)
    return directory


# ── a plain answer ───────────────────────────────────────────────────────────────────────────────────────────────────


def matches(run: Trajectory, query: str) -> bool:
    """Return whether a run matches a query, by a plain comparison of its values."""
    return all(_matches(run, term) is not term.negated for term in parse_query(query))


def _matches(run: Trajectory, term: Term) -> bool:
    value = str(term.value)
    texts = [_storable(text) for text in plain_texts(run)]
    if term.field == "words":
        wanted = _tokens(value)
        return bool(wanted) and any(_has(_tokens(text), wanted) for text in texts)
    if term.field == "text":
        return any(value in text for text in texts)
    calls, steps = run.llm_interactions, run.agent_steps
    names: dict[str, list[str]] = {
        "model": [f"{call.provider or ''}/{call.model or ''}" for call in calls if call.provider or call.model],
        "provider": [call.provider or "" for call in calls],
        "agent": [call.agent or "" for call in calls] + [step.agent or "" for step in steps],
        "task": [run.task or ""],
        "error": [f"{error.type}: {error.message}" for error in (*(call.error for call in calls), run.error) if error],
    }
    if term.field in names:
        return any(name and value.casefold() in name.casefold() for name in names[term.field])
    if term.field in NUMBERS:
        return _compares(_number(run, term.field), term)
    return _has_what_is_named(run, term, value)


def _number(run: Trajectory, name: str) -> float | None:
    """Return a number of a run. The costs of its models are unknown, except for those in a price table."""
    calls, results = run.llm_interactions, [result for step in run.agent_steps for result in step.tool_results]
    usages = [call.response.usage for call in calls]
    sent = [usage.input_tokens for usage in usages if usage.input_tokens is not None]
    received = [usage.output_tokens for usage in usages if usage.output_tokens is not None]
    return {
        "calls": lambda: len(calls),
        "failed_calls": lambda: sum(call.error is not None for call in calls),
        "steps": lambda: len(run.agent_steps),
        "tool_calls": lambda: sum(len(step.tool_calls) for step in run.agent_steps),
        "failed_tool_calls": lambda: sum(result.success is False for result in results),
        "input_tokens": lambda: _sum(sent),
        "output_tokens": lambda: _sum(received),
        "tokens": lambda: _sum(sent + received),
        "cost": lambda: _sum([cost.amount for cost in map(cost_of, calls) if cost is not None]),
        "seconds": lambda: run.execution_time,
    }[name]()


def _sum(numbers: Sequence[float]) -> float | None:
    return sum(numbers) if numbers else None


def _has_what_is_named(run: Trajectory, term: Term, value: str) -> bool:
    asked = Counter(call.name for step in run.agent_steps for call in step.tool_calls)
    failures = Counter(
        result.name for step in run.agent_steps for result in step.tool_results if result.success is False
    )
    rewards = {reward.name: reward.value for reward in run.rewards}
    statuses = {run.status, {True: "success", False: "no-success", None: ""}[run.success]}
    return {
        "tool": lambda: asked[value] > 0 and (term.relation is None or _compares(asked[value], term)),
        "failed_tool": lambda: (
            _compares(failures[value], term) if term.relation and asked[value] else failures[value] > 0
        ),
        "reward": lambda: value in rewards and (term.relation is None or _compares(rewards[value], term)),
        "id": lambda: run.trajectory_id == value,
        "parent": lambda: run.parent == value,
        "session": lambda: run.session == value,
        "status": lambda: not statuses.isdisjoint(value.split(",")),
        "success": lambda: {"yes": True, "no": False, "unknown": None}[value] is run.success,
        "is": lambda: run.success is True if value == "success" else run.success is False or run.status == "failed",
        "tag": lambda: value in _tags(run),
        "has": lambda: run.error is not None or bool(_number(run, "failed_calls") or _number(run, "failed_tool_calls")),
        "meta": lambda: value in run.metadata and term.text in {None, run.metadata[value]},
        "annotation": lambda: value in run.annotations and term.text in {None, run.annotations[value]},
        "since": lambda: run.started_at is not None and run.started_at.timestamp() >= float(term.value),
        "until": lambda: run.started_at is not None and run.started_at.timestamp() < float(term.value),
    }[term.field]()


def _tags(run: Trajectory) -> set[str]:
    stated = [run.metadata.get("tags", []), run.annotations.get("tags", []), [run.metadata.get("tag")]]
    return {tag for tags in stated for tag in tags if isinstance(tag, str)}


def plain_texts(run: Trajectory) -> list[str]:
    """Return all texts that were sent, answered, or returned by tools."""
    texts = []
    for call in run.llm_interactions:
        texts += [message.content for message in call.input_messages if isinstance(message.content, str)]
        texts += [call.response.content or ""]
        texts += [f'{{"cmd": "{tool_call.arguments["cmd"]}"}}' for tool_call in call.response.tool_calls]
    return texts


def _compares(number: float | None, term: Term) -> bool:
    if number is None or term.number is None:
        return False
    return {
        "<": number < term.number,
        "<=": number <= term.number,
        ">": number > term.number,
        ">=": number >= term.number,
        "=": number == term.number,
    }[term.relation or "="]


def _tokens(text: str) -> list[str]:
    """Split a text into tokens as unicode61 does, for the characters that occur here."""
    plain = text.lower().translate(str.maketrans("ïéέ", "ieε"))
    return [token.lower() for token in re.findall(r"[^\W_]+", _storable(plain))]


def _has(tokens: list[str], wanted: list[str]) -> bool:
    return any(tokens[at : at + len(wanted)] == wanted for at in range(len(tokens)))


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def random_query(chosen: random.Random, runs: Sequence[Trajectory] = (), field: str = "") -> str:
    """Return a query of one to three terms, the first of which has the given field, if any."""
    fields = [field or chosen.choice(QUERY_FIELDS), *chosen.choices(QUERY_FIELDS, k=chosen.randint(0, 2))]
    return " ".join(chosen.choice(["", "", "-"]) + _random_term(chosen, runs, field) for field in fields)


def _random_term(chosen: random.Random, runs: Sequence[Trajectory], field: str) -> str:
    relation, word = chosen.choice(["<", "<=", ">", ">=", "="]), chosen.choice(WORDS[:8])
    if field in NUMBERS:
        known = [number for run in runs if (number := _number(run, field)) is not None]
        if field == "cost":  # a sum of fractions depends on their order, so no query compares a sum
            known = [number * chosen.choice([0.9, 1.1]) for number in known]
        return f"{field}{chosen.choice([relation, f':{relation}', ':'])}{chosen.choice([0, 1, 2, 4, *known])!r}"
    part, tool = chosen.choice(word.split()), f'"{chosen.choice([*TOOLS, "none"])}"'
    number = chosen.choice(["", f"{relation}{chosen.randint(0, 4)}"])
    values = {
        "words": [part, part.upper(), f'"{word}"', f'"{word} {chosen.choice(WORDS[:8])}"'],
        "text": [word[1:6]],
        "status": [*STATUSES, "failed,interrupted", "success,running"],
        "task": ["task", "BETA", "exit code", "nothing"],
        "model": ["GPT", "claude-x", "open", "/m"],
        "provider": ["anthropic", "O", "none"],
        "agent": ["sub", "SU", "none"],
        "error": ["refused", "ValueError", "BROKEN", "none"],
        "id": [str(run.trajectory_id) for run in runs] or ["none"],
        "parent": [str(run.trajectory_id) for run in runs] or ["none"],
        "session": ["chat 1", "chat 2", "none"],
        **CHOICES,
        "tool": [f"{tool}{number}"],
        "failed_tool": [f"{tool}{number}"],
        "reward": ["solved", "none", f"solved{relation}0.5"],
        "meta": ["env", "none", "env=a", "env=b"],
        "annotation": ["team", "none", "team=x", "team=y"],
        "tag": ["audit", '"two words"', "later", "kind", "3", "none"],
        "older": ["1d", "0d", "2w"],
        "since": ["1d", "0d", "2020-01-01"],
        "until": ["1d", "0d", "2100-01-01T00:00"],
    }
    value = chosen.choice([*values[field]])
    if field == "words":
        return value
    quoted = f'"{value}"' if " " in value and not value.startswith('"') else value
    return f"{field}{'~' if field == 'text' else ':'}{quoted}"
