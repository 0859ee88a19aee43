"""Runs the tests of this project that need a service's client or server, in an environment that has it."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

from tests.readers.reading import Reader


class TestedClients(Reader):
    """Counts the tests that passed. A test that needs another package skips itself."""

    def run(self, *tests: str) -> TestedClients:
        """Run tests. Deprecation warnings of installed packages, such as a plugin of pytest, are allowed."""
        command = [sys.executable, "-m", "pytest", "-W", "ignore::DeprecationWarning", *tests]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", ended.stdout)}
        self.accepted = counts.get("passed", 0)
        self.refused = counts.get("failed", 0) + counts.get("error", 0) or int(ended.returncode != 0)
        if self.refused:
            print(f"REFUSED by {self.name}: {ended.stdout[-5000:]}{ended.stderr[-2000:]}", flush=True)
        return self


def tested(name: str, what: str, packages: tuple[str, ...], *tests: str) -> Any:
    """Return the result of the tests that need these packages."""
    return TestedClients(name, what, *packages).run(*tests)
