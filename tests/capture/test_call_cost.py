"""What a recorded call costs, counted in calls of our own functions: no clock, and so little noise of other work."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.processes import ROOT

MOST_CALLS_FOR_THE_FACTS = 130
MOST_CALLS_FOR_THE_DOCUMENT = 138
"""One whole document of a run, for each of its calls."""


def test_a_tiny_call_takes_few_function_calls() -> None:
    """Its facts, and its share of a whole document, take no more calls of our functions than are stated here."""
    command = [sys.executable, "scripts/structure", "--call"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(ended.stdout)

    assert 0 < figures["function calls for the facts"] <= MOST_CALLS_FOR_THE_FACTS
    assert 0 < figures["function calls for a whole document, a call"] <= MOST_CALLS_FOR_THE_DOCUMENT
