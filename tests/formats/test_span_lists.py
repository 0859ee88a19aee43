"""Lists of spans, as the console exporter and Phoenix write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import check_only_run, facts_in, produced_document, runs_of
from tests.formats.span_files import TRACE, written
from trace_recorder.facts import AnnotationFact, GapFact, RewardFact
from trace_recorder.formats.foreign_runs.run import Call, ToolRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.trajectory import Trajectory

# ── lists of spans ───────────────────────────────────────────────────────────────────────────────────────────────────


def phoenix_spans() -> list[dict[str, Any]]:
    """Return the spans of an agent with a call and a tool, as Phoenix lists them."""
    spans: list[dict[str, Any]] = produced_document("phoenix/spans.json")
    return spans


def _check_guide(run: Trajectory) -> None:
    assert (run.status, run.task, run.final_result) == ("completed", "Weather in Paris?", "18")
    (interaction,) = run.llm_interactions
    assert (interaction.agent, interaction.model, interaction.provider, interaction.parameters) == (
        "guide",
        "gpt-4o",
        "openai",
        {"temperature": 0.2},
    )
    assert interaction.input_messages[0].content == [
        {"type": "text", "text": "Weather?"},
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
    ]
    assert (interaction.tools[0].name, interaction.tools[0].parameters) == ("weather", {"type": "object"})
    assert counts_of(interaction) == Counts(prompt=10, completion=5, cache_read=4)
    assert [(result.call_id, result.result) for result in run.agent_steps[0].tool_results] == [("c1", "18")]


def test_spans_of_phoenix_are_a_run(tmp_path: Path) -> None:
    _check_guide(check_only_run(tmp_path, written(tmp_path, phoenix_spans())))


def test_spans_of_phoenix_s_interface_and_nested_attributes_are_read(tmp_path: Path) -> None:
    spans = phoenix_spans()
    flat = spans[1]["attributes"]
    contents = [{"type": "text", "text": "Weather?"}, {"type": "image", "image": {"image": {"url": "https://a/b.png"}}}]
    prompt = {"role": "user", "contents": [{"message_content": content} for content in contents]}
    nested = {
        "token_count": {"prompt": 10, "completion": 5, "prompt_details": {"cache_read": 4}},
        "input_messages": [{"message": prompt}],
    }
    left = {name: value for name, value in flat.items() if not name.startswith(("llm.token_count", "llm.input"))}
    spans[1]["attributes"] = {**left, "llm": nested}
    _check_guide(check_only_run(tmp_path, written(tmp_path, {"data": spans, "next_cursor": None})))


def test_lines_of_phoenix_spans_are_read_except_a_damaged_line(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    first, *others = map(json.dumps, phoenix_spans())
    path.write_text("\n".join([first, "{", *others]))
    (run,) = runs_of(path)
    kinds = (Call, ToolRun)
    assert [type(event) for event in run.events if isinstance(event, kinds)] == [*kinds]
    assert len(facts_in(run, GapFact)) == 1


def test_annotations_of_phoenix_are_scores(tmp_path: Path) -> None:
    spans = phoenix_spans()
    spans[1]["annotations"] = [
        {"name": "right", "result": {"score": 0.5, "explanation": "half"}},
        {"name": "tone", "result": {"label": "kind"}},
    ]
    (run,) = runs_of(written(tmp_path, spans))
    (score,) = facts_in(run, RewardFact)
    (note,) = facts_in(run, AnnotationFact)
    assert (score.name, score.value, score.explanation, note.key) == ("right", 0.5, "half", "tone")


@pytest.mark.parametrize("indent", [None, 4])
def test_the_output_of_the_sdk_s_console_exporter_is_a_run(tmp_path: Path, indent: int | None) -> None:
    printed = [
        {
            "name": span["name"],
            "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{number + 1:016x}", "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": f"0x{1:016x}" if number else None,
            "start_time": span["start_time"],
            "end_time": span["end_time"],
            "status": {"status_code": "OK"},
            "attributes": {"openinference.span.kind": span["span_kind"], **span["attributes"]},
            "events": [],
            "resource": {"attributes": {"service.name": "app"}},
        }
        for number, span in enumerate(phoenix_spans())
    ]
    path = tmp_path / "spans.log"
    path.write_text("\n".join(json.dumps(one, indent=indent) for one in printed))
    assert format_of(Source(path)) == "otel-console"
    run = check_only_run(tmp_path, path)
    _check_guide(run)
    assert run.metadata["imported_from"]["resource"] == {"service.name": "app"}
