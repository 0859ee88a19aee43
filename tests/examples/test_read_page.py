"""The page docs/inspect.md: its code blocks on reading runs in Python run unchanged."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.cli.invoking import recorded
from tests.processes import ROOT

PAGE = (ROOT / "docs" / "inspect.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.partition("\n## Reading runs in Python\n")[2], re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block).partition("\n")[0])
def test_a_block_runs_unchanged(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block of the section runs on a directory with a run."""
    if "dataframe" in block:
        pytest.importorskip("polars", reason="polars is not installed")
    recorded(tmp_path / "trajectories" / "run.json", "an answer")
    (tmp_path / "block.py").write_text(block)
    monkeypatch.chdir(tmp_path)

    runpy.run_path("block.py")

    printed = capsys.readouterr().out
    assert "an answer" in printed or "duration_seconds" in printed
