"""`trace-recorder redact` counts first, removes only with --yes, and says what is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from trace_recorder import load

MASK = "[REDACTED:removed]"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with two runs, of which one has the text."""
    recorded(tmp_path / "runs" / "one.json", "it was Ann Lee", metadata={"by": "Ann Lee"})
    recorded(tmp_path / "runs" / "two.json", "nobody")
    (tmp_path / "text").write_text("Ann Lee\n")
    return tmp_path / "runs"


def test_without_yes_it_counts(runs: Path) -> None:
    """It names the runs with their places, prints no text that would be removed, and changes no byte."""
    before = {path: path.read_bytes() for path in runs.iterdir()}

    result = invoke("redact", runs, "--text-from", runs.parent / "text")

    assert (result.exit_code, result.stdout) == (0, f"{runs}/one.json: 2 places (1 llm_interaction, 1 start)\n")
    assert result.stderr == "trace-recorder: 2 places in 1 run: nothing was changed; --yes removes them\n"
    assert {path: path.read_bytes() for path in runs.iterdir()} == before


def test_with_yes_it_removes(runs: Path) -> None:
    """The text comes from stdin, and is in no file then."""
    result = invoke("redact", runs, "--text-from", "-", "--yes", stdin="Ann Lee\n")

    assert (result.exit_code, result.stderr) == (0, "trace-recorder: 2 places in 1 run removed, 0 places left\n")
    assert load(runs / "one.json").metadata == {"by": MASK}
    assert b"Ann Lee" not in b"".join(path.read_bytes() for path in runs.iterdir())


def test_show_says_when_and_by_which_rules(runs: Path) -> None:
    """It never says what."""
    invoke("redact", runs, "--pattern", "Ann L..", "--yes")

    [line] = [line for line in invoke("show", runs / "one.json").stdout.splitlines() if line.startswith("  removed")]
    assert line.endswith(": 2 places, by pattern")


def test_rules_may_be_combined(runs: Path) -> None:
    """Each option may be repeated."""
    (runs.parent / "mine.py").write_text("def quiet(text):\n    return text.replace('nobody', 'no one')\n")
    arguments = ["--path", "task", "--pattern", "it was", "--text-from", runs.parent / "text"]

    result = invoke("redact", runs, *arguments, "--function", f"{runs.parent / 'mine.py'}:quiet", "--yes")

    assert result.exit_code == 0
    loaded = [load(runs / name) for name in ("one.json", "two.json")]
    answers = [run.llm_interactions[0].response.content for run in loaded]
    assert (answers, [run.task for run in loaded]) == ([f"{MASK} {MASK}", "no one"], [MASK, MASK])


def test_a_query_selects_runs(runs: Path) -> None:
    """Other runs with the text are named, and not changed."""
    recorded(runs / "three.json", "Ann Lee too", success=False)

    result = invoke("redact", runs, "--where", "is:failed", "--text-from", runs.parent / "text", "--yes")

    assert (result.exit_code, load(runs / "one.json").metadata) == (0, {"by": "Ann Lee"})
    assert f"{runs}/one.json: it has a removed text too, and was not selected" in result.stderr


def test_a_run_that_cannot_be_redacted_is_reported(runs: Path) -> None:
    """The others are redacted. The exit code is 1."""
    (runs / "other.json").write_text(json.dumps({"messages": ["Ann Lee"]}))

    result = invoke("redact", runs, "--text-from", runs.parent / "text", "--yes")

    assert (result.exit_code, load(runs / "one.json").metadata) == (1, {"by": MASK})
    assert "is a file of another tool" in result.stderr


def test_what_is_left_is_named(runs: Path) -> None:
    """A text in an id of the recorder stays, because other runs refer to it. The place is named."""
    identity = load(runs / "one.json").trajectory_id
    assert identity is not None
    (runs.parent / "text").write_text(identity)

    result = invoke("redact", runs / "one.json", "--text-from", runs.parent / "text", "--yes")

    assert result.exit_code == 1
    assert f"left: {runs}/one.jsonl: record 1 (start), /trajectory_id" in result.stderr
    assert result.stderr.endswith("0 places in 0 runs removed, 3 places left\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "nothing says what to remove"),
        (["--pattern", "("], "is not a regular expression"),
        (["--function", "nowhere:f"], "there is no module nowhere"),
        (["--path", "llm_1.."], "is not an address"),
        (["--text-from", "missing"], "missing"),
    ],
)
def test_misuse_is_one_sentence(arguments: list[str], why: str, runs: Path) -> None:
    """Nothing is read."""
    result = invoke("redact", runs, *arguments)

    assert (result.exit_code, why in result.stderr, len(result.stderr.splitlines())) == (1, True, 1)


def test_json_has_the_same(runs: Path) -> None:
    """For machines: the runs with their places, the written files, other runs with a text, and what is left."""
    recorded(runs / "three.json", "Ann Lee too", success=False)
    arguments = ["redact", runs, "--where", "-is:failed", "--text-from", runs.parent / "text", "--json"]
    run = {"path": str(runs / "one.json"), "count": 2, "places": {"llm_interaction": 1, "start": 1}}
    planned = {"removed": False, "runs": [run], "places": 2, "written": [], "others": [], "left": []}

    assert json.loads(invoke(*arguments).stdout) == planned
    done = {**planned, "removed": True, "others": [str(runs / "three.json")]}
    assert json.loads(invoke(*arguments, "--yes").stdout) == done


@pytest.mark.parametrize("name", ["prune", "redact"])
@pytest.mark.parametrize(
    ("path", "options", "why"),
    [
        ("runs", ["--index", "typo.sqlite3"], "o such file"),
        ("runs/one.json", ["--index", "text"], "an index belongs to one directory"),
        ("runs", ["--tables", "typo"], "there are no tables here"),
    ],
)
def test_a_wrong_index_or_table_is_refused(
    name: str, path: str, options: list[str], why: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is changed. An index would be new, or have other runs, or the texts would stay in tables."""
    monkeypatch.chdir(runs.parent)
    rule = ["--where", "is:success"] if name == "prune" else ["--text-from", "text"]
    before = {file: file.read_bytes() for file in runs.rglob("*") if file.is_file()}

    result = invoke(name, path, *rule, *options, "--yes")

    assert (result.exit_code in {1, 2}, why in " ".join(result.stderr.split())) == (True, True)
    assert {file: file.read_bytes() for file in runs.rglob("*") if file.is_file()} == before
    assert not Path("typo.sqlite3").exists()
