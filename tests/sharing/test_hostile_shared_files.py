"""Shared files that somebody else has made: bombs, paths, lies, cuts. Each is refused, and writes nothing."""

from __future__ import annotations

import base64
import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.cli.invoking import invoke, recorded
from trace_recorder import load, load_all
from trace_recorder.errors import TraceRecorderError, TrajectoryFormatError
from trace_recorder.formats.any_file import load_each
from trace_recorder.formats.shared_files import MANIFEST, SCHEMA

MB = 1024 * 1024


def _zip(path: Path, members: dict[str, bytes], runs: list[dict[str, object]], **changes: object) -> Path:
    manifest = {"schema": SCHEMA, "version": 1, "runs": runs, **changes}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
        file.writestr(MANIFEST, json.dumps(manifest))
    return path


def _bomb(path: Path) -> Path:
    return _zip(path, {"a.jsonl": b" " * (200 * MB)}, [{"name": "a", "journal": "a.jsonl"}])


def _missing(path: Path) -> Path:
    return _zip(path, {}, [{"name": "a", "journal": "a.jsonl"}])


def _nameless(path: Path) -> Path:
    return _zip(path, {"a.jsonl": b""}, [{"journal": "a.jsonl"}])


def _newer(path: Path) -> Path:
    return _zip(path, {}, [], version=2)


def _other(path: Path) -> Path:
    return _zip(path, {}, [], schema="other")


def _no_json(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(MANIFEST, b"[" * 100_000)
    return path


def _wrong_crc(path: Path) -> Path:
    _zip(path, {"a.jsonl": b"x" * 1000}, [{"name": "a", "journal": "a.jsonl"}])
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\x01\x02")
    first = data.index(b"PK\x01\x02")
    data[first + 16 : first + 20] = (zlib.crc32(b"other")).to_bytes(4, "little")
    assert place > first
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("make", [_bomb, _missing, _nameless, _newer, _other, _no_json, _wrong_crc])
def test_a_hostile_zip_is_refused(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """By `load`, and by commands in one sentence."""
    path = make(tmp_path / "hostile.zip")
    with pytest.raises(TrajectoryFormatError):
        list(load_each(path))
    result = invoke("import", path, "-o", tmp_path / "runs")
    assert (result.exit_code, [*tmp_path.glob("runs/*")]) == (1, [])
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "a/../../evil", "..", "C:\\evil", "evil\0", "e" * 5000])
def test_a_name_in_a_zip_is_never_a_path(name: str, tmp_path: Path) -> None:
    """Runs are written below the directory that the user named, under names of letters."""
    journal = recorded(tmp_path / "source" / "run.json").with_suffix(".jsonl").read_bytes()
    inside = f"{name[:200]}.jsonl".replace("\0", "")
    path = _zip(tmp_path / "a.zip", {inside: journal}, [{"name": name, "journal": inside}])
    target = tmp_path / "deep" / "below" / "runs"
    assert invoke("import", path, "-o", target).exit_code == 0
    files = (file for file in tmp_path.rglob("*") if file.is_file() and file.name != ".gitignore")
    written = [file for file in files if "source" not in file.parts and file != path]
    assert sorted({file.suffix for file in written}) == [".json", ".jsonl"]
    assert {file.parent for file in written} == {target}
    assert len([*load_all(path)]) == 1


@pytest.mark.parametrize("content", [b"", b"!!!", base64.b64encode(b"no zip"), b"QUJD" * 10])
def test_a_page_with_something_else_in_it_is_refused(content: bytes, tmp_path: Path) -> None:
    """Also a page without any element, and a page whose end is cut off."""
    path = tmp_path / "a.html"
    invoke("share", recorded(tmp_path / "runs" / "run.json"), "-o", path, "--content", "full", "--yes")
    page = path.read_bytes()
    begin = page.rindex(b'id="trace-recorder-runs">') + len(b'id="trace-recorder-runs">')
    for hostile in (page[:begin] + content + b"</script></body></html>", page[: begin - 40], page[: begin + 100]):
        path.write_bytes(hostile)
        with pytest.raises(TrajectoryFormatError):
            load(path)


def test_any_damage_is_refused_or_read(tmp_path: Path) -> None:
    """No damaged zip raises anything but an error of this package."""
    path = tmp_path / "a.zip"
    invoke("share", recorded(tmp_path / "runs" / "run.json"), "-o", path, "--content", "full", "--yes")
    whole, refused = path.read_bytes(), 0
    for seed in range(150):
        random = Random(seed)
        data = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        path.write_bytes(data[: random.randint(1, len(data))] if seed % 3 == 0 else data)
        try:
            list(load_all(path))
        except TraceRecorderError:
            refused += 1
    assert refused > 50


def test_a_recorded_text_cannot_be_taken_for_the_runs(tmp_path: Path) -> None:
    """The element with the runs is the last of the page, and recorded texts are before it, escaped."""
    text = '</script><script type="application/zip" id="trace-recorder-runs">QUJD</script>'
    path = tmp_path / "a.html"
    source = recorded(tmp_path / "runs" / "run.json", text)
    invoke("share", source, "-o", path, "--content", "full", "--yes")
    assert load(path).to_document() == load(source).to_document()
    assert path.read_bytes().count(b'id="trace-recorder-runs"') == 1
