"""The page docs/inspect.md: its runs are recorded, and its commands print the shown output."""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT

PAGE = (ROOT / "docs" / "inspect.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def test_every_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    """The page's commands, run in order in one directory, print what the page shows; `...` stands for other lines."""
    for language, text in BLOCKS:
        if language == "python":
            (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}",
        "TZ": "UTC",
        "COLUMNS": "80",
    }
    for language, text in BLOCKS:
        if language == "console":
            command, _, shown = text.partition("\n")
            assert_shown(shown, printed(command.removeprefix("$ "), tmp_path, environment))


def test_every_picture_exists() -> None:
    """Each picture of the page exists."""
    for page in ("docs/inspect.md", "docs/viewer.md", "README.md"):
        place = ROOT / page
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", place.read_text(encoding="utf-8")):
            assert (place.parent / picture).is_file(), picture


def test_the_commands_in_the_terminal_s_picture_can_be_typed() -> None:
    """An argument with a space stands in quotation marks."""
    picture = (ROOT / "docs" / "images" / "terminal.svg").read_text(encoding="utf-8")
    texts = html.unescape(re.sub(r"<[^>]+>", "\n", picture)).replace("\N{NO-BREAK SPACE}", " ").splitlines()
    commands = [shlex.split(text) for text in texts if text.startswith("trace-recorder ")]

    assert [len(command) for command in commands] == [3, 4, 4]


def printed(command: str, place: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        ["sh", "-c", command], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == "", command
    code = [f"[exit code {done.returncode}]"] if done.returncode else []
    return [alike(line) for line in (*done.stdout.splitlines(), *code)]


def alike(line: str) -> str:
    """Return a line without times, token counts and column widths, which differ between runs."""
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d|\d\d:\d\d:\d\d|[\d.,]+ ?(?:ms|s)\b", "TIME", line)
    line = re.sub(r"(?<=[69] )\d,\d{3}|\d\d\.\dk", "TOKENS", line)
    line = re.sub(r"[\d,]+ tokens in, [\d,]+ out", "TOKENS", line)  # a traceback is longer in some versions of Python
    return " ".join(line.split())


def assert_shown(page: str, shown: list[str]) -> None:
    """Check that each line of the page is printed, in its order, with other lines between only at `...`."""
    end, skips = 0, False
    for line in map(alike, page.splitlines()):
        if line == "...":
            skips = True
            continue
        place = shown.index(line, end)
        assert skips or place == end, (line, shown[end])
        end, skips = place + 1, False
    assert skips or end == len(shown), shown[end:]
