"""docs/commands.md: each command prints what the page shows, and exits as it says."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.data.shown import by_hand, captured
from tests.data.written import Writing, asked, called, said
from tests.processes import ROOT

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(\$ trace-recorder .*?)```", PAGE, re.DOTALL)
WIDTH = "60"
MODEL = "local-model"
ELSEWHERE = {
    "mcp",
    "skill",
    "tail",
    "view",
    "import",
    "index",
    "export",
    "score",
    "redact",
    "share",
    "run",
    "proxy",
    "replay",
    "fork",
    "serve",
}
"""Commands that write, start or follow something, or print what other tests compare."""
USAGE = {"prompt_tokens": 900, "completion_tokens": 12}


def count_files(path: Path, shown: str, answer: str) -> None:
    """Record a run of an agent that counts files."""
    task, ls = {"role": "user", "content": "How many files are here?"}, called("call_1", "bash", command="ls")
    writing = Writing(path, task="Count the files", provider="openai", model=MODEL)
    writing.request(1, asked(task, model=MODEL))
    writing.response(1, body=said(None, ls, usage=USAGE, model=MODEL))
    result = {"role": "tool", "tool_call_id": "call_1", "content": shown}
    writing.request(2, asked(task, {"role": "assistant", "content": None, "tool_calls": [ls]}, result, model=MODEL))
    writing.response(2, body=said(answer, usage=USAGE, model=MODEL))
    writing.add("finalize", status="completed", success=True, final_result=answer, execution_time=5.0)
    writing.journal.close()


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write the runs of the page, and set a narrow terminal's width."""
    directory = tmp_path / "runs"
    directory.mkdir()
    captured(directory / "mend.jsonl").journal.close()
    by_hand(directory / "list.jsonl")
    count_files(directory / "monday.jsonl", "a.py\nb.py", "There are two files.")
    count_files(directory / "tuesday.jsonl", "a.py\nb.py\nc.py", "There are three files.")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", WIDTH)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block).partition("\n")[0])
def test_a_command_prints_what_the_page_shows(block: str) -> None:
    """Each command prints the whole output of its block on the page, and exits with the shown code."""
    command, _, shown = block.partition("\n")
    _, _, *arguments = shlex.split(command)
    done = invoke(*arguments)

    code = f"[exit code {done.exit_code}]\n" if done.exit_code else ""
    assert done.output + code == shown


def test_every_command_is_shown_or_described_elsewhere() -> None:
    """The pages show or describe every command."""
    commands = set(re.findall(r"^  (\w+)  ", invoke("--help").output, re.MULTILINE))

    assert commands - {shlex.split(block)[2] for block in BLOCKS} == ELSEWHERE
