"""Each place of recording fails in turn, and the caller of the model gets the same result as without recording."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chat_calls import run_of
from tests.isolation.hooks import END, HOOKS, BrokenError, Hook
from tests.isolation.outcomes import CALLS, KINDS, Outcome, outcome_of, shape_of, unwrapped
from tests.provider import serving
from tests.versions.shapes import of_the_sdks
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.capture import stream_flusher
from trace_recorder.dialects.dialect import USAGE_ADVICE
from trace_recorder.reading.validate import validate

pytestmark = of_the_sdks

each_hook = pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
Noticed = dict[tuple[str, str], tuple[Outcome, set[str]]]
"""By call and kind: the outcome, and the gaps on file."""
OTHERS = [call for call in CALLS if "openai" not in call]
SAME = dict.fromkeys(("record a broken response", "record a response that was closed early"), END)
"""Some SDKs read a stream to its end, and some close it when they have seen enough."""


def broken(hook: Hook, call: str, kind: str, recorder: TrajectoryRecorder) -> Outcome:
    """Return the caller's result of a call during which a hook fails."""
    shape, answer = shape_of(call, kind)
    with serving(answer) as server, pytest.MonkeyPatch.context() as patch:
        if hook.has_begun:
            recorder.start()
        if hook is not HOOKS["start a thread"]:
            # Otherwise the flusher would write a part whenever its second is over.
            patch.setattr(stream_flusher, "watch", lambda _: None)
        hook.breaks(patch)
        outcome = outcome_of(shape, server.url, kind, recorder.wrap)
    if not hook.has_begun:
        recorder.start()
    return outcome


def noticed(directory: Path, hook: Hook, calls: Sequence[tuple[str, str]]) -> Noticed:
    """Make a hook fail in each of some calls. Return what their callers got, and the gaps on file."""
    got: Noticed = {}
    for call, kind in calls:
        recorder = hook.recorder(directory / f"{call} {kind}.json")
        outcome = broken(hook, call, kind, recorder)
        recorder.finalize()
        got[call, kind] = outcome, {SAME.get(gap.what, gap.what) for gap in load(recorder.trajectory_path).gaps}
    return got


def nothing_noticed(hook: Hook, calls: Sequence[tuple[str, str]]) -> Noticed:
    """Return what callers of unwrapped clients get, and the gaps that the hook must leave."""
    return {(call, kind): (unwrapped(call, kind), {*hook.gaps.get(kind, ())}) for call, kind in calls}


@each_hook
@pytest.mark.parametrize("call", ["openai", "openai async"])
def test_a_failing_hook_does_not_reach_the_caller(tmp_path: Path, hook: Hook, call: str) -> None:
    """While a hook fails, the caller's result is that of an unwrapped client, and parts that were not recorded are
    gaps.
    """
    calls = [(call, kind) for kind in KINDS]

    assert noticed(tmp_path, hook, calls) == nothing_noticed(hook, calls)


@each_hook
def test_a_failing_hook_does_not_reach_the_caller_of_other_sdks(tmp_path: Path, hook: Hook) -> None:
    """While a hook fails, the result of a stream of each of the other SDKs is that of an unwrapped client."""
    calls = [(call, "stream") for call in OTHERS]

    assert noticed(tmp_path, hook, calls) == nothing_noticed(hook, calls)


@each_hook
@pytest.mark.parametrize("kind", ["plain", "stream"])
def test_a_failure_is_logged_once_for_each_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hook: Hook, kind: str
) -> None:
    """Each failure of recording is counted, and one of each kind is logged, with the failed work and the note that the
    agent goes on.
    """
    gc.collect()  # a recorder that an earlier test dropped ends here, and not while the hook fails
    caplog.clear()
    recorder = hook.recorder(tmp_path / "run.json")
    broken(hook, "openai", kind, recorder)
    guard = run_of(recorder).guard
    recorder.finalize()

    ours = [record for record in caplog.records if record.name == "trace_recorder"]
    # The advice is logged once in a process, and is not a failure.
    logged = [record.message for record in ours if USAGE_ADVICE not in record.message]
    kinds = {what for gap in load(recorder.trajectory_path).gaps for what in [gap.what]}
    assert guard.count >= len(kinds)
    if hook is HOOKS["look up the address"]:
        kinds = {"find out whether a request is an LLM call"}
    told = "could not {}: BrokenError: on purpose (the agent is not affected; logged once)"
    assert sorted(logged) == (sorted(map(told.format, kinds)) if hook is not HOOKS["tell of it"] else [])


@pytest.mark.parametrize("call", ["openai", "openai async"])
@pytest.mark.parametrize("kind", ["plain", "error", "stream", "cut", "closed"])
def test_a_response_that_cannot_be_recorded_has_an_end(tmp_path: Path, kind: str, call: str) -> None:
    """If no redactor accepts a response, its status and its end are recorded, and the files are valid."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    broken(HOOKS["mask the response"], call, kind, recorder)
    recorder.finalize()

    [one] = load(recorder.trajectory_path).llm_interactions
    [attempt] = one.attempts
    assert (one.complete, one.ended_by) == (False, "it could not be recorded")
    assert (attempt.status, attempt.duration_seconds is None) == (400 if kind == "error" else 200, False)
    assert [found for found in validate(recorder.trajectory_path).findings if found.severity == "error"] == []


@pytest.mark.parametrize("hook", [pytest.param(hook, id=name) for name, hook in HOOKS.items() if hook.raises])
@pytest.mark.parametrize("call", ["openai", "openai async"])
def test_a_strict_recorder_raises(tmp_path: Path, hook: Hook, call: str) -> None:
    """With `strict=True`, every failure of recording is raised."""
    kind = next(kind for kind in ("plain", "stream", "cut") if hook.gaps.get(kind))
    recorder = hook.recorder(tmp_path / "run.json", strict=True)
    outcome = broken(hook, call, kind, recorder)
    recorder.finalize()

    assert BrokenError in [kind for kind, *_ in outcome.raised or ()]
