"""The GitHub action: its file, and its step that compares runs, run by bash as a runner would.

The step that installs the package needs a network, so only its text is checked.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples.environment import environment
from tests.figures.gate.recorded_runs import answer, recorded_run, tool
from tests.processes import ROOT

ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, CHECK = ACTION["runs"]["steps"]


def test_every_input_is_used_and_every_step_names_its_shell() -> None:
    """A composite action needs a shell in each step. Inputs reach a script as variables, so no text becomes code."""
    variables = INSTALL["env"] | CHECK["env"]

    assert (ACTION["runs"]["using"], [step["shell"] for step in (INSTALL, CHECK)]) == ("composite", ["bash", "bash"])
    assert sorted(variables.values()) == sorted(f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"])
    assert [step for step in (INSTALL, CHECK) if "${{" in step["run"]] == []
    assert {name for name, value in ACTION["inputs"].items() if value.get("required")} == {"golden", "against"}
    assert ACTION["outputs"]["summary"]["value"] == f"${{{{ steps.{CHECK['id']}.outputs.summary }}}}"
    assert INSTALL["run"] == 'python -m pip install --quiet "${PACKAGE:-${GITHUB_ACTION_PATH}[cli]}"'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with runs, and with the files that a runner gives to a step."""
    for name in ("golden runs", "live", "temporary"):
        (tmp_path / name).mkdir()
    recorded_run(tmp_path / "golden runs" / "tea.json", [answer(None, tool("search")), answer("Green.")])
    recorded_run(tmp_path / "live" / "tea.json", [answer(None, tool("search")), answer("Green.")])
    recorded_run(tmp_path / "live" / "tea_2.json", [answer(None, tool("fetch")), answer("Green.")])
    (tmp_path / "check.toml").write_text('[tools]\nforbidden = ["fetch"]\ncompare = "nothing"\n')
    return tmp_path


def run_step(place: Path, **inputs: str) -> tuple[int, str, str]:
    """Run the step with these inputs. Return its exit code, and what it wrote to the summary and the outputs."""
    defaults = {name: value.get("default", "") for name, value in ACTION["inputs"].items()}
    expanded = {
        variable: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: (defaults | inputs)[match[1]], value)
        for variable, value in CHECK["env"].items()
    }
    files = {
        "GITHUB_STEP_SUMMARY": place / "summary",
        "GITHUB_OUTPUT": place / "output",
        "RUNNER_TEMP": place / "temporary",
    }
    surroundings = environment("", place) | expanded | {name: str(path) for name, path in files.items()}
    script = place / "step.sh"
    script.write_text(CHECK["run"])
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
    done = subprocess.run(command, cwd=place, env=surroundings, capture_output=True, text=True, check=False)
    written = [
        files[name].read_text() if files[name].exists() else "" for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")
    ]
    return done.returncode, written[0], written[1]


def test_a_run_that_differs_fails_the_step(place: Path) -> None:
    """The exit code is that of the command. The summary and the report are written, and the output has the path."""
    code, summary, output = run_step(
        place, golden="golden runs\n", against="live/*.json\n", rules="check.toml", junit="report.xml"
    )

    assert (code, output) == (1, f"summary={place}/temporary/trace-recorder-check.md\n")
    assert summary.startswith("### trace-recorder check: 0 of 1 task ok\n")
    assert "tools.forbidden: step 1: fetch is called once, and must not be called" in summary
    assert 'failures="1"' in (place / "report.xml").read_text()
    assert [path.name for path in (place / "temporary").iterdir()] == ["trace-recorder-check.md"]


def test_other_exit_codes_of_the_step(place: Path) -> None:
    """Runs that agree pass. Without live runs the step fails with 2, and there is no summary."""
    agreeing = run_step(place, golden="golden runs/tea.json", against="live/tea.json")
    (place / "summary").unlink()
    (place / "output").unlink()
    (place / "bin" / "trace-recorder").unlink()
    (place / "bin").rmdir()

    assert (agreeing[0], "1 of 1 task ok" in agreeing[1]) == (0, True)
    assert run_step(place, golden="golden runs", against="nothing/*.json") == (2, "", "")
