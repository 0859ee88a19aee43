"""The tokens of real rollouts of Codex: the provider's counts, and the totals of each session."""

from __future__ import annotations

import json

from tests.imports.foreign.files import real_files, runs_of
from trace_recorder import load


def test_the_newest_rollouts_have_the_provider_s_answers() -> None:
    [facts] = real_files("newest/truth.json")
    for name, calls in json.loads(facts.read_text()).items():
        if not name.startswith("codex"):
            continue
        for path in real_files(f"newest/{name}"):
            run = load(path)
            read = [
                {
                    "inp": call.response.usage.input_tokens,
                    "out": call.response.usage.output_tokens,
                    "text": call.response.content,
                    "calls": [(asked.call_id, asked.name, asked.arguments) for asked in call.response.tool_calls],
                    "model": call.model,
                }
                for call in run.llm_interactions
            ]
            assert read == [
                {name: call[name] for name in ("inp", "out", "text", "model")}
                | {"calls": [(asked["id"], asked["name"], asked["args"]) for asked in call["calls"]]}
                for call in calls
            ]


def test_the_tokens_of_real_rollouts_sum_to_their_totals() -> None:
    for path in real_files("codex/[!a]*/*.jsonl") + real_files("codex/a*/codex_session.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        infos = [line["payload"].get("info") for line in lines if line["payload"].get("type") == "token_count"]
        totals = [info["total_token_usage"] for info in infos if info][-1]
        (run,) = runs_of(path)
        (read,) = [load(path)]
        usages = [call.response.usage for call in read.llm_interactions]
        assert run.identity == read.trajectory_id
        for ours, theirs in (
            ("input_tokens", "input_tokens"),
            ("cache_read_input_tokens", "cached_input_tokens"),
            ("output_tokens", "output_tokens"),
            ("reasoning_tokens", "reasoning_output_tokens"),
        ):
            assert sum(getattr(usage, ours) or 0 for usage in usages) == totals[theirs], path
