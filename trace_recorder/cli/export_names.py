"""Names for exported files, so that no two runs share a file.

A run called `t` becomes `t.json` or `t.jsonl`; with several conversations, also `t.cont-1.json` or
`t.conversation-2.jsonl`; its images are in `t_images/`. A name is free if all of these names are free, also on file
systems that ignore case and forms of Unicode.
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_EXTRA_FILE = re.compile(r"(?P<run>.+)\.(?:cont|conversation)-\d+", re.DOTALL)
"""The names of a run's additional files, without their suffix. Each begins with the name of the run."""
_MAX_NAME_BYTES = 200
"""The largest size of a name. File systems allow 255 bytes, and a suffix follows."""


def unique_names(runs: Sequence[Path], reserved: Iterable[str] = ()) -> list[str]:
    """Name each run after its file. A name that is taken or reserved gets a number."""
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
    """Whether a run may have a name: its own name, or its own name with a number that no other run has."""
    key = _folded(name)
    others = wanted | taken
    if key in taken or _is_of(key, others):
        return False
    return name == stem or not (key in others or any(_is_of(other, {key}) for other in others))


def _is_of(key: str, runs: set[str]) -> bool:
    """Whether a name is that of an additional file of one of these runs."""
    found = _EXTRA_FILE.fullmatch(key)
    return found is not None and found["run"] in runs


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
