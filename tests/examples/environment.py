"""The environment variables of an example's process."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from tests.processes import ROOT

STAND_INS = ROOT / "tests" / "stand_ins"
"""A package of Trae Agent's structure."""

ONLY_OUR_PLUGIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p pytest_trace_recorder"}
"""Environment variables of pytest in an example. The plugins of all that is installed take seconds to import."""


def environment(url: str, place: Path) -> dict[str, str]:
    """Return the environment of a program whose provider is local, and for which the command line is installed."""
    command = place / "bin" / "trace-recorder"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trace_recorder "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    keys = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "k"}
    packages = os.pathsep.join(map(str, (ROOT, STAND_INS)))
    return {**os.environ, **keys, "PATH": path, "PYTHONPATH": packages, "PYTHONWARNINGS": ""}
