"""What differs between a request and the recorded one that is nearest to it, by message and by word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from trace_recorder.rerun.matching import Live, fits
from trace_recorder.rerun.recorded import RecordedExchange, Recording
from trace_recorder.values.messages import Payload

MOST_LINES = 40
LONGEST = 400
"""How many characters of a text are shown: what differs, with the text around it."""
AROUND = 6
"""How many words around a difference are shown."""
MOST_COMPARED = 200
"""How many recorded requests are searched for the nearest one."""
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")


def nearest(live: Live, recording: Recording, left: Sequence[RecordedExchange]) -> RecordedExchange | None:
    """Return the recorded request, of the unused ones or else of all, that has most in common with this one."""
    same = [one for one in left or recording.exchanges if one.endpoint.api == live.endpoint.api][:MOST_COMPARED]
    live_texts = _texts(live.body)
    return max(same, key=lambda one: _in_common(live_texts, _texts(recording.request(one))), default=None)


def _texts(body: Payload) -> set[str]:
    """Return the members of a request, and the elements of its lists, each as a text."""
    members = body if isinstance(body, dict) else {"": body}
    texts = set()
    for name, value in members.items():
        values = value if isinstance(value, list) else [value]
        texts |= {f"{name} {json.dumps(one, sort_keys=True)}" for one in values}
    return texts


def _in_common(one: set[str], other: set[str]) -> float:
    return len(one & other) / (len(one | other) or 1)


def differences(recorded: Payload, live: Payload, path: str = "") -> Iterator[str]:
    """Describe, line by line, what is in one value and not in the other; nothing if they are equal."""
    if fits(recorded, live):
        return
    if isinstance(recorded, dict) and isinstance(live, dict):
        for name in [*recorded, *(name for name in live if name not in recorded)]:
            inner = f"{path}.{name}" if path else name
            if name not in live:
                yield f"- {inner}: {_short(recorded[name])}"
            elif name not in recorded:
                yield f"+ {inner}: {_short(live[name])}"
            else:
                yield from differences(recorded[name], live[name], inner)
    elif isinstance(recorded, list) and isinstance(live, list):
        yield from _of_lists(recorded, live, path)
    elif isinstance(recorded, str) and isinstance(live, str):
        yield f"~ {path}: {by_word(recorded, live)}"
    else:
        yield f"~ {path}: {_short(recorded)} was recorded, now it is {_short(live)}"


def _of_lists(recorded: Sequence[Payload], live: Sequence[Payload], path: str) -> Iterator[str]:
    before, after = ([json.dumps(one, sort_keys=True) for one in side] for side in (recorded, live))
    for kind, start, end, now, until in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        changed = min(end - start, until - now)
        for at in range(changed):
            yield from differences(recorded[start + at], live[now + at], f"{path}[{now + at}]")
        yield from (f"- {path}[{at}] (recorded): {_short(recorded[at])}" for at in range(start + changed, end))
        yield from (f"+ {path}[{at}]: {_short(live[at])}" for at in range(now + changed, until))


def by_word(recorded: str, live: str) -> str:
    """Merge two texts: `[-what was recorded-]`, `{+what is there now+}`, and a few words around each."""
    before, after = _WORD.findall(recorded), _WORD.findall(live)
    parts: list[str] = []
    for kind, start, end, now, until in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(_around(before[start:end], first=not parts, last=end == len(before)))
            continue
        if end > start:
            parts.append(f"[-{_cut(''.join(before[start:end]))}-]")
        if until > now:
            parts.append(f"{{+{_cut(''.join(after[now:until]))}+}}")
    return "".join(parts)


def _around(words: Sequence[str], *, first: bool, last: bool) -> str:
    if len(words) <= 2 * AROUND:
        return "".join(words)
    head = "" if first else "".join(words[:AROUND])
    tail = "" if last else "".join(words[-AROUND:])
    return f"{head}…{tail}"


def _short(value: Payload) -> str:
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


def explained(live: Live, recording: Recording, left: Sequence[RecordedExchange]) -> str:
    """Explain why a request has no recorded answer: the nearest recorded one, and what differs."""
    named = f"{live.endpoint.api}{f', {live.endpoint.model}' if live.endpoint.model else ''}"
    head = f"{recording.path.name} has no answer to this request ({named})"
    if not left:
        head += ": all of its calls have been given"
    one = nearest(live, recording, left)
    if one is None:
        return f"{head}: no recorded call is of this dialect."
    lines = list(differences(recording.request(one), live.body))
    if not lines:
        return f"{head}. It equals {one.interaction_id}, which has been given already, or was sent to another model."
    more = [f"… and {len(lines) - MOST_LINES} more differences"] if len(lines) > MOST_LINES else []
    return "\n  ".join([f"{head}. The nearest is {one.interaction_id}:", *lines[:MOST_LINES], *more])
