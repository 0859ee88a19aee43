"""The rules for all export formats: each run in each form of each format, and the runs that are read back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.formats.corpus_runs import corpus_runs
from tests.formats.exporting import exported
from tests.formats.made import assistant, call, run, system
from tests.formats.runs import RUNS
from tests.journals import folded
from tests.wire.corpus import DIRECTORY
from trace_recorder import EmptyTrajectoryError, Trajectory, load
from trace_recorder.figures.content.chat_form import result_text, text_lines, text_of
from trace_recorder.formats.any_file import load_each
from trace_recorder.formats.format_writer import EXPORT_FORMATS
from trace_recorder.reading.document import from_document
from trace_recorder.values.messages import Message, ToolCall
from trace_recorder.values.token_counts import counts_of

FORMS = [
    (name, form)
    for name, format_ in EXPORT_FORMATS.items()
    if format_.kind != "tables"  # `tests/tables` has the rules for tables
    for form in (format_.forms or (None,))
    if form != "eval"  # an archive of the same log
]
EMPTY = "the run is empty"


def as_json(name: str, form: str | None, trajectory: Trajectory, directory: Path = Path()) -> Any:
    """Return an export. ATIF and the Hierarchy have no export of a run without a call or a task."""
    try:
        return exported(name, trajectory, directory, form)
    except EmptyTrajectoryError:
        return EMPTY


def exports_of(trajectory: Trajectory, directory: Path) -> dict[str, Any]:
    """Return the exports of a run in each form of each format."""
    return {f"{name}-{form or 'only'}": as_json(name, form, trajectory, directory) for name, form in FORMS}


@pytest.mark.parametrize("told", RUNS)
def test_an_export_is_plain_json_and_always_the_same(
    trajectories: Mapping[str, Trajectory], told: str, tmp_path: Path
) -> None:
    """The output can be written, is read back unchanged, and is the same at a second export."""
    made = exports_of(trajectories[told], tmp_path)

    assert json.loads(json.dumps(made)) == made
    assert exports_of(trajectories[told], tmp_path) == made


@pytest.mark.parametrize("told", [name for name in RUNS if name not in {"damaged", "in_flight"}])
def test_a_document_gives_the_same_export_as_its_journal(
    trajectories: Mapping[str, Trajectory], told: str, tmp_path: Path
) -> None:
    """The exports use only values that the document has too."""
    document = json.loads(json.dumps(trajectories[told].to_document()))

    assert exports_of(from_document(document, told), tmp_path) == exports_of(trajectories[told], tmp_path)


@pytest.mark.parametrize("told", ["tools", "thinking", "streamed", "own_steps"])
def test_every_prefix_of_a_journal_is_exported(paths: Mapping[str, Path], told: str, tmp_path: Path) -> None:
    """A run that broke off after any of its records is exported as far as it was recorded."""
    lines = paths[told].with_suffix(".jsonl").read_bytes().splitlines(keepends=True)

    for end in range(len(lines) + 1):
        run_so_far = folded(b"".join(lines[:end]))
        for name, form in FORMS:
            json.dumps(as_json(name, form, run_so_far, tmp_path))


@pytest.mark.skipif(not DIRECTORY.is_dir(), reason=f"no corpus in {DIRECTORY}")
def test_the_corpus_is_exported(tmp_path: Path) -> None:
    """Real answers of every dialect are exported. The checks of readers cover all of them."""
    for path in corpus_runs(tmp_path, every=8):
        trajectory = load(path)
        for name, form in FORMS:
            json.dumps(as_json(name, form, trajectory, tmp_path))


# ── read again ────────────────────────────────────────────────────────────────────────────────────────────────────

READ_AGAIN = ("atif", "hierarchy", "inspect", "invariant", "otlp", "session-traces", "traces")
"""The formats that we write and read. `tests/formats/test_trae.py` has Trae's, which is read unchanged."""
ASPECTS = ("answers", "calls", "prompts", "results", "tokens")
TOLD = (
    *("tools", "thinking", "gemini", "local", "responses", "streamed", "images", "own_steps", "compacted"),
    *("sub_agents", "code_agent"),
)
LOST: dict[tuple[str, str], set[str]] = {
    ("session-traces", "*"): {"tokens"},  # members that the format does not have
    # A call has fewer messages than the model saw, because the format has each event once.
    ("invariant", "streamed"): {"prompts"},
    ("invariant", "compacted"): {"prompts"},
    ("traces", "images"): {"prompts"},  # an image with a URL is read as text
}
"""By export and run: what is not read back."""


def exported_and_read(name: str, trajectory: Trajectory, directory: Path) -> Iterator[Trajectory]:
    contents = exported(name, trajectory, directory)
    files = [contents] if name == "otlp" else contents
    for number, lines in enumerate(files):
        path = directory / f"export-{number}.json"
        values = lines if isinstance(lines, list) else [lines]
        path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
        yield from load_each(path)


def facts(trajectories: list[Trajectory]) -> dict[str, list[Any]]:
    """Return the content of runs in an order that does not depend on the format, without white space."""
    calls = [one for trajectory in trajectories for one in trajectory.llm_interactions]
    counts = [counts_of(call) for call in calls]
    seen = {
        (message.call_id, text_lines(message))
        for call in calls
        for message in call.input_messages
        if message.role == "tool"
    }
    shown = {call_id for call_id, _ in seen}
    results = [one for trajectory in trajectories for step in trajectory.agent_steps for one in step.tool_results]
    unseen = {(one.call_id, result_text(one)) for one in results if one.call_id not in shown}
    return {
        "answers": sorted(call.response.content or "" for call in calls),
        "calls": sorted((call.name, json.dumps(call.arguments)) for one in calls for call in one.response.tool_calls),
        "prompts": sorted(
            [[message.role, "".join(text_of(message).split())] for message in call.input_messages] for call in calls
        ),
        "results": sorted(seen | unseen),
        "tokens": sorted(
            (count.prompt or 0, count.completion or 0, count.cache_read or 0) for count in counts if count
        ),
    }


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("name", READ_AGAIN)
def test_the_exchanged_content_is_read_back(
    name: str, told: str, trajectories: Mapping[str, Trajectory], tmp_path: Path
) -> None:
    """Each answer has its calls with their arguments, the tools' results, and its tokens."""
    before = facts([trajectories[told]])
    after = facts([*exported_and_read(name, trajectories[told], tmp_path)])

    lost = LOST.get((name, told), LOST.get((name, "*"), set()))
    kept = [aspect for aspect in ASPECTS if aspect not in lost]
    assert {aspect: after[aspect] for aspect in kept} == {aspect: before[aspect] for aspect in kept}
    assert all(before[aspect] != after[aspect] for aspect in lost if before[aspect])


@pytest.mark.parametrize("name", READ_AGAIN)
def test_no_answer_is_read_back_twice(name: str, tmp_path: Path) -> None:
    """Two conversations begin with the same answer, and one prompt has an answer that an agent put into it."""
    before = [system("s"), "q", assistant("a")]
    made = run(
        call(before[:2], "a"),
        call([*before, "x?"], "x"),
        call([*before, "y?"], "y"),
        call([system("s"), "q", assistant("other"), "z?"], "z"),
    )

    assert facts([*exported_and_read(name, made, tmp_path)])["answers"] == ["a", "x", "y", "z"]


DIFFERS: dict[str, set[str]] = {
    "atif": {"prompt", "said", "tools", "number of calls", "results"},
    "inspect": {"error", "finish reason", "prompt", "said", "tokens", "final result", "number of calls"}
    | {"results", "rewards", "status", "success"},
    "otlp": {"error", "said", "tokens", "final result", "number of calls", "results", "rewards"},
}
"""The formats of one document for each run: the members that the format cannot express (docs/import-results.md)."""


@pytest.mark.parametrize("name", DIFFERS)
def test_only_members_that_a_format_cannot_express_differ(
    name: str, trajectories: Mapping[str, Trajectory], tmp_path: Path
) -> None:
    differing: set[str] = set()
    for told, before in trajectories.items():
        (tmp_path / told).mkdir()
        again = next(exported_and_read(name, before, tmp_path / told))
        differing |= {aspect for aspect, value in _of_run(before).items() if value != _of_run(again)[aspect]}
        for one, other in zip(_calls(before), _calls(again), strict=False):
            differing |= {aspect for aspect, value in one.items() if value != other[aspect]}
    assert differing == DIFFERS[name]


@pytest.mark.parametrize("name", DIFFERS)
def test_the_tools_that_an_ordinary_run_offers_are_read_back(
    name: str, trajectories: Mapping[str, Trajectory], tmp_path: Path
) -> None:
    again = next(exported_and_read(name, trajectories["tools"], tmp_path))
    assert [call["tools"] for call in _calls(again)] == [call["tools"] for call in _calls(trajectories["tools"])]


def _of_run(trajectory: Trajectory) -> dict[str, Any]:
    results = [one for step in trajectory.agent_steps for one in step.tool_results]
    return {
        "task": trajectory.task,
        "status": trajectory.status,
        "success": trajectory.success,
        "final result": trajectory.final_result,
        "rewards": [(reward.name, reward.value) for reward in trajectory.rewards],
        "number of calls": len(trajectory.llm_interactions),
        "results": [(one.call_id, one.name, one.success, one.result, one.error) for one in results],
    }


def _calls(trajectory: Trajectory) -> list[dict[str, Any]]:
    return [
        {
            "agent": interaction.agent,
            "model": interaction.model,
            "prompt": [_message(message) for message in interaction.input_messages],
            "said": interaction.response.content,
            "reasoning": interaction.response.reasoning,
            "finish reason": interaction.response.finish_reason,
            "tools": [tool.name for tool in interaction.tools],
            "tools asked for": [*_asked(interaction.response.tool_calls)],
            "tokens": (interaction.response.usage.input_tokens, interaction.response.usage.output_tokens),
            "cached tokens": interaction.response.usage.cache_read_input_tokens,
            "error": interaction.error and interaction.error.message,
        }
        for interaction in trajectory.llm_interactions
    ]


def _message(message: Message) -> tuple[str, Any, Any, str | None]:
    """Return a message. Its parts that are not text are replaced by a mark of their presence."""
    content = message.content
    if isinstance(content, list):
        content = [part.get("text", "…") if isinstance(part, dict) else part for part in content]
    return message.role, content, [*_asked(message.tool_calls)], message.call_id


def _asked(calls: tuple[ToolCall, ...]) -> Iterator[tuple[str, str, Any]]:
    yield from ((call.call_id, call.name, call.arguments) for call in calls)
