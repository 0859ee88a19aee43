"""Codex's rollouts that have a part of another rollout: forks, and sub-agents with the history of their parent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import real_files, said_in
from trace_recorder import load
from trace_recorder.values.trajectory import Trajectory

_PARENT = "019f6249-055d-76d3-b381-cd9d3eb99189"
_CHILD = "019f624a-cc95-7c50-b9fa-1db381270b73"
_CREATED = "2026-07-14T20:21:37.045Z"
"""The time in the id of the child."""
_Line = dict[str, Any]


def _line(time: str, kind: str, /, **payload: Any) -> _Line:
    return {"timestamp": f"2026-07-14T20:{time}.000Z", "type": kind, "payload": payload}


def _meta(time: str, identity: str, **facts: Any) -> _Line:
    return _line(time, "session_meta", id=identity, cli_version="0.144.4", model_provider="openai", **facts)


def _turn(minute: int, question: str, total: int, turn_id: str | None) -> list[_Line]:
    usage = {"input_tokens": 100, "output_tokens": 10}
    totals = {name: count * total for name, count in usage.items()}
    names = {} if turn_id is None else {"turn_id": turn_id}
    part = {"type": "input_text", "text": question}
    answer = {"type": "output_text", "text": f"Answer {question}"}
    return [
        _line(f"{minute}:01", "event_msg", type="task_started", **names),
        _line(f"{minute}:02", "turn_context", model="gpt-x", **names),
        _line(f"{minute}:03", "response_item", type="message", role="user", content=[part]),
        _line(f"{minute}:04", "response_item", type="message", role="assistant", content=[answer]),
        _line(
            f"{minute}:05",
            "event_msg",
            type="token_count",
            info={"total_token_usage": totals, "last_token_usage": usage},
        ),
        _line(f"{minute}:06", "event_msg", type="task_complete", **names),
    ]


def _parent_lines(*, turn_ids: bool) -> list[_Line]:
    ids = ["019f6249-0001-7000-8000-000000000000", "019f624a-0002-7000-8000-000000000000"] if turn_ids else [None] * 2
    return [_meta("19:40", _PARENT), *_turn(19, "1", 1, ids[0]), *_turn(20, "2", 2, ids[1])]


def _fork_lines(copy: list[_Line], *, turn_ids: bool, **facts: Any) -> list[_Line]:
    turn_id = "019f624b-0003-7000-8000-000000000000" if turn_ids else None
    meta = _meta("21:37", _CHILD, timestamp=_CREATED, **facts)
    return [meta, *copy, *_turn(30, "3", 3, turn_id)]


def _written(directory: Path, identity: str, lines: list[_Line]) -> Path:
    path = directory / f"rollout-2026-07-14T20-00-00-{identity}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _written_again(lines: list[_Line]) -> list[_Line]:
    """Return lines with the time of a copy."""
    return [line | {"timestamp": "2026-07-14T20:21:38.000Z"} for line in lines]


def _prompts(run: Trajectory) -> list[list[Any]]:
    return [[message.content for message in call.input_messages] for call in run.llm_interactions]


_HISTORY = ["1", "Answer 1", "2", "Answer 2", "3"]


@pytest.mark.parametrize("how", ["by turn ids", "by the parent's file", "by times"])
@pytest.mark.parametrize("facts", [{"forked_from_id": _PARENT}, {}], ids=["stated", "not stated"])
def test_the_calls_that_a_fork_copied_are_not_its_own(tmp_path: Path, how: str, facts: dict[str, str]) -> None:
    turn_ids = how == "by turn ids"
    lines = _parent_lines(turn_ids=turn_ids)
    if how == "by the parent's file":
        _written(tmp_path, _PARENT, [*lines, *_turn(22, "Another.", 3, None)])
    copy = lines if how == "by times" else _written_again(lines)
    run = load(_written(tmp_path, _CHILD, _fork_lines(copy, turn_ids=turn_ids, **facts)))

    assert (run.trajectory_id, run.parent, run.task, run.gaps) == (_CHILD, facts.get("forked_from_id"), "1", ())
    assert _prompts(run) == [_HISTORY]
    assert said_in(run) == [{"saw": 5, "text": "Answer 3", "usage": {"input_tokens": 100, "output_tokens": 10}}]


def test_a_fork_of_a_fork_has_only_its_own_calls(tmp_path: Path) -> None:
    copy = [_meta("20:00", "019f6249-ffff-7000-8000-000000000000"), *_parent_lines(turn_ids=True)]
    run = load(_written(tmp_path, _CHILD, _fork_lines(_written_again(copy), turn_ids=True, forked_from_id=_PARENT)))
    assert _prompts(run) == [_HISTORY]


def test_a_fork_without_a_turn_of_its_own_has_no_calls(tmp_path: Path) -> None:
    lines = _fork_lines(_written_again(_parent_lines(turn_ids=True)), turn_ids=True, forked_from_id=_PARENT)
    run = load(_written(tmp_path, _CHILD, lines[:-6]))
    assert (list(run.llm_interactions), run.gaps) == ([], ())


def test_a_sub_agent_that_copied_only_the_meta_of_its_parent_keeps_its_calls(tmp_path: Path) -> None:
    facts = {"forked_from_id": _PARENT, "thread_source": "subagent"}
    lines = _fork_lines([_meta("21:38", _PARENT)], turn_ids=True, **facts)
    assert _prompts(load(_written(tmp_path, _CHILD, lines))) == [["3"]]


def test_a_copy_whose_end_cannot_be_found_is_a_gap(tmp_path: Path) -> None:
    lines = _fork_lines(_written_again(_parent_lines(turn_ids=False)), turn_ids=False, forked_from_id=_PARENT)
    run = load(_written(tmp_path, _CHILD, lines))
    assert [gap.what for gap in run.gaps] == ["which calls belong to another session"]
    assert len(run.llm_interactions) == 3


def test_a_roll_back_of_a_fork_reaches_the_copied_turns(tmp_path: Path) -> None:
    lines = _fork_lines(_written_again(_parent_lines(turn_ids=True)), turn_ids=True, forked_from_id=_PARENT)
    lines.insert(-6, _line("29:00", "event_msg", type="thread_rolled_back", num_turns=1))
    assert _prompts(load(_written(tmp_path, _CHILD, lines))) == [["1", "Answer 1", "3"]]


def _activity(**members: Any) -> dict[str, Any]:
    return {"type": "sub_agent_activity", "event_id": "c1", "agent_thread_id": _CHILD, **members}


def _item(**members: Any) -> dict[str, Any]:
    return {"type": "item_completed", "item": {"id": "c1", **members}}


_STARTS = {
    "activity": [_activity(kind="started"), _activity(kind="interacted", event_id="c2")],
    "item": [_item(type="SubAgentActivity", kind="started", agent_thread_id=_CHILD)],
    "both": [_activity(kind="started"), _item(type="SubAgentActivity", kind="started", agent_thread_id=_CHILD)],
    "collab": [_item(type="CollabAgentToolCall", tool="spawn_agent", receiver_thread_ids=[_CHILD])],
}


def _delegating(events: list[dict[str, Any]]) -> list[_Line]:
    call = {"name": "spawn_agent", "call_id": "c1", "arguments": '{"message": "Look."}'}
    before, after = _turn(19, "1", 1, None), _turn(50, "2", 2, None)
    return [
        _meta("19:00", _PARENT),
        *before[:3],
        _line("19:03", "response_item", type="function_call", **call),
        *(_line("19:04", "event_msg", **event) for event in events),
        _line("19:05", "response_item", type="function_call_output", call_id="c1", output="{}"),
        *after[3:],
    ]


@pytest.mark.parametrize("events", _STARTS.values(), ids=_STARTS)
def test_a_sub_agent_is_joined_by_each_form_of_its_start(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": _PARENT, "agent_nickname": "Dewey"}}}
    _written(tmp_path, _CHILD, [_meta("19:04", _CHILD, source=source), *_turn(20, "Look.", 1, None)])
    run = load(_written(tmp_path, _PARENT, _delegating(events)))

    said = [(call.agent, call.agent_id, call.response.content) for call in run.llm_interactions]
    assert said == [(None, None, None), ("Dewey", _CHILD, "Answer Look."), (None, None, "Answer 2")]
    [result] = run.agent_steps[0].tool_results
    assert result.execution_id == run.llm_interactions[1].parent_execution_id
    assert run.gaps == ()


def test_a_sub_agent_whose_rollout_is_missing_is_a_gap(tmp_path: Path) -> None:
    [gap] = load(_written(tmp_path, _PARENT, _delegating(_STARTS["both"]))).gaps
    assert (gap.what, gap.why) == (f"the calls of the sub-agent {_CHILD}", "its rollout is not beside this file")


def test_the_newest_rollout_has_the_calls_of_its_sub_agent() -> None:
    [path] = real_files("newest/2026-11-28/codex-0.171/rollout-2026-11-28T15-49-13-*.jsonl")
    run = load(path)
    counts = [(call.agent, call.response.usage.output_tokens) for call in run.llm_interactions]
    assert (counts, run.gaps) == (
        [(None, 11), (None, 13), (None, 14), ("Dewey", 15), (None, 16), ("Dewey", 17), (None, 18)],
        (),
    )
