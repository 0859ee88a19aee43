"""What a document has that another one of the same run lacks, so that no document is replaced by a poorer one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from trace_recorder.values.messages import Payload

_COMPUTED = {"metrics", "gaps", "schema_version", "history", "journal_records"}
"""Members that say something of the document or the journal, and nothing of the run that is not elsewhere."""
_NAMED_BY = ("interaction_id", "call_id", "name", "key")
_EMPTY: tuple[Payload, ...] = (None, "", [], {})
_MAX_LISTED = 5


def describe_losses(old: Payload, new: Payload) -> str | None:
    """Return where `new` has less than `old`, both JSON values of documents; None if it has everything."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return None
    kept = {name: value for name, value in old.items() if name not in _COMPUTED}
    places = [*islice(_losses(kept, new, ""), _MAX_LISTED + 1)]
    more = " and more" if len(places) > _MAX_LISTED else ""
    return ", ".join(places[:_MAX_LISTED]) + more if places else None


def _losses(old: Payload, new: Payload, where: str) -> Iterator[str]:
    """Yield the places where a value has less. A value that is another one is not less."""
    if old in _EMPTY:
        return
    if new in _EMPTY:
        yield where
    elif isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from _losses(value, new.get(name), f"{where}.{name}" if where else name)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _losses_of_list(old, new, where)


def _losses_of_list(old: list[Payload], new: list[Payload], where: str) -> Iterator[str]:
    """Compare elements by their ids where they have one, else by their place."""
    names = [_name(element) for element in new]
    by_name = dict(zip(names, new, strict=True))
    are_named = None not in by_name and len(by_name) == len(new)
    for at, element in enumerate(old):
        name = _name(element)
        if are_named and name is not None:
            yield from _losses(element, by_name.get(name), f"{where}[{name}]")
        else:
            yield from _losses(element, new[at] if at < len(new) else None, f"{where}[{at}]")


def _name(element: Payload) -> str | None:
    if not isinstance(element, dict):
        return None
    return next((value for name in _NAMED_BY if isinstance(value := element.get(name), str) and value), None)
