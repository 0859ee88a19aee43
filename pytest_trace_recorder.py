"""The pytest plugin: a test's LLM calls and tools are recorded once, and replayed from then on.

`@pytest.mark.trajectory` marks such a test, the fixture `trajectory` asks what its agent did, `--trajectory-mode` says
whether calls are recorded or replayed. pytest loads this module in every run of every project that has the package
installed: it imports nothing of `trace_recorder` before a test uses the marker or the fixture. What recording and
replaying mean is known to `trace_recorder.rerun`; here it is only connected with pytest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from hashlib import blake2b
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trace_recorder.figures.assertions import TrajectoryAssertions
    from trace_recorder.rerun.record_or_replay import RecordOrReplay

MODES = ("once", "none", "new_episodes", "all")
"""Those of `trace_recorder.rerun.record_or_replay`, which is not imported for them."""
MARKER = (
    "trajectory(name=None, *, path=None, mode=None, ignore=(), tools='recorded'): record the LLM calls and tools of a "
    "test once, and replay them from then on (trace-recorder)"
)
LAST_STEPS = 3
"""Of a failed test so many steps are shown."""
LONGEST_NAME = 120

_BLOCK = pytest.StashKey["RecordOrReplay"]()
_MISMATCH = pytest.StashKey[str]()
"""How the replay of a test differs from its journal."""
_BLOCK_FIXTURE = "_trajectory_block"
_SAFE = re.compile(r"[a-z0-9_.\[\]-]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\[\]-]")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("trajectory", "recorded LLM calls (trace-recorder)").addoption(
        "--trajectory-mode",
        choices=MODES,
        help="The mode of tests if their trajectory marker names none: once (default) replays a journal, or "
        "records it where there is none; none only replays; new_episodes adds calls that a journal does not hold; all "
        "records again.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Import conftest.py. If nothing is sent in this run, clients that are created there need no keys."""
    with _keys_for_import(early_config):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Import the modules of the tests. If nothing is sent in this run, clients that they create need no keys."""
    with _keys_for_import(session.config):
        return (yield)


def _keys_for_import(config: pytest.Config) -> AbstractContextManager[None]:
    return _placeholder_keys(are_needed=config.known_args_namespace.trajectory_mode == "none")


def _placeholder_keys(*, are_needed: bool) -> AbstractContextManager[None]:
    """Return a block in which keys that the environment lacks have placeholders, if these are needed."""
    if not are_needed:
        return nullcontext()
    from trace_recorder.rerun.placeholder_keys import placeholder_keys  # noqa: PLC0415 - see the head

    return placeholder_keys()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Set a test up, run it and tear it down. If a journal answers all its calls, its clients need no keys."""
    with _placeholder_keys(are_needed=_is_only_replayed(item)):
        return (yield)


def _is_only_replayed(item: pytest.Item) -> bool:
    """Whether no call of a test is sent. A marker that is wrong is reported when the test is set up."""
    if _BLOCK_FIXTURE not in getattr(item, "fixturenames", ()):
        return False
    from trace_recorder.rerun.record_or_replay import is_only_replayed  # noqa: PLC0415

    try:
        marker = _marker_of(item)
        return is_only_replayed(_journal_of(item, marker), _mode_of(item, marker))
    except TypeError:
        return False


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the fixture that reads the marker to each test with a marker."""
    names = getattr(item, "fixturenames", None)
    if names is not None and _BLOCK_FIXTURE not in names and item.get_closest_marker("trajectory"):
        names.append(_BLOCK_FIXTURE)


@pytest.fixture
def _trajectory_block(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RecordOrReplay:
    """The recording or the replay of a test, which begins with its call."""
    from trace_recorder.errors import TraceRecorderError  # noqa: PLC0415 - see the head; so below
    from trace_recorder.rerun.record_or_replay import RecordOrReplay  # noqa: PLC0415

    item, message = request.node, ""
    try:
        marker = _marker_of(item)
        block = RecordOrReplay(
            _journal_of(item, marker),
            tmp_path_factory.mktemp("trajectory"),
            mode=_mode_of(item, marker),
            ignore=marker.ignore,
            tools=marker.tools,
            metadata={"test": item.nodeid},
        )
    except (TraceRecorderError, TypeError, ValueError) as error:
        message = str(error)
    if message:
        pytest.fail(message, pytrace=False)
    item.stash[_BLOCK] = block
    return block


@pytest.fixture
def trajectory(_trajectory_block: RecordOrReplay) -> TrajectoryAssertions:
    """The acts of this test's agent so far, recorded or replayed: see `TrajectoryAssertions`."""
    from trace_recorder.figures.assertions import TrajectoryAssertions  # noqa: PLC0415

    return TrajectoryAssertions(_trajectory_block.path)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record or replay what happens while the test itself runs."""
    block = item.stash.get(_BLOCK, None)
    if block is None:
        return (yield)
    block.__enter__()
    try:
        result = yield
    except BaseException as error:
        block.__exit__(type(error), error, error.__traceback__)
        raise
    _end(item, block)
    return result


def _end(item: pytest.Item, block: RecordOrReplay) -> None:
    """End the block of a test that has passed, and fail the test if the block differs from its journal."""
    from trace_recorder.errors import ReplayMismatchError  # noqa: PLC0415

    message = ""
    try:
        block.__exit__(None, None, None)
    except ReplayMismatchError as mismatch:
        message = str(mismatch)
    if message:
        item.stash[_MISMATCH] = message
        pytest.fail(_headline(message), pytrace=False)
    if block.replay is None and not block.is_kept:
        item.warn(pytest.PytestWarning(f"{item.nodeid} has the trajectory marker, but made no LLM call that was seen"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a test that failed what its agent did last, and how its replay differs from the journal.

    The difference is printed once, in the summary at the end. So the exceptions in the traceback have its first line.
    """
    block = item.stash.get(_BLOCK, None)
    if block is None or call.when != "call" or call.excinfo is None:
        return (yield)
    mismatch = item.stash.get(_MISMATCH, "")
    if not mismatch and block.replay is not None and block.replay.mismatch is not None:
        mismatch = str(block.replay.mismatch)
    with _short_messages(call.excinfo.value, mismatch):
        report = yield
    if not report.failed:
        return report
    if mismatch:
        vars(report)["trajectory_mismatch"] = f"{mismatch}\n{_advice(item)}"
        item.user_properties.append(("trajectory_mismatch", mismatch))  # for JUnit XML
    report.sections.append(("trajectory", "\n".join(_section(block, mismatch))))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how the replays of failed tests differ from their journals, and how to record these tests again."""
    mismatches = {
        report.nodeid: report.trajectory_mismatch
        for reports in terminalreporter.stats.values()
        for report in reports
        if hasattr(report, "trajectory_mismatch")
    }
    if not mismatches:
        return
    terminalreporter.section("replays that differ from their journals")
    for test, mismatch in mismatches.items():
        terminalreporter.write_line(f"{test}: {mismatch}")


def _headline(message: str) -> str:
    """The first line of a mismatch. The summary has the rest."""
    first, _, rest = message.partition("\n")
    if not rest:
        return message
    return f"{first.rstrip(':')} (the summary at the end shows the differences)"


def _is_text(value: object) -> bool:
    """Whether a value is a text. Other values, such as arrays, may not be comparable with a text."""
    return isinstance(value, str)


@contextmanager
def _short_messages(error: BaseException, mismatch: str) -> Generator[None]:
    """Shorten the messages of the exceptions with this mismatch, while a report of them is made."""
    changed: dict[int, tuple[BaseException, tuple[object, ...]]] = {}
    last: BaseException | None = error
    while last is not None and id(last) not in changed:
        changed[id(last)] = last, last.args
        last = last.__cause__ or last.__context__
    for each, args in changed.values():
        if mismatch in filter(_is_text, args):
            each.args = tuple(_headline(mismatch) if _is_text(value) and value == mismatch else value for value in args)
    try:
        yield
    finally:
        for each, args in changed.values():
            each.args = args


def _advice(item: pytest.Item) -> str:
    """How to record a test again."""
    mode = _marker_of(item).mode
    if mode is not None:
        return f'If the change is intended, record the run again: mode="all" in the marker in place of mode="{mode}"'
    file = os.path.relpath(item.path, item.config.invocation_params.dir)
    test = quote(file + item.nodeid[item.nodeid.find("::") :])  # parameters are in brackets, and may have spaces
    return f"If the change is intended, record the run again: pytest --trajectory-mode=all {test}"


def _section(block: RecordOrReplay, mismatch: str) -> Generator[str]:
    yield f"this run: {block.path}" + (f", replayed from {block.journal}" if block.replay else "")
    # the failed call has the mismatch as its error, whose lines are printed elsewhere
    differences = {line.strip() for line in mismatch.splitlines()[1:]}
    yield from (line for line in _last_steps(block.path).splitlines() if line.strip() not in differences - {""})


def _last_steps(path: Path) -> str:
    """The last steps of a run, as `trace-recorder show` prints them."""
    try:
        from rich.console import Console  # noqa: PLC0415

        from trace_recorder.cli.show import Show  # noqa: PLC0415
        from trace_recorder.cli.text_layout import EntryWriter  # noqa: PLC0415
        from trace_recorder.reading.steps_and_calls import steps_and_calls  # noqa: PLC0415
    except ImportError:
        return "Its steps are shown here where trace-recorder[cli] is installed."
    from trace_recorder import load  # noqa: PLC0415

    run = load(path)
    showing = Show(run, full=False)
    parts = [list(showing.part(part)) for part in steps_and_calls(run)]
    out = StringIO()
    writer = EntryWriter(Console(file=out, force_terminal=False, color_system=None, highlight=False), full=False)
    for entries in parts[-LAST_STEPS:]:
        writer.write(entries)
    left_out = len(parts) - LAST_STEPS
    return (f"... {left_out} steps before these\n" if left_out > 0 else "") + out.getvalue()


# ── a test's marker, and its journal ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Marker:
    """The arguments of a marker."""

    name: str | None = None
    path: str | Path | None = None
    mode: Any = None
    ignore: Iterable[str] = ()
    tools: Any = "recorded"


def _marker_of(item: pytest.Item) -> _Marker:
    """The marker of a test, the default one where it only uses the fixture. Raises TypeError."""
    mark = item.get_closest_marker("trajectory")
    if mark is None:
        return _Marker()
    unknown = mark.kwargs.keys() - {one.name for one in fields(_Marker)}
    if unknown or len(mark.args) > 1 or (mark.args and "name" in mark.kwargs):
        raise TypeError(f"the marker has arguments that it does not take: {MARKER}")
    marker = _Marker(*mark.args, **mark.kwargs)
    if isinstance(marker.ignore, str) or not (marker.name is None or isinstance(marker.name, str)):
        raise TypeError(f"the marker's ignore is a list of paths, and its name a text: {MARKER}")
    return marker


def _mode_of(item: pytest.Item, marker: _Marker) -> Any:
    return marker.mode or item.config.getoption("trajectory_mode") or "once"


def _journal_of(item: pytest.Item, marker: _Marker) -> Path:
    """Where the journal of a test is: `path` from the test's directory, or trajectories/<module>/<name>.jsonl there."""
    if marker.path is not None:
        return item.path.parent / marker.path
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    name = marker.name or ".".join([*classes, item.name])
    return item.path.parent / "trajectories" / item.path.stem / f"{safe_name(name)}.jsonl"


def safe_name(name: str) -> str:
    """A file's name for a test's, another one for each test.

    Lower-case letters, digits and `_.-[]` stay. A name with anything else, or a long one, gets a digest: two names may
    become the same otherwise, if only on file systems that take upper and lower case for the same.
    """
    if _SAFE.fullmatch(name) and len(name) <= LONGEST_NAME:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
    return f"{_UNSAFE.sub('_', name)[:LONGEST_NAME]}-{digest}"
