"""Record every script of `tests/contents` and export it in every format.

usage: python -m tests.readers.write_contents DIRECTORY      (in the project's own environment)
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contents.recording import export_all, record_all

if __name__ == "__main__":
    target = Path(sys.argv[1])
    made = record_all(target / "runs")
    export_all(made, target)
    print(f"{len(made)} scripted runs in {target}")
