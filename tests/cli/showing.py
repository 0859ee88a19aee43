"""The output of `show` for a run."""

from __future__ import annotations

from pathlib import Path

from tests.cli.invoking import invoke


def shown(path: Path, *options: str) -> str:
    """Return the output of a command that has to succeed."""
    result = invoke("show", path, *options)
    assert result.exit_code == 0, result.output
    return result.output


def label(output: str, name: str) -> list[str]:
    """Return the lines that `show` prints next to a label."""
    lines = (line.strip().partition(" ") for line in output.splitlines())
    return [text.strip() for first, _, text in lines if first == name]
