"""Records the runs of examples/demo/find_a_bug.py, and draws a terminal in which commands look at them, as an SVG."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 92
COMMANDS = (
    ("list", "trajectories"),
    ("grep", "discount import", "trajectories"),
    ("diff", "trajectories/broken.json", "trajectories/mended.json"),
)
THEME = TerminalTheme(
    (24, 28, 34),
    (221, 227, 234),
    [
        *((60, 68, 80), (255, 130, 120), (116, 210, 148), (240, 184, 102)),
        *((124, 160, 255), (185, 165, 255), (120, 200, 230), (221, 227, 234)),
    ],
)


def main(place: Path, picture: Path) -> None:
    """Record the runs, run the commands as in a terminal with colours, and write the picture."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC"}
    record = [sys.executable, "-m", "examples.demo.find_a_bug", "trajectories"]
    subprocess.run(record, cwd=place, env=environment, check=True)
    out = Console(record=True, width=COLUMNS, file=StringIO(), legacy_windows=False)
    for command in COMMANDS:
        out.print(Text("$ ", "bold green") + Text(shlex.join(("trace-recorder", *command)), "bold"))
        out.print(Text.from_ansi(_printed(command, place, environment)))
    picture.write_text(out.export_svg(title="", theme=THEME, code_format=_format()), encoding="utf-8")


def _printed(command: tuple[str, ...], place: Path, environment: dict[str, str]) -> str:
    """Return a command's output on a terminal of this width, with its colours."""
    program = [sys.executable, "-m", "trace_recorder", *command]
    colours = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    done = subprocess.run(program, cwd=place, env=environment | colours, capture_output=True, text=True, check=False)
    return done.stdout


def _format() -> str:
    """Return Rich's form of a terminal, without the font that it would download."""
    from rich._export_format import CONSOLE_SVG_FORMAT  # noqa: PLC0415, PLC2701 - rich has no public name for it

    begin, end = CONSOLE_SVG_FORMAT.index("@font-face"), CONSOLE_SVG_FORMAT.rindex("@font-face")
    return CONSOLE_SVG_FORMAT[:begin] + CONSOLE_SVG_FORMAT[CONSOLE_SVG_FORMAT.index("}}", end) + 2 :]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
