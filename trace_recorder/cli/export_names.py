"""Names for what runs are exported to: no file of one run is a file of another.

A run called `t` becomes `t.json` or `t.jsonl`; where it has several conversations, also `t.cont-1.json` or
`t.conversation-2.jsonl`; and images are in `t_images/`. A name is free where all of these are, also on file systems
that know neither case nor the forms of Unicode.
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_EXTRA_FILE = re.compile(r"(?P<run>.+)\.(?:cont|conversation)-\d+", re.DOTALL)
"""What a run's further files are called, without their suffix: after the run."""
_MAX_NAME_BYTES = 200
"""The bytes of a name, which leave room in the 255 of a file system for a suffix."""


def unique_names(runs: Sequence[Path], reserved: Iterable[str] = ()) -> list[str]:
    """Name each run after its file; what would take another's place, or that of what is reserved, gets a number."""
    stems = [_stem(run) for run in runs]
    wanted = {*map(_folded, stems)}
    taken = {*map(_folded, reserved)}
    names = []
    for stem in stems:
        name = next(one for one in _candidates(stem) if _is_free(one, stem, wanted, taken))
        taken.add(_folded(name))
        names.append(name)
    return names


def _stem(run: Path) -> str:
    stem = run.stem.removesuffix(".journal") or run.stem
    return (
        os.fsencode(stem)[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
        if len(os.fsencode(stem)) > _MAX_NAME_BYTES
        else stem
    )


def _candidates(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}.{number}" for number in itertools.count(1))


def _is_free(name: str, stem: str, wanted: set[str], taken: set[str]) -> bool:
    """Whether a run may have a name: its own, or with a number after it that no other run takes."""
    key = _folded(name)
    others = wanted | taken
    if key in taken or _is_of(key, others):
        return False
    return name == stem or not (key in others or any(_is_of(other, {key}) for other in others))


def _is_of(key: str, runs: set[str]) -> bool:
    """Whether a name is that of a further file of one of these runs."""
    found = _EXTRA_FILE.fullmatch(key)
    return found is not None and found["run"] in runs


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
