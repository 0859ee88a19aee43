"""Finds, reads and writes files at addresses of fsspec, such as `s3://bucket/runs` and `hf://…`.

A copy is fetched once for each version of its file (`copy_cache.py`). The version is the ETag that the store lists, or
the time of the last change. One listing states the versions of all files below an address. `forget` has the store
asked again. A copy has no writer, so a run without an end is read as interrupted.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NoReturn, TypeVar

from trace_recorder.errors import MissingExtraError, TraceRecorderError
from trace_recorder.guard import try_call
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.addresses import Part, RemoteFile, listed_files, listed_times, path_in, remote_address
from trace_recorder.storage.copy_cache import copy_cache, link_copy
from trace_recorder.storage.paths import document_path_for, journal_path_for
from trace_recorder.storage.run_files import run_names

T = TypeVar("T")
THREADS = 16
"""At most this many files are fetched at the same time."""
WHOLE_BYTES = 65536
"""A file with at most this many bytes is fetched as a whole, even if only its ends are needed."""
HEAD_BYTES = 16384
TAIL_BYTES = 16384
START_BYTES = 4096
_Extent = Literal["whole", "ends", "start"]
"""How much of a file is fetched."""
_WHOLE_BYTES: Mapping[_Extent, int] = {"whole": 0, "ends": WHOLE_BYTES, "start": START_BYTES}
"""A file with at most this many bytes is fetched as a whole."""
_ATTEMPTS = 3
_PARTS = "part-*.parquet"
"""The names of the Parquet files of a table."""
_MD5 = lazy_pattern(r"[0-9a-f]{32}")
_UNVERSIONED = os.urandom(8).hex()
"""The version of files of a store that states no versions. It differs in each process, so nothing is kept for long."""


class _ChangedError(Exception):
    """A file is no longer in the version that the store listed."""


# ── what is at an address ────────────────────────────────────────────────────────────────────────────────────────────


def remote_runs(url: str) -> list[Path]:
    """Return the paths of the runs at an address and below it, in the order of `run_files`.

    If the address is a file, return only the path of that file. The store is asked anew. Raises OSError.
    """
    return _in_store(url, partial(_runs_at, url))


def _runs_at(url: str) -> list[Path]:
    files, root = _file_system(url)
    is_named_like_run = root.endswith((".json", ".jsonl"))
    if is_named_like_run and _asked(Path(url), again=True) is not None:
        return [Path(url)]
    below: dict[tuple[str, ...], dict[str, RemoteFile]] = {}
    times: dict[tuple[str, ...], float | None] = {}
    listed: Mapping[str, Mapping[str, Any]] = files.find(root, detail=True)
    if list(listed) == [root]:
        listed_files[Path(url).as_posix()] = _remote_file(listed[root] or files.info(root))
        return [Path(url)]
    if not listed and not files.isdir(root):
        raise FileNotFoundError
    for name, info in listed.items():
        inner = PurePosixPath(name).relative_to(PurePosixPath(root))
        if not any(part.startswith(".") for part in inner.parts):
            below.setdefault(inner.parts[:-1], {})[inner.name] = _remote_file(info)
            times[inner.parts] = _changed(info)
    runs = []
    for parts in sorted(below):
        place, names = Path(url, *parts), run_names(sorted(below[parts]))
        for run in (place / name for name in names):
            for file in {run, journal_path_for(run), document_path_for(run)}:
                listed_files[file.as_posix()] = below[parts].get(file.name)
                changed = times.get((*parts, file.name))
                if changed is not None:
                    listed_times[file.as_posix()] = changed
            runs.append(run)
        copy_cache().keep_only(place.as_posix(), {journal_path_for(Path(name)).name for name in names})
    return runs


def remote_files(url: str, pattern: str) -> list[Path]:
    """Return the paths of the files at an address whose names match a pattern, such as tables. Raises OSError."""

    def matching() -> list[Path]:
        files, root = _file_system(url)
        try:
            names = files.ls(root, detail=True)
        except ours(FileNotFoundError):
            return []
        paths = []
        for info in sorted(names, key=lambda info: str(info["name"])):
            path = Path(url, PurePosixPath(info["name"]).name)
            if info["type"] == "file" and path.match(pattern):
                listed_files[path.as_posix()] = _remote_file(info)
                listed_files[journal_path_for(path).as_posix()] = None
                paths.append(path)
        return paths

    return _in_store(url, matching)


def is_remote_directory(url: str) -> bool:
    """Return whether an address is a directory. Without a suffix it is one, and `.json` and `.jsonl` are files' names.

    The store is asked only about an address with another suffix.
    """
    path = PurePosixPath(url.partition("://")[2])
    if path.suffix in {".json", ".jsonl"}:
        return False
    if not path.suffix or len(path.parts) == 1:
        return True
    files, root = _file_system(url)
    return _in_store(url, lambda: bool(files.isdir(root)))


def forget(path: Path) -> None:
    """Have the store asked again for the versions of the files of a run."""
    for file in (path, journal_path_for(path), document_path_for(path)):
        listed_files.pop(file.as_posix(), None)


def _asked(path: Path, *, again: bool = False) -> RemoteFile | None:
    """Return the file at an address, or None if there is none. Ask the store if it has not listed the file."""
    key = path.as_posix()
    if again or key not in listed_files:
        files, place = _file_system(remote_address(path) or key)
        info: Mapping[str, Any] = {"type": "missing"}
        with suppress(FileNotFoundError):
            info = files.info(place)
        listed_files[key] = None
        if info["type"] == "file":
            listed_files[key] = _remote_file(info)
    return listed_files[key]


def _times(info: Mapping[str, Any]) -> list[Any]:
    return [info[name] for name in ("mtime", "LastModified", "last_modified", "created") if info.get(name)]


def _changed(info: Mapping[str, Any]) -> float | None:
    """Return the time of a file's last change in seconds since 1970, or None if the store states it otherwise."""
    [time] = _times(info)[:1] or [None]
    if isinstance(time, datetime) and time.tzinfo is not None:
        return time.timestamp()
    if isinstance(time, int | float):
        return float(time)
    return None


def _remote_file(info: Mapping[str, Any]) -> RemoteFile:
    tags = [str(info[name]).strip('"') for name in ("ETag", "etag", "md5Hash", "blob_id", "sha256") if info.get(name)]
    times = _times(info)
    version = _UNVERSIONED
    if tags:
        version = tags[0]
    elif times and isinstance(times[0], datetime):  # a store may list seconds, and state a datetime for a single file
        version = str(times[0].timestamp())
    elif times:
        version = str(times[0])
    return RemoteFile(info["size"] or 0, version)


# ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def copied(path: Path, part: Part) -> Iterator[Path]:
    """Yield the path of a local copy of a file at an address, as `local_copy` does."""
    with copy_cache().working_directory() as directory:
        local = copy_of_run(path, directory, part)
        try:
            yield local
        except TraceRecorderError as error:
            raise type(error)(str(error).replace(str(local.with_suffix("")), str(path.with_suffix("")))) from None
        except ours(OSError) as error:
            if error.filename is None:
                raise
            raise type(error)(error.errno, error.strerror, str(path)) from None


def copy_of_run(path: Path, directory: Path, part: Part = "files") -> Path:
    """Put copies of a run's files at an address into a directory, and return the path of the named one.

    Raises FileNotFoundError if there is no file at the address, and OSError.
    """
    url = remote_address(path) or str(path)
    _in_store(url, partial(_copy_run, path, directory, part))
    return directory / path.name


def copy_runs(url: str, directory: Path) -> None:
    """Put copies of the runs at an address into a directory, at the same relative paths. Raises OSError."""
    root = Path(url)
    for run in fetched_ahead(remote_runs(url), "files"):
        target = directory
        if run != root:
            target = directory / run.relative_to(root).parent
        target.mkdir(parents=True, exist_ok=True)
        copy_of_run(run, target)


@contextmanager
def copied_directory(url: str) -> Iterator[Path]:
    """Yield a temporary directory with copies of the runs at an address, as `local_directory` does."""
    with tempfile.TemporaryDirectory(prefix="trace-recorder-copies-") as directory:
        copy_runs(url, Path(directory))
        yield Path(directory)


def _copy_run(path: Path, directory: Path, part: Part) -> None:
    copies = copy_cache()
    for _ in range(_ATTEMPTS):
        names = dict.fromkeys((path.name, journal_path_for(path).name, document_path_for(path).name))
        files = {name: _asked(path.with_name(name)) for name in names}
        if files[path.name] is None:
            raise FileNotFoundError
        version = copies.version(path.parent.as_posix(), journal_path_for(path).name, repr(files))
        try:
            complete = True
            for name, extent in _names_of_part(path, part, files):
                source, file = path.with_name(name), files[name]
                if file is not None and not _copy_file(source, file, version, directory, extent):
                    complete = False
            if complete:
                return
        except _ChangedError:
            forget(path)
    raise OSError(errno.EAGAIN, f"it changed {_ATTEMPTS} times while it was read; try again later")


def _names_of_part(path: Path, part: Part, files: Mapping[str, RemoteFile | None]) -> list[tuple[str, _Extent]]:
    """Return the names of the files that a part needs, and how much of each is enough."""
    journal = journal_path_for(path).name
    if part == "run" and files[journal] is not None:
        return [(journal, "whole")]
    if part == "files":
        return [(name, "whole") for name in files]
    if part == "start":
        return [(path.name, "start")]
    if part == "document" or path.name == journal:
        return [(path.name, "whole")]
    names: list[tuple[str, _Extent]] = [(path.name, "ends")]
    if part == "ends":
        names.append((journal, "ends"))
    return names


def _copy_file(path: Path, file: RemoteFile, version: Path, directory: Path, extent: _Extent) -> bool:
    """Put a copy of a file into a directory. Return False if another process has removed the copy in between.

    A shortened copy has as many bytes as the file, with NULs in place of what was not fetched. Raises _ChangedError.
    """
    target, name = directory / path.name, path.name
    copied_names = [name]
    if extent != "whole" and file.size > _WHOLE_BYTES[extent]:
        name = f"{extent}/{path.name}"
        copied_names.append(name)
    else:
        extent = "whole"
    if any(link_copy(version / copied_name, target) for copied_name in copied_names):
        return True
    copies = copy_cache()
    with copies.working_directory() as temporary:
        fetched = temporary / "file"
        if extent == "whole":
            _fetch(path, file, fetched)
        else:
            _fetch_ranges(path, file, fetched, extent)
        copies.add(fetched, version, name)
    return link_copy(version / name, target)


def _fetch(path: Path, file: RemoteFile, target: Path) -> None:
    """Fetch a file. Raises _ChangedError if the store has another version of it.

    In most stores, the ETag is the MD5 of the content. If the content has another MD5, the store is asked again.
    """
    files, place = _file_system(remote_address(path) or str(path))
    files.get_file(place, str(target))
    target.chmod(0o600)
    size = target.stat().st_size
    if size == file.size and _MD5.fullmatch(file.version):
        with target.open("rb") as content:
            if hashlib.file_digest(content, partial(hashlib.md5, usedforsecurity=False)).hexdigest() == file.version:
                return
    if _asked(path, again=True) != file:
        raise _ChangedError
    if size != file.size:
        raise OSError(errno.EIO, f"the store sent {size} of {file.size} bytes; try again")


def _fetch_ranges(path: Path, file: RemoteFile, target: Path, extent: _Extent) -> None:
    files, place = _file_system(remote_address(path) or str(path))
    ranges = [(0, HEAD_BYTES), (file.size - TAIL_BYTES, file.size)]
    if extent == "start":
        ranges = [(0, START_BYTES)]
    elif path.suffix == ".jsonl":
        ranges = ranges[1:]
    with target.open("xb") as copy:
        target.chmod(0o600)
        copy.truncate(file.size)
        for start, end in ranges:
            copy.seek(start)
            if copy.write(files.cat_file(place, start=start, end=end)) != end - start:
                raise _ChangedError


def fetched_ahead(tasks: Iterable[T], part: Part) -> Iterator[T]:
    """Yield the tasks. While the caller works on one, threads fetch copies for the next ones.

    A failure to fetch is not raised here, but when the caller opens the file.
    """
    waiting: deque[tuple[T, Future[None]]] = deque()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="trace-recorder-fetch") as pool:
        try:
            for task in tasks:
                waiting.append((task, pool.submit(_fetch_ahead, task, part)))
                if len(waiting) > 2 * THREADS:
                    oldest, fetching = waiting.popleft()
                    fetching.result()
                    yield oldest
            for oldest, fetching in waiting:
                fetching.result()
                yield oldest
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _fetch_ahead(task: object, part: Part) -> None:
    path = path_in(task)
    if path is not None:
        with suppress(OSError, TraceRecorderError), copied(path, part):
            pass


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def remote_output(url: str, *, force: bool) -> Iterator[Path]:
    """Yield a local path at which the caller creates a file or a directory.

    When the block ends, each file is copied to the address, and is there only when it is complete. Raises
    FileExistsError if the address exists and `force` is False, and OSError.
    """
    files, root = _file_system(url)
    if _in_store(url, lambda: bool(files.exists(root))) and not force:
        raise FileExistsError(f"{url} exists: give another -o, or --force to replace it")
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary, PurePosixPath(root).name or "out")
        yield output
        _in_store(url, partial(_put_all, files, root, output))


def _put_all(files: Any, root: str, output: Path) -> None:
    paths = sorted(filter(Path.is_file, (output, *output.rglob("*"))))
    targets = [PurePosixPath(root, *path.relative_to(output).parts) for path in paths]
    for directory in dict.fromkeys(target.parent for target in targets):
        files.makedirs(str(directory), exist_ok=True)
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(files.put_file, map(str, paths), map(str, targets)):
            pass
    for written in {path.parent for path in output.rglob(_PARTS)}:
        _remove_other_parts(files, PurePosixPath(root, *written.relative_to(output).parts), written)


def _remove_other_parts(files: Any, target: PurePosixPath, directory: Path) -> None:
    """Remove the Parquet files that only an earlier export wrote, because readers would read their rows too."""
    for name in files.ls(str(target), detail=False):
        if PurePosixPath(name).match(_PARTS) and not (directory / PurePosixPath(name).name).exists():
            files.rm_file(name)


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _file_system(url: str) -> tuple[Any, str]:
    """Return the file system of an address, without what it remembers of listings, and the path in it."""
    scheme = url.partition(":")[0]
    try:
        files, place = import_module("fsspec.core").url_to_fs(url)
    except ImportError as error:
        package = "fsspec, with its package for this scheme"
        if scheme == "s3":
            package = "pip install 'trace-recorder[s3]'"
        raise MissingExtraError(f"{url} needs a package that is not installed: {package} ({error})") from error
    files.invalidate_cache()
    return files, place


def _in_store(url: str, work: Callable[[], T]) -> T:
    """Call a function that asks the store. It raises an OSError that names the address and says what to do."""
    return try_call(work, partial(_raise_store_error, url))


def _raise_store_error(url: str, error: Exception) -> NoReturn:
    name, text = type(error).__name__, " ".join(str(error).split())
    if isinstance(error, TraceRecorderError | FileExistsError):
        raise error
    if isinstance(error, FileNotFoundError):
        raise FileNotFoundError(errno.ENOENT, "No such file, directory or bucket", url) from error
    if "Credential" in name:
        why = f"There are no credentials ({text}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        raise PermissionError(errno.EACCES, why, url) from error
    if isinstance(error, PermissionError):
        why = f"The store refused access ({text}): check the credentials, and what they may read"
        raise PermissionError(errno.EACCES, why, url) from error
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        raise OSError(errno.EAGAIN, error.strerror, url) from error
    raise OSError(errno.EIO, f"The store failed ({name}: {text}): try again, or check its address", url) from error
