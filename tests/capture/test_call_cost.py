"""What a recorded call costs, counted in calls of our own functions: no clock, and so little noise of other work."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.processes import ROOT

MOST_CALLS_FOR_THE_FACTS = 130
MOST_CALLS = 313
"""With the document, written once."""


def counted() -> tuple[int, int]:
    """How many calls the facts of a tiny call take, and how many it takes with its document."""
    command = [sys.executable, "scripts/structure", "--call"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(ended.stdout)
    return figures["of them for the facts"], figures["function calls"]


def test_a_tiny_call_takes_few_function_calls() -> None:
    """Its facts, and all of it with its document, take no more calls of our functions than are stated here."""
    facts, both = counted()

    assert 0 < facts < both, "nothing was counted"
    assert facts <= MOST_CALLS_FOR_THE_FACTS
    assert both <= MOST_CALLS
