"""A session as VS Code writes it since 2026: lines that change one object, which begins as the first line's.

Source: `objectMutationLog.ts`. `kind` 0 states the whole object, and 1 sets the member at the path `k`. 2 shortens the
array there to `i` elements, if `i` is stated, and appends those of `v`. 3 deletes the member.
"""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.dialects.json_access import as_dict, as_int, as_list
from trace_recorder.imports.foreign.run import Members, Missing
from trace_recorder.imports.foreign.source import Line
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH
from trace_recorder.values.messages import Payload

INITIAL, _SET, _PUSH, _DELETE = range(4)


def is_initial(value: Payload) -> bool:
    """Whether a line states the whole object."""
    line = as_dict(value)
    return as_int(line.get("kind")) == INITIAL and isinstance(line.get("v"), dict)


def changed_object(lines: Iterable[Line], missing: list[Missing]) -> Members:
    """Return the object after all changes. A line that changes nothing that is there is added to `missing`."""
    state: Members = {}
    for line in lines:
        why = line.why
        if why is None and is_initial(line.value):
            state = as_dict(as_dict(line.value)["v"])
        elif why is None and not _apply(state, as_dict(line.value)):
            why = "it changes nothing that is there"
        if why is not None:
            missing.append(Missing(what=f"line {line.number}", why=why))
    return state


def _apply(state: Members, change: Members) -> bool:
    """Make one change, and return whether it could be made. A path may be as long as a document is deep."""
    kind, path = as_int(change.get("kind")), as_list(change.get("k"))
    if kind not in (_SET, _PUSH, _DELETE) or not 0 < len(path) <= MAX_DOCUMENT_DEPTH:
        return False
    place: Payload = state
    for step in path[:-1]:
        place = _member(place, step)
    last = path[-1]
    if kind == _PUSH:
        return _push(place, last, change)
    if isinstance(place, dict) and isinstance(last, str):
        if kind == _SET:
            place[last] = change.get("v")
        else:
            place.pop(last, None)
        return True
    if isinstance(place, list) and type(last) is int and 0 <= last < len(place):
        place[last] = change.get("v") if kind == _SET else None
        return True
    return False


def _push(place: Payload, last: Payload, change: Members) -> bool:
    values = _member(place, last)
    if values is None and isinstance(place, dict) and isinstance(last, str):
        values = place[last] = []
    if not isinstance(values, list):
        return False
    keep = change.get("i")
    if type(keep) is int and keep >= 0:
        del values[keep:]
    values.extend(as_list(change.get("v")))
    return True


def _member(place: Payload, step: Payload) -> Payload:
    if isinstance(place, dict) and isinstance(step, str):
        return place.get(step)
    if isinstance(place, list) and type(step) is int and 0 <= step < len(place):
        return place[step]
    return None
