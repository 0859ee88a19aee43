"""Damages real files of other tools, and puts secrets into them: `python -m tests.formats.fuzzing`.

The intact part of a damaged copy must be read, or the copy refused with a TrajectoryFormatError of its reader. Secrets
are put into texts, names, ids and the file's own name, and must not be in what is imported.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

from tests.formats.files import DIRECTORY, produced_files
from tests.formats.imported import import_file
from tests.secrets.corpus import Key, keys
from trace_recorder import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.imported_runs import runs_in
from trace_recorder.formats.recognition import format_of
from trace_recorder.reading.own_files import load_lines
from trace_recorder.values.messages import Payload

MAX_BYTES = 300_000
"""Larger files are skipped, because a copy of them takes too long."""
_OTHERS: tuple[Payload, ...] = (None, True, -1, 1e300, 10**400, "", "text", "\ud800", [], [[]], [None], {}, {"a": []})
Change = Callable[[Payload], Payload]
_DEEP = b"[" * 3000


def corpus() -> list[Path]:
    """Return the real and the produced files in a known format, except files that are too large."""
    real = sorted(path for path in DIRECTORY.glob("**/*") if path.is_file() and path.suffix != ".md")
    files = [path for path in (*real, *produced_files()) if path.stat().st_size < MAX_BYTES]
    return [path for path in files if format_of(Source(path)) is not None]


def damaged(data: bytes, random: Random) -> bytes:
    """Return a copy with a fault: cut, other bytes, parts repeated or missing, deep nesting, or other values."""
    begin, to = sorted(random.randrange(len(data) + 1) for _ in range(2))
    kind = random.randrange(7)
    if kind == 0:
        return data[:begin]
    if kind == 1:
        return data[:begin] + data[to:]
    if kind == 2:
        return data[:to] + data[begin:]
    if kind == 3:
        return data[:begin] + _DEEP + data[begin:]
    if kind == 4:
        flipped = bytearray(data)
        for _ in range(random.choice([1, 10, 100])):
            flipped[random.randrange(len(data))] = random.randrange(256)
        return bytes(flipped)
    return _changed_json(data, lambda value: _retyped(value, random), random)


def _changed_json(data: bytes, change: Change, random: Random, share: float = 0.2) -> bytes:
    """Return JSON, or lines of JSON, with a change. Other data is returned unchanged."""
    try:
        return json.dumps(change(json.loads(data))).encode()
    except UnicodeDecodeError:
        return data
    except ValueError:
        return b"".join(_changed_line(line, change, random, share) for line in data.splitlines(keepends=True))


def _changed_line(line: bytes, change: Change, random: Random, share: float) -> bytes:
    try:
        return line if random.random() > share else json.dumps(change(json.loads(line))).encode() + b"\n"
    except ValueError:
        return line


def _retyped(value: Payload, random: Random) -> Payload:
    """Return a copy of a value in which an inner value, at a random depth, has another type or is absent."""
    if isinstance(value, dict | list) and value and random.random() < 0.9:
        copy = value.copy()
        name = random.choice([*value]) if isinstance(value, dict) else random.randrange(len(value))
        if random.random() < 0.1:
            del copy[name]
        else:
            copy[name] = _retyped(copy[name], random)
        return copy
    return random.choice(_OTHERS)


def failure(path: Path) -> BaseException | None:
    """Read a file, and return its exception if that is not one of the reader's own errors."""
    try:
        for run in runs_in(Source(path)):
            load_lines(journal_lines(run), path).to_document()
    except TrajectoryFormatError as error:
        return None if isinstance(error.__cause__, TrajectoryFormatError) or "ATIF" in str(error) else error.__cause__
    except Exception as error:  # noqa: BLE001 - what it is, is the finding
        return error
    return None


def planted(data: bytes, some: list[Key], random: Random) -> bytes:
    """Return JSON, or lines of JSON, with a key in about every fifth text, and in the name of a member.

    No key is put into a member that is not searched: the kind of an object, and content that a provider has sealed. A
    key is a word of its own, because texts that are pieces of a message are joined.
    """
    return _changed_json(data, lambda value: _with_keys(value, some, random), random, share=1.0)


_NOT_SEARCHED = {
    *("role", "type", "object", "finish_reason", "stop_reason", "finishReason", "status", "kind", "event", "api"),
    *("provider", "signature", "encrypted_content", "thoughtSignature", "thought_signature", "thinkingSignature"),
}
"""The names of members that say of which kind an object is, or that a provider has sealed. They are trusted."""


def _with_keys(value: Payload, some: list[Key], random: Random) -> Payload:
    if isinstance(value, dict):
        told = {
            name: member if name in _NOT_SEARCHED else _with_keys(member, some, random)
            for name, member in value.items()
        }
        name = random.choice(some).text
        return told | ({f"a {name} b": 1} if random.random() < 0.02 else {})
    if isinstance(value, list):
        return [_with_keys(element, some, random) for element in value]
    if isinstance(value, str) and random.random() < 0.2:
        return f"{value if random.random() < 0.5 else ''} {random.choice(some).text} "
    return value


def leaked(path: Path, some: list[Key], out: Path) -> set[str]:
    """Import a file, and return the kinds of keys that are in the written files or in their names."""
    try:
        for _ in import_file(Source(path), out):
            pass
    except TrajectoryFormatError:
        pass
    files = [*out.iterdir()] if out.is_dir() else []
    written = b"\n".join(part for file in files for part in (file.name.encode(), file.read_bytes()))
    return {key.service for key in some if key.longest.encode() in written}


def one(number: int, seed: int, files: list[Path], place: Path) -> Iterator[str]:
    """Damage a copy of a file, and put keys into a second copy. Yield the faults."""
    random = Random(f"{seed} {number}")
    original = files[number % len(files)]
    data = original.read_bytes()
    copy = place / original.name
    copy.write_bytes(damaged(data, random))
    error = failure(copy)
    if error is not None:
        yield f"{original}, copy {number}: {type(error).__name__}: {error}"
    some = random.sample([*keys(1)], 12)
    name = some[0].text
    is_name = len(name) < 100 and "/" not in name and name.isprintable() and random.random() < 0.5
    named = place / f"{name}{original.suffix}" if is_name else copy
    named.write_bytes(planted(data, some, random))
    for service in sorted(leaked(named, some, place / f"out{number}")):
        yield f"{original}, copy {number}: a key of {service} is in what was imported"


def search(copies: Iterator[int], seed: int, files: list[Path]) -> Counter[str]:
    """Try copies until the time is over, and return the faults."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        for number in copies:
            place = Path(directory, str(number))
            place.mkdir()
            counts.update(one(number, seed, files, place))
    return counts


def main() -> None:
    """Damage copies of the real files until the time is over, and print the faults."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first copy")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    tried = 0

    def copies() -> Iterator[int]:
        nonlocal tried
        for number in count(options.first):
            if time.monotonic() > end:
                return
            tried += 1
            yield number

    found = search(copies(), options.seed, corpus())
    print(f"{tried} damaged copies, and as many with keys: {found.total()} findings", *found, sep="\n  ")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
