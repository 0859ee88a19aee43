"""The options by which `list` and `export` select runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.exporters.sink import sink
from trace_recorder import TrajectoryRecorder

MOMENT = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs in the default directory: `old` from ten days ago with a tool and a reward, and `new` from now."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRACE_RECORDER_DIR", raising=False)
    for name in ("old", "new"):
        with TrajectoryRecorder(f"trajectories/{name}.json", task=name, metadata={"branch": name}) as recorder:
            asked = [{"call_id": "c", "name": "bash", "arguments": {}}] if name == "old" else None
            recorder.record_agent_step(1, "completed", tool_calls=asked)
            if name == "old":
                recorder.reward("judge", 1.0)
    ago = (datetime.now(UTC) - timedelta(days=10)).isoformat().encode()
    document = Path("trajectories/old.json")
    document.write_bytes(MOMENT.sub(ago, document.read_bytes()))
    document.with_suffix(".jsonl").unlink()
    return Path("trajectories")


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        (["--since", "7d"], ["new"]),
        (["--until", "7d"], ["old"]),
        (["--since", "2w", "--until", "60m"], ["old"]),
        (["--tool", "bash"], ["old"]),
        (["--reward", "judge"], ["old"]),
        (["--meta", "branch=new"], ["new"]),
        (["--meta", "branch=new", "--tool", "bash"], []),
        (["--meta", "other="], []),
    ],
)
def test_list_and_export_select_alike(runs: Path, options: list[str], tasks: list[str]) -> None:
    listed = json.loads(invoke("list", "--json", *options).output)["trajectories"]
    assert [run["task"] for run in listed] == tasks

    done = invoke("export", "-f", "trae", "--output", "out", *options)
    exported = sorted(path.name for path in Path("out").glob("*")) if Path("out").is_dir() else []
    assert (done.exit_code, len(exported)) == (0 if tasks else 1, len(tasks))
    assert tasks or "no run matches" in done.output


@pytest.mark.parametrize("options", [["--since", "soon"], ["--until", "1y"], ["--meta", "branch"]])
def test_invalid_conditions_are_refused(runs: Path, options: list[str]) -> None:
    assert invoke("list", *options).exit_code == 2


def test_view_does_not_overwrite_a_file(runs: Path) -> None:
    Path("run.html").write_text("mine")
    refused = invoke("view", "trajectories/new.json", "-o", "run.html")
    assert (refused.exit_code, Path("run.html").read_text()) == (1, "mine")
    assert "--force" in refused.output
    assert invoke("view", "trajectories/new.json", "-o", "run.html", "--force").exit_code == 0


def test_the_package_is_the_command(runs: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "trace_recorder", "list"], capture_output=True, text=True, check=True)
    assert "new.json" in done.stdout


def test_grep_marks_matches_only_on_a_terminal(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TrajectoryRecorder("trajectories/said.json") as recorder:
        recorder.record_llm_interaction(
            [{"role": "user", "content": "find the needle here"}], {"content": "a"}, "p", "m"
        )
    plain = invoke("grep", "need.e").output
    assert "find the needle here" in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "find the \x1b[1;31mneedle\x1b[0m here" in invoke("grep", "need.e").output


def test_an_unreachable_endpoint_ends_the_export_after_three_runs(tmp_path: Path) -> None:
    for number in range(5):
        with TrajectoryRecorder(tmp_path / f"{number}.json") as recorder:
            recorder.annotate("a", number)
    with sink() as server:
        server.status = 400
        done = invoke("export", tmp_path, "--format", "otlp", "--endpoint", server.url)
    assert (done.exit_code, done.output.count("did not arrive")) == (1, 3)
    assert "nothing of 3 runs in a row arrived" in done.output
