"""Directories with runs of many kinds, for the tests of the index, and a plain answer to each query."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path

from trace_recorder import Trajectory, TrajectoryRecorder
from trace_recorder.catalog.query import Term, parse_query

WORDS = ("alpha", "beta", "Gamma", "exit code 1", "naïve café", "foo-bar_baz", "δέλτα", "x" * 300, "tail end")
TOOLS = ("bash", "read file", "a>b")
MODELS = (("openai", "gpt-4o"), ("anthropic", "claude-x"), ("ollama", "m"))


def record_run(path: Path, seed: int) -> Path:
    """Record a run by hand; equal seeds give runs that say the same."""
    chosen = random.Random(seed)
    provider, model = chosen.choice(MODELS)
    task, metadata = f"Task {chosen.choice(WORDS[:5])}", {"env": chosen.choice("ab")}
    with suppress(RuntimeError), TrajectoryRecorder(path, task=task, metadata=metadata) as run:
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
        if chosen.random() < 0.4:
            run.reward("solved", chosen.choice([0.0, 0.5, 1.0]))
        if chosen.random() < 0.3:
            raise RuntimeError("broken")
        run.finalize(success=chosen.choice([True, False, None]))
    return path


def settle(directory: Path) -> None:
    """Make the files of runs look older than this moment, so that an index keeps them."""
    for path in directory.rglob("*.json*"):
        if path.is_file():
            then = path.stat().st_mtime - 10
            os.utime(path, (then, then))


def make_runs(directory: Path, count: int) -> Path:
    """Make runs in several directories, and among them files that are no runs, and an unfinished one."""
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
    """Whether a run matches a query, by plain Python over its values."""
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
        "model": [f"{one.provider or ''}/{one.model or ''}" for one in calls if one.provider or one.model],
        "provider": [one.provider or "" for one in calls],
        "agent": [one.agent or "" for one in calls] + [one.agent or "" for one in steps],
        "task": [run.task or ""],
    }
    if term.field in names:
        return any(name and value.casefold() in name.casefold() for name in names[term.field])
    tokens = [run.metrics.get(name) for name in ("total_input_tokens", "output_tokens")]
    numbers = {
        "calls": run.metrics.get("llm_calls"),
        "steps": len(steps),
        "tokens": sum(filter(None, tokens)) if any(one is not None for one in tokens) else None,
    }
    if term.field in numbers:
        return _compares(numbers[term.field], term)
    return _has_what_is_named(run, term, value)


def _has_what_is_named(run: Trajectory, term: Term, value: str) -> bool:
    asked = Counter(call.name for step in run.agent_steps for call in step.tool_calls)
    given = {one.name: one.value for one in run.rewards}
    failed = run.metrics["failed_llm_calls"] or run.metrics["failed_tool_calls"]
    return {
        "tool": lambda: asked[value] > 0 and (term.relation is None or _compares(asked[value], term)),
        "reward": lambda: value in given and (term.relation is None or _compares(given[value], term)),
        "status": lambda: run.status in value.split(","),
        "success": lambda: {"yes": True, "no": False, "unknown": None}[value] is run.success,
        "is": lambda: run.success is False or run.status == "failed",
        "has": lambda: run.error is not None or bool(failed),
        "meta": lambda: run.metadata.get(value) == term.text,
        "since": lambda: run.started_at is not None and run.started_at.timestamp() >= float(term.value),
    }[term.field]()


def plain_texts(run: Trajectory) -> list[str]:
    """All texts that were sent, said, and given to tools."""
    texts = []
    for call in run.llm_interactions:
        texts += [message.content for message in call.input_messages if isinstance(message.content, str)]
        texts += [call.response.content or ""]
        texts += [f'{{"cmd": "{one.arguments["cmd"]}"}}' for one in call.response.tool_calls]
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
    """Cut a text as unicode61 does, for the characters that occur here."""
    plain = text.lower().translate(str.maketrans("ïéέ", "ieε"))
    return [token.lower() for token in re.findall(r"[^\W_]+", _storable(plain))]


def _has(tokens: list[str], wanted: list[str]) -> bool:
    return any(tokens[at : at + len(wanted)] == wanted for at in range(len(tokens)))


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def random_query(chosen: random.Random) -> str:
    """Return a query of one to three terms."""
    return " ".join(_random_term(chosen) for _ in range(chosen.randint(1, 3)))


def _random_term(chosen: random.Random) -> str:
    number, relation = chosen.randint(0, 4), chosen.choice(["<", "<=", ">", ">=", "="])
    word = chosen.choice(WORDS[:8])
    part = chosen.choice(word.split())
    term = chosen.choice(
        [
            *(part, part.upper(), f'"{word}"', f'"{word} {chosen.choice(WORDS[:8])}"', f'text~"{word[1:6]}"'),
            *(f"status:{chosen.choice(['failed', 'completed', 'failed,interrupted'])}", "is:failed", "has:error"),
            *(
                f"success:{chosen.choice(['yes', 'no', 'unknown'])}",
                f"model:{chosen.choice(['GPT', 'claude-x', 'open'])}",
            ),
            *(
                f'tool:"{chosen.choice(TOOLS)}"{relation}{number}',
                f"tool:{chosen.choice(['bash', 'none'])}",
                "agent:sub",
            ),
            *(f"calls{relation}{number}", f"steps:{number}", f"tokens{relation}{number * 40}", "provider:anthropic"),
            *(
                "reward:solved",
                f"reward:solved{relation}0.5",
                f"meta:env={chosen.choice('ab')}",
                "since:1d",
                "since:0d",
            ),
            f'task:"{chosen.choice(["task", "BETA", "exit code", "nothing"])}"',
        ]
    )
    return chosen.choice(["", "", "-"]) + term
