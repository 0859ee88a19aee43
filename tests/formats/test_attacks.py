"""Sources that were made to stop an import: pipes, devices, blobs, ids that give the same name, endless pages."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.counting import calls
from tests.formats.imported import import_file
from tests.formats.test_llm import _OLD, _OLD_ROWS, _database
from trace_recorder import load, load_all
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.imported_runs import import_traces
from trace_recorder.formats.langfuse.service import Langfuse
from trace_recorder.formats.trace_services import MAX_STALE, FetchError


def _session(path: Path) -> Path:
    user = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "Delegate."}, "sessionId": "s"}
    said = {"role": "assistant", "id": "m1", "content": [{"type": "text", "text": "Done."}]}
    answer = {"type": "assistant", "uuid": "a", "parentUuid": "u", "message": said, "sessionId": "s"}
    path.write_text("\n".join(map(json.dumps, (user, answer))))
    return path


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_a_pipe_or_device_is_not_read(tmp_path: Path, kind: str) -> None:
    """If a sub-agent's file is a pipe, a directory, or a link to an endless device, the session has a gap."""
    path = _session(tmp_path / "s.jsonl")
    other = tmp_path / "s" / "subagents" / "agent-x.jsonl"
    other.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(other)
    elif kind == "device":
        other.symlink_to("/dev/zero")
    else:
        other.mkdir()

    run = load(path)
    assert [call.response.content for call in run.llm_interactions] == ["Done."]
    assert [gap.what for gap in run.gaps] == ["to read agent-x.jsonl"]
    if kind != "directory":
        with pytest.raises(TrajectoryFormatError, match="not a regular file"):
            load(other)


@pytest.mark.parametrize(
    ("blob", "text"), [(b"Sunny.", "Sunny."), (b"\xff\xfe", "data:application/octet-stream;base64,//4=")]
)
def test_a_blob_in_place_of_a_text_hides_no_run(tmp_path: Path, blob: bytes, text: str) -> None:
    rows = [{**row, "response": blob} if at == 0 else row for at, row in enumerate(_OLD_ROWS["responses"])]
    path = _database(tmp_path, _OLD, {**_OLD_ROWS, "responses": rows})
    runs = [*load_all(path)]
    assert len(runs) == 2
    assert text in {call.response.content for run in runs for call in run.llm_interactions}


def _rows(path: Path, number: int) -> Path:
    """Write this many conversations whose ids all give the same file name."""
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    rows = [{"id": "对话" * (1 + at % 3) + chr(0x4E00 + at), "messages": messages} for at in range(number)]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    return path


def test_each_run_costs_the_same_if_all_names_are_equal(tmp_path: Path) -> None:
    def cost(number: int) -> float:
        source = _rows(tmp_path / f"{number}.jsonl", number)
        directory = tmp_path / f"out-{number}"
        done: list[str] = []
        taken = calls(lambda: done.extend(run.done for run in import_file(Source(source), directory)))
        assert (done, len({*directory.glob("*.json")})) == (["written"] * number, number)
        assert {run.done for run in import_file(Source(source), directory)} == {"unchanged"}
        return taken / number

    cost(2)
    assert cost(60) < 1.5 * cost(10)


class _Endless:
    """A client of a service that always states a next page: an empty page, or always the same page."""

    def __init__(self, *elements: dict[str, Any]) -> None:
        self.pages = 0
        self._elements = elements
        self._cursors = count()
        projects = SimpleNamespace(data=[SimpleNamespace(json=lambda: json.dumps({"name": "demo"}))])
        self.projects = SimpleNamespace(get=lambda: projects)
        self.observations = SimpleNamespace(get_many=self._page)

    def _page(self, **_: object) -> Any:
        self.pages += 1
        data = [SimpleNamespace(json=lambda element=element: json.dumps(element)) for element in self._elements]
        return SimpleNamespace(data=data, meta=SimpleNamespace(cursor=str(next(self._cursors))))


@pytest.mark.parametrize("elements", [(), ({"id": "o1"},)])
def test_endless_pages_end_the_import(tmp_path: Path, elements: tuple[dict[str, Any], ...]) -> None:
    client = _Endless(*elements)
    with pytest.raises(FetchError, match="have nothing new"):
        [*import_traces(Langfuse("demo", client), tmp_path)]
    assert client.pages <= MAX_STALE + 1
