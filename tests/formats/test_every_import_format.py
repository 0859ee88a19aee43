"""The rules for all import formats, over the files in `tests/data/foreign`. Each format has at least one file there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.counting import calls
from tests.formats.damage import check_damaged
from tests.formats.exporting import check_exports
from tests.formats.files import PRODUCED, check_run, facts_in, loaded, produced_files, results_in, runs_of, said_in
from tests.formats.fuzzing import one
from tests.formats.imported import import_file
from tests.searching import seeds
from tests.zstd import compress
from trace_recorder import Trajectory, TrajectoryFormatError, load
from trace_recorder.facts import GapFact, SourceRecordFact
from trace_recorder.formats.any_file import load_each
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of
from trace_recorder.registry import IMPORT_FORMATS
from trace_recorder.values.messages import Payload

FILES = produced_files()
BINARY = {".db", ".eval"}
TEXTS = [path for path in FILES if path.suffix not in BINARY]
JSON_FILES = [path for path in FILES if path.suffix in {".json", ".jsonl", ".har", ".traj"}]


def name_of(path: Path) -> str:
    return path.relative_to(PRODUCED).as_posix()


def format_name(path: Path) -> str:
    return path.relative_to(PRODUCED).parts[0]


each_file = pytest.mark.parametrize("path", FILES, ids=name_of)


@pytest.fixture
def copied(path: Path, tmp_path: Path) -> Path:
    """Copy a file with the files around it, to which it may refer."""
    directory = Path(shutil.copytree(path.parent, tmp_path / "copied"))
    for file in directory.iterdir():
        file.chmod(0o600)
    return directory / path.name


def contents(runs: list[Trajectory]) -> list[Any]:
    """Return the calls and the results of each run that has calls."""
    return [(said_in(run), results_in(run)) for run in runs if run.llm_interactions]


def test_every_import_format_has_a_file() -> None:
    assert {folder.name for folder in PRODUCED.iterdir()} == {*IMPORT_FORMATS}


@each_file
def test_a_file_is_recognised_as_its_format(path: Path) -> None:
    assert format_of(Source(path)) == format_name(path)


USER = {"role": "user", "content": "x"}
NEARLY: dict[str, list[Payload]] = {
    "no format": [[], {}, 7, [[]], [USER], {"messages": []}, [{"role": "user"}], [{"role": "x", "content": ""}]],
    "chat-messages": [{"traj": []}, {"messages": [{"type": "user"}]}],
    "claude-code": [
        {"type": "message", "message": USER},
        {"role": "user", "message": {"content": "x"}},
        {"type": "user", "message": {"role": "user", "parts": [{"text": "x"}]}},
        {"type": "user", "content": "x"},
        {"messages": [{"type": "user", "content": "x"}]},
    ],
    "gemini-cli": [{"sessionId": "g", "startTime": "2026-01-01T10:00:00Z", "messages": []}, [{"sessionId": "g"}]],
    "inspect-ai": [{"eval": {}}, {"eval": {"task": 1, "model": 2}}, {"events": [{"event": 1}]}],
    "langfuse": [{"trace": {"id": 3}, "observations": []}, {"observations": [{"id": "x"}]}],
    "langsmith": [{"post": [{}]}],
    "llm": [[{"id": 1}]],
    "mini-swe-agent": [{"trajectory_format": 3}],
    "mlflow": [{"info": {"trace_id": "x"}}],
    "opencode": [{"id": "x"}, {"info": {}, "messages": []}, {"id": "s", "version": "1", "directory": "/w", "time": 3}],
    "openhands": [{"kind": "ActionEvent"}, {"id": 1, "agent": {}}, {"kind": 1, "source": "agent"}],
    "openhands-v0": [[{"action": 1}], {"history": [{"role": "user"}], "metrics": {}}],
    "phoenix": [[{"context": {"trace_id": "x"}}], {"a": {"input": {"success": True, "data": []}}}],
    "swe-agent": [{"history": [{"role": "user"}]}, {"trajectory": [{"action": 1}]}],
}
"""Documents that have a member of a format, or a message, but no run of the format."""


@pytest.mark.parametrize("name", NEARLY)
def test_a_document_that_only_resembles_a_format_is_not_taken_for_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    for value in NEARLY[name]:
        path.write_text(json.dumps(value))
        assert (value, format_of(Source(path))) == (value, None)


@each_file
def test_a_run_is_valid_and_can_be_exported(path: Path, tmp_path: Path) -> None:
    """Each call has the messages that the file states for it, and the journal has no error."""
    for run in runs_of(path):
        trajectory = check_run(run, tmp_path)
        assert trajectory.llm_interactions
        check_exports(trajectory, tmp_path / "exports")


WITHOUT_THE_CALL = {"atif/terminus.json", "llm/logs.json", "trae-agent/run.json"}
"""Files with a result in a prompt that lacks the answer with its call."""


@each_file
def test_results_belong_to_the_calls_of_the_model(path: Path) -> None:
    """In a prompt, a result follows the answer that asked for it. A step has the results of its own calls."""
    for run in loaded(path):
        for step in run.agent_steps:
            assert {result.call_id for result in step.tool_results} <= {call.call_id for call in step.tool_calls}
        orphans = [message for call in run.llm_interactions for message in _orphans(call.input_messages)]
        assert bool(orphans) == (name_of(path) in WITHOUT_THE_CALL), orphans


def _orphans(messages: Any) -> Iterator[Any]:
    asked: set[str | None] = set()
    for message in messages:
        asked |= {call.call_id for call in message.tool_calls}
        if message.role == "tool" and message.call_id not in asked:
            yield message


@each_file
def test_a_run_states_its_origin(path: Path) -> None:
    """The metadata name the format, an id and the file."""
    for run in load_each(path):
        origin = run.metadata.get("imported_from", {})
        if format_name(path) != "document":  # our own document is no import
            assert (origin["format"], origin["file"], bool(origin["id"])) == (format_name(path), path.name, True)


DOCUMENTS = {"atif", "document", "trae-agent"}
"""Formats that `load` reads as documents, so that their steps are not derived from the calls."""


@each_file
def test_an_imported_run_is_the_loaded_run(path: Path, tmp_path: Path) -> None:
    """`import` writes journals from which the runs are read again. A second import finds them."""
    done = [*import_file(Source(path), tmp_path)]
    again = [*import_file(Source(path), tmp_path)]
    imported, read = [load(run.path) for run in done], [*load_each(path)]

    assert [(run.done, other.done) for run, other in zip(done, again, strict=True)] == [("written", "unchanged")] * len(
        read
    )
    if format_name(path) in DOCUMENTS:
        assert [*map(_answers, imported)] == [*map(_answers, read)]
    else:
        assert [*map(_document, imported)] == [*map(_document, read)]


def _answers(run: Trajectory) -> list[Any]:
    answers = [call.response for call in run.llm_interactions]
    return [
        (answer.content, [(one.call_id, one.name, one.arguments) for one in answer.tool_calls]) for answer in answers
    ]


def _document(run: Trajectory) -> dict[str, Any]:
    """Return the document of a run, without what `import` states about the file."""
    document = run.to_document()
    document["metadata"] = {name: value for name, value in document["metadata"].items() if name != "imported_from"}
    document.pop("journal_records", None)
    return document


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_a_compressed_file_is_read_like_a_plain_one(path: Path, copied: Path) -> None:
    copied.write_bytes(compress(path.read_bytes()))
    assert contents([*load_each(copied)]) == contents([*load_each(path)])


STRANGE = {
    "cut off": b'{"cut": ',
    "no object": b'["kept-17"]',
    "of an unknown kind": b'{"type": "unheard.of", "data": "kept-17"}',
}
REFUSED = {"grok": {"no object", "of an unknown kind"}, "hermes": {*STRANGE}}
"""Formats of which a short file is refused, because such a line decides the format, or must be a session."""
SILENT = {"hierarchy": {*STRANGE}, "langsmith": {"no object", "of an unknown kind"}}
"""Formats that skip such lines without a gap."""


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".jsonl"], ids=name_of)
def test_a_strange_line_hides_no_other(path: Path, copied: Path) -> None:
    """The line itself is a gap, or is kept as a source record."""
    plain, noted = contents([*load_each(path)]), _noted(path)
    for name, line in STRANGE.items():
        copied.write_bytes(path.read_bytes().rstrip(b"\n") + b"\n" + line + b"\n")
        if name in REFUSED.get(format_name(path), ()):
            with pytest.raises(TrajectoryFormatError, match=path.name):
                load(copied)
            continue
        found = contents([*load_each(copied)])
        assert (name, [run for run in plain if run not in found]) == (name, [])
        assert (name, _noted(copied) > noted) == (name, name not in SILENT.get(format_name(path), ()))


def _noted(path: Path) -> int:
    """Return how many gaps and source records the runs of a file have."""
    return sum(len(facts_in(run, kind)) for run in runs_of(path) for kind in (GapFact, SourceRecordFact))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_damaged_file_is_read_or_refused(path: Path, copied: Path) -> None:
    """Files are cut off, have changed bytes, or lack values or have values of other types."""
    check_damaged(copied, path.read_bytes())


@pytest.mark.parametrize("name", IMPORT_FORMATS)
def test_keys_are_masked_in_whatever_is_read(name: str, tmp_path: Path) -> None:
    """Keys are in texts, in names of members and in names of files. Other copies are damaged in more ways."""
    files = produced_files(f"{name}/**/*")
    problems: list[str] = []
    for number in seeds(max(4, len(files)), 12) if files else ():
        place = tmp_path / f"{number}"
        place.mkdir()
        problems += one(number, Random(name).randrange(1000), files, place)
    assert problems == []


def _grown(path: Path, times: int) -> bytes:
    """Return the file with its lines, or the elements of its longest list, repeated this many times."""
    data = path.read_bytes()
    try:
        document = json.loads(data)
    except ValueError:
        return data * times
    longest = max(_lists(document), key=len, default=[])
    longest[:] = longest * times
    return json.dumps(document).encode()


def _lists(value: Payload) -> Iterator[list[Payload]]:
    if isinstance(value, list):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(inner)


@pytest.mark.parametrize(
    "path",
    [path for path in TEXTS if path in JSON_FILES or path.suffix in {".md", ".history"}],
    ids=name_of,
)
def test_a_file_of_twice_the_length_costs_at_most_twice_as_much(path: Path, tmp_path: Path) -> None:
    """All function calls for reading the file and for making the journal are counted."""
    costs: list[float] = []
    for times in (1, 4, 8):  # the first reading also imports modules
        grown = tmp_path / f"{times}" / path.name
        grown.parent.mkdir()
        grown.write_bytes(_grown(path, times))
        costs.append(calls(lambda grown=grown: [*chain.from_iterable(map(journal_lines, runs_of(grown)))]))
    assert costs[2] < 2.3 * costs[1]
