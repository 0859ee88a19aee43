"""Turns facts into records of a journal: the one place that knows how a fact becomes a line.

A fact becomes text (`text_of`): own members first, then foreign ones. A fact with a body is first taken apart into
items. Then the text is masked, and becomes the data of a record, which `journal_lines.py` numbers and encodes. Nothing
else masks facts, so whoever must hear of each secret can learn here in which kind of fact the secret is, and where.

A `FactWriter` takes no locks. A run uses it under the run's lock (`recording/run.py`), and adds its file, its document
and its gaps. `journal_text.py` writes the facts of a run that is not recorded live.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import compress
from operator import is_not
from typing import Literal

from trace_recorder.dialects.json_access import json_value
from trace_recorder.facts import Fact, GapFact, Itemized, Json, JsonText, own_and_foreign_members
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.items.encoder import Encoded, ItemEncoder
from trace_recorder.storage.journal_lines import (
    LARGE_DATA,
    NewRecord,
    encode_text,
    is_encoded,
)
from trace_recorder.storage.redaction.redactor import Redaction, TextRemover
from trace_recorder.storage.redaction.text_masking import masks_in
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.jsonable import to_jsonable
from trace_recorder.values.structs import Struct, replace

Masked = Literal["foreign members", "all members", "nothing"]
"""What is masked of a fact.

The foreign members are masked as a rule. If another tool, or another process, has made the fact's own members too, all
members are masked. Nothing is masked in the recorder's own words.
"""

_dump = make_json_writer(",", ":", allow_nan=False)


class LargeMember(Struct, frozen=True, gc=False):
    """A foreign member with a long value, whose bytes are at hand."""

    name: str
    value: JsonText


class FactText(Struct, frozen=True, gc=False):
    """A fact before it becomes a record: its own members, and its foreign members as JSON text without braces.

    `large` is a long foreign member that is written as it came if nothing in it is masked. It is the last one. `length`
    is how many characters must be searched for secrets.
    """

    kind: str
    own: Json
    foreign: str
    masked: Masked
    large: LargeMember | None = None
    length: int = 0


def fact_text(fact: Fact, masked: Masked = "foreign members") -> FactText:
    """Return a fact as text that is not masked yet.

    If all members are masked, values that JSON lacks, such as NaN, become descriptions.
    """
    own_members, foreign_members = own_and_foreign_members(type(fact))
    # most members of a fact are absent, and are left out in C
    own_values = own_members.values(fact)
    is_present = map(is_not, own_values, own_members.absences)
    own: Json = dict(compress(zip(own_members.names, own_values, strict=True), is_present))
    foreign_values = foreign_members.values(fact)
    is_present = map(is_not, foreign_values, foreign_members.absences)
    values: Json = {}
    exact: list[str] = []
    large: LargeMember | None = None
    for name, value in compress(zip(foreign_members.names, foreign_values, strict=True), is_present):
        if type(value) is JsonText:
            if large is None and value.data is not None and len(value.data) > LARGE_DATA:
                large = LargeMember(name, value)
                continue
            exact += (f',"{name}":', value.text)
        else:
            values[name] = value
    if masked == "all members":
        own, values = _as_json(own), _as_json(values)
    if values:
        exact.insert(0, _dump(values)[1:-1])
    elif exact:
        exact[0] = exact[0][1:]
    foreign = "".join(exact)
    length = len(foreign) if large is None else len(foreign) + len(large.value.text)
    return FactText(fact.kind, own, foreign, masked, large, length)


def _as_json(members: Json) -> Json:
    """Return members as they are if they are JSON. Otherwise return a copy with descriptions of what JSON lacks."""
    try:
        _dump(members).encode()  # raises for a lone surrogate
    except ours(ValueError, RecursionError):
        return {name: to_jsonable(value) for name, value in members.items()}
    return members


def record_of(text: FactText) -> NewRecord:
    """Return the record of a fact that was masked."""
    begin, foreign = _dump(text.own)[1:-1], text.foreign
    if text.large is not None:
        members = ",".join(filter(None, (begin, foreign, f'"{text.large.name}":')))
        data = text.large.value.data
        if data is None or not is_encoded(data):
            data = encode_text(text.large.value.text)
        return text.kind, (encode_text("{" + members), data, b"}")
    if begin and foreign:
        return text.kind, f"{{{begin},{foreign}}}"
    return text.kind, f"{{{begin}{foreign}}}"


class FactWriter:
    """The writer of the facts of one journal: what is masked in them, and which items are on file."""

    def __init__(self, redaction: Redaction) -> None:
        self.redaction = redaction
        self.items = ItemEncoder()

    def mask(self, text: FactText) -> FactText:
        """Mask a fact. Its member `redacted` is the number of its masks, with those that it had before.

        If no texts are written, they are taken out of the fact first, even out of the recorder's own words.
        """
        if self.redaction.textless is not None:
            [text] = self._without_texts([text], self.redaction.textless)
        if text.masked == "nothing":
            return text
        own, own_count = text.own, 0
        if text.masked == "all members":
            masked, own_count = self.redaction.mask(_dump(own))
            if own_count:
                own = json.loads(masked)
        foreign, count = "", 0
        if text.foreign:
            foreign, count = self.redaction.mask(text.foreign, text.kind)
        large = text.large
        if large is not None:
            large, in_large = self._mask_large_member(text.kind, large)
            count += in_large
        if not (count or own_count):
            return text
        return FactText(text.kind, _counted(own, count + own_count), foreign, text.masked, large)

    def _without_texts(self, texts: Sequence[FactText], textless: TextRemover) -> Sequence[FactText]:
        """Take the texts out of a fact and its new items. The fact is the last one."""
        textless.expect_items(texts[-1].own.get("items"))
        return [_without_texts(text, textless) for text in texts]

    def _mask_large_member(self, kind: str, large: LargeMember) -> tuple[LargeMember, int]:
        """Mask the large member of a fact. Return it, and how many secrets were masked. Its bytes stay if none was."""
        value, count = self.redaction.mask(large.value.text, kind, member=large.name)
        if value == large.value.text:
            return large, count
        return LargeMember(large.name, JsonText(value)), count

    def record(self, fact: Fact, masked: Masked = "foreign members") -> NewRecord:
        """Mask a fact, and return its record."""
        return record_of(self.mask(fact_text(fact, masked)))

    def record_of_failure(self, time: str, what: str, why: str) -> NewRecord:
        """Return the record of a gap. If a redactor of the user fails, the descriptions are masked without it."""
        masked_what = self.redaction.mask_description(what, GapFact.kind)
        masked_why = self.redaction.mask_description(why, GapFact.kind)
        count = masks_in(what, masked_what) + masks_in(why, masked_why)
        gap = GapFact(time=time, what=to_jsonable(masked_what), why=to_jsonable(masked_why), redacted=count or None)
        return self.record(gap, "nothing")

    def take_apart(self, fact: Itemized, encoded: Encoded, masked: Masked = "foreign members") -> list[FactText]:
        """Return the texts of the new items of a fact's body, and then of the fact, which refers to the items."""
        whole = replace(fact, items=encoded.items, body=encoded.body)
        return [fact_text(each, masked) for each in (*encoded.new, whole)]

    def records(self, texts: Sequence[FactText]) -> list[NewRecord]:
        """Mask a fact and its new items, and return their records. Foreign members are masked by one search."""
        if self.redaction.textless is not None:
            texts = self._without_texts(texts, self.redaction.textless)
        if texts[-1].masked != "foreign members":
            return [record_of(self.mask(text)) for text in texts]
        masked = self.redaction.mask_all([text.foreign for text in texts], texts[-1].kind)
        records: list[NewRecord] = []
        for text, (foreign, count) in zip(texts, masked, strict=True):
            large, in_large = text.large, 0
            if large is not None:
                large, in_large = self._mask_large_member(text.kind, large)
            if count or in_large:
                own = _counted(text.own, count + in_large)
                records.append(record_of(FactText(text.kind, own, foreign, text.masked, large)))
            else:
                records.append(record_of(text))
        return records


def _counted(own: Json, count: int) -> Json:
    """Return own members with more masks in `redacted`, which stays before `items`."""
    counted = {**own, "redacted": own.get("redacted", 0) + count}
    if "items" in counted:
        counted["items"] = counted.pop("items")
    return counted


def _without_texts(text: FactText, textless: TextRemover) -> FactText:
    foreign = text.foreign
    if text.large is not None:
        foreign = ",".join(filter(None, (foreign, f'"{text.large.name}":{text.large.value.text}')))
    members = json_value(f"{{{foreign}}}")
    if not isinstance(members, dict):
        raise TypeError("the texts of a record cannot be taken out, because it is nested too deeply")
    structure = textless.data(text.kind, {**text.own, **members})
    own = {name: structure.pop(name) for name in text.own if name in structure}
    without = _dump(structure)[1:-1]
    return FactText(text.kind, own, without, text.masked, None, len(without))
