"""Every format that keeps all calls marks replayed calls, and excludes them from sums."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.contents import shown_spans
from tests.contents.comparing import NOT_CARRIED, READERS
from tests.contents.script import Tokens
from tests.formats.exporting import exported
from tests.formats.made import assistant, call, gave, run, use
from trace_recorder import Trajectory, load
from trace_recorder.formats.any_file import load_each
from trace_recorder.formats.spans.writing.spans import to_spans
from trace_recorder.formats.trae import to_trae
from trace_recorder.values.origins import ReplayedFrom

Payload = Any
LS = use("c1", command="ls")
ORIGIN = {"trajectory_id": "parent", "interaction_id": "llm_7"}
USAGE = {"input_tokens": 30, "output_tokens": 20, "cache_read_input_tokens": 10, "cost": 0.5}
COUNTED = {"input_tokens": 40, "output_tokens": 20, "cache_read_input_tokens": 10, "cost": 0.5}
"""The usage of the recorded answer, as Anthropic counts it, and with the cached tokens in the prompt."""
LIVE = Tokens(7, 3)
KEEPING = ["atif", "hierarchy", "inspect", "invariant", "otlp", "session-traces", "traces", "trae"]
"""The formats that keep every call. The others are rows for training (`training/test_replayed_calls.py`)."""


def told(origin: Payload = ORIGIN) -> Trajectory:
    """Return a fork at its second call. The first answer, which calls a tool, was replayed; the second call was
    made.
    """
    given = {} if origin is None else {"replayed_from": origin}
    sent = ["q", assistant("look", LS), gave("c1", "a.py")]
    return run(
        call(["q"], "look", LS, api="anthropic-messages", response={"usage": USAGE}, **given),
        call(sent, "done", api="anthropic-messages", response={"usage": {"input_tokens": 7, "output_tokens": 3}}),
    )


def conversations(name: str, trajectory: Trajectory) -> list[Payload]:
    """Return the conversations of an export, read by the description of its format."""
    return [*READERS[name](exported(name, trajectory), Path(), "anthropic")]


def answers(name: str, trajectory: Trajectory) -> Iterator[Payload]:
    shown = conversations(name, trajectory)
    return (message for talk in shown for message in talk.messages if message.role == "assistant")


@pytest.mark.parametrize("name", KEEPING)
def test_a_format_keeps_replayed_calls(name: str) -> None:
    """Messages, calls and results equal those of the run without marks."""

    def said(trajectory: Trajectory) -> Payload:
        return [
            [(message.role, message.text, message.calls) for message in talk.messages]
            for talk in conversations(name, trajectory)
        ]

    assert said(told()) == said(told(None))
    assert "look" in str(said(told()))


@pytest.mark.parametrize("name", [*(name for name in KEEPING if name != "inspect"), "otlp-openinference"])
def test_only_made_calls_state_tokens(name: str) -> None:
    """A reader's sum counts no tokens twice. Inspect's reader omits cached tokens."""
    if name == "otlp-openinference":
        talks = shown_spans.openinference(exported("otlp", told(), form="openinference"), Path(), "anthropic")
        tokens = [message.tokens for talk in talks for message in talk.messages]
    else:
        tokens = [message.tokens for message in answers(name, told())]

    expected = [] if (name, "tokens") in NOT_CARRIED else [LIVE]
    assert [one for one in tokens if one is not None] == expected


def marks_in(value: Payload, name: str = "replayed_from") -> list[Payload]:
    """Return all members of this name in a JSON value."""
    if isinstance(value, list):
        return [found for element in value for found in marks_in(element, name)]
    if not isinstance(value, dict):
        return []
    own = [value[name]] if name in value else []
    return own + [found for member in value.values() for found in marks_in(member, name)]


def otlp_marks(lines: list[Payload]) -> list[Payload]:
    marks = [said.get("trace_recorder.replayed_from") for _, said in shown_spans.spans_of(lines)]
    return [json.loads(one) for one in marks if one is not None]


PI_USAGE = {"input": 30, "output": 20, "cacheRead": 10, "totalTokens": 60, "cost": {"total": 0.5}}
METRICS = {
    "prompt_tokens": 40,
    "completion_tokens": 20,
    "cached_tokens": 10,
    "cost_usd": 0.5,
    "extra": {"usage": USAGE},
}
OF_SDK = {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 60, "cache_read_tokens": 10}
MARKS: dict[str, tuple[Callable[[list[Payload]], Payload], Payload]] = {
    "atif": (marks_in, ORIGIN | {"metrics": METRICS}),
    "hierarchy": (marks_in, ORIGIN | {"usage": OF_SDK}),
    "inspect": (marks_in, ORIGIN),
    "invariant": (marks_in, ORIGIN | {"usage": USAGE}),
    "otlp": (otlp_marks, ORIGIN | {"usage": COUNTED}),
    "session-traces": (lambda sessions: marks_in(sessions, "replayedFrom"), ORIGIN),
    "traces": (lambda sessions: marks_in(sessions, "replayedFrom"), ORIGIN | {"usage": PI_USAGE}),
}


@pytest.mark.parametrize("name", MARKS)
def test_a_format_marks_replayed_calls(name: str) -> None:
    """In the format's own form, the mark names the run and the call that gave the answer, and has the answer's
    usage.
    """
    read, mark = MARKS[name]

    assert read(exported(name, told())) == [mark]
    assert read(exported(name, told(None))) == []


def test_fields_of_the_format_mark_replayed_calls_too() -> None:
    """ATIF marks them as copied context, which is not trained on, and Inspect as reads from a cache."""
    [document], [log] = (exported(name, told()) for name in ("atif", "inspect"))

    steps = [step for step in document["steps"] if step["source"] == "agent"]
    events = [event for event in log["samples"][0]["events"] if event["event"] == "model"]
    assert [(step.get("is_copied_context"), step.get("llm_call_count")) for step in steps] == [(True, None), (None, 1)]
    assert [event.get("cache") for event in events] == ["read", None]


def test_an_answer_by_hand_is_marked() -> None:
    """An answer that a person wrote is not taken for a model's."""
    by_hand = ORIGIN | {"by_hand": True}

    assert [read(exported(name, told(by_hand)))[0]["by_hand"] for name, (read, _) in MARKS.items()] == [True] * 7


def test_sums_exclude_replayed_calls() -> None:
    """The tokens, costs and model times of a whole run cover only calls that were made."""
    [atif], [tree], [log] = (exported(name, told()) for name in ("atif", "hierarchy", "inspect"))

    usage = {"m-1": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}}
    assert atif["final_metrics"] == {"total_prompt_tokens": 7, "total_completion_tokens": 3, "total_steps": 3}
    assert (tree["task"]["total_tokens"], tree["task"]["total_cost"]) == (10, None)
    assert (tree["metrics"]["tokens_generated"], tree["execution_metrics"]["llm_time"]) == (3, 0.25)
    assert (log["stats"]["model_usage"], log["samples"][0]["model_usage"]) == (usage, usage)


def test_services_get_zero_tokens_for_replayed_calls() -> None:
    """Without a count, Langfuse and LangSmith would estimate the tokens and the cost of a call."""
    first, second = [span.attributes for span in to_spans(told(), "langfuse") if span.kind == "client"]

    of = "langfuse.observation."
    assert json.loads(str(first[f"{of}usage_details"])) == {"input": 0, "output": 0, "total": 0}
    assert json.loads(str(first[f"{of}cost_details"])) == {"total": 0}
    assert json.loads(str(second[f"{of}usage_details"])) == {"input": 7, "output": 3, "total": 10}
    assert f"{of}cost_details" not in second


def test_trae_cannot_mark_replayed_calls() -> None:
    """Trae's documents have only Trae's members, so the mark and the usage are left out and counted."""
    document, left_out = to_trae.with_report(told())

    assert ["usage" in call["response"] for call in document["llm_interactions"]] == [False, True]
    assert left_out["marks of calls that were not made, and the usage of their answers"] == 1


READ_BACK = {
    **dict.fromkeys(("atif", "hierarchy", "inspect", "invariant", "otlp", "traces"), True),
    "session-traces": False,
}
"""The formats that are read again, and whether each states tokens."""


@pytest.mark.parametrize("origin", [ORIGIN, ORIGIN | {"by_hand": True}, {}])
@pytest.mark.parametrize("name", READ_BACK)
def test_a_mark_survives_export_and_import(name: str, origin: Payload, tmp_path: Path) -> None:
    """A run that is read from an export has the same calls marked as replayed, and counts only the others."""
    [again] = read_again(name, exported(name, told(origin)), tmp_path)

    marks = [call.replayed_from and call.replayed_from.to_document() for call in again.llm_interactions]
    assert marks == [origin, None]
    if READ_BACK[name]:
        assert again.metrics["total_input_tokens"] == 7
        given = again.llm_interactions[0].response.usage
        assert (given.output_tokens, given.cache_read_input_tokens) == (20, 10)


def test_an_imported_journal_has_the_mark(tmp_path: Path) -> None:
    """The journal is valid, and has the same mark as the imported file."""
    read_again("otlp", exported("otlp", told()), tmp_path)
    imported = invoke("import", tmp_path / "export.json", "-o", tmp_path / "runs")
    [path] = (tmp_path / "runs").glob("*.jsonl")

    assert (imported.exit_code, invoke("validate", path).exit_code) == (0, 0)
    assert [call.replayed_from for call in load(path).llm_interactions] == [ReplayedFrom(**ORIGIN), None]


def read_again(name: str, contents: list[Payload], directory: Path) -> list[Trajectory]:
    [*parts] = contents[0] if name in {"traces", "session-traces"} else contents
    path = directory / "export.json"
    path.write_text("".join(json.dumps(part) + "\n" for part in parts), encoding="utf-8")
    return [*load_each(path)]
