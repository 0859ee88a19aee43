"""opencode's sessions: both storages, exports, steps, aborted answers, a summary, and names that lead elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.imports.foreign.damage import check_damaged
from tests.imports.foreign.files import check_run, real_files, runs_of
from trace_recorder import load
from trace_recorder.imports.foreign.formats import Source, format_of
from trace_recorder.imports.foreign.run import Kept
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.token_counts import counts_of

_SESSION = {
    "id": "ses_1",
    "version": "1.0",
    "projectID": "p",
    "directory": "/w",
    "parentID": "ses_0",
    "title": "Weather",
    "time": {"created": 1_730_000_000_000, "updated": 1_730_000_009_000},
}


def _message(number: int, role: str, **members: Any) -> dict[str, Any]:
    time = {"created": 1_730_000_000_000 + number * 1000}
    return {"id": f"msg_{number}", "sessionID": "ses_1", "role": role, "time": time, **members}


def _part(number: int, kind: str, **members: Any) -> dict[str, Any]:
    return {"id": f"prt_{number}", "type": kind, **members}


def _tool(number: int, status: str, **state: Any) -> dict[str, Any]:
    clock = {"start": 1_730_000_002_000, "end": 1_730_000_003_500}
    return _part(number, "tool", callID=f"c{number}", tool="bash", state={"status": status, "time": clock, **state})


_IMAGE = "data:image/png;base64,AA"
_TOKENS = {"input": 8, "output": 3, "reasoning": 1, "cache": {"read": 64, "write": 2}}
_SAID: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (_message(1, "user"), [_part(1, "text", text="Weather?"), _part(2, "file", mime="image/png", url=_IMAGE)]),
    (
        _message(2, "assistant", providerID="openai", modelID="m", system=["You help."]),
        [
            _part(10, "step-start"),
            _part(11, "reasoning", text="Hm."),
            _part(12, "text", text="I look."),
            _tool(13, "completed", input={"command": "ls"}, output="a"),
            _tool(14, "error", input={"command": "x"}, error="no"),
            _part(15, "step-finish", reason="tool-calls", tokens=_TOKENS, cost=0.5),
            _part(16, "step-start"),
            _part(17, "text", text="Done."),
            _part(18, "step-finish", reason="stop", tokens=_TOKENS, cost=0.25),
            _part(19, "patch", files=["a"]),
        ],
    ),
]


def _storage(root: Path, said: list[tuple[dict[str, Any], list[dict[str, Any]]]], *, flat: bool = False) -> Path:
    session = root / "session" / "p" / "ses_1.json"
    for message, parts in said:
        _write(root / "message" / "ses_1" / f"{message['id']}.json", message)
        for part in parts:
            inside = root / "part" if flat else root / "part" / message["id"]
            _write(inside / f"{part['id']}.json", {**part, "messageID": message["id"]})
    _write(session, _SESSION)
    return session


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _check(run: Trajectory) -> None:
    assert (run.trajectory_id, run.model, run.provider, run.execution_time) == ("ses_1", "m", "openai", 9.0)
    assert run.metadata["imported_from"]["parent_id"] == "ses_0"
    first, second = run.llm_interactions
    assert [message.content for message in first.input_messages] == [
        "You help.",
        [{"type": "text", "text": "Weather?"}, {"type": "image_url", "image_url": {"url": _IMAGE}}],
    ]
    assert (first.response.content, first.response.reasoning, first.response.finish_reason) == (
        "I look.",
        "Hm.",
        "tool-calls",
    )
    assert [(one.role, one.content) for one in second.input_messages][2:] == [
        ("assistant", "I look."),
        ("tool", "a"),
        ("tool", "no"),
    ]
    results = [(one.success, one.result, one.error, one.duration_seconds) for one in run.agent_steps[0].tool_results]
    assert results == [(True, "a", None, 1.5), (False, None, "no", 1.5)]
    counts = counts_of(first)
    assert counts is not None
    assert (counts.prompt, run.metrics["cost"]) == (74, 0.75)


@pytest.mark.parametrize("flat", [False, True])
def test_a_session_is_read_from_the_files_around_it(tmp_path: Path, flat: bool) -> None:
    path = _storage(tmp_path / "storage", _SAID, flat=flat)
    source = Source(path)
    assert format_of(source) == "opencode"
    _check(load(path))
    (run,) = runs_of(path)
    assert [event.what for event in run.events if isinstance(event, Kept)] == [
        "part step-finish",
        "part step-finish",
        "part patch",
    ]


def test_an_export_is_the_same_run(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    _write(path, {"info": _SESSION, "messages": [{"info": message, "parts": parts} for message, parts in _SAID]})
    _check(load(path))


def test_an_answer_that_was_aborted_is_not_complete(tmp_path: Path) -> None:
    error = {"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}
    said = [_SAID[0], (_message(2, "assistant", error=error), [_part(1, "text", text="I l")])]
    (call,) = load(_storage(tmp_path, said)).llm_interactions
    assert (call.response.content, call.complete, call.ended_by) == ("I l", False, "MessageAbortedError")
    (empty,) = load(
        _storage(tmp_path / "other", [_SAID[0], (_message(2, "assistant", error=error), [])])
    ).llm_interactions
    assert (empty.error and empty.error.type, empty.complete) == ("MessageAbortedError", False)


def test_a_summary_begins_the_conversation_anew(tmp_path: Path) -> None:
    said = [
        *_SAID,
        (_message(3, "user"), [_part(1, "compaction", auto=True), _part(2, "text", text="Summarize.")]),
        (_message(4, "assistant", summary=True), [_part(3, "text", text="It was fine.")]),
        (_message(5, "user"), [_part(4, "text", text="And now?")]),
        (_message(6, "assistant"), [_part(5, "text", text="Rain.")]),
    ]
    *_, last = load(_storage(tmp_path, said)).llm_interactions
    assert [message.content for message in last.input_messages] == ["Summarize.", "It was fine.", "And now?"]


@pytest.mark.parametrize("name", ["../secret", "..", "", "a/b", "a\\b", "\x00"])
def test_a_session_cannot_name_files_elsewhere(tmp_path: Path, name: str) -> None:
    root = tmp_path / "storage"
    path = _storage(root, _SAID)
    _write(root / "secret" / "msg_1.json", _message(1, "user"))
    _write(path, {**_SESSION, "id": name})
    source = Source(path)
    (run,) = runs_of(path)
    assert run.events == []
    assert source.read_too == set()


def test_a_part_that_is_no_json_costs_only_itself(tmp_path: Path) -> None:
    path = _storage(tmp_path, _SAID)
    (tmp_path / "part" / "msg_2" / "prt_11.json").write_text("{")
    run = load(path)
    assert ([gap.what for gap in run.gaps], len(run.llm_interactions)) == (["prt_11.json"], 2)


@pytest.mark.parametrize("value", [{"id": "x"}, {"info": {}, "messages": []}, {**_SESSION, "time": 3}, [], 7])
def test_other_documents_are_not_taken_for_this_format(tmp_path: Path, value: object) -> None:
    path = tmp_path / "x.json"
    _write(path, value)
    assert format_of(Source(path)) is None


def test_damaged_files(tmp_path: Path) -> None:
    exported = {"info": _SESSION, "messages": [{"info": message, "parts": parts} for message, parts in _SAID]}
    check_damaged(tmp_path / "export.json", json.dumps(exported).encode())
    check_damaged(_storage(tmp_path / "storage", _SAID), json.dumps(_SESSION).encode())


def test_real_files(tmp_path: Path) -> None:
    for path in real_files("opencode/*/*/session/*/*.json"):
        root = path.parent.parent.parent
        session = json.loads(path.read_bytes())
        (run,) = runs_of(path)
        assert run.format == "opencode"
        trajectory = check_run(run, tmp_path)
        messages = [json.loads(one.read_bytes()) for one in (root / "message" / session["id"]).glob("*.json")]
        answers = {message["id"]: message for message in messages if message["role"] == "assistant"}
        assert len(trajectory.llm_interactions) == len(answers)
        parts = [(one, json.loads(one.read_bytes())) for one in root.glob("part/**/*.json")]
        own = [part for file, part in parts if part.get("messageID", file.parent.name) in answers]
        tools = {part["callID"]: part["state"]["output"] for part in own if part["type"] == "tool"}
        results = {result.call_id: result.result for step in trajectory.agent_steps for result in step.tool_results}
        assert results == tools
        texts = sorted(part["text"] for part in own if part["type"] == "text")
        assert sorted(one.response.content or "" for one in trajectory.llm_interactions) == texts
        tokens = sum(answer.get("tokens", {}).get("input", 0) for answer in answers.values())
        assert trajectory.metrics.get("input_tokens", 0) == tokens
