"""Run every reader: record runs, export them, create each environment, check in it, remove it, and print one table.

usage: python -m tests.readers [NAME …]      names of `environments.py`; default: all.  `nox -s readers` runs this.

The table is appended to `.venv-nox/readers.md`. A reader that could not be installed is named there, and does not count
as accepting. Exits with 1 if an input was refused, or a check broke off.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.readers.environments import ENVIRONMENTS, Arguments, Environment
from tests.readers.reading import RESULT

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / ".venv-nox" / "readers.md"
EXPORTS: dict[str, Arguments] = {
    "atif": ("atif",),
    "trae": ("trae",),
    "hierarchy": ("hierarchy",),
    "hierarchy-message": ("hierarchy", "--form", "message"),
    "invariant.jsonl": ("invariant", "--name", "runs"),
    "openai.jsonl": ("openai",),
    "toolbrain": ("toolbrain",),
    "trl.jsonl": ("trl",),
    "trl-prompt_completion.jsonl": ("trl", "--form", "prompt_completion"),
    "trl-tokens.jsonl": ("trl", "--form", "tokens"),
    "verifiers.jsonl": ("verifiers",),
    "traces": ("traces",),
    "inspect": ("inspect",),
    "inspect-eval": ("inspect", "--form", "eval"),
    "parquet": ("parquet",),
    "parquet-scout": ("parquet", "--form", "scout"),
}
"""The file or directory of each format's export, and its form."""
SETTINGS = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
TITLES = ("reader", "version", "what was read", "accepted", "refused")


class CannotInstallError(Exception):
    """An environment could not be made. The message says why."""


def main() -> None:
    """Run all readers."""
    unknown = set(sys.argv[1:]) - {one.name for one in ENVIRONMENTS}
    if unknown:
        sys.exit(f"{', '.join(unknown)}: none of {', '.join(one.name for one in ENVIRONMENTS)}")
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        run(sys.executable, "-m", "tests.readers.write_runs", str(directory / "runs"))
        export(directory)
        run(sys.executable, "-m", "tests.readers.write_contents", str(directory / "contents"))
        chosen = [one for one in ENVIRONMENTS if one.name in sys.argv[1:] or len(sys.argv) == 1]
        results = [result for one in chosen for result in read_in(one, directory)]
    table = "\n".join([*lines(results), "", *content_lines(results)])
    print(f"\n{table}", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n\n{table}\n\n")
    sys.exit(any(result["refused"] for result in results) or not any(result.get("accepted") for result in results))


def export(directory: Path) -> None:
    """Export all runs in every format by the command line."""
    runs = [directory / "runs", *(path for path in (directory / "runs").iterdir() if path.is_dir())]
    for name, arguments in EXPORTS.items():
        command = [sys.executable, "-m", "trace_recorder", "export", *map(str, runs), "-f", *arguments]
        said = run(*command, "-o", str(directory / name))
        print("\n".join(line for line in said.splitlines() if "there is nothing in it" not in line), flush=True)


def read_in(environment: Environment, directory: Path) -> Iterator[dict[str, Any]]:
    """Create an environment, run its checks, and remove it."""
    print(f"\n── {environment.name} ──", flush=True)
    place = directory / "environment"
    try:
        python = made(environment, place)
        for check in environment.checks:
            yield from checked(python, check, directory)
    except CannotInstallError as error:
        print(error, flush=True)
        words = {
            "reader": f"{environment.name}: not installed",
            "version": "",
            "what": str(error).splitlines()[-1][:200],
        }
        yield {**words, "accepted": None, "refused": None}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def made(environment: Environment, place: Path) -> str:
    """Create an environment, and return its Python. Raises CannotInstallError."""
    run(interpreter(environment.python), "-m", "venv", str(place))
    python = str(place / "bin" / "python")
    for arguments in environment.first:
        if not installed(python, *arguments):
            break
    alone = ("--no-deps", *environment.alone) if environment.alone else ()
    for arguments in (environment.requirements, alone):
        refusal = installed(python, *arguments) if arguments else ""
        if refusal:
            raise CannotInstallError(refusal)
    return python


def installed(python: str, *arguments: str) -> str:
    """Install a package. If that fails, return pip's message."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else (ended.stderr.strip() or "pip failed")


def interpreter(oldest: tuple[int, int]) -> str:
    """Return a new enough Python: this one, one by its name, or one of pyenv's. Raises CannotInstallError."""
    named = [shutil.which(f"python3.{minor}") for minor in range(11, 16)]
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python"))
    for candidate in (sys.executable, *named, *map(str, pyenv)):
        asked = [candidate, "-c", "import sys; print(*sys.version_info[:2])"] if candidate else []
        ended = subprocess.run(asked, capture_output=True, text=True, check=False) if asked else None
        if ended and ended.returncode == 0 and tuple(map(int, ended.stdout.split())) >= oldest:
            return str(candidate)
    raise CannotInstallError(f"there is no Python {oldest[0]}.{oldest[1]} or newer here")


def checked(python: str, check: str, directory: Path) -> Iterator[dict[str, Any]]:
    """Run a check, and return its results. A check that broke off has a result that says so."""
    command = [python, "-m", f"tests.readers.{check}", str(directory)]
    environment = {**os.environ, **SETTINGS, "HF_HOME": str(directory / "hugging_face")}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    said = ended.stdout.splitlines()
    results = [json.loads(line.removeprefix(RESULT)) for line in said if line.startswith(RESULT)]
    print("\n".join(line for line in said if not line.startswith(RESULT))[-20_000:], flush=True)
    if not any(result["refused"] for result in results) and ended.returncode:
        print(ended.stderr[-5_000:], flush=True)
        why = "a reader was given nothing" if results else "it broke off"
        results.append({"reader": check, "version": "", "what": why, "accepted": 0, "refused": 1})
    version = run(python, "-c", "import sys; print(*sys.version_info[:2], sep='.')").strip()
    for result in results:
        yield {**result, "version": f"{result['version']} (Python {version})"}


def run(*command: str) -> str:
    """Run a command that must succeed, and return its output."""
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        sys.exit(f"{' '.join(command)[:300]}\n{ended.stdout}{ended.stderr}")
    return ended.stdout + ended.stderr


def lines(results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    yield f"| {' | '.join(TITLES)} |"
    yield "|---" * 3 + "|--:" * 2 + "|"
    for one in results:
        counts = ["-" if one[name] is None else f"{one[name]:,}" for name in ("accepted", "refused")]
        yield f"| {' | '.join([one['reader'], one['version'], one['what'], *counts])} |"


def content_lines(results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown: the contents of the scripted runs that readers have, aspect by aspect."""
    yield "| reader | aspect | compared | equal | different | why |"
    yield "|---|---|--:|--:|--:|---|"
    for one in results:
        for aspect, found in one.get("aspects", {}).items():
            counts = found["equal"] + found["different"], found["equal"], found["different"]
            yield f"| {one['reader']} | {aspect} | {' | '.join(map(str, counts))} | {found['why']} |"


if __name__ == "__main__":
    main()
