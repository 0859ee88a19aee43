"""retention.toml: runs that are too young stay, whatever is asked for, and a file that is not understood stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.retention.stored import store, tree
from trace_recorder import RetentionError, prune


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with runs of 10, 40 and 400 days, of which those in `audit` were audited."""
    directory = tmp_path / "runs"
    for days in (10, 40, 400):
        store(directory / f"{days}.json", days=days)
        store(directory / "audit" / f"{days}.json", days=days, metadata={"audit": 1})
    return directory


def going(*paths: Path) -> list[str]:
    """Return which runs go if all are selected."""
    return [f"{run.path.parent.name}/{run.path.stem}" for run in prune(*paths, where="calls>0", max_size=0).runs]


def test_no_run_is_deleted_that_is_too_young(directory: Path) -> None:
    """The longest of the ages that apply to a run decides. `yes` and `max_size` do not change it."""
    (directory / "retention.toml").write_text(
        'min_age = "30d"\n[[keep]]\nwhere = "meta:audit"\nmin_age = "52w"\n', encoding="utf-8"
    )

    assert going(directory) == ["runs/400", "audit/400", "runs/40"]
    done = prune(directory, max_size=0, yes=True)
    assert [run.path.name for run in done.runs] == ["400.json", "400.json", "40.json"]
    assert {(run.path.name, run.reason, run.why) for run in done.staying} == {
        ("10.json", "young", f"it ended 10.0 days ago, and {directory / 'retention.toml'} keeps runs for 30d"),
        (
            "40.json",
            "young",
            f"it ended 40.0 days ago, and {directory / 'retention.toml'} keeps runs that match 'meta:audit' for 52w",
        ),
    }


def test_the_files_of_all_parent_directories_apply(directory: Path) -> None:
    """A subdirectory, a run or a link as the path on the command line gets around no rule above it."""
    (directory.parent / "retention.toml").write_text('min_age = "30d"')
    (directory / "audit" / "retention.toml").write_text('min_age = "100d"')
    link = directory.parent.parent / f"{directory.parent.name}-link"
    link.symlink_to(directory / "audit")

    assert going(directory) == ["runs/400", "audit/400", "runs/40"]
    assert going(directory / "audit") == ["audit/400"]
    assert going(directory / "10.json", directory / "audit" / "40.json") == []
    assert going(link) == [f"{link.name}/400"]


def _without(path: Path, member: str) -> str:
    return "".join(line for line in path.read_text().splitlines(keepends=True) if member not in line)


def test_a_run_of_unknown_age_stays(tmp_path: Path) -> None:
    """The age counts from the end, or else from the start. A run without either is never old enough."""
    document = store(tmp_path / "run.json", days=90)
    document.with_suffix(".jsonl").unlink()
    document.write_text(_without(document, '"start_time"'))
    assert [run.path for run in prune(tmp_path, max_size=0).runs] == [document]
    document.write_text(_without(document, '"end_time"'))
    (tmp_path / "retention.toml").write_text('min_age = "1d"')

    assert [run.why for run in prune(tmp_path, max_size=0).staying] == [
        f"it has no time, and {tmp_path / 'retention.toml'} keeps runs for 1d"
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("min_age = 30", "min_age is 30, and must be a text"),
        ('min_age = "a month"', "min_age is 'a month', and must be"),
        ('min_age = "2020-01-01"', "min_age is '2020-01-01'"),
        ('minage = "30d"', "'minage' is unknown here. The known names are min_age, keep"),
        ('[[keep]]\nwhere = "calls>0"', "min_age is None"),
        ('[[keep]]\nmin_age = "1d"', "needs a query"),
        ('[[keep]]\nwhere = "status:odd"\nmin_age = "1d"', "'odd' is not one of"),
        ('[[keep]]\nwhere = "calls>0"\nmin_age = "1d"\ntag = 1', "'tag' is unknown here"),
        ('keep = "all"', "write each rule as a table"),
        ("min_age = ", "is not TOML"),
        ("\udcff", "is not TOML"),
    ],
)
def test_a_file_that_is_not_understood_stops_the_command(tmp_path: Path, text: str, why: str) -> None:
    store(tmp_path / "run.json")
    file = tmp_path / "retention.toml"
    file.write_text(text, errors="surrogateescape")
    before = tree(tmp_path)

    with pytest.raises(RetentionError) as raised:
        prune(tmp_path, max_size=0, yes=True)
    done = invoke("prune", tmp_path, "--max-size", "0", "--yes")

    assert (str(file) in str(raised.value), why in str(raised.value)) == (True, True)
    assert (done.exit_code, done.stdout, str(raised.value) in done.stderr) == (1, "", True)
    assert tree(tmp_path) == before


def test_a_rule_that_cannot_be_read_stops_the_command(tmp_path: Path) -> None:
    """A directory, or a link without a target, in the place of the file is not taken for "no rule"."""
    store(tmp_path / "run.json")
    (tmp_path / "retention.toml").symlink_to(tmp_path / "nowhere")
    linked = invoke("prune", tmp_path, "--max-size", "0", "--yes")
    (tmp_path / "retention.toml").unlink()
    (tmp_path / "retention.toml").mkdir()
    placed = invoke("prune", tmp_path, "--max-size", "0", "--yes")

    assert (linked.exit_code, placed.exit_code, (tmp_path / "run.jsonl").exists()) == (1, 1, True)
    assert "retention.toml: Is a directory. Nothing was deleted" in placed.stderr
