"""Indexes and tables lose the texts of redacted runs, and keep those of other runs, which are named."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.many_runs import settle
from tests.cli.invoking import invoke, recorded
from tests.retention.test_redaction_kills import files_with_text
from trace_recorder import open_index, redact
from trace_recorder.retention.derived_files import DerivedFiles
from trace_recorder.retention.leftovers import Leftover
from trace_recorder.retention.removed_texts import MASK, RemovedTexts
from trace_recorder.tables.parquet import TableFiles
from trace_recorder.tables.part_files import FORMS

TEXT = "Ann Lee and her seven files"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a directory with two runs that have the text, a run below it, an index and both forms of tables."""
    directory = tmp_path / "stored"
    recorded(directory / "run.json", f"it was {TEXT}", metadata={"by": TEXT})
    recorded(directory / "other.json", f"so it was {TEXT}")
    recorded(directory / "below" / "none.json", "nobody")
    settle(directory)
    assert invoke("export", directory, "-f", "parquet", "-o", directory / "tables").exit_code == 0
    assert invoke("export", directory, "-f", "parquet", "--form", "scout", "-o", directory / "scout").exit_code == 0
    assert open_index(directory).update().runs == 3
    return directory


def table_files(directory: Path) -> list[Path]:
    """Return the Parquet files below a directory."""
    return sorted(directory.rglob("*.parquet"))


def cells(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables."""
    parquet = import_module("pyarrow.parquet")
    return {str(path.relative_to(directory)): parquet.read_table(path).to_pylist() for path in table_files(directory)}


def test_rows_of_the_run_change_and_no_others(stored: Path) -> None:
    """In each table, the text goes from the rows of the redacted run. Schemas and metadata stay."""
    before = cells(stored)
    parquet = import_module("pyarrow.parquet")
    schemas = {path: parquet.ParquetFile(path).schema_arrow for path in table_files(stored)}

    redact(stored / "run.json", text=TEXT)

    expected = json.loads(json.dumps(before, default=str).replace(f"it was {TEXT}", f"it was {MASK}"))
    after = json.loads(json.dumps(cells(stored), default=str))
    for table, rows in after.items():
        for row, old in zip(rows, expected[table], strict=True):
            if "other" in str(row.get("file") or row.get("source_uri")):
                assert json.dumps(row).replace(f"so it was {TEXT}", f"so it was {MASK}") == json.dumps(old)
            else:
                assert json.dumps(row) == json.dumps(old).replace(TEXT, MASK)
    assert {path: parquet.ParquetFile(path).schema_arrow for path in table_files(stored)} == schemas


def test_the_text_is_in_no_file_after_both_runs_were_redacted(stored: Path) -> None:
    """The index has no word of it in a free page either, and still answers."""
    index = stored / ".trace-recorder.sqlite3"
    assert index.name in files_with_text(stored)

    first, second = (redact(stored / name, text=TEXT) for name in ("run.json", "other.json"))

    assert (first.leftovers, second.leftovers, files_with_text(stored)) == ((), (), [])
    assert (first.others, second.others) == ((stored / "other.json",), ())
    assert sorted(path.name for path in open_index(stored).find("text~REDACTED")) == ["other.json", "run.json"]
    assert [*open_index(stored).find('"seven files"')] == []


def test_other_runs_with_the_text_are_named(stored: Path) -> None:
    """They are found by a text in any spelling, or by a pattern, and are not changed."""
    recorded(stored / "below" / "spelled.json", json.dumps(json.dumps("Jörg Lee")))
    before = {path: path.read_bytes() for path in stored.glob("*.json*")}

    def others(*texts: str, **patterns: Any) -> list[str]:
        derived = DerivedFiles([stored / "run.json"], RemovedTexts(texts, **patterns), directories=[stored])
        return [path.name for path in derived.others()]

    assert others(TEXT) == ["other.json"]
    assert others("Jörg Lee") == ["spelled.json"]
    assert others(patterns=[re.compile("so it w.s")]) == ["other.json"]
    assert others("not there") == []
    assert {path: path.read_bytes() for path in before} == before


def test_what_is_left_in_a_table_is_named(stored: Path) -> None:
    """If a table cannot be written, its file is named."""
    redact(stored / "other.json", text=TEXT)
    derived = DerivedFiles([stored / "run.json"], RemovedTexts([TEXT]), directories=[stored])

    left = sorted(leftover.file.parent.name for leftover in derived.leftovers([]) if leftover.file.suffix == ".parquet")

    assert left == ["calls", "runs", "steps", "transcripts"]


def test_an_export_that_writes_tables_loses_no_file(stored: Path) -> None:
    """Its lock is that of the first table, and its temporary files stay, also those of the other tables."""
    with TableFiles(stored / "tables", FORMS["tables"], resume=True):
        before = [stored / "tables" / table / ".part-00001.parquet.a.tmp" for table in FORMS["tables"]]
        for temporary in before:  # as in the middle of `add`
            temporary.touch()

        with pytest.raises(BlockingIOError, match="another process writes"):
            redact(stored / "run.json", text=TEXT)

        assert sorted(stored.rglob(".part-*.tmp")) == sorted(before)
    assert redact(stored / "run.json", text=TEXT).leftovers == ()


def test_rows_are_found_by_the_id_of_the_document_if_the_first_line_of_the_journal_is_damaged(stored: Path) -> None:
    """The id of the run is in the document too, so its rows change, also those of an export before the damage."""
    journal = stored / "run.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"kind":"start"', b'"kind":"stXXt"', 1))

    assert [str(one) for one in redact(stored / "run.json", text=TEXT).leftovers if one.file.suffix == ".parquet"] == []
    assert f'"it was {TEXT}' not in json.dumps(cells(stored), default=str)
    assert f'"so it was {TEXT}' in json.dumps(cells(stored), default=str)


def test_tables_of_another_program_stay_and_are_named(stored: Path) -> None:
    """A file without the metadata of an export is not written again. Its rows with the text are named."""
    parquet = import_module("pyarrow.parquet")
    path = stored / "scout" / "transcripts" / "part-00000.parquet"
    parquet.write_table(parquet.read_table(path).replace_schema_metadata(), path)
    before = path.read_bytes()

    left = redact(stored / "run.json", text=TEXT).leftovers

    assert [one for one in left if one.file.suffix == ".parquet"] == [Leftover(path, "rows of these runs")]
    assert path.read_bytes() == before
