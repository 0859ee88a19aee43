"""Files from strangers: reading is bounded, and ends in a trajectory or one of our errors."""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.chat_calls import rich_run
from tests.cli.invoking import invoke
from tests.formats.exporting import exported
from tests.journals import TIME, folded, journal_of
from tests.processes import python
from tests.searching import covering
from trace_recorder import TrajectoryFormatError, load
from trace_recorder.formats.format_writer import EXPORT_FORMATS

Payload = Any

START = {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "t", "task": "t", "metadata": {}}
ITEM = {"n": 0, "value": {"role": "user", "content": "x"}}
ANSWER = {"id": "a", "choices": [{"index": 0, "message": {"role": "assistant", "content": "y"}}]}


def request(**changes: Payload) -> tuple[str, Payload]:
    """Return the record of a request of one message."""
    body = {"model": "m", "messages": None}
    about = {"interaction_id": "llm_1", "attempt": 0, "api": "openai-chat", "method": "POST", "url": "u", "headers": {}}
    return "llm_request", {**about, "body": body, "items": {"messages": [[0, 0]]}, **changes}


def response(**changes: Payload) -> tuple[str, Payload]:
    """Return the record of the response to that request."""
    about = {"interaction_id": "llm_1", "attempt": 0, "status": 200, "headers": {}, "complete": True}
    return "llm_response", {**about, "duration_seconds": 1.0, "body": ANSWER, **changes}


BASE = {"base": 3, "ranges": [{"base": [0, 10**9]}]}
HOSTILE: dict[str, list[tuple[str, Payload]]] = {
    "a range beyond all items": [request(items={"messages": [[0, 1_000_000_000]]}), response()],
    "a range from before the first": [request(items={"messages": [[-1_000_000_000, 0]]}), response()],
    "a range a million times": [request(items={"messages": [[0, 3]] * 100_000}), response()],
    "positions beyond a base": [
        request(items={"messages": [[0, 0]] * 20}),
        request(interaction_id="llm_2", items={"messages": BASE}),
    ],
    "an item of a high number": [("item", {"n": 10**12, "value": {}}), request(), response()],
    "items as a list": [request(items=[1, 2]), response()],
    "items as a text": [request(items="all of them"), response()],
    "no numbers": [request(items={"messages": [["a", "b"]]}), response()],
    "half a range": [request(items={"messages": [[0]]}), response()],
    "a long time": [request(), response(duration_seconds=1e308)],
    "an agent that is none": [request(agent=["a"], agent_id={}), response()],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_journal_is_read(name: str, tmp_path: Path) -> None:
    """Each journal loads as a trajectory that can be shown, although a list of everything its ranges name would not fit
    into memory.
    """
    path = tmp_path / "run.jsonl"
    items = [("item", {**ITEM, "n": number}) for number in range(4)]
    path.write_bytes(journal_of(("start", START), *items, *HOSTILE[name]))
    load(path).to_document()
    done = {command: invoke(command, path) for command in ("show", "stats", "validate")}

    assert {command: one.exit_code for command, one in done.items() if one.exit_code not in {0, 1}} == {}
    raised = {command: one.exception for command, one in done.items()}
    assert [item for item in raised.items() if not isinstance(item[1], SystemExit | None)] == []


def test_a_range_cannot_name_missing_items() -> None:
    """A request whose ranges name missing items becomes a gap. Other requests are read."""
    lost = request(items={"messages": [[0, 1]]})
    whole = request(interaction_id="llm_2", items={"messages": [[0, 0], [0, 0]]})

    trajectory = folded(journal_of(("start", START), ("item", ITEM), lost, response(), whole))

    assert [gap.what for gap in trajectory.gaps] == ["the request of llm_1"]
    assert len(trajectory.llm_interactions[1].input_messages) == 2


def test_a_huge_item_number_allocates_nothing() -> None:
    """A huge number allocates no range up to it. Items after lost items are still found by their numbers."""
    far = ("item", {**ITEM, "n": 10**9})
    lost = request(items={"messages": [[0, 10**9 - 1]]})
    behind = ("item", {**ITEM, "n": 500})
    whole = request(interaction_id="llm_2", items={"messages": [[500, 500]]})

    trajectory = folded(journal_of(("start", START), far, lost, response(), behind, whole))

    assert [gap.what for gap in trajectory.gaps] == ["the request of llm_1"]
    assert len(trajectory.llm_interactions[1].input_messages) == 1


@pytest.mark.parametrize("size", [100_000_000, 1000])
def test_a_stream_is_unpacked_within_a_limit(size: int) -> None:
    """Parts that would unpack to more than any real stream are not unpacked, and a gap says so."""
    packed = base64.b64encode(zlib.compress(b"data: {}\n\n" * (size // 10), 9)).decode()
    part = {"interaction_id": "llm_1", "attempt": 0, "status": 200, "headers": {}, "bytes": size, "zlib": packed}

    trajectory = folded(journal_of(("start", START), ("item", ITEM), request(), ("llm_stream", part)))

    whole = size < 64 * 1024 * 1024
    assert [gap.what for gap in trajectory.gaps] == ([] if whole else ["the stream of llm_1"])
    assert (trajectory.llm_interactions[0].raw_stream is not None) == whole


def test_at_most_a_thousand_damaged_lines_are_named() -> None:
    """Further damaged lines are only counted, so that there are few gaps for any file."""
    gaps = folded(journal_of(("start", START)) + b"x\n" * 5000).gaps

    assert (len(gaps), gaps[999].why, gaps[1000].why) == (
        *(1001, f"1 bytes at {len(journal_of(('start', START))) + 2 * 999}: not a record, or its CRC does not match"),
        "4000 more, 4000 bytes",
    )


WRONG: tuple[Payload, ...] = (None, 5, 1e308, "x", [], {}, [5], {"a": 5}, True, [[[]]])


def places(value: Payload, above: tuple[Payload, ...] = ()) -> list[tuple[Payload, ...]]:
    """Return the path of each value in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for name, one in inner for place in ((*above, name), *places(one, (*above, name)))]


def test_documents_with_wrong_types_are_refused_or_can_be_exported(tmp_path: Path) -> None:
    """For any value in any place, `load` raises its error, or every view can be made of the document.

    CI tries a place for each member.
    """
    document = rich_run(tmp_path / "run.json").read_text()
    path, random_ = tmp_path / "other.json", random.Random(7)
    broken = []
    everywhere = places(json.loads(document))
    random_.shuffle(everywhere)
    for place in covering(everywhere, lambda place: [tuple(name for name in place if isinstance(name, str))]):
        changed, wrong = json.loads(document), random_.choice(WRONG)
        inner = changed
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = wrong
        path.write_text(json.dumps(changed))
        if place[-1] != "timestamp" or wrong != "x":  # views also read values that `load` leaves untouched
            broken += [(place, wrong, error) for error in problems(path)]

    assert broken == []


def problems(path: Path) -> list[str]:
    """Return the unexpected exceptions from reading a document and from making views of it."""
    try:
        trajectory = load(path)
    except TrajectoryFormatError:
        return []
    views: dict[str, Callable[[], object]] = {"document": trajectory.to_document}
    for name in EXPORT_FORMATS:
        views[name] = partial(exported, name, trajectory, path.parent)
    failures = []
    for name, view in views.items():
        try:
            view()
        except Exception as error:  # noqa: BLE001 - any exception is a failure
            if type(error).__module__ == "builtins":
                failures.append(f"{name}: {error!r}")
    return failures


@pytest.mark.parametrize("depth", [150, 400, 900])
def test_a_deeply_nested_message_can_be_shown(tmp_path: Path, depth: int) -> None:
    """A message that is nested as deep as JSON can be read is shown, or refused in one sentence."""
    nested: Payload = "x"
    for _ in range(depth):
        nested = {"a": nested}
    call = {"timestamp": TIME, "provider": "p", "model": "m", "input_messages": [{"role": "user", "content": nested}]}
    answer = {"content": "x", "tool_calls": [{"call_id": "c", "name": "n", "arguments": nested}]}
    document = {"llm_interactions": [{**call, "response": answer, "tools_available": []}], "agent_steps": []}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    records = [("item", {"n": 0, "value": {"role": "user", "content": nested}}), request(), response(body=answer)]
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(journal_of(("start", START), *records))
    code = """
        import contextlib
        import sys
        from trace_recorder.cli.app import app_for
        for path in sys.argv[1:]:
            for command in (["show"], ["show", "--turns"], ["stats"], ["validate"]):
                with contextlib.suppress(SystemExit):
                    app_for(command)([*command, path], standalone_mode=False)
    """

    assert "Traceback" not in python(code, path, journal).stderr
