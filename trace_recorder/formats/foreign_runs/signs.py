"""The signs of a format: members of the first lines or of the document, and values of these members.

A format that needs no more than these signs passes a method of them as its `recognizes`. A format with other rules has
a function, which may ask for signs too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.values.messages import Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What an object must have. The name `a/b` means the member `b` of the member `a`."""

    members: Collection[str] = ()
    """The object has these members, with any value."""
    values: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Each of these members is one of these texts."""
    objects: Collection[str] = ()
    """These members are objects."""
    lists: Collection[str] = ()
    """These members are lists."""

    def match(self, value: Payload) -> bool:
        """Return whether a value is an object with all of these signs."""
        return (
            all(_name(path) in _parent(value, path) for path in self.members)
            and all(as_text(_member(value, path)) in texts for path, texts in self.values.items())
            and all(isinstance(_member(value, path), dict) for path in self.objects)
            and all(isinstance(_member(value, path), list) for path in self.lists)
        )

    def in_first_line(self, source: Source) -> bool:
        """Return whether the first line with a JSON value has these signs."""
        return any(self.match(line.value) for line in source.first_lines[:1])

    def in_any_line(self, source: Source) -> bool:
        """Return whether one of the first lines has these signs."""
        return any(self.match(line.value) for line in source.first_lines)

    def in_document(self, source: Source) -> bool:
        """Return whether the whole file is an object with these signs."""
        return source.may_be_object and self.match(source.document)


def _parent(value: Payload, path: str) -> Mapping[str, Payload]:
    """Return the object that would have the last member of a path."""
    parent = as_dict(value)
    for name in path.split("/")[:-1]:
        parent = as_dict(parent.get(name))
    return parent


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _member(value: Payload, path: str) -> Payload:
    return _parent(value, path).get(_name(path))
