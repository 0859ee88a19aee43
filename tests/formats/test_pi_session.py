"""Sessions of pi and OpenClaw: trees, compactions, failures, costs, and the older form without ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.files import check_run, facts_in, produced_lines, real_files, runs_of
from trace_recorder import load
from trace_recorder.facts import GapFact, SourceRecordFact
from trace_recorder.formats.foreign_runs.run import Call
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.trajectory import Trajectory

_SESSION = produced_lines("pi/session.jsonl")

_Line = dict[str, Any]
_TIME = "2026-01-16T02:37:34.075Z"
_HEADER = {"type": "session", "version": 3, "id": "p-1", "timestamp": _TIME, "cwd": "/work"}


def _line(identity: str, parent: str | None, kind: str = "message", **more: Any) -> _Line:
    return {"type": kind, "id": identity, "parentId": parent, "timestamp": _TIME, **more}


def _user(identity: str, parent: str | None, text: str) -> _Line:
    return _line(identity, parent, message={"role": "user", "content": [{"type": "text", "text": text}]})


def _said(identity: str, parent: str | None, *blocks: _Line, **more: Any) -> _Line:
    usage = {"input": 3, "output": 7, "cacheRead": 40, "cacheWrite": 2, "totalTokens": 52, "cost": {"total": 0.25}}
    about = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-x", "usage": usage}
    message = {"role": "assistant", "content": list(blocks), **about, "stopReason": "stop", **more}
    return _line(identity, parent, message=message)


def _text(text: str) -> _Line:
    return {"type": "text", "text": text}


def _written(directory: Path, lines: list[Any]) -> Path:
    path = directory / "session.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def _contents(run: Trajectory) -> list[list[Any]]:
    return [[message.content for message in call.input_messages] for call in run.llm_interactions]


def test_a_session_has_the_contents_of_its_file(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _SESSION))
    assert (run.trajectory_id, run.task, run.model, run.provider) == ("p-1", "Fix it.", "claude-x", "anthropic")
    first, second = run.llm_interactions
    assert (first.response.content, first.response.reasoning) == ("I look.", "Look first.")
    assert [(tool_call.call_id, tool_call.arguments) for tool_call in first.response.tool_calls] == [
        ("c1", {"command": "ls"}),
        ("c2", {"command": "ls"}),
    ]
    assert [message.content for message in second.input_messages] == ["Fix it.", "I look.", "a.py", "no such file"]
    assert second.input_messages[1].extra["content"][0]["signature"] == "sig"
    assert [(result.result, result.error) for result in run.agent_steps[0].tool_results] == [
        ("a.py", None),
        (None, "no such file"),
    ]
    assert first.response.usage.cost == 0.25
    counted = counts_of(first)
    assert counted is not None
    assert (counted.prompt, counted.cache_read) == (45, 40)


def test_details_of_results_are_kept_in_the_journal(tmp_path: Path) -> None:
    (run,) = runs_of(_written(tmp_path, _SESSION))
    kept = [event.what for event in facts_in(run, SourceRecordFact)]
    assert kept == ["session", "model_change", "details", "details"]


def test_a_session_that_goes_back_continues_a_branch(tmp_path: Path) -> None:
    lines = [
        _HEADER,
        _user("u", None, "One."),
        _said("a", "u", _text("1")),
        _user("v", "a", "Two."),
        _said("b", "v", _text("2")),
        _line("s", "a", "branch_summary", summary="Two was tried."),
        _user("w", "s", "Three."),
        _said("c", "w", _text("3")),
    ]
    assert _contents(load(_written(tmp_path, lines))) == [
        ["One."],
        ["One.", "1", "Two."],
        ["One.", "1", "Two was tried.", "Three."],
    ]


def test_a_compaction_keeps_the_messages_that_it_names(tmp_path: Path) -> None:
    lines = [
        _HEADER,
        _user("u", None, "One."),
        _said("a", "u", _text("1")),
        _user("v", "a", "Two."),
        _said("b", "v", _text("2")),
        _line("k", "b", "compaction", summary="One was said.", firstKeptEntryId="v", tokensBefore=9),
        _user("w", "k", "Three."),
        _said("c", "w", _text("3")),
    ]
    expected = ["One was said.", "Two.", "2", "Three."]
    assert _contents(load(_written(tmp_path, lines)))[2] == expected
    older = [{name: value for name, value in line.items() if name not in {"id", "parentId"}} for line in lines]
    older[0] = {**_HEADER, "version": 1}
    older[5]["firstKeptEntryIndex"] = 3
    assert _contents(load(_written(tmp_path, older)))[2] == expected


def test_messages_kept_by_a_compaction_may_be_missing(tmp_path: Path) -> None:
    lines = [_HEADER, _line("k", None, "compaction", summary="S.", firstKeptEntryIndex=900), _user("u", "k", "One.")]
    (run,) = runs_of(_written(tmp_path, lines))
    assert [event.what for event in facts_in(run, GapFact)] == ["the messages that a compaction kept"]


def test_compactions_that_keep_everything_copy_a_bounded_number_of_messages(tmp_path: Path) -> None:
    lines: list[_Line] = [{**_HEADER, "version": 1}]
    for at in range(300):
        lines += [_user(f"u{at}", None, "x"), _said(f"a{at}", None, _text("y"))]
        lines += [_line(f"k{at}", None, "compaction", summary="S.", firstKeptEntryIndex=0)]
    plain = [{name: value for name, value in line.items() if name not in {"id", "parentId"}} for line in lines]
    plain[0]["id"] = "p-1"
    (run,) = runs_of(_written(tmp_path, plain))
    conversations = {id(event.conversation): event.conversation for event in run.events if isinstance(event, Call)}
    held = sum(len(value.own) for value in conversations.values() if value is not None)
    assert 300 <= held < 9 * len(plain)


def test_incomplete_answers_are_marked(tmp_path: Path) -> None:
    lines = [
        _HEADER,
        _user("u", None, "One."),
        _said("a", "u", stopReason="error", errorMessage="529 overloaded"),
        _said("b", "u", _text("Part"), stopReason="aborted", errorMessage="Request was aborted."),
    ]
    run = load(_written(tmp_path, lines))
    failed, part = run.llm_interactions
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("error", "529 overloaded")
    assert (part.complete, part.ended_by, part.response.content) == (False, "Request was aborted.", "Part")
    assert run.status == "interrupted"


def test_a_single_answer_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(_said("a", None, _text("Hi."))["message"], indent=1))
    (one,) = load(path).llm_interactions
    assert (one.response.content, one.response.usage.output_tokens) == ("Hi.", 7)


def test_openclaw_is_distinguished_from_pi(tmp_path: Path) -> None:
    entry = _line("x", None, "custom", customType="openclaw.cache-ttl", data={})
    assert format_of(Source(_written(tmp_path, [*_SESSION, entry]))) == "openclaw"
    assert format_of(Source(_written(tmp_path, _SESSION))) == "pi"


def _raw_messages(path: Path) -> list[_Line]:
    messages = []
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if line["type"] == "message":
            messages.append(line["message"])
    return messages


def _without_origin(path: Path, directory: Path) -> Path:
    """Write a session again without the name of the session from which it was forked."""
    copy = directory / path.name
    copy.write_text(path.read_text().replace('"branchedFrom"', '"branched"'))
    return copy


def test_the_calls_of_a_real_fork_are_those_of_its_origin() -> None:
    [path] = real_files("pi/pi-mono/before-compaction.jsonl")
    run = load(path)
    assert (list(run.llm_interactions), run.gaps) == ([], ())


def test_real_sessions_equal_a_second_reading(tmp_path: Path) -> None:
    for original in real_files("pi/*/*.jsonl") + real_files("others/openclaw/*"):
        path = _without_origin(original, tmp_path)
        messages = _raw_messages(path)
        answers = [message for message in messages if message["role"] == "assistant"]
        (run,) = runs_of(path)
        read = check_run(run, tmp_path)
        calls = read.llm_interactions
        assert len(calls) == len(answers)
        full = [answer for answer in answers if answer["content"] or answer["stopReason"] not in {"aborted", "error"}]
        blocks = [block for one in full for block in one["content"]]
        asked = [(call.call_id, call.arguments) for one in calls for call in one.response.tool_calls]
        assert asked == [(block["id"], block["arguments"]) for block in blocks if block["type"] == "toolCall"]
        known = {identity for identity, _ in asked}
        results = [
            message["toolCallId"]
            for message in messages
            if message["role"] == "toolResult" and message["toolCallId"] in known
        ]
        found = [result.call_id for step in read.agent_steps for result in step.tool_results]
        assert sorted(one for one in found if one in known) == sorted(results), path
        for ours, theirs in (
            ("input_tokens", "input"),
            ("output_tokens", "output"),
            ("cache_read_input_tokens", "cacheRead"),
            ("cache_creation_input_tokens", "cacheWrite"),
        ):
            total = sum(answer["usage"].get(theirs, 0) for answer in answers)
            assert sum(getattr(call.response.usage, ours) or 0 for call in calls) == total, path
        costs = sum(answer["usage"].get("cost", {}).get("total", 0) for answer in answers)
        assert abs(sum(call.response.usage.cost or 0 for call in calls) - costs) < 1e-9
