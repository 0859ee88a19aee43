"""Inspect's logs: .eval and .json, old and new, sub-agents, scores, failures, attachments, and hostile zip files."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import zstd
from tests.formats.damage import check_damaged
from tests.formats.files import PRODUCED, check_run, facts_in, loaded, produced_document, real_files, runs_of
from tests.formats.zip_files import DEFLATED, STORED, ZSTD, zip_of
from trace_recorder import load
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.facts import GapFact, SourceRecordFact
from trace_recorder.formats.foreign_runs.zip_archive import Archive
from trace_recorder.formats.inspect_ai.reading import Attachments
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.trajectory import Trajectory


def _event(second: int, kind: str, span: str | None = None, **members: Any) -> dict[str, Any]:
    return {"event": kind, "timestamp": f"2026-01-01T00:00:{second:02}+00:00", "span_id": span, **members}


_SAMPLE = produced_document("inspect-ai/log.json")["samples"][0]
_HEADER = {name: value for name, value in produced_document("inspect-ai/log.json").items() if name != "samples"}


def _json_log(directory: Path, *samples: object, **members: object) -> Path:
    path = directory / "log.json"
    path.write_text(json.dumps({**_HEADER, "samples": samples, **members}))
    return path


def _eval_log(directory: Path, method: int, *samples: object, header: str = "header.json", **more: Any) -> Path:
    path = directory / "log.eval"
    members = {header: json.dumps(_HEADER).encode()}
    members |= {f"samples/{number}_epoch_1.json": json.dumps(one).encode() for number, one in enumerate(samples)}
    path.write_bytes(zip_of(members, method, **more))
    return path


def _check(run: Trajectory) -> None:
    assert (run.trajectory_id, run.status, run.model, run.provider) == ("abc", "completed", "openai/m", "openai")
    assert (run.task, run.final_result, run.execution_time) == ("Weather?", "Done.", 9.0)
    assert run.metadata["imported_from"]["version"] == "0.3.285"
    main, inner, last, judge = run.llm_interactions
    assert [one.agent for one in (main, inner, last, judge)] == [None, "researcher", None, "judge"]
    assert inner.parent_execution_id == "u1"
    assert [message.content for message in main.input_messages] == [
        "You help.",
        [{"type": "text", "text": "Weather?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}],
    ]
    assert (main.response.content, main.response.reasoning, main.duration_seconds) == ("I look.", "Hm.", 0.5)
    assert [(message.role, message.content, message.reasoning) for message in last.input_messages][2:] == [
        ("assistant", "I look.", "Hm."),
        ("tool", "late", None),
    ]
    (result,) = run.agent_steps[0].tool_results
    assert (result.success, result.error, result.duration_seconds) == (False, "late", 1.5)
    assert [(reward.name, reward.value) for reward in run.rewards] == [("match", 1.0), ("parts/x", 0.25)]
    counts = counts_of(main)
    assert counts is not None
    assert (counts.prompt, counts.completion) == (72, 3)


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTD])
def test_a_sample_of_an_eval_file_is_a_run(tmp_path: Path, method: int) -> None:
    _check(load(_eval_log(tmp_path, method, _SAMPLE)))


def test_a_sample_of_a_json_file_is_the_same_run(tmp_path: Path) -> None:
    _check(load(_json_log(tmp_path, _SAMPLE)))


def test_several_samples_are_several_runs_even_if_the_log_has_no_end(tmp_path: Path) -> None:
    other = {**_SAMPLE, "uuid": "def", "error": {"message": "RuntimeError('lost')"}}
    limited = {**_SAMPLE, "uuid": "ghi", "limit": {"type": "message", "limit": 6, "reason": "6 messages"}}
    path = _eval_log(tmp_path, DEFLATED, _SAMPLE, other, limited, header="_journal/start.json")
    runs = [*loaded(path)]
    assert [run.trajectory_id for run in runs] == ["abc", "def", "ghi"]
    assert [(run.status, run.error and run.error.type) for run in runs] == [
        ("completed", None),
        ("failed", "RuntimeError"),
        ("failed", "message limit"),
    ]


def test_the_older_form_has_steps_and_events_inside_tools(tmp_path: Path) -> None:
    run = load(PRODUCED / "inspect-ai" / "old-log.json")
    assert [call.agent for call in run.llm_interactions] == [None, "helper", "judge"]
    assert (run.task, [(reward.name, reward.value) for reward in run.rewards]) == ("Weather?", [("score", 0.5)])
    assert run.llm_interactions[0].input_messages[0].content == "Weather?"


def test_a_sample_without_events_has_the_calls_of_its_messages(tmp_path: Path) -> None:
    system, _, asked, failed, _ = _SAMPLE["messages"]
    messages = [system, asked, failed]
    run = load(_json_log(tmp_path, {"id": 1, "messages": messages, "attachments": _SAMPLE["attachments"]}))
    assert [len(call.input_messages) for call in run.llm_interactions] == [1]
    (result,) = run.agent_steps[0].tool_results
    assert (result.success, result.error) == (False, "late")


def test_a_log_without_samples_says_how_it_ended(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryFormatError, match=r"has no sample\. The log's status is cancelled"):
        load(_json_log(tmp_path, status="cancelled"))


def test_an_unreadable_sample_hides_no_other(tmp_path: Path) -> None:
    path = _eval_log(tmp_path, DEFLATED, _SAMPLE, _SAMPLE)
    data = bytearray(path.read_bytes())
    at = data.index(b"samples/0_epoch_1.json") + 40
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)
    first, second = runs_of(path)
    assert [type(event.fact) for event in first.events] == [GapFact]
    assert second.identity == "abc"


@pytest.mark.parametrize("method", [DEFLATED, ZSTD])
def test_a_decompression_bomb_is_refused(tmp_path: Path, method: int) -> None:
    path = tmp_path / "log.eval"
    bomb = b" " * (70 * 1024 * 1024) + b"{}"
    path.write_bytes(zip_of({"header.json": json.dumps(_HEADER).encode(), "samples/1.json": bomb}, method))
    (run,) = runs_of(path)
    assert [event.why for event in facts_in(run, GapFact)] == [
        f"samples/1.json: it decompresses to {len(bomb)} bytes, more than the limit for this file"
    ]


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTD])
def test_a_member_is_read_no_further_than_its_stated_size(tmp_path: Path, method: int) -> None:
    (run,) = runs_of(_eval_log(tmp_path, method, _SAMPLE, sizes={"samples/0_epoch_1.json": 10}))
    assert [event.why for event in facts_in(run, GapFact)] == ["samples/0_epoch_1.json: it is damaged"]


def test_many_small_members_are_limited_like_one_large_member(tmp_path: Path) -> None:
    archive = Archive(_eval_log(tmp_path, DEFLATED, _SAMPLE), 1_000_000)
    archive.bytes_left = archive.members["header.json"].file_size
    assert archive.read("header.json")
    with pytest.raises(Exception, match="more than the limit for this file"):
        archive.read("samples/0_epoch_1.json")


def test_without_a_reader_of_zstd_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    archive = Archive(_eval_log(tmp_path, ZSTD, _SAMPLE), 1_000_000)
    with pytest.raises(TrajectoryFormatError, match=r"trace-recorder\[imports\]"):
        archive.read("header.json")


def test_attachments_are_inserted_up_to_a_total_size() -> None:
    attachments = Attachments({"1": "abc"}, characters_left=7)
    assert attachments.put_in(["attachment://1"] * 3) == ["abc", "abc", "attachment://1"]
    assert attachments.exceeded


def test_an_unknown_event_is_kept(tmp_path: Path) -> None:
    sample = {**_SAMPLE, "events": [*_SAMPLE["events"], _event(7, "info", data="note")]}
    (run,) = runs_of(_json_log(tmp_path, sample))
    assert [event.value["data"] for event in facts_in(run, SourceRecordFact) if event.what == "event info"] == ["note"]


@pytest.mark.parametrize("method", [DEFLATED, ZSTD])
def test_damaged_zip_files_are_read_or_refused(tmp_path: Path, method: int) -> None:
    check_damaged(tmp_path / "log.eval", _eval_log(tmp_path, method, _SAMPLE).read_bytes())


def test_real_files_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("inspect/*/*.[ej][vs]*"):
        samples = [*_raw_samples(path)]
        if not samples:
            continue
        runs = runs_of(path)
        assert (len(runs), {run.format for run in runs}) == (len(samples), {"inspect-ai"})
        for run, sample in zip(runs, samples, strict=True):
            _check_real(check_run(run, tmp_path), sample)


def _raw_samples(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".json":
        yield from json.loads(path.read_bytes()).get("samples") or []
        return
    with zipfile.ZipFile(path) as file:
        for info in file.infolist():
            if info.filename.startswith("samples/"):
                data = file.read(info) if info.compress_type != ZSTD else _unpacked(path, info)
                yield json.loads(data)


def _unpacked(path: Path, info: zipfile.ZipInfo) -> bytes:
    data = path.read_bytes()
    begin = data.index(info.filename.encode(), info.header_offset) + len(info.filename.encode())
    return zstd.ZstdDecompressor().decompress(data[begin:])


def _check_real(run: Trajectory, sample: dict[str, Any]) -> None:
    """Compare a run with the sample's own totals, and with a second reading of the sample's events."""
    events = sample.get("events") or sample.get("transcript", {}).get("events", [])
    models = [event for event in events if event["event"] == "model"]
    assert len(run.llm_interactions) == len(models)
    for ours, theirs in (("input_tokens", "input_tokens"), ("cache_read_input_tokens", "input_tokens_cache_read")):
        expected = [usage.get(theirs) or 0 for usage in sample.get("model_usage", {}).values()]
        assert not expected or run.metrics.get(ours, 0) == sum(expected)
    pool = sample.get("events_data", {}).get("messages") or sample.get("message_pool") or []
    for interaction, event in zip(run.llm_interactions, models, strict=True):
        refs = [message for first, last in event.get("input_refs") or [] for message in pool[first:last]]
        roles = [message["role"] for message in [*refs, *event["input"]]]
        assert [message.role for message in interaction.input_messages] == roles
        said = event["output"]["choices"][0]["message"]
        assert [call.call_id for call in interaction.response.tool_calls] == [
            call["id"] for call in said.get("tool_calls") or []
        ]
        assert "attachment://" not in repr(interaction.input_messages[0])
    tools = {event["id"]: event for event in events if event["event"] == "tool"}
    results = {result.call_id: result for step in run.agent_steps for result in step.tool_results}
    if models:
        assert results.keys() == tools.keys()
    for call_id, tool in tools.items():
        assert (results[call_id].result, results[call_id].success) == (tool["result"], not tool.get("error"))
    numbers = {"C": 1.0, "I": 0.0}
    values = {name: score["value"] for name, score in (sample.get("scores") or {}).items()}
    expected = {name: numbers.get(value, value) for name, value in values.items()}
    assert {reward.name: reward.value for reward in run.rewards} == expected
    assert run.status == ("failed" if sample.get("error") or sample.get("limit") else "completed")


def test_real_lists_of_events_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("inspect/inspect_scout-tests/events/*.json"):
        document = json.loads(path.read_bytes())
        (run,) = runs_of(path)
        trajectory = check_run(run, tmp_path)
        tokens = trajectory.metrics["input_tokens"] + trajectory.metrics["output_tokens"]
        assert tokens == _model_tokens(document["events"])


def _model_tokens(events: list[dict[str, Any]]) -> int:
    own = (event["output"]["usage"] for event in events if event["event"] == "model")
    return sum(sum(usage.values()) for usage in own) + sum(_model_tokens(event.get("events", [])) for event in events)
