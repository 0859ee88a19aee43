"""Options that are given twice: no value is dropped without a word."""

from __future__ import annotations

import pytest

from tests.cli.invoking import invoke


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("score", ["--reward", "a.py:b", "--name", "a", "--name", "b"]),
        ("score", ["--reward", "a.py:b", "--set", "a=1", "--set", "a=2"]),
        ("list", ["--sort", "time", "--sort", "cost"]),
        ("list", ["--meta", "a=1", "--meta", "a=2"]),
        ("export", ["--model", "a", "--model", "b", "--format", "trl"]),
        ("fork", ["--at", "1", "--at", "2", "--", "python", "--at", "3"]),
        ("run", ["--task", "a", "--task", "b", "python"]),
        ("proxy", ["--upstream", "a=http://a", "--upstream", "a=http://b", "true"]),
    ],
)
def test_no_value_of_an_option_is_dropped(command: str, options: list[str]) -> None:
    """An option that takes one value is refused if it is given twice, and so is a key with two values."""
    assert invoke(command, *options).exit_code == 2
