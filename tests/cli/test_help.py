"""The arguments of commands in their help, and the words that a shell completes."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from tests.cli.invoking import invoke
from trace_recorder.cli.app import COMMANDS, GROUPS, app_for

USAGE = {
    "list": "[PATH...]",
    "show": "[PATH...]",
    "tail": "[PATH...]",
    "view": "[PATH...]",
    "stats": "[PATH...]",
    "diff": "[A] [B]",
    "check": "GOLDEN...",
    "grep": "PATTERN [PATH...]",
    "find": "QUERY [PATH...]",
    "index": "[DIR]",
    "sql": "QUERY [PATH...]",
    "mcp": "[DIR]",
    "mcp-tap": "[-- COMMAND...]",
    "skill": "",
    "validate": "[PATH...]",
    "recover": "[PATH...]",
    "prune": "[PATH...]",
    "redact": "[PATH...]",
    "export": "[PATH...]",
    "import": "PATH|SERVICE|PROGRAM...",
    "share": "[PATH...]",
    "score": "[PATH...]",
    "run": "[-- COMMAND...]",
    "proxy": "[-- COMMAND...]",
    "replay": "[RUN] [-- COMMAND...]",
    "fork": "[RUN] [-- COMMAND...]",
    "serve": "[RUN]",
}
TYPES_OF_PYTHON = re.compile(r"<[a-z]|\b(INTEGER|FLOAT|TEXT|range)\b|\bN\b|\]\]|\{")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_arguments_in_words(command: str) -> None:
    """Each usage has the same form, and no argument or option shows a type of Python or of typer."""
    text = invoke(command, "--help").output

    assert text.splitlines()[0] == f"Usage: trace-recorder {command} [OPTIONS] {USAGE[command]}".rstrip()
    assert TYPES_OF_PYTHON.findall(text) == []


def test_the_help_lists_each_command_in_its_group() -> None:
    """Each section has the commands of one group, in order. A long sentence goes on in the next line."""
    text = invoke("--help").output
    sections: dict[str, list[str]] = {}
    for section in text.partition("Options:")[2].split("\n\n")[1:]:
        title, *lines = section.strip().splitlines()
        sections[title.rstrip(":")] = [line.split()[0] for line in lines if not line.startswith("   ")]
        assert lines[-1].endswith(".")

    assert sections == {title: [*commands] for title, commands in GROUPS.items()}
    assert len(COMMANDS) == sum(map(len, GROUPS.values()))


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("trace-recorder export --format t", ["toolbrain", "traces", "trae", "trl"]),
        ("trace-recorder list --status com", ["completed"]),
        ("trace-recorder list --sort co", ["cost"]),
        ("trace-recorder grep --in ", ["answers", "prompts", "tools"]),
        ("trace-recorder diff --ignore tool", ["tool_call", "tool_result", "tools"]),
        ("trace-recorder rec", ["recover"]),
    ],
)
def test_a_shell_completes_values(line: str, completed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell completes the commands, and the values that an option knows."""
    words = line.split(" ")
    environment = {"_TRACE_RECORDER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    done = CliRunner().invoke(app_for([]), [], prog_name="trace-recorder")
    assert done.output.split() == completed
