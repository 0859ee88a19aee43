"""What an update of an index costs grows with the change, not with the index. Pages and bytes are counted."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.catalog.many_runs import QUERY_FIELDS, make_runs, random_query, record_run, settle
from tests.cli.invoking import recorded
from trace_recorder import open_index
from trace_recorder.catalog.index import RunIndex
from trace_recorder.catalog.index_file import IndexWriter, reading
from trace_recorder.catalog.index_limits import IndexLimits
from trace_recorder.catalog.planning import known_counted, known_runs
from trace_recorder.catalog.searched_values import TextInRun, TextSearch
from trace_recorder.catalog.text_tables import TextTables
from trace_recorder.catalog.value_tables import FactTables, KeptPart

PARTS: tuple[KeptPart, ...] = ("row", "stats", "summary", "measures")
SMALL = IndexLimits(word_table_characters=30_000, block_characters=60, free_pages=4, pages_at_once=5)
"""Limits with which a few runs need several tables of words and blocks."""
RUN_CHARACTERS = 3_000
PAGE_BYTES = 4096


def state_of(index: RunIndex) -> dict[bytes, list[object]]:
    """Return all that an index has kept of each run, without the paths of files."""
    parts = [known_runs(index.directory, index=index.path, part=part) for part in PARTS]
    counted = known_counted(index.directory, index=index.path)
    return {name: [*(of_part[name][1] for of_part in parts), counted[name][1]] for name in parts[0]}


def test_after_any_changes_an_index_equals_a_new_one(tmp_path: Path) -> None:
    """After runs were added, changed, moved and deleted, an index has the rows, texts and answers of a new index."""
    runs, chosen = make_runs(tmp_path / "runs", 9), random.Random(4)
    index = open_index(runs)
    for step in range(4):
        paths = sorted(path for path in runs.rglob("run*.json") if path.is_file())
        changed, moved, deleted = chosen.sample(paths, 3)
        for path in (changed, deleted):
            path.unlink()
            path.with_suffix(".jsonl").unlink()
        record_run(changed, 100 + step)
        for suffix in (".json", ".jsonl"):
            moved.with_suffix(suffix).rename(moved.with_name(f"run_moved{step}{suffix}"))
        record_run(runs / f"run_new{step}.json", chosen.randrange(9))  # it has texts of an earlier run
        settle(runs)
        open_index(runs).update(transaction_runs=chosen.choice([1, 2, 1000]), limits=SMALL)

        new = open_index(runs, tmp_path / f"new{step}")
        new.update()
        assert state_of(index) == state_of(new)
        assert sorted(index.contents()) == sorted(new.contents())
        for number in range(30):
            query = random_query(chosen, field=QUERY_FIELDS[(number + step) % len(QUERY_FIELDS)])
            assert [*index.find(query)] == [*new.find(query)], query
        assert [*new.find("alpha")] != []


def test_texts_with_equal_digests_are_different_texts(tmp_path: Path) -> None:
    """Digests are short, so two texts may have the same. They are then stored apart, and deleted apart."""
    runs = make_runs(tmp_path / "runs", 9)
    index, queries = open_index(runs), [random_query(random.Random(seed), field="words") for seed in range(20)]
    limits = IndexLimits(digest_bytes=1)
    index.update(limits=limits)
    for name in ("run0", "run3"):
        for path in runs.glob(f"{name}.json*"):
            path.unlink()
    index.update(limits=limits)
    new = open_index(runs, tmp_path / "new")
    new.update()

    assert {*index.contents()} == {*new.contents()}
    assert [[*index.find(query)] for query in queries] == [[*new.find(query)] for query in queries]


def text_of(number: int) -> str:
    """Return a text with words of its own, and with words that all texts have."""
    chosen = random.Random(number)
    own = [f"word{chosen.randrange(10**6)}" for _ in range(RUN_CHARACTERS // 20)]
    return " ".join(word for each in own for word in (each, "exit", "code"))


def changed_pages(path: Path, before: bytes) -> int:
    """Return how many pages of a file differ."""
    after = path.read_bytes()
    starts = range(0, max(len(before), len(after)), PAGE_BYTES)
    return sum(before[start : start + PAGE_BYTES] != after[start : start + PAGE_BYTES] for start in starts)


def indexed(directory: Path, count: int) -> RunIndex:
    """Return the index of new runs with texts of their own."""
    for number in range(count):
        recorded(directory / f"run{number:03}.json", text_of(number))
    settle(directory)
    index = open_index(directory)
    index.update(limits=SMALL)
    return index


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> list[RunIndex]:
    """Return the indexes of 40 and of 120 runs."""
    return [indexed(tmp_path_factory.mktemp("runs"), count) for count in (40, 120)]


def copied(index: RunIndex, to: Path) -> RunIndex:
    """Return a copy of a directory with its index."""
    shutil.copytree(index.directory, to)
    return open_index(to)


def test_one_changed_run_costs_the_same_in_a_larger_index(indexes: list[RunIndex], tmp_path: Path) -> None:
    """An update after one changed run writes about as many pages in an index of three times the size."""
    pages = []
    for number, original in enumerate(indexes):
        index = copied(original, tmp_path / str(number))
        for path in index.directory.glob("run005.json*"):
            path.unlink()
        recorded(index.directory / "run005.json", text_of(1000))
        settle_one(index.directory / "run005.json")
        before = index.path.read_bytes()
        assert index.update(limits=SMALL).read == 1
        pages.append(changed_pages(index.path, before))
        assert [path.name for path in index.find(text_of(1000).split()[0])] == ["run005.json"]

    assert pages[1] <= pages[0] + 3
    assert pages[1] < len(before) / PAGE_BYTES / 3


def settle_one(run: Path) -> None:
    """Set the times of one run's files to the past."""
    place = run.parent / "settled"
    place.mkdir()
    for path in (run, run.with_suffix(".jsonl")):
        path.rename(place / path.name)
    settle(place)
    for path in sorted(place.iterdir()):
        path.rename(run.parent / path.name)
    place.rmdir()


def test_an_update_without_changes_writes_nothing_but_the_time(indexes: list[RunIndex], tmp_path: Path) -> None:
    """An update that finds no change writes at most the page with the time, and the first page."""
    index = copied(indexes[0], tmp_path / "copy")
    before = index.path.read_bytes()

    assert index.update().read == 0
    assert changed_pages(index.path, before) <= 2


class MeasuringWriter(IndexWriter):
    """A writer that notes how many pages each transaction changes."""

    changes: tuple[int, ...] = ()

    def commit(self) -> None:
        """End the transaction."""
        before = self.path.read_bytes()
        super().commit()
        self.changes += (changed_pages(self.path, before),)


def test_each_transaction_of_a_removal_is_small(indexes: list[RunIndex], tmp_path: Path) -> None:
    """Removing runs from all tables of words changes a limited number of pages at a time, and the space comes back."""
    largest, shares = [], []
    for number, original in enumerate(indexes):
        index = copied(original, tmp_path / str(number))
        before = index.path.stat().st_size
        with closing(MeasuringWriter(index.path, index.directory, SMALL)) as writer:
            known = writer.tables.files()
            for removed, run in enumerate([*known[::3], *known[1::3]]):
                writer.tables.remove(run.run)
                if removed % 5 == 4:
                    writer.commit()
            writer.finish()
            largest.append(max(writer.changes))
        shares.append(index.path.stat().st_size / before)

    assert largest[1] <= largest[0] * 1.5
    assert shares[1] < 0.8


def test_an_index_without_runs_has_no_tables_of_words(indexes: list[RunIndex], tmp_path: Path) -> None:
    """The tables of words go with their last text, and almost all space comes back."""
    index = copied(indexes[1], tmp_path / "copy")
    for path in index.directory.glob("run*"):
        path.unlink()
    before = index.path.stat().st_size
    index.update(limits=SMALL)

    with reading(index.path, index.directory) as tables:
        assert tables is not None
        names = [name for (name,) in tables.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert [name for name in names if name.startswith("words_")] == []
    assert index.path.stat().st_size < before / 3


def test_a_common_text_has_one_block_and_its_words_once(tmp_path: Path) -> None:
    """A system prompt of all runs is stored once. It stays while any run has it."""
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as connection:
        tables = FactTables(connection)
        tables.create()
        texts = TextTables(connection)
        prompt = TextInRun(1, "prompts", "system", "Be very brief. " * 500)
        numbers = [texts.add(run, [prompt, TextInRun(1, "answers", "answer", f"answer {run}")]) for run in range(50)]
        texts.flush()
        size = connection.execute("SELECT sum(length(data)) FROM blocks").fetchone()[0]
        for run in range(49):
            texts.remove_uses(run, numbers[run])
            texts.delete_unused(numbers[run])

        assert {of_run[0] for of_run in numbers} == {1}
        assert size < 50 * 60
        assert sorted(texts.texts()) == [prompt.text, "answer 49"]
        assert texts.runs_with(text_search("brief")) == texts.runs_with(text_search("49")) == {49}
        assert texts.runs_with(text_search("48")) == set()


def text_search(words: str) -> TextSearch:
    """Return a search for words."""
    return TextSearch(f'"{words}"')


def test_forgetting_nothing_changes_no_index(tmp_path: Path) -> None:
    """An index from which nothing is removed is still believed."""
    recorded(tmp_path / "run.json")
    settle(tmp_path)
    open_index(tmp_path).update()

    open_index(tmp_path).forget()

    assert open_index(tmp_path).update().read == 0
