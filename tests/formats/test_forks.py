"""Sessions that were forked from another session: copied calls are not theirs, and copied messages are given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.counting import calls
from trace_recorder import load
from trace_recorder.values.trajectory import Trajectory

_Line = dict[str, Any]
_Session = Callable[[str, list[_Line]], list[_Line]]


def _time(number: int) -> str:
    return f"2026-09-07T10:00:{number:02}.000Z"


def _written(path: Path, lines: list[_Line]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _claude(number: int, role: str, content: Any, **members: Any) -> _Line:
    message = {"role": role, "content": content}
    if role == "assistant":
        usage = {"input_tokens": 10, "output_tokens": 5}
        message |= {"id": f"m{number}", "model": "claude", "usage": usage}
    tree = {"uuid": str(number), "parentUuid": str(number - 1) if number > 1 else None}
    return {"type": role, "sessionId": "s1", "timestamp": _time(number), **tree, "message": message} | members


def _claude_turns(first: int, last: int, **members: Any) -> list[_Line]:
    roles = {1: "user", 0: "assistant"}
    texts = ((number, roles[number % 2]) for number in range(first, last + 1))
    return [_claude(number, role, [{"type": "text", "text": f"{role} {number}"}], **members) for number, role in texts]


def _claude_fork() -> list[_Line]:
    origin = {"sessionId": "s1"}
    copies = [
        line | {"sessionId": "s2", "forkedFrom": {**origin, "messageUuid": line["uuid"]}}
        for line in _claude_turns(1, 4)
    ]
    return [*copies, *_claude_turns(5, 6, sessionId="s2")]


def _qwen_fork() -> list[_Line]:
    def line(number: int) -> _Line:
        kind = "user" if number % 2 else "assistant"
        message = {"role": "user" if number % 2 else "model", "parts": [{"text": f"{kind} {number}"}]}
        counts = {} if number % 2 else {"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5}}
        copied = {"forkedFrom": {"sessionId": "s1", "messageUuid": str(number)}} if number < 5 else {}
        parent = str(number - 1) if number > 1 else None
        tree = {"uuid": str(number), "parentUuid": parent, "sessionId": "s2"}
        return {"type": kind, "timestamp": _time(number), "message": message, **tree, **counts, **copied}

    return [line(number) for number in range(1, 7)]


def _pi(number: int) -> _Line:
    role = "user" if number % 2 else "assistant"
    message: _Line = {"role": role, "content": [{"type": "text", "text": f"{role} {number}"}]}
    if role == "assistant":
        message |= {"provider": "p", "model": "m", "stopReason": "stop", "usage": {"input": 10, "output": 5}}
    parent = str(number - 1) if number > 1 else None
    return {"type": "message", "id": str(number), "parentId": parent, "timestamp": _time(number), "message": message}


def _pi_session(identity: str, time: str, first: int, last: int, **members: Any) -> list[_Line]:
    header = {"type": "session", "version": 3, "id": identity, "timestamp": time, "cwd": "/w", **members}
    return [header, *map(_pi, range(first, last + 1))]


def _said(run: Trajectory) -> list[tuple[list[Any], Any, Any]]:
    return [
        (
            [_text(message.content) for message in call.input_messages],
            call.response.content,
            call.response.usage.output_tokens,
        )
        for call in run.llm_interactions
    ]


def _text(content: Any) -> Any:
    return content if isinstance(content, str) else content[0]["text"]


_OWN = [(["user 1", "assistant 2", "user 3", "assistant 4", "user 5"], "assistant 6", 5)]


@pytest.mark.parametrize("lines", [_claude_fork(), _qwen_fork()], ids=["claude-code", "qwen"])
def test_marked_copies_are_given(tmp_path: Path, lines: list[_Line]) -> None:
    run = load(_written(tmp_path / "s2.jsonl", lines))
    assert (_said(run), run.trajectory_id, run.parent, run.gaps) == (_OWN, "s2", "s1", ())


def test_a_copy_that_was_written_twice_and_marked_once_is_given(tmp_path: Path) -> None:
    fork = _claude_fork()
    unmarked = [{name: value for name, value in line.items() if name != "forkedFrom"} for line in fork[:4]]
    for lines in ([*fork[:4], *unmarked, *fork[4:]], [*unmarked, *fork]):
        assert _said(load(_written(tmp_path / "s2.jsonl", lines))) == _OWN


def test_a_sub_agent_of_the_other_session_is_not_the_fork_s(tmp_path: Path) -> None:
    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "Look."}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "Seen."}
    copied = {"forkedFrom": {"sessionId": "s1", "messageUuid": "x"}}
    lines = [
        _claude(1, "user", "user 1", **copied),
        _claude(2, "assistant", [task], **copied),
        _claude(3, "user", [result], toolUseResult={"agentId": "a1"}, **copied),
        _claude(4, "assistant", [{"type": "text", "text": "assistant 4"}], **copied),
        *_claude_turns(5, 6),
    ]
    run = load(_written(tmp_path / "s2.jsonl", lines))
    assert [call.response.content for call in run.llm_interactions] == ["assistant 6"]
    assert [step.tool_results for step in run.agent_steps] == [()]


@pytest.mark.parametrize("place", ["beside", "of another project", "missing"])
def test_the_lines_that_a_fork_of_pi_copied_are_given(tmp_path: Path, place: str) -> None:
    directory, other = tmp_path / "project", tmp_path / "other"
    directory.mkdir()
    other.mkdir()
    created = _time(1) if place != "missing" else _time(5)
    if place != "missing":
        parent = (directory if place == "beside" else other) / "one.jsonl"
        _written(parent, [*_pi_session("A", _time(0), 1, 4), _pi(7) | {"parentId": "4"}])
    lines = _pi_session("B", created, 1, 6, parentSession="/elsewhere/one.jsonl")
    run = load(_written(directory / "two.jsonl", lines))
    assert (_said(run), run.trajectory_id) == (_OWN, "B")


def test_a_session_of_pi_that_only_names_another_session_keeps_its_calls(tmp_path: Path) -> None:
    lines = _pi_session("B", _time(0), 1, 2, parentSession="one.jsonl")
    assert _said(load(_written(tmp_path / "two.jsonl", lines))) == [(["user 1"], "assistant 2", 5)]


def test_the_cost_of_repeated_lines_grows_with_the_file(tmp_path: Path) -> None:
    """If all lines of a fork and of its origin are repeated, four times as many lines cost four times as many calls."""
    once = _pi_session("A", _time(0), 1, 6)
    fork = _pi_session("B", _time(5), 1, 6, parentSession="one.jsonl")

    def cost(times: int) -> int:
        _written(tmp_path / "one.jsonl", once * times)
        path = _written(tmp_path / "two.jsonl", fork * times)
        return calls(lambda: load(path))

    assert cost(40) < 5 * cost(10)


def test_a_fork_without_calls_of_its_own_has_no_gap(tmp_path: Path) -> None:
    for lines in (_claude_fork()[:4], _qwen_fork()[:4]):
        run = load(_written(tmp_path / "s2.jsonl", lines))
        assert (list(run.llm_interactions), run.gaps) == ([], ())


def test_messages_older_than_their_session_of_opencode_are_given(tmp_path: Path) -> None:
    def message(number: int) -> _Line:
        role = "user" if number % 2 else "assistant"
        tokens = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        facts = {} if role == "user" else {"tokens": tokens, "cost": 1.0, "modelID": "m", "providerID": "p"}
        info = {"id": f"msg_{number}", "role": role, "time": {"created": 1_780_000_000_000 + number}, **facts}
        return {"info": info, "parts": [{"type": "text", "text": f"{role} {number}"}]}

    session = {"id": "ses_2", "directory": "/w", "version": "1", "title": "t (fork #1)"}
    info = session | {"time": {"created": 1_780_000_000_005, "updated": 1_780_000_000_006}}
    path = tmp_path / "fork.json"
    path.write_text(json.dumps({"info": info, "messages": [message(number) for number in range(1, 7)]}))
    run = load(path)
    assert (_said(run), run.metrics["cost"]) == (_OWN, 1.0)


@pytest.mark.parametrize("chained", [True, False])
def test_an_answer_that_is_written_again_is_one_answer(tmp_path: Path, chained: bool) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    parts: list[Any] = [thought, {"type": "text", "text": "assistant 2"}]
    first = [_claude(2, "assistant", [part], uuid=f"a{number}") for number, part in enumerate(parts)]
    first[0]["parentUuid"], first[1]["parentUuid"] = "1", "a0"
    again = [line | {"uuid": f"b{number}"} for number, line in enumerate(first)]
    again[1]["parentUuid"] = "b0" if chained else "1"
    lines = [_claude(1, "user", "user 1"), *first, *again, *_claude_turns(3, 4)]
    lines[5]["parentUuid"] = "b1"
    [one, other] = load(_written(tmp_path / "s.jsonl", lines)).llm_interactions
    assert (one.response.content, one.response.reasoning, one.response.usage.output_tokens) == ("assistant 2", "Hm.", 5)
    assert [message.role for message in other.input_messages] == ["user", "assistant", "user"]


def test_equal_texts_of_one_answer_stay_two(tmp_path: Path) -> None:
    text = [{"type": "text", "text": "Same."}]
    lines = [_claude(1, "user", "user 1"), _claude(2, "assistant", text, uuid="a"), _claude(2, "assistant", text)]
    lines[2]["parentUuid"] = "a"
    [call] = load(_written(tmp_path / "s.jsonl", lines)).llm_interactions
    assert (call.response.content or "").count("Same.") == 2
