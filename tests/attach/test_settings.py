"""Wrong settings of a recorder, and paths in place of runs, are refused at once with one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_recorder import (
    TrajectoryFormatError,
    TrajectoryRecorder,
    UnsupportedClientError,
    diff,
    display,
    http_client,
    instrument,
    load,
    otlp,
    replay,
    to_dataframe,
    unwrap,
)
from trace_recorder.formats.inspect_ai.writing import to_inspect
from trace_recorder.views import to_atif, to_trl

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "path": ({"trajectory_path": 5}, "trajectory_path is 5, and must be a path"),
    "directory": ({"directory": None}, "directory is None, and must be a path"),
    "a text to mask": ({"redact": "hunter2"}, "redact is 'hunter2', and must be a function"),
    "texts to mask": ({"redact": ["hunter2"]}, r"redact is \['hunter2'\], and must be a function"),
    "a word for a bool": ({"strict": "yes"}, "strict is 'yes', and must be True or False"),
    "one exporter": ({"exporters": otlp("http://localhost:1")}, "must be a list of exporters"),
    "an address": (
        {"exporters": ["http://localhost:1"]},
        r"must be a list of exporters, such as \[otlp\(endpoint\)\]",
    ),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_setting_is_refused_by_the_constructor(which: str, tmp_path: Path) -> None:
    """The constructor refuses a wrong setting, so that masking or exporting does not fail unnoticed later."""
    settings, said = WRONG[which]
    with pytest.raises(TypeError, match=said):
        TrajectoryRecorder(**{"directory": tmp_path, **settings})

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("take", [to_atif, to_atif.with_report, to_dataframe, to_inspect])
def test_a_path_in_place_of_a_run_is_refused(take: Callable[..., object]) -> None:
    """A path in place of a run raises an error that says what to write instead."""
    with pytest.raises(TypeError, match=r"got a path: to_\w+\(load\('run.json'\)\)"):
        take(Path("run.json"))


def test_a_comparison_of_paths_is_refused() -> None:
    """`diff` of paths raises an error, because `diff` compares runs."""
    with pytest.raises(TypeError, match=r"takes two trajectories, such as load\(\) returns, and was given 'a.json'"):
        diff("a.json", "b.json")  # type: ignore[arg-type]


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    """An unknown form raises an error that names the known forms."""
    with TrajectoryRecorder(tmp_path / "run.json", task="x"):
        pass
    with pytest.raises(ValueError, match="form is 'turns', and must be one of messages, "):
        to_trl(load(tmp_path / "run.json"), form="turns")  # type: ignore[arg-type]


def test_a_replay_of_a_missing_file_says_that_it_is_missing() -> None:
    """A replay of a missing file raises an error that names the file as missing, and not only its journal."""
    with pytest.raises(TrajectoryFormatError, match=r"^nope.json cannot be replayed: there is no such file\.$"):
        replay("nope.json")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: http_client(provider=5), "provider is 5, and must be the name of a provider"),  # type: ignore[call-overload]
        (lambda: http_client(recorder=5), "recorder is 5, and must be a TrajectoryRecorder"),  # type: ignore[call-overload]
        (lambda: instrument(recorder="run.json"), "recorder is 'run.json', and must be a TrajectoryRecorder"),  # type: ignore[arg-type]
        (lambda: display("run.json"), r"takes a run, and was given 'run.json'. Write display\(load\(path\)\)"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_is_refused_at_once(call: Callable[[], object], said: str) -> None:
    """A wrong argument raises an error before the agent's first call."""
    with pytest.raises(TypeError, match=said):
        call()


def test_a_refused_client_keeps_its_transport(tmp_path: Path) -> None:
    """A client that is refused because of its provider keeps all its transports."""
    with http_client() as client:
        unwrap(client)
        before = client._transport
        with pytest.raises(TypeError, match="provider is 5"):
            TrajectoryRecorder(tmp_path / "run.json").wrap(client, provider=5)  # type: ignore[arg-type]
        assert client._transport is before


@pytest.mark.parametrize("what", [5, None, "client"])
def test_an_object_that_is_not_a_client_is_not_unwrapped(what: object) -> None:
    """`unwrap` refuses an object that is not a client, as `wrap` does."""
    with pytest.raises(UnsupportedClientError, match=r"unwrap\(\) finds no HTTP client in this builtins"):
        unwrap(what)
