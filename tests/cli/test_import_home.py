"""`import --home`: the programs whose sessions are in the home directory, and imports of those that are chosen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.formats.files import PRODUCED
from trace_recorder import load_all
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.home_files import files_at_home
from trace_recorder.formats.recognition import format_of
from trace_recorder.registry import IMPORT_FORMATS

_AT_HOME = {
    "claude-code/session.jsonl": ".claude/projects/p/session.jsonl",
    "cline-sessions/1795881910000_abcde.messages.json": ".cline/data/sessions/s/s.messages.json",
    "codex/rollout.jsonl": ".codex/sessions/2026/11/28/rollout-1.jsonl",
    "cursor/transcript.jsonl": ".cursor/projects/p/agent-transcripts/s/s.jsonl",
    "cursor-database/state.db": ".config/Cursor/User/globalStorage/state.vscdb",
    "kimi/session.jsonl": ".kimi-code/sessions/wd/session_1/agents/main/wire.jsonl",
    "pi/session.jsonl": ".pi/agent/sessions/p/session.jsonl",
    "kiro/session.jsonl": ".kiro/sessions/cli/s.jsonl",
    "kiro/data.db": ".local/share/kiro-cli/data.sqlite3",
    "windsurf/transcript.jsonl": ".windsurf/transcripts/t.jsonl",
    "opencode/opencode.db": ".local/share/opencode/opencode.db",
    "antigravity/transcript.jsonl": ".gemini/antigravity-cli/brain/c/.system_generated/logs/transcript.jsonl",
}
"""Produced files, and where the programs keep such files."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home directory with a file of some programs, one in a format that is not known, and no variables."""
    directory = tmp_path / "home"
    for produced, place in _AT_HOME.items():
        target = directory / place
        target.parent.mkdir(parents=True)
        shutil.copy(PRODUCED / produced, target)
    (directory / ".pi/agent/sessions/p/other.jsonl").write_text('{"unknown": 1}\n')
    monkeypatch.setenv("HOME", str(directory))
    for name in IMPORT_FORMATS:
        for place in IMPORT_FORMATS.record(name).home:
            monkeypatch.delenv(place.variable or "", raising=False)
    return directory


def test_the_programs_are_listed_with_the_number_and_the_size_of_their_files(home: Path) -> None:
    """Nothing is written. Each file that is found has the format whose place it is at."""
    shown = invoke("import", "--home")
    assert shown.exit_code == 0, shown.output
    rows = [line.split() for line in shown.stdout.splitlines() if line.strip()]
    assert [row[0] for row in rows[:-1]] == ["name", *(found.format for found in files_at_home(home, {}))]
    assert ["pi", "2"] in [row[:2] for row in rows]
    found = {file: at_home.format for at_home in files_at_home(home, {}) for file in at_home.files}
    assert {place: found[home / place] for place in _AT_HOME.values()} == {
        place: produced.partition("/")[0] for produced, place in _AT_HOME.items()
    }
    assert all(format_of(Source(file)) == name for file, name in found.items() if file.name != "other.jsonl")
    assert not list(home.rglob("trajector*"))


def test_the_chosen_programs_are_imported_again_and_again_without_doubles(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = invoke("import", "--home", "pi", "kimi", "-o", out)
    assert "2 runs written, 1 file in other formats skipped" in one.output, one.output
    every = invoke("import", "--home", "all", "-o", out)
    assert "2 unchanged" in every.output, every.output
    runs = len([*load_all(out)])
    again = invoke("import", "--home", "all", "-o", out)
    assert f"0 runs written, {runs} unchanged" in again.output, again.output
    assert len([*load_all(out)]) == runs


def test_a_variable_of_the_program_names_another_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".codex").rename(home / "elsewhere")
    assert "codex" not in invoke("import", "--home").stdout
    monkeypatch.setenv("CODEX_HOME", "~/elsewhere")
    assert str(home / "elsewhere") in invoke("import", "--home").stdout


def test_a_home_directory_may_have_no_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shown = invoke("import", "--home")
    assert (shown.exit_code, "There are no sessions of known programs" in shown.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--home", "emacs"], "'emacs' is not one of all, "),
        (["--home", "--project", "p"], "it looks for files"),
        ([], "or use --home"),
    ],
)
def test_wrong_names_are_refused(arguments: list[str], message: str) -> None:
    refused = invoke("import", *arguments)
    assert refused.exit_code == 2
    assert message in " ".join(refused.output.split())
