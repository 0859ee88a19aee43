"""A shared file: the runs that `share` has written into one zip, or into one HTML page that has such a zip.

The zip has a manifest, and for each run its journal and its document. The page shows the runs, and has the zip with the
journals alone, in base64. Reading takes the journals. Nothing of a shared file is trusted: the archive is read within
limits (`zip_archive.py`), and a name in it is only a key, never a path.
"""

from __future__ import annotations

import base64
import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

from trace_recorder.decompression import FREE_BYTES, MAX_RATIO
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.zip_archive import ZIP_BEGIN, Archive, MemberError
from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.values.messages import Payload

MANIFEST = "trace-recorder-share.json"
"""The name of the member that makes a zip a shared file, and says what is in it."""
SCHEMA, VERSION = "trace-recorder/share", 1
PAGE_MARK = b'<meta name="trace-recorder-share" content="1">'
"""The element in the head of a page that has runs."""
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_MAX_PAGE_BYTES = 4 * 1024 * 1024 * 1024
_BEGIN, _END = b'<script type="application/zip" id="trace-recorder-runs">', b"</script>"
_PART_BYTES = 3 * 256 * 1024
"""A multiple of three, so that the base64 of the parts can be joined."""
_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of each member. The time of the share is nobody's business."""


class SharedRun(NamedTuple):
    """A run in a shared file: its name, and the lines of its journal."""

    name: str
    lines: list[bytes]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_shared(source: Source) -> bool:
    """Return whether a file is a shared file. Raises OSError, and TrajectoryFormatError for a damaged zip."""
    if source.head.startswith(ZIP_BEGIN):
        return zipfile.is_zipfile(source.path) and MANIFEST in Archive(source.path, 0).members
    return PAGE_MARK in source.head


def shared_runs(source: Source) -> Iterator[SharedRun]:
    """Yield the runs of a shared file, one at a time. Raises OSError, and TrajectoryFormatError if it is damaged."""
    path, content = source.path, None
    if not source.head.startswith(ZIP_BEGIN):
        content = _zip_in_page(path)
    archive = Archive(path, _MAX_PAGE_BYTES, content=content)
    for entry in as_list(_manifest(archive, path).get("runs")):
        name, member = as_text(as_dict(entry).get("name")), as_text(as_dict(entry).get("journal"))
        if name is None or member not in archive.members:
            raise TrajectoryFormatError(f"{path} is damaged: a run that its manifest names is not in it.")
        yield SharedRun(name, _read(archive, member).splitlines(keepends=True))


def _manifest(archive: Archive, path: Path) -> dict[str, Payload]:
    if MANIFEST not in archive.members or archive.members[MANIFEST].file_size > _MAX_MANIFEST_BYTES:
        raise TrajectoryFormatError(f"{path} is damaged: it has no readable {MANIFEST}.")
    try:
        manifest = as_dict(json.loads(_read(archive, MANIFEST)))
    except ours(ValueError, RecursionError):
        raise TrajectoryFormatError(f"{path} is damaged: its {MANIFEST} is not JSON.") from None
    version = manifest.get("version")
    if manifest.get("schema") != SCHEMA or not isinstance(version, int):
        raise TrajectoryFormatError(f"{path} is not a shared file: its {MANIFEST} has another form.")
    if version > VERSION:
        raise TrajectoryFormatError(
            f"{path} is a shared file of version {version}, and this trace_recorder reads up to {VERSION}. Install a "
            "newer trace_recorder to read it."
        )
    return manifest


def _read(archive: Archive, member: str) -> bytes:
    try:
        return archive.read(member)
    except MemberError as error:
        raise TrajectoryFormatError(f"{archive.path} cannot be read: of {member[:80]!r}, {error}.") from None


def _zip_in_page(path: Path) -> bytes:
    """Return the zip in a page. It is the last element of its kind, because recorded texts come before it."""
    if path.stat().st_size > _MAX_PAGE_BYTES:
        raise TrajectoryFormatError(f"{path} has more than {_MAX_PAGE_BYTES} bytes, the most that is read of a page.")
    page = path.read_bytes()
    begin = page.rfind(_BEGIN)
    end = page.find(_END, begin)
    if begin < 0 or end < 0:
        raise TrajectoryFormatError(f"{path} is damaged: the page has no runs in it.")
    try:
        return base64.b64decode(page[begin + len(_BEGIN) : end], validate=True)
    except ours(ValueError):
        raise TrajectoryFormatError(f"{path} is damaged: the runs in the page are not base64.") from None


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class SharedZip:
    """A zip that is written member by member. The end of its block writes the manifest, and completes the zip."""

    def __init__(self, file: IO[bytes], about: dict[str, Payload]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._about = about
        self._runs: list[Payload] = []

    def add_run(self, name: str, journal: Path, document: Path | None) -> None:
        """Add the files of a run. Raises OSError."""
        self._add(f"{name}.jsonl", journal)
        if document is not None:
            self._add(f"{name}.json", document)
        self._runs.append({"name": name, "journal": f"{name}.jsonl"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            manifest = {"schema": SCHEMA, "version": VERSION, **self._about, "runs": self._runs}
            with self._zip.open(_info(MANIFEST), "w") as member:
                member.write(json.dumps(manifest, indent=1).encode())
            self._zip.close()
            return
        with suppress(OSError, ValueError):  # so that its destructor does not do it
            self._zip.close()

    def _add(self, name: str, path: Path) -> None:
        """Add a file. One that is compressed so well that readers would refuse it is stored as it is."""
        method = zipfile.ZIP_DEFLATED
        if path.stat().st_size > FREE_BYTES and _is_too_regular(path):
            method = zipfile.ZIP_STORED
        with path.open("rb") as file, self._zip.open(_info(name, method), "w", force_zip64=True) as member:
            while part := file.read(1024 * 1024):
                member.write(part)


def _is_too_regular(path: Path) -> bool:
    """Return whether zlib makes a file shorter than readers allow."""
    stream, size = zlib.compressobj(), 0
    with path.open("rb") as file:
        while part := file.read(1024 * 1024):
            size += len(stream.compress(part))
    return path.stat().st_size > MAX_RATIO // 2 * (size + len(stream.flush()))


def _info(name: str, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = method
    info.external_attr = 0o600 << 16
    return info


def page_with_runs(page: str, archive: Path) -> Iterator[bytes]:
    """Yield the bytes of a page with a zip in it."""
    head, begin, rest = page.partition("<head>")
    body, end, last = rest.rpartition("</body>")
    if not (begin and end):
        raise ValueError("the page has no head, or no body")
    yield f"{head}{begin}\n".encode() + PAGE_MARK + body.encode("utf-8", "replace") + _BEGIN
    with archive.open("rb") as file:
        while part := file.read(_PART_BYTES):
            yield base64.b64encode(part)
    yield _END + f"{end}{last}".encode()
