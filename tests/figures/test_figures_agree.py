"""The tokens and the costs of a run are the same in all lists, tables and exports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.chat_calls import Answer, Wire
from tests.cli.invoking import invoke
from tests.viewer.serving import serving
from trace_recorder import Trajectory, TrajectoryRecorder, load, open_index
from trace_recorder.catalog.costs_in_files import run_costs
from trace_recorder.figures.comparison.trajectory_diff import figures_of
from trace_recorder.figures.cost import RunCosts
from trace_recorder.figures.stats import Stats
from trace_recorder.formats.atif.writing import to_atif
from trace_recorder.formats.spans.writing.spans import to_spans
from trace_recorder.tables.rows import cells_of
from trace_recorder.values.messages import Payload

pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
MILLION = 1_000_000


class Figures(NamedTuple):
    """The figures of a run. `stated` is the bill of the providers. `cost` has the estimates too."""

    sent: int
    made: int
    stated: float | None
    cost: float | None
    estimated: bool | None
    calls_without_price: int


class Exchange(NamedTuple):
    """A request's URL and model, and the answer."""

    url: str
    model: str
    answer: dict[str, Payload]


def chat(host: str, model: str, usage: Payload, **members: Payload) -> Exchange:
    """Return an exchange with OpenAI's chat dialect."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage, **members}
    return Exchange(f"https://{host}/v1/chat/completions", model, answer)


def message(usage: Payload) -> Exchange:
    """Return an exchange with Anthropic: $3 in, $15 out, $6 for tokens that are cached for an hour."""
    content = [{"type": "text", "text": "ok"}]
    answer = {"id": "m", "type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn"}
    model = "claude-sonnet-4-6"
    return Exchange("https://api.anthropic.com/v1/messages", model, {**answer, "model": model, "usage": usage})


def generated(usage: Payload) -> Exchange:
    """Return an exchange with Gemini: $0.3 in, $2.5 out."""
    candidate = {"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
    answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}
    return Exchange(url, "gemini-2.5-flash", answer)


def responded(usage: Payload, *items: Payload) -> Exchange:
    """Return an exchange with OpenAI's Responses: $2.5 in, $10 out."""
    answer = {"id": "r", "object": "response", "status": "completed", "model": "gpt-4o", "output": [*items]}
    return Exchange("https://api.openai.com/v1/responses", "gpt-4o", {**answer, "usage": usage})


def of_openrouter(**members: Payload) -> Exchange:
    """Return an exchange with OpenRouter."""
    return chat("openrouter.ai/api", "openai/gpt-5", {"prompt_tokens": 1000, "completion_tokens": 100, **members})


XAI = {
    "prompt_tokens": 32,
    "completion_tokens": 9,
    "total_tokens": 135,
    "completion_tokens_details": {"reasoning_tokens": 94},
}
ITERATIONS = [
    {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
    {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
]
HOUR = {"cache_creation_input_tokens": MILLION, "cache_creation": {"ephemeral_1h_input_tokens": MILLION}}
UPSTREAM = {"upstream_inference_cost": 0.036}

CASES: dict[str, tuple[Exchange, Figures]] = {
    "stated": (of_openrouter(cost=0.25, is_byok=False), Figures(1000, 100, 0.25, 0.25, False, 0)),
    "own key": (
        of_openrouter(cost=0.0018, is_byok=True, cost_details=UPSTREAM),
        Figures(1000, 100, 0.0378, 0.0378, False, 0),
    ),
    "own key, unknown bill": (
        of_openrouter(cost=0, is_byok=True),
        Figures(1000, 100, None, 0.00225, True, 0),  # 1000 x 1.25 + 100 x 10
    ),
    "xAI, stated": (
        chat("api.x.ai", "grok-4", {**XAI, "cost_in_usd_ticks": 232_856_000}),
        Figures(32, 103, 0.0232856, 0.0232856, False, 0),
    ),
    "xAI, estimated": (
        chat("api.x.ai", "grok-4", XAI),
        Figures(32, 103, None, 0.001641, True, 0),  # 32 x 3 + 103 x 15
    ),
    "one-hour cache": (
        message({"input_tokens": 10, "output_tokens": 5, **HOUR}),
        Figures(1_000_010, 5, None, 6.000105, True, 0),
    ),
    "iterations": (
        message({"input_tokens": 23_000, "output_tokens": 1_000, "iterations": ITERATIONS}),
        Figures(203_000, 4_500, None, 0.6765, True, 0),  # 203,000 x 3 + 4,500 x 15
    ),
    "thoughts": (
        generated(
            {"promptTokenCount": 75, "candidatesTokenCount": 414, "thoughtsTokenCount": 117, "totalTokenCount": 606}
        ),
        Figures(75, 531, None, 0.00135, True, 0),  # 75 x 0.3 + 531 x 2.5
    ),
    "work without a rate": (
        responded({"input_tokens": MILLION, "output_tokens": 0}, {"type": "code_interpreter_call", "id": "i"}),
        Figures(MILLION, 0, None, 2.5, True, 1),
    ),
    "tier without a rate": (
        chat("api.openai.com", "gpt-4o", {"prompt_tokens": 9, "completion_tokens": 1}, service_tier="scale"),
        Figures(9, 1, None, None, None, 1),
    ),
    "stated 0": (
        message({"input_tokens": 10, "output_tokens": 5, "cost": 0}),
        Figures(10, 5, None, 0.000105, True, 0),
    ),
}
ALL = Figures(
    sum(figures.sent for _, figures in CASES.values()),
    sum(figures.made for _, figures in CASES.values()),
    0.25 + 0.0378 + 0.0232856,
    sum(figures.cost or 0 for _, figures in CASES.values()),
    estimated=True,
    calls_without_price=2,
)
RUNS: dict[str, tuple[list[Exchange], Figures]] = {
    **{name: ([exchange], figures) for name, (exchange, figures) in CASES.items()},
    "all": ([exchange for exchange, _ in CASES.values()], ALL),
}


@pytest.fixture(params=RUNS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Figures]:
    """Record the exchanges of a run, and return the path of the run and its figures, which were computed by hand."""
    exchanges, figures = RUNS[request.param]
    path = tmp_path / "runs" / "run.json"
    with TrajectoryRecorder(path) as recorder:
        for exchange in exchanges:
            wire = Wire(Answer(json.dumps(exchange.answer).encode()))
            with httpx.Client(transport=wire, trust_env=False) as client:
                asked = {"model": exchange.model, "messages": [{"role": "user", "content": "hi"}]}
                recorder.wrap(client).post(exchange.url, json=asked)
    return path, figures


def total(numbers: Iterable[Any]) -> Any:
    """Return the sum of the known numbers, or None."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def bills(run: Trajectory, path: Path) -> dict[str, tuple[Any, ...]]:
    """Return the tokens and the stated cost from all places that have no estimates."""
    document, atif = json.loads(path.read_text()), to_atif(run)["final_metrics"]
    sums = {
        "metrics": [run.metrics.get(name) for name in ("total_input_tokens", "output_tokens", "cost")],
        "document": [document["metrics"].get(name) for name in ("total_input_tokens", "output_tokens", "cost")],
        "ATIF": [atif.get(f"total_{name}") for name in ("prompt_tokens", "completion_tokens", "cost_usd")],
    }
    names = {
        "genai": ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "trace_recorder.usage.cost"),
        "openinference": ("llm.token_count.prompt", "llm.token_count.completion", "llm.cost.total"),
    }
    for convention, attributes in names.items():
        spans = [span for span in to_spans(run, convention) if attributes[0] in span.attributes]
        sums[convention] = [total(span.attributes.get(name) for span in spans) for name in attributes]
    return {name: tuple(figures) for name, figures in sums.items()}


def test_places_without_estimates_have_the_same_tokens_and_bill(case: tuple[Path, Figures]) -> None:
    """Metrics, the document, ATIF and spans have the tokens and the stated cost, and no estimate."""
    path, figures = case
    bill = (figures.sent, figures.made, pytest.approx(figures.stated))
    found = bills(load(path), path)
    assert found == dict.fromkeys(found, bill)


def _of_row(row: Any) -> tuple[Any, ...]:
    """Return the figures of a row of `list --json`, or of the viewer's list."""
    sent = row.get("total_input_tokens", row.get("input_tokens"))
    return sent, row["output_tokens"], row["cost"], row["cost_estimated"], row["calls_without_price"] or 0


def _of_calls(calls: Iterable[dict[str, Any]], sent: str, made: str) -> tuple[Any, ...]:
    """Return the sums over the rows of calls. A call is unknown in part if it has no cost, or names without a rate."""
    calls = [*calls]
    known = [call for call in calls if call["cost"] is not None]
    return (
        total(call[sent] for call in calls),
        total(call[made] for call in calls),
        total(call["cost"] for call in known),
        any(call["cost_estimated"] for call in known) if known else None,
        sum(call["cost"] is None or bool(call["without_rate"]) for call in calls),
    )


def _of_table(run: Trajectory, table: Any) -> list[dict[str, Any]]:
    cells = cells_of(run, table)
    return [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]


def costs(run: Trajectory, path: Path) -> dict[str, tuple[Any, ...]]:
    """Return the figures from all places that have estimates."""
    stats = Stats()
    stats.add(run)
    sums, compared = stats.every.to_json(), figures_of(run.llm_interactions)
    tokens, cost = sums["tokens"], sums["cost"]
    without_index = invoke("list", "--json", path.parent).stdout
    open_index(path.parent, path.parent.parent / "index").update()
    with_index = invoke("list", "--json", "--index", path.parent.parent / "index", path.parent).stdout
    with serving(path.parent) as client:
        version = client.get("/api/runs").json()["version"]
        [viewed] = client.get("/api/runs", params={"since": version}).json()["runs"] or [None]
        outline = client.get("/api/runs/run.json").json()
    return {
        "stats": (
            tokens["prompt"],
            tokens["completion"],
            total([cost.get("stated"), cost.get("estimated")]),
            "estimated" in cost if {"stated", "estimated"} & {*cost} else None,
            cost["unknown_calls"] + sum(cost.get("without_rate", {}).values()),
        ),
        "list": _of_row(json.loads(without_index)["trajectories"][0]),
        "list with an index": _of_row(json.loads(with_index)["trajectories"][0]),
        "table of runs": _of_row(_of_table(run, "runs")[0]),
        "table of calls": _of_calls(_of_table(run, "calls"), "input_tokens", "output_tokens"),
        "diff": (
            compared.input_tokens,
            compared.output_tokens,
            compared.cost,
            None if compared.cost is None else bool(compared.estimated_cost),
            compared.calls_without_price or 0,
        ),
        "the viewer's list": _of_row(viewed),
        "the viewer's run": _of_calls(outline["interactions"], "prompt_tokens", "completion_tokens"),
    }


def test_places_with_estimates_have_the_same_tokens_and_costs(case: tuple[Path, Figures]) -> None:
    """Statistics, lists, tables, comparisons and the viewer add the same estimate, and mark what is unknown in part."""
    path, figures = case
    expected = (figures.sent, figures.made, pytest.approx(figures.cost), *figures[4:])
    found = costs(load(path), path)
    assert found == dict.fromkeys(found, expected)
    assert run_costs(path) == RunCosts(*expected[2:])
