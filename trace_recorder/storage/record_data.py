"""The data of records, from its members, which are JSON text already or become JSON here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_recorder.storage.items.item_lists import NewItem
from trace_recorder.storage.journal_lines import Data
from trace_recorder.values.json_text import make_json_writer

Records = Sequence[tuple[str, Data]]
"""Records to be written: the kind of each, and its data."""


def record_data(about: Mapping[str, object], said: str, redacted: int = 0) -> str:
    """The data of a record, as JSON text: the recorder's own members, and those of others, which are JSON text already.

    `redacted` is how many secrets are masked in these; there may be some in its own members, which say so themselves.
    """
    masked_before = about.get("redacted", 0)
    if redacted and isinstance(masked_before, int):
        about = {**about, "redacted": masked_before + redacted}
    own = _dump(about)[1:-1]
    return f"{{{own},{said}}}" if said else f"{{{own}}}"


def item_records(new: Sequence[NewItem], masked: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """The records of new items, from their masked members."""
    return [
        ("item", f'{{{item.about},"redacted":{count},{said}}}' if count else f"{{{item.about},{said}}}")
        for item, (said, count) in zip(new, masked[: len(new)], strict=True)
    ]


_dump = make_json_writer(",", ":", allow_nan=False)
