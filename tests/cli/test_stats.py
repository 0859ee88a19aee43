"""`trace-recorder stats`: figures over files, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.data.written import Writing, asked, called, said

ASKED = {"role": "user", "content": "q"}
USAGE = {"prompt_tokens": 1200, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 1000}}


def recorded(path: Path, model: str, cost: float | None = None) -> Path:
    """Record a run of two calls with a tool between them. The second call is retried."""
    use = called("c1", "bash", command="ls")
    usage = USAGE if cost is None else {**USAGE, "cost": cost}
    writing = Writing(path, provider="openai", model=model, task="list")
    writing.request(1, {**asked(ASKED), "model": model})
    writing.response(1, body=said("I look.", use, usage=usage, model=model))
    second = [ASKED, {"role": "assistant", "content": "I look.", "tool_calls": [use]}]
    second.append({"role": "tool", "tool_call_id": "c1", "content": "a.py"})
    writing.request(2, {**asked(*second), "model": model})
    writing.response(2, status=429, body={"error": {"type": "rate_limit", "message": "later"}}, duration_seconds=0.5)
    writing.request(2, {**asked(*second), "model": model}, attempt=1)
    writing.response(2, attempt=1, body=said("One file.", usage=usage, model=model))
    writing.add("finalize", status="completed", success=True, final_result=None, execution_time=30.0)
    writing.journal.close()
    return path


def test_figures_are_printed_for_each_model(tmp_path: Path) -> None:
    """Unknown values are marked, and a billed cost is distinguished from an estimate."""
    recorded(tmp_path / "a.jsonl", "local-a", cost=0.25)
    recorded(tmp_path / "b.jsonl", "local-b")
    result = invoke("stats", tmp_path)

    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[:3] == [
        "runs    2 runs: 2 completed; 2 success, 0 no success: accuracy 100% of 2 judged runs",
        "calls   4 LLM calls, 2 retries",
        "tokens  4,800 in, 120 out, 4,000 read from the cache, 83% of the input cached",
    ]
    assert lines[3].startswith("cost    0.500000 USD as billed (2 calls), unknown for 2 calls")
    assert [line.split()[:8] for line in lines if "local-" in line] == [
        ["openai/local-a", "2", "0", "1", "2,400", "60", "83%", "2.50"],
        ["openai/local-b", "2", "0", "1", "2,400", "60", "83%", "2.50"],
    ]
    assert [line.split()[-1] for line in lines if "local-" in line] == ["0.500000", "?"]
    assert lines[-1].split() == ["bash", "2", "0", "0", "2"]


def test_stats_json_has_numbers(tmp_path: Path) -> None:
    """`--json` has all figures as numbers. Unknown figures are absent."""
    recorded(tmp_path / "a.jsonl", "local-a")
    figures = json.loads(invoke("stats", tmp_path / "a.jsonl", "--json").stdout)

    counted = {"runs": 1, "completed": 1, "succeeded": 1, "not_succeeded": 0, "steps": 2, "replays": 0}
    assert figures["runs"] == counted | {
        "accuracy": 1.0,
        "accuracy_runs": 1,
    }
    assert figures["llm"]["tokens"] == {
        "prompt": 2400,
        "completion": 60,
        "cache_read": 2000,
        "cache_hit_rate": 0.8333,
    }
    assert "stated" not in figures["llm"]["cost"]
    assert figures["seconds"] == {"total": 30.0, "llm": 5.0}
    assert figures["unreadable"] == 0


def test_a_broken_file_is_reported_and_skipped(tmp_path: Path) -> None:
    """The figures cover the other files. The exit code says that a file is missing."""
    recorded(tmp_path / "a.jsonl", "local-a")
    (tmp_path / "broken.json").write_text("{")
    result = invoke("stats", tmp_path)

    assert (result.exit_code, "broken.json is not a trajectory" in result.stderr) == (1, True)
    assert result.stdout.startswith("runs    1 run: 1 completed")


def test_an_empty_directory_has_no_figures(tmp_path: Path) -> None:
    """For an empty directory, `stats` prints a message in place of figures."""
    for words in (["stats"], ["stats", "--json"]):
        result = invoke(*words, tmp_path)

        said = f"trace-recorder: there are no trajectories in {tmp_path}\n"
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", said)


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    """The message is one sentence."""
    result = invoke("stats", tmp_path / "missing")

    assert (result.exit_code, "missing: No such file or directory" in result.stderr) == (1, True)


@pytest.mark.parametrize("width", [60, 40])
def test_models_are_columns_on_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Each model has a column, with its figures one below the other. No line is wider than the terminal."""
    names = ["local-a", "local-b", "a-longer-name", "local-c", "local-d"]
    for name in names:
        recorded(tmp_path / f"{name}.jsonl", name, cost=0.25)
    monkeypatch.setenv("COLUMNS", str(width))
    lines = invoke("stats", tmp_path).stdout.splitlines()
    titles = [line.split()[1:] for line in lines if line.startswith("model ")]

    assert max(map(len, lines[:-3])) <= width
    assert [name for models in titles for name in models] == [f"openai/{name}" for name in sorted(names)]
    assert [line.split()[2:] for line in lines if line.startswith("tokens in")] == [
        ["2,400"] * len(models) for models in titles
    ]
    assert len(titles) == {60: 2, 40: 5}[width]


def test_several_processes_count_the_same_as_one(tmp_path: Path) -> None:
    """Figures, failures and their order are the same."""
    for number in range(9):
        recorded(tmp_path / f"{number}.jsonl", f"local-{number % 2}", cost=0.1 * number)
    (tmp_path / "3.json").write_text("{")
    (tmp_path / "broken.json").write_text("{")
    alone, together = (invoke("stats", tmp_path, "--json", "--jobs", jobs) for jobs in (1, 3))

    assert (together.stdout, together.stderr, together.exit_code) == (alone.stdout, alone.stderr, 1)
    assert json.loads(alone.stdout)["runs"]["runs"] == 9


def test_a_run_without_calls_has_no_tokens(tmp_path: Path) -> None:
    """`stats` says that a replay without calls has no tokens of its own."""
    writing = Writing(tmp_path / "a.jsonl", task="wait")
    writing.add("finalize", status="completed", success=None, final_result=None, execution_time=1.0)
    writing.journal.close()

    assert invoke("stats", tmp_path).stdout.splitlines()[:4] == [
        "runs    1 run: 1 completed; none judged",
        "calls   0 LLM calls",
        "tokens  none",
        "cost    nothing",
    ]


def sampled(path: Path, prompts: list[list[int]]) -> None:
    """Record a conversation at a server that states ids. Each call samples the token 9."""
    writing = Writing(path, provider="vllm", model="m")
    messages = [ASKED]
    for turn, prompt in enumerate(prompts, start=1):
        writing.request(turn, {**asked(*messages), "model": "m"})
        body = said(f"answer {turn}", model="m") | {"prompt_token_ids": prompt}
        body["choices"][0]["token_ids"] = [9]
        writing.response(turn, body=body)
        messages = [
            *messages,
            {"role": "assistant", "content": f"answer {turn}"},
            {"role": "user", "content": f"more {turn}"},
        ]
    writing.add("finalize", status="completed", success=True, final_result=None, execution_time=3.0)
    writing.journal.close()


def test_tokens_are_counted_by_model(tmp_path: Path) -> None:
    """`--tokens` counts what was sampled, and the calls whose prompts repeat the same messages by other tokens."""
    sampled(tmp_path / "a.jsonl", [[1], [1, 9, 2], [1, 9, 7, 7, 9, 3]])
    recorded(tmp_path / "b.jsonl", "local-b")
    printed = invoke("stats", tmp_path, "--tokens")
    figures = json.loads(invoke("stats", tmp_path, "--tokens", "--json").stdout)

    assert printed.stdout.splitlines() == [
        "runs    2 runs with 2 branches of tokens",
        "calls   3 calls with token ids, 2 without",
        "tokens  3 sampled",
        "",
        "model  template  calls  clean  realigned  forked",
        "m                    3      1          1       0",
    ]
    assert figures["models"] == [{"model": "m", "template": None, "calls": 3, "clean": 1, "realigned": 1, "forked": 0}]
    refused = invoke("stats", tmp_path, "--tokens", "--by", "model")
    assert (refused.exit_code, "without --by" in refused.stderr) == (2, True)
