"""Runs in which values have other types: `python -m tests.poison.retyped_runs`, or `scripts/fuzz-views`.

The lines of such a journal are complete, with their CRC, and such a document is JSON, because another program, or a
provider that sends something new, may have written them. Any such run is read or refused in a sentence, and each view,
command and answer of the viewer gives its output or a TraceRecorderError. The same number and seed give the same file.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from itertools import count
from pathlib import Path
from random import Random
from traceback import extract_tb
from typing import Any

from rich.console import Console

from tests.chat_calls import rich_run
from tests.cli.invoking import invoke
from tests.formats.runs import every
from tests.journals import journal_of, records_of
from tests.poison.mutations import deep
from trace_recorder import TraceRecorderError, Trajectory, diff, load, to_dataframe
from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.cli.run_header import header_entries
from trace_recorder.cli.show import Show
from trace_recorder.cli.show_command import raw_calls
from trace_recorder.cli.text_layout import EntryWriter
from trace_recorder.figures.stats import Stats
from trace_recorder.formats.format_writer import EXPORT_FORMATS, OutputPlace
from trace_recorder.formats.toolbrain.turns import format_turns, to_turns
from trace_recorder.formats.training.preferences import preference_pairs
from trace_recorder.reading.steps_and_calls import steps_and_calls
from trace_recorder.rerun.recorded import Recording
from trace_recorder.viewer.one_file import ascii_json, run_data

Payload = Any
Act = Callable[[Trajectory], object]

OTHERS: tuple[Callable[[], Payload], ...] = (
    *(
        lambda: None,
        lambda: True,
        lambda: False,
        lambda: 0,
        lambda: -1,
        lambda: 1.5,
        lambda: 2**70,
        lambda: 1e308,
        lambda: 10**400,
    ),
    *(
        str,
        lambda: "x",
        lambda: "x" * 100_000,
        lambda: "\ud800",
        lambda: "2025-99-99",
        lambda: "9999-12-31T23:59:59-14:00",
        lambda: "{",
        lambda: "[1]",
    ),
    *(list, lambda: ["text"], lambda: [[]], lambda: [None], lambda: [{}], lambda: [1, "x", None, {}]),
    *(
        dict,
        lambda: {"__type__": "x", "repr": "y"},
        lambda: {"a": 1},
        lambda: {"": None},
        lambda: {"type": ["text"]},
        lambda: {"a": [{}]},
        deep,
    ),
)
"""Values of every type, which replace any other value."""
NEVER = ("seq", "time", "kind", "crc", "schema", "version")
"""Members of a journal's frame, whose change makes a damaged line or a different format."""
_COMMANDS: tuple[tuple[str, ...], ...] = (
    *(("show",), ("show", "--full"), ("show", "--errors"), ("show", "--json"), ("show", "--turns")),
    *(("stats",), ("stats", "--json"), ("validate",), ("list",), ("list", "--json"), ("grep", "a")),
)
"""Commands that take a run as their last argument."""
_REFUSED = re.compile(r"cannot be \w+(?:: \w+Error|, as it is damaged).*|says where \(.*")
"""The text by which a command states an unexpected exception."""


def runs(place: Path) -> dict[str, list[dict[str, Payload]] | dict[str, Payload]]:
    """Return complete runs of every shape by name, as the records of their journals and as their documents."""
    place.mkdir()
    contents: dict[str, list[dict[str, Payload]] | dict[str, Payload]] = {}
    for name, path in {**every(place), "rich": rich_run(place / "rich.json")}.items():
        if path.with_suffix(".jsonl").exists():
            contents[f"{name}.jsonl"] = [{"kind": record.kind, "data": record.data} for record in records_of(path)]
        contents[f"{name}.json"] = load(path).to_document()
    return contents


def retyped(value: Payload, random: Random, times: int = 3) -> Payload:
    """Return a copy in which some values, at any depth, have another type or are missing."""
    changed = copy.deepcopy(value)
    for _ in range(random.randint(1, times)):
        holder, name = random.choice([*_places(changed)])
        if random.random() < 0.1:
            del holder[name]
        else:
            holder[name] = random.choice(OTHERS)()
    return changed


def _places(value: Payload) -> Iterator[tuple[Payload, Payload]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in pairs:
        if name not in NEVER:
            yield value, name
        yield from _places(member)


def written(whole: Payload, name: str, random: Random, place: Path) -> Path:
    """Write a run with changed values, and return its file."""
    path = place / name
    if path.suffix == ".json":
        path.write_text(json.dumps(retyped(whole, random)), encoding="utf-8")
    else:
        changed = retyped([one["data"] for one in whole], random)
        pairs = zip((one["kind"] for one in whole), changed, strict=False)
        path.write_bytes(journal_of(*pairs))
    return path


def _exports() -> Iterator[tuple[str, Act]]:
    for name, one in EXPORT_FORMATS.items():
        for form in (None, *one.forms):
            yield f"export {name} {form or ''}", _export(name, form, include_incomplete=False)
        if "include_incomplete" in one.options:
            yield f"export {name} with incomplete ones", _export(name, None, include_incomplete=True)


def _export(name: str, form: str | None, *, include_incomplete: bool) -> Act:
    def export(run: Trajectory) -> object:
        view = EXPORT_FORMATS[name].with_options(form, include_incomplete=include_incomplete)
        with tempfile.TemporaryDirectory() as directory:
            made, _ = EXPORT_FORMATS[name].outputs(view, run, OutputPlace("run", Path(directory)))
            made_whole = bytes if EXPORT_FORMATS[name].kind != "tables" else object
            return [value if isinstance(value, made_whole) else _consumed(value) for _, value in made]

    return export


def _consumed(value: Payload) -> str:
    return json.dumps(value, default=list)


def _figures(run: Trajectory) -> str:
    stats = Stats()
    stats.add(run)
    return json.dumps(stats.to_json())


def _shown(run: Trajectory) -> None:
    show, writer = Show(run, full=True), EntryWriter(Console(file=StringIO()), full=True)
    writer.write(header_entries(run, "run"))
    for part in steps_and_calls(run):
        writer.write(show.part(part))


ACTS: dict[str, Act] = {
    "show": _shown,
    "to_document inline": lambda run: json.dumps(run.to_document("inline")),
    "to_document delta": lambda run: json.dumps(run.to_document("delta")),
    **dict(_exports()),
    "format_turns": lambda run: list(format_turns(to_turns(run))),
    "stats": _figures,
    "viewer": lambda run: ascii_json(run_data(run, "run")),
    "diff": lambda run: json.dumps(diff(run, run).to_dict()),
    "raw calls": lambda run: raw_calls(run, steps_and_calls(run)),
    "preferences": lambda run: list(preference_pairs([run, run], lambda one: float(one is run))),
    **{f"dataframe of {of}": partial(to_dataframe, of=of) for of in ("calls", "steps", "tool_calls", "messages")},
}


def failures(path: Path, whole: Path, *, commands: bool) -> Iterator[str]:
    """Yield the commands that gave neither output nor an error of ours. `whole` is a run to compare with."""
    run: list[Trajectory] = []
    yield from _failure("load", lambda: run.append(load(path)))
    for one in run:
        yield from failures_of_views(one)
    if run:
        yield from _failure("diff with another", lambda: json.dumps(diff(load(whole), run[0]).to_dict()))
        if path.suffix == ".jsonl":
            yield from _failure("replay", lambda: _replayed(path))
    for command in (*_COMMANDS, ("diff", str(whole))) if run and commands else ():
        done = invoke(*command, path)
        refused = _REFUSED.search(done.output)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            yield f"{' '.join(command)}: {described(done.exception)}"
        elif refused:
            yield f"{' '.join(command[:2])}: {refused[0][:200]}"


def failures_of_views(run: Trajectory) -> Iterator[str]:
    """Yield the views of a run that raised an exception other than our errors."""
    for name, act in ACTS.items():
        yield from _failure(name, partial(act, run))


def _replayed(path: Path) -> None:
    recorded = Recording(path)
    for one in recorded.exchanges:
        recorded.request(one), recorded.body(one), recorded.chunks(one), one.headers, one.error, one.seconds


def _failure(name: str, act: Callable[[], object]) -> Iterator[str]:
    try:
        act()
    except (TraceRecorderError, UnreadableError):
        pass
    except Exception as error:  # noqa: BLE001 - what it is, is the finding
        yield f"{name}: {described(error)}"


def described(error: BaseException) -> str:
    """Return the name of an error and the lines of this package that raised it."""
    frames = [frame for frame in extract_tb(error.__traceback__) if "trace_recorder/" in frame.filename]
    where = " < ".join(f"{frame.filename.rpartition('trace_recorder/')[2]}:{frame.lineno}" for frame in frames[:-4:-1])
    return f"{type(error).__name__}: {str(error)[:100]} at {where}"


def one(number: int, seed: int, whole: dict[str, Payload], place: Path) -> Iterator[str]:
    """Change values of one run, and yield the faults."""
    random = Random(f"{seed} {number}")
    name = [*whole][number % len(whole)]
    other = place / "whole.json"
    if not other.exists():
        other.write_text(json.dumps(whole["tools.json"]), encoding="utf-8")
    path = written(whole[name], name, random, place)
    for said in failures(path, other, commands=number % 20 == 0):
        yield f"{name}, change {number}: {said}"
    path.unlink()


def main() -> None:
    """Change values of runs until the time is over, and print the faults."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first change")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        whole, place = runs(Path(directory, "whole")), Path(directory, "changed")
        place.mkdir()
        for number in count(options.first):
            if time.monotonic() > end:
                break
            findings += one(number, options.seed, whole, place)
    kinds: dict[str, list[str]] = {}
    for said in findings:
        kinds.setdefault(said.rpartition(" at ")[2], []).append(said)
    print(f"{number - options.first} changed runs: {len(findings)} findings in {len(kinds)} places")
    for several in kinds.values():
        acts = dict.fromkeys(said.split(": ")[1] for said in several)
        print(f"  {several[0]}\n    {len(several)} times: {', '.join(acts)}")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
