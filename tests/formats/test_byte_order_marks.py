"""Files with a byte order mark, in UTF-8, UTF-16 or UTF-32, are read like the same files without it."""

from __future__ import annotations

import codecs
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import zstd
from tests.cli.invoking import invoke
from tests.formats.files import DIRECTORY, PRODUCED
from tests.searching import part_of
from trace_recorder import TrajectoryFormatError, TrajectoryRecorder, load
from trace_recorder.formats.any_file import load_each
from trace_recorder.reading.validate import validate
from trace_recorder.storage.byte_order_marks import stream_without_mark, without_mark

_MARKED: dict[str, Callable[[str], bytes]] = {
    "UTF-8": lambda text: codecs.BOM_UTF8 + text.encode(),
    "UTF-16 LE": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "UTF-16 BE": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
}
_UTF_32 = codecs.BOM_UTF32_LE + "é".encode("utf-32-le")
_EVERY_FORM = pytest.mark.parametrize("mark", _MARKED.values(), ids=_MARKED)
_ROOTS = [folder for folder in (PRODUCED, DIRECTORY) if folder.is_dir()]
_FOLDERS = sorted(path for root in _ROOTS for path in root.iterdir() if path.is_dir())


def _text_of(path: Path) -> str | None:
    """Return the text of a file, or None for a database or an archive."""
    data = path.read_bytes()
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _read(path: Path) -> list[Any] | str:
    """Return the documents of the runs of a file, or the type of the error."""
    try:
        return [json.loads(json.dumps(run.to_document())) for run in load_each(path)]
    except TrajectoryFormatError as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("number", "folder"), [*enumerate(_FOLDERS)], ids=[f"{path.parent.name}/{path.name}" for path in _FOLDERS]
)
def test_a_foreign_file_with_a_mark_equals_the_plain_one(number: int, folder: Path, tmp_path: Path) -> None:
    """In CI, the files of each folder get one mark."""
    originals = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    plain = {path: _read(path) for path in originals}
    for mark in part_of([*_MARKED.values()], len(_MARKED), number % len(_MARKED)):
        marked = Path(shutil.copytree(folder, tmp_path / folder.name))  # with the files that a session refers to
        copies = {path: marked / path.relative_to(folder) for path in originals}
        for path, copy in copies.items():
            if (text := _text_of(path)) is not None:
                copy.chmod(0o600)
                copy.write_bytes(mark(text))
        assert {path: _read(copy) for path, copy in copies.items()} == plain
        shutil.rmtree(marked)


def _recorded(directory: Path) -> Path:
    with TrajectoryRecorder(directory / "run.json", task="Grüße") as recorder:
        recorder.record_llm_interaction("Frage é", "Antwort ü", "p", "m")
    return directory / "run.json"


@_EVERY_FORM
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_our_own_files_with_a_mark_are_read_and_valid(mark: Callable[[str], bytes], end: str, tmp_path: Path) -> None:
    path = _recorded(tmp_path)
    plain = load(path)
    for name in ("run.json", "run.jsonl"):
        (tmp_path / name).write_bytes(mark((tmp_path / name).read_text().replace("\n", end)))
    (tmp_path / "alone").mkdir()
    alone = Path(shutil.copy(path, tmp_path / "alone" / "run.json"))

    read = load(path)
    assert read.to_document() == plain.to_document()
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []
    said = [(call.input_messages[0].content, call.response.content) for call in load(alone).llm_interactions]
    assert said == [("Frage é", "Antwort ü")]
    assert "Grüße" in invoke("list", tmp_path / "alone").stdout


def test_a_journal_whose_line_ends_were_converted_has_no_gaps(tmp_path: Path) -> None:
    path = _recorded(tmp_path)
    plain = load(path)
    journal = path.with_suffix(".jsonl")
    journal.write_bytes(journal.read_bytes().replace(b"\n", b"\r\n"))
    assert load(path).to_document() == plain.to_document()


@_EVERY_FORM
def test_a_compressed_file_with_a_mark_is_read(mark: Callable[[str], bytes], tmp_path: Path) -> None:
    [plain] = sorted((PRODUCED / "codex-exec").iterdir())[:1]
    packed = tmp_path / plain.name
    packed.write_bytes(zstd.compress(mark(plain.read_text())))
    assert _read(packed) == _read(plain)


@_EVERY_FORM
def test_a_text_that_is_read_in_parts_equals_its_whole(mark: Callable[[str], bytes], tmp_path: Path) -> None:
    text = "aé漢😀\r\n" * 50_000
    path = tmp_path / "text"
    path.write_bytes(mark(text))
    with stream_without_mark(path.open("rb")) as stream:
        parts = [*iter(lambda: stream.read(4_099), b"")]
    assert b"".join(parts) == without_mark(path.read_bytes()) == text.encode()


def test_utf_32_is_not_taken_for_utf_16() -> None:
    assert without_mark(_UTF_32) == "é".encode()


def test_half_a_character_at_the_end_is_replaced() -> None:
    assert without_mark(codecs.BOM_UTF16_LE + b"a\0b") == "a\ufffd".encode()
