"""The tokens of Codex's rollouts: the provider's counts, the totals of each session, and totals that come again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import real_files, runs_of
from trace_recorder import load
from trace_recorder.values.trajectory import Trajectory


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


_Counts = tuple[int, int]


def _rollout(directory: Path, snapshots: list[list[tuple[_Counts, _Counts | None]]]) -> Trajectory:
    """Load a rollout with one answer for each list of snapshots: the totals, and the last call's usage if stated."""
    lines: list[Any] = [{"type": "session_meta", "payload": {"id": "s"}}]
    for answer, states in enumerate(snapshots):
        for role, kind in (("user", "input_text"), ("assistant", "output_text")):
            content = [{"type": kind, "text": str(answer)}]
            lines.append({"type": "response_item", "payload": {"type": "message", "role": role, "content": content}})
        for totals, last in states:
            names = ("total_token_usage", totals), ("last_token_usage", last)
            info = {name: {"input_tokens": one[0], "output_tokens": one[1]} for name, one in names if one is not None}
            lines.append({"type": "event_msg", "payload": {"type": "token_count", "info": info}})
    path = directory / "rollout.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return load(path)


_SNAPSHOTS: dict[str, list[list[tuple[_Counts, _Counts | None]]]] = {
    "repeated": [[((100, 10), (100, 10))] * 2, [((250, 30), (150, 20))] * 3],
    "back and again": [
        [((100, 10), (100, 10))],
        [((250, 30), (150, 20)), ((100, 10), (100, 10)), ((250, 30), (150, 20))],
    ],
    "back to new totals": [[((100, 10), (100, 10))], [((250, 30), (150, 20)), ((180, 20), (80, 10))]],
    "only totals": [[((100, 10), None)], [((250, 30), None)] * 2],
    "only totals, back and again": [[((100, 10), None)], [((250, 30), None), ((100, 10), None), ((250, 30), None)]],
    "zero after a compaction": [[((100, 10), (100, 10)), ((0, 0), (0, 0))], [((250, 30), (150, 20))]],
}


@pytest.mark.parametrize("snapshots", _SNAPSHOTS.values(), ids=_SNAPSHOTS)
def test_totals_that_come_again_are_counted_once(
    tmp_path: Path, snapshots: list[list[tuple[_Counts, _Counts | None]]]
) -> None:
    read = _rollout(tmp_path, snapshots)
    usages = [call.response.usage for call in read.llm_interactions]
    assert [(usage.input_tokens, usage.output_tokens) for usage in usages] == [(100, 10), (150, 20)]


def test_totals_that_begin_again_are_counted(tmp_path: Path) -> None:
    begin, again = ((100, 10), (100, 10)), ((40, 5), (40, 5))
    read = _rollout(tmp_path, [[begin], [((250, 30), (150, 20))], [again], [((90, 9), (50, 4))]])
    assert (read.metrics["input_tokens"], read.metrics["output_tokens"]) == (340, 39)
