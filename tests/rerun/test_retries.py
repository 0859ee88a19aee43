"""Retries in a replay: they happen as recorded, without waiting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai._models import FinalRequestOptions

from tests.provider import Answer, serving
from tests.rerun.runs import ask, client, record, said
from trace_recorder import TrajectoryRecorder, load, replay


def test_recorded_retries_happen_without_waiting(tmp_path: Path) -> None:
    """A failed attempt fails again, and the SDK's own retry gets the recorded answer."""
    path = tmp_path / "run.json"
    refused = Answer([b'{"error": {"message": "busy"}}'], status=429, headers={"retry-after": "30"})
    with serving(Answer(refused.chunks, 429, {"retry-after-ms": "1"}), said("at last")) as server:
        with TrajectoryRecorder(path, strict=True) as recorder:
            ask(recorder.wrap(client(f"{server.url}/v1")))

    with TrajectoryRecorder(tmp_path / "again.json", strict=True) as recorder, replay(path) as run:
        assert ask(run.wrap(recorder.wrap(client()))) == "at last"

    assert [attempt.status for attempt in load(tmp_path / "again.json").llm_interactions[0].attempts] == [429, 200]


def _wrapped(run: Any, made: Any) -> Any:
    return run.wrap(made)


def _copied(run: Any, made: Any) -> Any:
    return run.wrap(made).with_options(timeout=30)


def _as_it_is(_: Any, made: Any) -> Any:
    return made


@pytest.mark.parametrize("instrument", [False, True])
@pytest.mark.parametrize("use", [_wrapped, _copied, _as_it_is])
def test_no_replayed_client_waits_before_a_retry(use: Callable[..., Any], instrument: bool, tmp_path: Path) -> None:
    """Wrapped clients, their copies, and every client with `instrument` do not wait. Other clients still wait."""
    path = tmp_path / "run.json"
    record(path, [Answer([b"{}"], 429, {"retry-after": "0.001"}), said("at last")], ask)
    own = RetryTimes(client())
    assert own.seconds() > 20

    with replay(path, instrument=instrument, strict=False) as run:
        made = RetryTimes(use(run, own.made))
        inside, other = made.seconds(), RetryTimes(client()).seconds()

    answered = instrument or use is not _as_it_is
    assert (inside == 0.0, other == 0.0, own.seconds() > 20) == (answered, instrument, True)


class RetryTimes:
    """How long a client would wait before it sends a refused request again."""

    def __init__(self, made: openai.OpenAI) -> None:
        self.made = made

    def seconds(self) -> float:
        """Return the seconds for a response that asks for 30 seconds."""
        options = FinalRequestOptions(method="post", url="/")
        return self.made._calculate_retry_timeout(2, options, httpx2.Headers({"retry-after": "30"}))
