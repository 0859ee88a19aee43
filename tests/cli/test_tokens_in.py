"""Input tokens: one number, which includes cached tokens, wherever it is printed, sorted or shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.formats.sdk_conversations import gemini
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.catalog.rows import summary_of

USAGE = {
    "input_tokens": 252,
    "output_tokens": 9,
    "cache_read_input_tokens": 1_000_000,
    "cache_creation_input_tokens": 50,
}
COUNTS = {"anthropic": 1_000_302, "openai": 252}
"""The input tokens of the same usage: Anthropic excludes cached tokens from its input, other providers include them."""


def _recorded(path: Path, provider: str) -> Path:
    answer = {"content": "a", "model": "m", "usage": USAGE}
    with TrajectoryRecorder(path, provider=provider) as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], answer, provider, "m")
    return path


@pytest.mark.parametrize("provider", COUNTS)
def test_metrics_count_input_tokens_in_one_way(tmp_path: Path, provider: str) -> None:
    metrics = load(_recorded(tmp_path / "run.json", provider)).metrics
    assert metrics["input_tokens"] == 252
    assert (metrics["total_input_tokens"], metrics["cached_input_tokens"]) == (COUNTS[provider], 1_000_000)


@pytest.mark.parametrize("provider", COUNTS)
def test_list_show_stats_and_the_viewer_say_the_same(tmp_path: Path, provider: str) -> None:
    path = _recorded(tmp_path / "run.json", provider)
    count = COUNTS[provider]
    listed: dict[str, Any] = json.loads(invoke("list", "--json", tmp_path).output)
    assert [run["input_tokens"] for run in listed["trajectories"]] == [count]
    assert f"{count:,} in" in invoke("show", path).output
    assert f"{count:,}" in invoke("stats", path).output
    assert summary_of(path, "run.json")["total_input_tokens"] == count


def test_show_prints_thoughts_in_the_output_of_a_call(tmp_path: Path) -> None:
    """The line of a call counts the thoughts that Gemini states apart, as the header of the run does."""
    path = gemini(tmp_path)
    counts = re.findall(r"(\d+) in, (\d+) out, (\d+) for reasoning", invoke("show", path).output)
    assert counts == [("24", "12", "4"), ("12", "6", "2"), ("12", "6", "2")]
