"""Record every run that the views are tested on, and the corpus where it is, into a directory.

usage: python -m tests.readers.write_runs DIRECTORY      (in the project's own environment)
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.views.corpus_runs import corpus_runs
from tests.views.runs import every

if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    made = len(every(target)) + sum(1 for _ in corpus_runs(target))
    print(f"{made} runs in {target}")
