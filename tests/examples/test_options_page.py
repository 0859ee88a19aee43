"""The page docs/options.md: it names every option of the recorder, and its block runs unchanged."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from tests.examples.environment import environment
from tests.processes import ROOT
from trace_recorder import TrajectoryRecorder, load

PAGE = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")


def test_the_table_has_every_option() -> None:
    """The first column of the table has exactly the parameters of the constructor."""
    rows = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert named == {*inspect.signature(TrajectoryRecorder).parameters}


def test_the_page_s_redactor_masks(tmp_path: Path) -> None:
    """The function of the block masks a text that the default redactor does not mask."""
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    subprocess.run([sys.executable, "-c", block], cwd=tmp_path, env=environment("", tmp_path), check=True)

    assert load(tmp_path / "trajectories" / "masked.json").annotations["customer"] == "[REDACTED:customer]"
