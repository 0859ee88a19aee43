"""The pages docs/add-*.md: the tests follow each page in a copy of the package, and run the page's own tests there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

PAGES = sorted((ROOT / "docs").glob("add-*.md"))


def copied(path: str, place: Path) -> Path:
    """Return the path of a file of the copy. A file outside of the package is copied when it is first used."""
    file = place / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() and (ROOT / path).exists():
        shutil.copy(ROOT / path, file)
    return file


def change(file: Path, diff: str) -> None:
    """Insert each line that begins with a plus after the line before it, which must occur once in the file."""
    text, before = file.read_text(encoding="utf-8"), ""
    for line in diff.splitlines(keepends=True):
        if line.startswith("+"):
            assert text.count(f"\n{before}") == 1, (file.name, before)
            text = text.replace(f"\n{before}", f"\n{before}{line[1:]}")
        before = line[1:]
    file.write_text(text, encoding="utf-8")


def follow(page: Path, place: Path) -> list[Path]:
    """Follow the instructions of a page, and return the paths of the tests that they add."""
    shutil.copytree(ROOT / "trace_recorder", place / "trace_recorder")  # with its bytecode, which else is made again
    tests = []
    for language, path, text in re.findall(r"```(\w+)\n# (\S+)\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        if language == "diff":
            change(copied(path, place), text)
        else:
            assert not (ROOT / path).exists()
            copied(path, place).write_text(text, encoding="utf-8")
            tests += [place / path] if path.startswith("tests/") else []
    return tests


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_s_instructions_work(page: Path, tmp_path: Path) -> None:
    """A module that is added as the page says passes lint and type checks, and the page's tests pass."""
    tests = follow(page, tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    surroundings = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    commands = (["pytest", *map(str, tests)], ["ruff", "check", "trace_recorder"])
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert tests


def test_there_are_three_pages() -> None:
    """There are pages for adding a dialect, a format, and a secret's pattern."""
    names = ["add-a-dialect", "add-a-format", "add-a-secret-pattern"]
    assert [page.stem for page in PAGES] == names
