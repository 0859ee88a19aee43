"""What a recorded call costs, counted in calls of our own functions: no clock, and so no noise of other work."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.processes import ROOT

MOST_CALLS_FOR_THE_FACTS = 150
MOST_CALLS = 410
"""With the document, which is written for each call at most."""


def test_a_tiny_call_takes_few_function_calls() -> None:
    """Its facts, and all of it with its document, take no more calls of our functions than are stated here."""
    command = [sys.executable, "scripts/structure", "--call"]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    counted = json.loads(ended.stdout)
    facts, both = counted["of them for the facts"], counted["function calls"]
    assert 0 < facts < both, "nothing was counted"
    assert facts <= MOST_CALLS_FOR_THE_FACTS, counted
    assert both <= MOST_CALLS, counted
