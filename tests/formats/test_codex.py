"""Codex's rollouts: answers and their tokens, compactions, roll-backs, sub-agents, and older forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import zstd
from tests.formats.damage import check_damaged
from tests.formats.files import check_run, facts_in, produced_lines, real_files, runs_of
from trace_recorder import load
from trace_recorder.decompression import FREE_BYTES
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import SourceRecordFact
from trace_recorder.formats.foreign_runs.run import ToolRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of, read_foreign_runs
from trace_recorder.values.trajectory import Trajectory

_SESSION = produced_lines("codex/rollout.jsonl")

_Line = dict[str, Any]
_CHILD = "019e1fee-81dd-7201-9fa9-8896944f0922"


def _line(kind: str, second: int, **payload: Any) -> _Line:
    return {"timestamp": f"2026-05-13T06:03:{second:02}.000Z", "type": kind, "payload": payload}


def _item(second: int, kind: str, **members: Any) -> _Line:
    return _line("response_item", second, type=kind, **members)


def _event(second: int, kind: str, **members: Any) -> _Line:
    return _line("event_msg", second, type=kind, **members)


def _message(second: int, role: str, text: str) -> _Line:
    part = "output_text" if role == "assistant" else "input_text"
    return _item(second, "message", role=role, content=[{"type": part, "text": text}])


def _call(second: int, identity: str, name: str = "shell", **arguments: Any) -> _Line:
    return _item(second, "function_call", name=name, arguments=json.dumps(arguments), call_id=identity)


def _output(second: int, identity: str, output: Any) -> _Line:
    return _item(second, "function_call_output", call_id=identity, output=output)


def _tokens(second: int, total: int, last: int) -> _Line:
    counts = {"cached_input_tokens": 1, "output_tokens": 2, "reasoning_output_tokens": 1}
    info = {
        "total_token_usage": {"input_tokens": total, **counts},
        "last_token_usage": {"input_tokens": last, **counts},
    }
    return _event(second, "token_count", info=info)


_META = _line(
    "session_meta",
    0,
    id="s-1",
    cli_version="0.130.0",
    model_provider="openai",
    base_instructions={"text": "You are Codex."},
)
_CONTEXT = _line("turn_context", 1, model="gpt-x", effort="high")


def _written(directory: Path, lines: list[Any], name: str = "rollout.jsonl") -> Path:
    path = directory / name
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def _contents(run: Trajectory) -> list[list[Any]]:
    return [[message.content for message in call.input_messages][1:] for call in run.llm_interactions]


def test_the_items_between_two_inputs_are_one_call(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _SESSION))
    assert (run.trajectory_id, run.task, run.status, run.final_result) == ("s-1", "Fix it.", "completed", "Done.")
    first, second = run.llm_interactions
    assert (first.response.reasoning, first.response.content) == ("Look first.", None)
    assert [(call.call_id, call.arguments) for call in first.response.tool_calls] == [
        ("c1", {"command": "ls"}),
        ("c2", {"command": "cat x"}),
    ]
    assert (first.model, first.parameters) == ("gpt-x", {"effort": "high"})
    assert [message.role for message in second.input_messages] == [
        *["system", "user", "user", "assistant", "tool", "tool"]
    ]
    assert second.input_messages[3].extra["reasoning"][0]["encrypted_content"] == "gAAAA"
    assert [(result.call_id, result.success) for result in run.agent_steps[0].tool_results] == [
        ("c1", True),
        ("c2", False),
    ]
    assert second.response.content == "Done."


@pytest.mark.parametrize("before", [True, False])
def test_tokens_belong_to_the_answer_before_or_after_them(tmp_path: Path, before: bool) -> None:
    lines = [*_SESSION]
    if before:
        lines.insert(6, lines.pop(10))
        lines.insert(14, lines.pop(16))
    run = load(_written(tmp_path, lines))
    usages = [call.response.usage for call in run.llm_interactions]
    assert [(usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) for usage in usages] == [
        (10, 2, 1),
        (15, 2, 1),
    ]


def test_tokens_after_tool_results_belong_to_the_answer_before_the_results(tmp_path: Path) -> None:
    lines = [*_SESSION]
    lines.insert(12, lines.pop(10))
    assert _token_counts(load(_written(tmp_path, lines))) == [10, 15]


def test_a_record_of_tokens_belongs_to_the_answer_before_it(tmp_path: Path) -> None:
    lines = [*_SESSION]
    lines.insert(10, _line("token_usage_record", 4, usage={"input_tokens": 7, "output_tokens": 2}))
    lines.insert(-2, _line("token_usage_record", 7, usage={"input_tokens": 8, "output_tokens": 2}))
    assert _token_counts(load(_written(tmp_path, lines))) == [7, 8]


def test_tokens_without_an_answer_are_a_call_without_a_response(tmp_path: Path) -> None:
    only_tokens = [_META, _CONTEXT, _tokens(4, 10, 10), _tokens(5, 25, 15), _tokens(5, 25, 15), _tokens(6, 99, 0)]
    only_tokens[-1]["payload"]["info"]["last_token_usage"] = {"total_tokens": 9}
    run = load(_written(tmp_path, only_tokens))
    assert _token_counts(run) == [10, 15]
    assert [call.response.content for call in run.llm_interactions] == [None, None]

    compacted = _line("compacted", 8, message="So far.", replacement_history=[])
    answered = [*_SESSION[:10], _tokens(4, 10, 10), _tokens(5, 20, 10), compacted, _message(9, "assistant", "Done.")]
    assert _token_counts(load(_written(tmp_path, [*answered, _tokens(10, 25, 5)]))) == [10, 10, 5]


def _token_counts(run: Trajectory) -> list[int | None]:
    return [call.response.usage.input_tokens for call in run.llm_interactions]


def test_a_compressed_rollout_is_read_like_a_plain_one(tmp_path: Path) -> None:
    plain = _written(tmp_path, _SESSION)
    packed = tmp_path / "packed" / "rollout.jsonl"
    packed.parent.mkdir()
    packed.write_bytes(zstd.compress(plain.read_bytes()))
    assert load(packed).to_document() == load(plain).to_document()

    check_damaged(packed, packed.read_bytes())
    packed.write_bytes(zstd.compress(b" " * (FREE_BYTES + 1)))
    with pytest.raises(TrajectoryFormatError, match="decompresses to more than"):
        load(packed)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst"])
def test_a_fork_has_the_history_of_its_base_and_its_own_calls(tmp_path: Path, suffix: str) -> None:
    base, fork = tmp_path / "2026" / "11" / "07", tmp_path / "2026" / "11" / "08"
    base.mkdir(parents=True)
    fork.mkdir()
    numbered = [line | {"ordinal": number} for number, line in enumerate(_SESSION)]
    written = _written(base, numbered, f"rollout-2026-11-07T00-00-00-{_CHILD}.jsonl")
    if suffix == ".jsonl.zst":
        written.with_name(written.name + ".zst").write_bytes(zstd.compress(written.read_bytes()))
        written.unlink()
    meta = _line(
        "session_meta",
        0,
        **_META["payload"] | {"id": "s-2"},
        history_base={"thread_id": _CHILD, "end_ordinal_exclusive": 14},
    )
    lines = [meta, _message(20, "user", "Go on."), _message(21, "assistant", "Went on."), _tokens(22, 40, 15)]
    run = load(_written(fork, lines))

    [call] = run.llm_interactions
    assert (run.trajectory_id, run.status, run.task) == ("s-2", "unknown", "Fix it.")
    assert (call.response.content, call.response.usage.input_tokens, run.gaps) == ("Went on.", 15, ())
    assert [message.role for message in call.input_messages] == [
        *["system", "user", "user", "assistant", "tool", "tool", "user"]
    ]

    lines[0]["payload"]["history_base"]["thread_id"] = _CHILD[:-1] + "9"
    [gap] = load(_written(fork, lines)).gaps
    assert gap.what == "the beginning of the session"
    lines[0]["payload"]["history_base"]["thread_id"] = "../../*"
    assert len(load(_written(fork, lines)).gaps) == 1


def test_events_are_kept_in_the_journal_and_not_read_twice(tmp_path: Path) -> None:
    (run,) = runs_of(_written(tmp_path, _SESSION))
    kept = [event.what for event in facts_in(run, SourceRecordFact)]
    assert kept == [
        *("session_meta", "event_msg task_started", "turn_context", "event_msg user_message"),
        *("event_msg agent_reasoning", "event_msg token_count", "event_msg token_count", "event_msg agent_message"),
        *("event_msg token_count", "event_msg task_complete"),
    ]


def test_free_text_tools_and_server_tools_are_read(tmp_path: Path) -> None:
    lines = [
        _META,
        _message(1, "user", "Patch."),
        _item(2, "web_search_call", status="completed", action={"query": "x"}),
        _item(2, "custom_tool_call", name="apply_patch", input="*** Begin", call_id="c1", status="completed"),
        _item(3, "custom_tool_call_output", call_id="c1", output="Success."),
        _message(4, "assistant", "Done."),
    ]
    first, second = load(_written(tmp_path, lines)).llm_interactions
    assert [(call.name, call.arguments) for call in first.response.tool_calls] == [("apply_patch", "*** Begin")]
    assert [block.type for block in first.response.blocks] == ["other", "tool_call"]
    assert second.input_messages[-1].content == "Success."


def test_a_compaction_continues_with_the_history_it_states(tmp_path: Path) -> None:
    history = [_message(0, "user", "Fix it.")["payload"], _message(0, "user", "The summary.")["payload"]]
    lines = [
        *_SESSION,
        _line("compacted", 8, message="", replacement_history=history),
        _message(9, "user", "Go on."),
        _message(9, "assistant", "Yes."),
    ]
    run = load(_written(tmp_path, lines))
    assert [message.content for message in run.llm_interactions[2].input_messages] == [
        *["Fix it.", "The summary.", "Go on."]
    ]


def test_a_roll_back_continues_a_branch(tmp_path: Path) -> None:
    lines = [
        _META,
        _message(1, "user", "One."),
        _message(2, "assistant", "1"),
        _message(3, "user", "Two."),
        _message(4, "assistant", "2"),
        _event(5, "thread_rolled_back", num_turns=1),
        _message(6, "user", "Three."),
        _message(7, "assistant", "3"),
    ]
    assert _contents(load(_written(tmp_path, lines))) == [["One."], ["One.", "1", "Two."], ["One.", "1", "Three."]]


def test_errors_and_interruptions_are_stated(tmp_path: Path) -> None:
    lines = [
        *_SESSION[:13],
        _event(8, "stream_error", message="retrying 1/5"),
        _event(9, "error", message="quota", codex_error_info="usage_limit_exceeded"),
    ]
    run = load(_written(tmp_path, lines))
    assert run.status == "failed"
    assert [(call.error.type, call.error.message) for call in run.llm_interactions if call.error] == [
        ("error", "retrying 1/5"),
        ("usage_limit_exceeded", "quota"),
    ]
    aborted = load(_written(tmp_path, [*_SESSION[:10], _event(8, "turn_aborted", reason="interrupted")]))
    assert aborted.status == "interrupted"


def test_a_result_that_no_call_saw_is_an_execution(tmp_path: Path) -> None:
    (run,) = runs_of(_written(tmp_path, _SESSION[:13]))
    states = [(event.call_id, event.name, event.success) for event in run.events if isinstance(event, ToolRun)]
    assert states == [("c1", "shell", True), ("c2", "shell", False)]


def test_a_sub_agent_is_read_with_its_parent(tmp_path: Path) -> None:
    child = [
        _line("session_meta", 4, id=_CHILD, source={"subagent": {"thread_spawn": {}}}),
        _message(4, "user", "Search."),
        _message(5, "assistant", "Found."),
    ]
    beside = _written(tmp_path, child, f"rollout-2026-{_CHILD}.jsonl")
    lines = [
        _META,
        _message(1, "user", "Delegate."),
        _call(2, "c1", "spawn_agent", message="Search."),
        _output(3, "c1", "started"),
        _event(3, "collab_agent_spawn_end", call_id="c1", new_thread_id=_CHILD, new_agent_role="explorer"),
        _message(9, "assistant", "Done."),
    ]
    source = Source(_written(tmp_path, lines))
    (run,) = read_foreign_runs(source)
    assert source.read_too == {beside}
    (tmp_path / "out").mkdir()
    read = check_run(run, tmp_path / "out")
    assert [(call.agent, call.agent_id) for call in read.llm_interactions] == [
        (None, None),
        ("explorer", _CHILD),
        (None, None),
    ]
    assert read.agent_steps[0].tool_results[0].execution_id == read.llm_interactions[1].parent_execution_id
    assert [message.content for message in read.llm_interactions[1].input_messages] == ["Search."]


def test_a_rollout_with_only_events_is_read(tmp_path: Path) -> None:
    lines = [
        _META,
        _event(1, "user_message", message="Hello."),
        _event(2, "agent_reasoning", text="Greet."),
        _event(3, "agent_message", message="Hi."),
    ]
    (one,) = load(_written(tmp_path, lines)).llm_interactions
    assert (one.response.content, one.response.reasoning) == ("Hi.", "Greet.")
    assert [message.content for message in one.input_messages] == ["You are Codex.", "Hello."]


def test_the_oldest_form_has_no_envelopes(tmp_path: Path) -> None:
    lines = [
        {"id": "old-1", "timestamp": "2025-07-01T10:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        _message(0, "user", "Hello.")["payload"],
        _message(0, "assistant", "Hi.")["payload"],
    ]
    run = load(_written(tmp_path, lines))
    assert (run.trajectory_id, run.llm_interactions[0].response.content) == ("old-1", "Hi.")
    assert [message.content for message in run.llm_interactions[0].input_messages] == ["Hello."]


def test_a_rollout_of_trae_is_distinguished(tmp_path: Path) -> None:
    meta = {**_META, "payload": {**_META["payload"], "model_provider": "trae"}}
    assert format_of(Source(_written(tmp_path, [meta, *_SESSION[1:]]))) == "traex"
    assert format_of(Source(_written(tmp_path, _SESSION))) == "codex"


def test_real_rollouts_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("codex/*/*.jsonl") + real_files("others/traex/*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        items = [line["payload"] for line in lines if line["type"] == "response_item"]
        (run,) = runs_of(path)
        read = check_run(run, tmp_path)
        asked = [(call.name, call.call_id) for one in read.llm_interactions for call in one.response.tool_calls]
        calls = [item for item in items if item["type"].endswith("_call") and "call_id" in item]
        assert asked == [(item.get("name", item["type"]), item["call_id"]) for item in calls], path
        known = {identity for _, identity in asked}
        outputs = [item["call_id"] for item in items if item["type"].endswith("_output")]
        results = [one.call_id for step in read.agent_steps for one in step.tool_results]
        assert {*results} == {identity for identity in outputs if identity in known}, path
        texts = [
            "".join(part.get("text", "") for part in item["content"])
            for item in items
            if item["type"] == "message" and item["role"] == "assistant"
        ]
        if items:
            answers = [call.response.content for call in read.llm_interactions if call.response.content]
            assert "".join(answers).replace("\n", "") == "".join(texts).replace("\n", ""), path
