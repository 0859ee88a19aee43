"""Several runs at once: shown in sequence, taken from the default directory, and forks listed below their origins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from trace_recorder import load


def test_forks_are_listed_below_their_origins(tmp_path: Path) -> None:
    """Forks of forks are listed below their origins too, whenever they began.

    Of two runs that state to be forks of each other, one is below the other.
    """

    def fork(name: str, origin: str) -> Path:
        origins = {"forked_from": {"file": origin, "interaction_id": "llm_1"}}
        return recorded(tmp_path / name, metadata=origins)

    recorded(tmp_path / "a.json")
    for name, origin in {"c.json": "b.jsonl", "d.json": "none.jsonl", "b.json": "a.jsonl"}.items():
        fork(name, origin)
    fork("e.json", "f.json")
    fork("f.json", "e.json")

    listed = [
        line.split("  ")[0] if line[0] != " " else line for line in invoke("list", tmp_path).output.splitlines()[1:]
    ]
    assert [line.partition(".json")[0] for line in listed] == ["a", "└ b", "  └ c", "d", "f", "└ e"]
    assert "└" not in invoke("list", tmp_path, "--sort", "calls").output
    assert invoke("list", tmp_path, "--reverse").output.splitlines()[1].startswith("e.json")


def test_several_runs_are_shown_in_sequence(tmp_path: Path) -> None:
    """`show` reports a run that cannot be read, and shows the others. Without an argument it shows the newest run."""
    path, other = recorded(tmp_path / "one.json", "first"), recorded(tmp_path / "other.json", "second")

    done = invoke("show", path, tmp_path / "none.json", other)

    assert done.exit_code == 1
    shown = [
        line for line in done.output.splitlines() if line.startswith(("one.json", "other.json", "trace-recorder:"))
    ]
    assert shown == ["one.json", f"trace-recorder: {tmp_path / 'none.json'}: No such file or directory", "other.json"]
    documents = invoke("show", path, other, "--json").output
    first, end = json.JSONDecoder().raw_decode(documents)
    assert (first, json.loads(documents[end:])) == (load(path).to_document(), load(other).to_document())


def test_without_a_name_the_runs_of_the_default_directory_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`show`, `tail` and `validate` use the default directory, as `list` does."""
    monkeypatch.setenv("TRACE_RECORDER_DIR", str(tmp_path))
    recorded(tmp_path / "one.json")

    assert "one.json" in invoke("show").output
    assert "the run has ended: completed" in invoke("tail").output
    assert ": ok" in invoke("validate").output
