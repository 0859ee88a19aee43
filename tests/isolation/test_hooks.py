"""Recording fails at each of its places in turn, and the caller of the model notices nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.server import serving
from tests.isolation.hooks import HOOKS, BrokenError, Hook
from tests.isolation.outcomes import CALLS, KINDS, Outcome, outcome_of, shape_of, unwrapped
from tests.versions.shapes import of_the_sdks
from trace_recorder import TrajectoryRecorder, load

pytestmark = of_the_sdks

each_hook = pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
each_kind = pytest.mark.parametrize("kind", KINDS)


def broken(hook: Hook, call: str, kind: str, recorder: TrajectoryRecorder) -> Outcome:
    """What a caller gets while a hook fails."""
    shape, answer = shape_of(call, kind)
    with serving(answer) as server, pytest.MonkeyPatch.context() as patch:
        recorder.start()
        hook.breaks(patch)
        return outcome_of(shape, server.url, kind, recorder.wrap)


@each_hook
@each_kind
@pytest.mark.parametrize("call", ["openai", "openai async"])
def test_a_caller_notices_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hook: Hook, kind: str, call: str
) -> None:
    """While a hook fails, the caller gets what it gets unwrapped; each kind of failure is logged once and on file."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    outcome = broken(hook, call, kind, recorder)
    recorder.finalize()

    gaps = {gap.what for gap in load(recorder.trajectory_path).gaps}
    assert outcome == unwrapped(call, kind)
    print(sorted(gaps))
    print([(r.message) for r in caplog.records])
    assert gaps == hook.gaps.get(kind, frozenset())
