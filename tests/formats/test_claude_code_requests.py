"""Claude Code's exact requests, and the files next to a session: workflows, and results that are too large for it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import check_run, facts_in, produced_lines, real_files, runs_of
from trace_recorder import load
from trace_recorder.facts import SourceRecordFact
from trace_recorder.formats.claude_code.requests import SessionRequests
from trace_recorder.formats.foreign_runs.run import Call
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import read_foreign_runs

_SESSION = produced_lines("claude-code/requests.jsonl")

_Line = dict[str, Any]
_WEATHER = {"name": "weather", "input_schema": {"type": "object"}}


def _at(second: int) -> str:
    return f"2026-03-01T10:00:{second:02}.000Z"


def _message(identity: str, second: int, parent: str | None, role: str, content: Any, **more: Any) -> _Line:
    message = {"role": role, "content": content} | ({"id": f"m{second}"} if role == "assistant" else {})
    about = {"uuid": identity, "parentUuid": parent, "sessionId": "s-1", "timestamp": _at(second)}
    return {"type": role, "message": message, **about, **more}


def _shape(hashed: str, system: str) -> _Line:
    said = {"system": [{"type": "text", "text": system}], "tools": [_WEATHER], "tool_choice": {"type": "auto"}}
    return {"type": "api-request-shape", "shapeHash": hashed, "shape": said}


def _blob(hashed: str, role: str, content: Any) -> _Line:
    return {"type": "api-request-blob", "hash": hashed, "message": {"role": role, "content": content}}


def _request(identity: str, second: int, tail: list[str], **more: Any) -> _Line:
    about = {"id": identity, "timestamp": _at(second), "shapeHash": "s", "params": {"model": "asked", "max_tokens": 9}}
    return {"type": "api-request", **about, "keep": 0, "tail": tail, **more}


_USE = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Tokyo"}}
_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}


def _written(path: Path, lines: list[_Line]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _prompts(path: Path) -> list[list[tuple[str, Any]]]:
    return [
        [(message.role, message.content) for message in call.input_messages] for call in load(path).llm_interactions
    ]


def test_a_call_has_the_request_that_its_answer_names(tmp_path: Path) -> None:
    path = _written(tmp_path / "s-1.jsonl", _SESSION)
    (run,) = runs_of(path)
    first, second = check_run(run, tmp_path).llm_interactions
    asked = [{"type": "text", "text": "<reminder>"}, {"type": "text", "text": "Weather?"}]
    begin = [("system", "Be brief."), ("user", asked)]
    later = [("assistant", None), ("tool", "sunny"), ("user", "Go on.")]
    assert _prompts(path) == [begin, begin + later]
    assert (first.timestamp, first.model, first.parameters, first.duration_seconds) == (
        "2026-03-01T10:00:02.000000+00:00",
        "asked",
        {"tool_choice": {"type": "auto"}, "max_tokens": 9},
        1.0,
    )
    assert [tool.raw for tool in second.tools] == [_WEATHER]
    assert [event.what for event in facts_in(run, SourceRecordFact)] == ["api-request", "api-request"]


def test_a_request_may_leave_messages_out_and_have_other_system_blocks(tmp_path: Path) -> None:
    lines = [
        *_SESSION,
        _blob("b4", "user", "Another way."),
        _request("r3", 8, ["b4"], base="r2", keep=1),
        _shape("z", "Be long."),
        _request("r4", 9, ["b4"], base="r2", keep=2, shapeHash="z"),
        _message("c", 10, "b", "assistant", "3", requestRef="r3"),
        _message("d", 11, "c", "assistant", "4", requestRef="r4"),
    ]
    *_, third, fourth = _prompts(_written(tmp_path / "s-1.jsonl", lines))
    assert [content for _, content in third[2:]] == ["Another way."]
    assert fourth[0] == ("system", "Be long.")
    assert [(role, content) for role, content in fourth[2:]] == [("assistant", None), ("user", "Another way.")]


def test_a_request_without_an_answer_is_a_call_without_a_response(tmp_path: Path) -> None:
    """A request is the last line if the session was killed while the model answered. A failed request has its error."""
    last = [_blob("b4", "user", "More?"), _request("r3", 8, ["b4"], base="r2", keep=3)]
    call = load(_written(tmp_path / "s-1.jsonl", _SESSION + last)).llm_interactions[-1]
    assert (call.input_messages[-1].content, call.response.content, call.error) == ("More?", None, None)
    failed = {
        "type": "system",
        "subtype": "api_error",
        "timestamp": _at(9),
        "error": {"message": "busy", "status": 529},
    }
    *_, failed_call = load(_written(tmp_path / "s-2.jsonl", _SESSION + last + [failed])).llm_interactions
    assert failed_call.error is not None
    assert (failed_call.timestamp, failed_call.input_messages[-1].content, failed_call.error.message) == (
        "2026-03-01T10:00:08.000000+00:00",
        "More?",
        "busy",
    )


def test_a_repeated_request_is_one_call(tmp_path: Path) -> None:
    last = [_blob("b4", "user", "More?"), _request("r3", 8, ["b4"], base="r2", keep=3)]
    once = load(_written(tmp_path / "s-1.jsonl", _SESSION + last)).llm_interactions
    twice = load(_written(tmp_path / "s-2.jsonl", _SESSION + last + last)).llm_interactions
    assert len(twice) == len(once)


def test_a_failure_after_a_later_answer_is_not_of_the_earlier_request(tmp_path: Path) -> None:
    """If the session went on after a request without an answer, a later failure belongs to a request that is not in the
    file.
    """
    lines = [
        *_SESSION,
        _blob("b4", "user", "More?"),
        _request("r3", 8, ["b4"], base="r2", keep=3),
        _message("c", 9, "b", "user", "Again?"),
        _message("d", 10, "c", "assistant", "Yes."),
        {"type": "system", "subtype": "api_error", "timestamp": _at(11), "error": {"message": "busy", "status": 529}},
    ]
    *_, waiting, answered, failed = load(_written(tmp_path / "s-1.jsonl", lines)).llm_interactions
    assert (waiting.error, answered.response.content) == (None, "Yes.")
    assert failed.error is not None
    assert (failed.error.message, failed.timestamp) == ("busy", "2026-03-01T10:00:11.000000+00:00")


@pytest.mark.parametrize("line", [4, 6, 8], ids=["its base", "a message", "itself"])
def test_an_incomplete_request_has_the_messages_of_the_session(tmp_path: Path, line: int) -> None:
    lines = [one for at, one in enumerate(_SESSION) if at != (line if line != 4 else 3)]
    run = load(_written(tmp_path / "s-1.jsonl", lines))
    assert [message.role for message in run.llm_interactions[1].input_messages] == ["user", "assistant", "tool"]
    assert "the exact messages of request r2" in [gap.what for gap in run.gaps]


def test_a_request_without_messages_has_its_system_blocks(tmp_path: Path) -> None:
    lines = [
        _shape("s", "Be brief."),
        _request("r1", 2, []),
        _message("a", 3, None, "assistant", "Hi.", requestRef="r1"),
    ]
    assert _prompts(_written(tmp_path / "s-1.jsonl", lines)) == [[("system", "Be brief.")]]


def test_requests_that_refer_to_each_other_are_a_gap(tmp_path: Path) -> None:
    lines = [*_SESSION[:3], _request("r1", 2, [], base="r2", keep=1), *_SESSION[4:8]]
    lines += [_request("r2", 5, ["b2"], base="r1", keep=1), _SESSION[-1]]
    run = load(_written(tmp_path / "s-1.jsonl", lines))
    assert [gap.what.rpartition(" ")[2] for gap in run.gaps] == ["r1", "r2"]


def test_requests_that_branch_off_a_long_one_are_read_within_a_limit() -> None:
    lines = [_shape("s", "x"), _blob("b", "user", "x"), _request("r", 1, ["b"] * 600)]
    lines += [_request(f"r{at}", 2, ["b"], base="r", keep=400) for at in range(4)]
    requests = SessionRequests(max_copied=1000)
    for line in lines:
        requests.note(line)
    calls = [Call(time="", conversation=None) for _ in range(4)]
    reasons = [requests.add_details(call, f"r{at}") for at, call in enumerate(calls)]
    assert reasons == [None, None, *["its messages are not all in the session, or are too many to copy"] * 2]
    assert [call.length for call in calls] == [402, 402, 0, 0]


def test_the_run_has_the_prompts_before_the_first_and_after_the_last_call(tmp_path: Path) -> None:
    """A prompt that waits for an answer, and the note of an interruption, are annotations of the run."""
    lines = [
        _message("u", 1, None, "user", "One?"),
        _message("a", 3, "u", "assistant", "1"),
        _message("v", 4, "a", "user", "Two?"),
        _message("w", 5, "v", "user", [{"type": "text", "text": "[Request interrupted by user]"}]),
    ]
    run = load(_written(tmp_path / "s-1.jsonl", lines))
    assert (run.start_time, run.end_time) == ("2026-03-01T10:00:01.000000+00:00", "2026-03-01T10:00:05.000000+00:00")
    assert (run.status, [one["content"] for one in run.annotations["unanswered"]]) == (
        "interrupted",
        ["Two?", "[Request interrupted by user]"],
    )


def test_sub_agents_of_workflows_are_linked_by_their_meta_files(tmp_path: Path) -> None:
    """The prompt alone would link the sub-agent to the first of two equal calls."""
    uses = [{**_USE, "id": name, "name": "Agent", "input": {"prompt": "Go."}} for name in ("t1", "t2")]
    path = _written(tmp_path / "s-1.jsonl", [_SESSION[0], _message("a", 3, "u", "assistant", uses)])
    place = tmp_path / "s-1" / "subagents" / "workflows" / "w1"
    _written(place / "agent-x.jsonl", [_message("p", 4, None, "user", "Go."), _message("q", 5, "p", "assistant", "ok")])
    (place / "agent-x.meta.json").write_text(json.dumps({"agentType": "worker", "toolUseId": "t2", "spawnDepth": 1}))
    call = load(path).llm_interactions[1]
    assert (call.agent, call.agent_id, call.parent_execution_id) == ("worker", "x", "execution-of-t2")


def test_a_large_result_is_read_from_its_file(tmp_path: Path) -> None:
    """The model saw a preview, and the tool's execution has the whole result. A file outside the session is
    never read.
    """
    preview = "<persisted-output>\nOutput too large (9KB). Full output saved to: {}/tool-results/b1.txt\n\nPreview:\n1"
    shown = preview.format("/home/user/s-1")
    lines = [*_SESSION[:1], _message("a", 3, "u", "assistant", [_USE])]
    lines += [_message("v", 4, "a", "user", [{**_RESULT, "content": shown}]), _message("b", 5, "v", "assistant", "ok")]
    path = _written(tmp_path / "s-1.jsonl", lines)
    assert [gap.what for gap in load(path).gaps] == ["the whole result in tool-results/b1.txt"]
    full = tmp_path / "s-1" / "tool-results" / "b1.txt"
    full.parent.mkdir(parents=True)
    full.write_text("1\n2\n3\n")
    run = load(path)
    assert run.llm_interactions[1].input_messages[-1].content == shown
    assert [(result.call_id, result.result) for result in run.agent_steps[0].tool_results] == [("t1", "1\n2\n3\n")]
    assert run.gaps == ()


@pytest.mark.parametrize("link", ["tool-results/b1.txt", "tool-results", "subagents/agent-x.jsonl", "subagents"])
def test_a_link_out_of_the_session_s_directory_is_not_followed(link: str, tmp_path: Path) -> None:
    """A stranger's session could make an import read any file. A link to a file within the directory is followed."""
    shown = "<persisted-output>\nFull output saved to: /home/user/s-1/tool-results/b1.txt\n\nPreview:\n1"
    lines = [*_SESSION[:1], _message("a", 3, "u", "assistant", [_USE])]
    lines += [_message("v", 4, "a", "user", [{**_RESULT, "content": shown}]), _message("b", 5, "v", "assistant", "ok")]
    path = _written(tmp_path / "sessions" / "s-1.jsonl", lines)
    for root in (tmp_path / "elsewhere", tmp_path / "sessions" / "s-1" / "other"):
        (root / "tool-results").mkdir(parents=True)
        (root / "subagents").mkdir()
        (root / "tool-results" / "b1.txt").write_text("private")
        _written(root / "subagents" / "agent-x.jsonl", [_message("x", 1, None, "user", "private")])
    linked = tmp_path / "sessions" / "s-1" / link
    linked.parent.mkdir(exist_ok=True)
    linked.symlink_to(tmp_path / "elsewhere" / link)
    run = load(path)
    assert "private" not in "".join(f"{event}" for [one] in [runs_of(path)] for event in one.events)
    kind = "to read agent-x.jsonl" if link.startswith("subagents") else "the whole result in tool-results/b1.txt"
    assert kind in [gap.what for gap in run.gaps]
    linked.unlink()
    linked.symlink_to(tmp_path / "sessions" / "s-1" / "other" / link)
    assert kind not in [gap.what for gap in load(path).gaps]


def test_results_that_many_lines_repeat_are_read_within_a_limit(tmp_path: Path) -> None:
    """Short lines may refer to the same long file again and again."""
    uses = [{**_USE, "id": f"t{number}"} for number in range(3)]
    shown = "<persisted-output>\nFull output saved to: /s-1/tool-results/b1.txt\n"
    results = [{"type": "tool_result", "tool_use_id": use["id"], "content": shown} for use in uses]
    path = _written(
        tmp_path / "s-1.jsonl",
        [_message("a", 3, None, "assistant", uses), _message("v", 4, "a", "user", results)],
    )
    full = tmp_path / "s-1" / "tool-results" / "b1.txt"
    full.parent.mkdir(parents=True)
    full.write_text("1" * 10_000)
    [run] = read_foreign_runs(Source(path, max_run_bytes=25_000))
    trajectory = check_run(run, tmp_path)
    assert [len(result.result) for result in trajectory.agent_steps[0].tool_results] == [10_000, 10_000, len(shown)]
    assert [gap.what for gap in trajectory.gaps] == ["the whole result in tool-results/b1.txt"]


def test_real_requests_are_read_exactly(tmp_path: Path) -> None:
    """A second reading of the lines gives each request. The calls have the same requests, tokens and texts."""
    (path,) = real_files("newest/claude-code-*/*.jsonl")
    files = [path, *sorted(path.parent.glob(f"{path.stem}/subagents/*.jsonl"))]
    lines = [json.loads(text) for file in files for text in file.read_text().splitlines()]
    blobs = {line["hash"]: line["message"] for line in lines if line["type"] == "api-request-blob"}
    shapes = {line["shapeHash"]: line["shape"] for line in lines if line["type"] == "api-request-shape"}
    sent = {line["id"]: line for line in lines if line["type"] == "api-request"}
    answers: dict[str, list[_Line]] = {}
    for line in lines:
        if line["type"] == "assistant":
            answers.setdefault(line["requestRef"], []).append(line)
    (run,) = runs_of(path)
    calls = check_run(run, tmp_path).llm_interactions
    assert len(calls) == len(sent) == len(answers) == 10
    exact = 0
    for call, (identity, parts) in zip(
        calls, sorted(answers.items(), key=lambda one: sent[one[0]]["timestamp"]), strict=True
    ):
        line, usage = sent[identity], parts[-1]["message"]["usage"]
        assert (call.model, call.response.model) == (line["params"]["model"], "served-claude-1")
        assert call.timestamp == line["timestamp"].replace("Z", "000+00:00")
        assert (call.response.usage.input_tokens, call.response.usage.output_tokens) == (
            usage["input_tokens"],
            usage["output_tokens"],
        )
        assert [tool.raw for tool in call.tools] == shapes[line["shapeHash"]]["tools"]
        assert {**call.parameters, "model": call.model} == line["params"]
        blocks = [block for part in parts for block in part["message"]["content"]]
        assert [(tool_call.call_id, tool_call.arguments) for tool_call in call.response.tool_calls] == [
            (block["id"], block["input"]) for block in blocks if block["type"] == "tool_use"
        ]
        hashes = _hashes(line, sent)
        if set(hashes) <= blobs.keys():
            exact += 1
            texts = _texts([shapes[line["shapeHash"]]["system"], *(blobs[one]["content"] for one in hashes)])
            assert _texts(message.content for message in call.input_messages) == texts
    assert exact == 7


def _hashes(line: _Line, sent: dict[str, _Line]) -> list[str]:
    first = _hashes(sent[line["base"]], sent)[: line["keep"]] if "base" in line else []
    return [*first, *line["tail"]]


def _texts(contents: Any) -> list[str]:
    texts: list[str] = []
    for content in contents:
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            inner = part.get("content") if isinstance(part, dict) and part.get("type") == "tool_result" else None
            texts += _texts([inner]) if inner is not None else []
            text = part.get("text") if isinstance(part, dict) else part
            texts += [text] if isinstance(text, str) else []
    return texts


def _hash_of(role: str, *blocks: Any) -> str:
    """Return the hash under which newer versions name a message that is a line of the session."""
    text = json.dumps(
        {"content": list(blocks), "role": role}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


_OTHER_USE = {"type": "tool_use", "id": "t2", "name": "weather", "input": {"city": "Zürich"}}
_OTHER_RESULT = {"type": "tool_result", "tool_use_id": "t2", "content": "rain ☂"}


def _session_without_blobs(*tail: str) -> list[_Line]:
    """Return a session whose second request has its last messages as lines. Two lines are one answer, two one message.

    `tail` has the hashes of these messages.
    """
    return [
        _shape("s", "Be brief."),
        _message("u", 1, None, "user", "Weather?"),
        _blob("b1", "user", [{"type": "text", "text": "Weather?"}]),
        _request("r1", 2, ["b1"]),
        _message("a1", 3, "u", "assistant", [_USE], requestRef="r1"),
        _message("a2", 3, "a1", "assistant", [_OTHER_USE], requestRef="r1"),
        _message("t1", 5, "a1", "user", [_RESULT]),
        _message("t2", 6, "a2", "user", [_OTHER_RESULT]),
        _request("r2", 7, [*tail], base="r1", keep=1),
        _message("e", 8, "t2", "assistant", [{"type": "text", "text": "Both."}], requestRef="r2"),
    ]


_ANSWER, _RESULTS = _hash_of("assistant", _USE, _OTHER_USE), _hash_of("user", _RESULT, _OTHER_RESULT)


@pytest.mark.parametrize(
    ("tail", "gaps"),
    [
        ([_ANSWER, _RESULTS], []),
        ([_ANSWER, _hash_of("user", _RESULT), _hash_of("user", _OTHER_RESULT)], []),
        ([_ANSWER, "0" * 64], ["1 of them are lines of the session with other hashes"]),
        (["1" * 64, "0" * 64], ["2 of them are lines of the session with other hashes"]),
        ([_ANSWER, "1" * 64, "0" * 64], ["its messages are not all in the session, or are too many to copy"]),
    ],
)
def test_messages_without_a_blob_are_the_lines_with_their_hashes(
    tmp_path: Path, tail: list[str], gaps: list[str]
) -> None:
    """If no line has a hash, the lines between the requests are taken, and a gap says that they are not proved."""
    path = _written(tmp_path / "s-1.jsonl", _session_without_blobs(*tail))
    run = load(path)
    assert [gap.why for gap in run.gaps] == gaps
    prompt = _prompts(path)[1]
    shown = [content for role, content in prompt if role == "tool"]
    assert shown == ["sunny", "rain ☂"]
    is_built = not gaps or "with other hashes" in gaps[0]
    assert (prompt[0] == ("system", "Be brief.")) is is_built
