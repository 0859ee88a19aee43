"""Python in separate processes, and the open files of this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trace_recorder.recording.process import PARENT_VARIABLE, SESSION_VARIABLE

ROOT = Path(__file__).parents[1]


FORKS_WITH_THREADS = "ignore:This process:DeprecationWarning"
"""For PYTHONWARNINGS: since 3.12 Python warns of a fork beside threads, which a run has: docs/known-faults.md."""


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


_FORKING = """
import json, os, sys, types
imports, programs, outputs = json.load(sys.stdin)
exec(imports, {})
codes = {}
for name, (code, place) in programs.items():
    child = os.fork()
    if child == 0:
        os.chdir(place)
        for number in (1, 2):
            os.dup2(os.open(f"{outputs}/{len(codes)}.{number}", os.O_WRONLY | os.O_CREAT), number)
        sys.argv = ["-c"]
        main = sys.modules["__main__"] = types.ModuleType("__main__")  # without the names of this program
        exec(compile(code, "<string>", "exec"), vars(main))
        break
    codes[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
else:
    print(json.dumps(codes))
"""


RECORDS = """
import pkgutil
import trace_recorder.attach.unassigned, trace_recorder.dialects, trace_recorder.reading.live_document.document_calls
trace_recorder.TrajectoryRecorder, trace_recorder.wrap
for module in pkgutil.iter_modules(trace_recorder.dialects.__path__, "trace_recorder.dialects."):
    __import__(module.name)
"""
"""For `in_forks`: imports what the first recorded call imports, which takes five times as long as the call."""
HTTPX_RECORDS = f"import httpx\nhttpx.Client(trust_env=False).close(){RECORDS}"
OPENAI_RECORDS = f"import openai\nopenai.OpenAI(api_key='k').chat.completions.create{RECORDS}"
"""Likewise, with a client of the library, because it imports its transports with the first client."""


def in_forks(
    programs: Mapping[str, tuple[str, Path]], imports: str, environment: Mapping[str, str]
) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run the code of programs one after another, each in its directory, in a process of its own.

    The processes are forks of one that has run `imports`, because an import of an SDK takes as long as fifty programs.
    Each ends as `python -c` does. The environment may name a run that an earlier test has left open, which no program
    gets.
    """
    environment = {
        name: value for name, value in environment.items() if name not in {PARENT_VARIABLE, SESSION_VARIABLE}
    }
    with tempfile.TemporaryDirectory() as outputs:
        given = json.dumps([imports, {name: (code, str(place)) for name, (code, place) in programs.items()}, outputs])
        command = [sys.executable, "-c", _FORKING]
        done = subprocess.run(
            command, env=environment, input=given, stdout=subprocess.PIPE, text=True, timeout=600, check=True
        )
        return {
            name: subprocess.CompletedProcess(
                name, code, *(Path(outputs, f"{at}.{number}").read_text(encoding="utf-8") for number in (1, 2))
            )
            for at, (name, code) in enumerate(json.loads(done.stdout).items())
        }


def open_below(place: Path) -> list[str]:
    """Return the names of the files in a directory that this process has open, including removed files."""
    names = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # another thread has closed the file meanwhile
            names.append(str(link.readlink()))
    return [name for name in names if name.startswith(str(place))]
