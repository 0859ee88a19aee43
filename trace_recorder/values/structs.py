"""Immutable values with named fields: msgspec's structs or, where msgspec cannot be imported, dataclasses.

`trace-recorder run` also records agents whose interpreter has neither this package nor its dependencies. The package
then runs with Python's standard library alone. The values are the same, but creating them takes longer.

The garbage collector skips structs with `gc=False`. Such a struct is freed when nothing refers to it, and must not be
part of a cycle of references. The frozen values are part of no cycle, because each is created after its parts and never
changes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msgspec import NODEFAULT, Struct, field
    from msgspec.structs import asdict, fields, replace
else:
    try:
        from msgspec import NODEFAULT, Struct, field
        from msgspec.structs import asdict, fields, replace
    except ImportError:
        from dataclasses import field, replace

        class Struct:
            """A dataclass with the features of `msgspec.Struct` that this package uses."""

            __struct_fields__ = ()

            def __init_subclass__(
                cls,
                *,
                frozen: bool = False,
                eq: bool = True,
                kw_only: bool = False,
                gc: bool = True,  # noqa: ARG003 - for structs
            ) -> None:
                super().__init_subclass__()
                dataclasses.dataclass(frozen=frozen, eq=eq, kw_only=kw_only)(cls)
                cls.__struct_fields__ = tuple(member.name for member in dataclasses.fields(cls))

        def asdict(struct: Struct) -> dict[str, Any]:
            """Return the values of the fields by their names. The values are not copied."""
            return {name: getattr(struct, name) for name in struct.__struct_fields__}


__all__ = ["Struct", "asdict", "defaults_of", "equal_but", "field", "replace"]


def defaults_of(kind: Any) -> dict[str, Any]:
    """Return the defaults of a struct's or a dataclass's fields by the names of the fields.

    Fields without a default are left out.
    """
    missing: Any
    all_fields: Any
    if dataclasses.is_dataclass(kind):
        missing, all_fields = dataclasses.MISSING, dataclasses.fields(kind)
    else:
        missing, all_fields = NODEFAULT, fields(kind)
    defaults = {}
    for member in all_fields:
        if member.default is not missing:
            defaults[member.name] = member.default
        elif member.default_factory is not missing:
            defaults[member.name] = member.default_factory()
    return defaults


def equal_but(value: Struct, other: Struct, ignored: str) -> bool:
    """Return whether two values of one type are equal in all fields other than `ignored`."""
    names = [name for name in value.__struct_fields__ if name != ignored]
    return all(getattr(value, name) == getattr(other, name) for name in names)
