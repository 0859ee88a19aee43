"""Runs that are unusual, for the tests of the page: `python -m tests.viewer_page.unusual_runs DIRECTORY`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.viewer_page.hard_to_draw import hard_to_draw


def main(directory: Path) -> None:
    """Record the runs, and print their names."""
    runs = {"hardToDraw": hard_to_draw(directory)}
    print(json.dumps({name: path.name for name, path in runs.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
