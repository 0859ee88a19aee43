"""The page on MCP servers: its program is run, and shows what the page shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cli.invoking import invoke
from tests.processes import ROOT

PAGE = (ROOT / "docs/mcp.md").read_text("utf-8")
SERVER = ROOT / "tests/capture/misbehaving_mcp_server.py"


def blocks(language: str) -> list[str]:
    """Return the blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_shows_what_the_page_shows(tmp_path: Path) -> None:
    """The steps that `show` prints are those of the page, but for the time."""
    [program] = blocks("python")
    shown = "step 1" + PAGE.partition("step 1")[2].partition("```")[0]
    shutil.copy(SERVER, tmp_path / "server.py")

    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=300, capture_output=True)
    printed = invoke("show", tmp_path / "trajectories/sums.json").output

    without_time = re.compile(r"\d\d:\d\d:\d\d")
    assert without_time.sub("", printed).endswith(without_time.sub("", shown))


def test_the_configuration_is_what_the_command_prints(tmp_path: Path) -> None:
    """The lines with the tap equal the output of `--print` for the server without it."""
    [tapped] = blocks("json")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"sums": {"command": "python", "args": ["server.py"]}}}')

    command = [sys.executable, "-m", "trace_recorder", "mcp-tap", "--print", "claude"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, timeout=300, capture_output=True, text=True).stdout

    comment, _, lines = printed.partition("\n")
    assert comment.endswith(".mcp.json, in place of these members")
    assert json.loads(lines) == json.loads(tapped)
