"""Immutable values with named fields: msgspec's structs or, where msgspec cannot be imported, dataclasses.

`trace-recorder run` also records agents whose interpreter has neither this package nor its dependencies. The package
then runs with Python's standard library alone. The values are the same, and take longer to make.

The garbage collector does not look at structs with `gc=False`. They are freed when nothing refers to them, and must not
be part of a cycle of references. No value is part of a cycle, because each is made after its parts and
never changes.
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
            """A dataclass with the parts of `msgspec.Struct` that this package uses."""

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
            """Return the fields by name, as they are."""
            return {name: getattr(struct, name) for name in struct.__struct_fields__}


__all__ = ["Struct", "asdict", "defaults_of", "equal_but", "field", "replace"]


def defaults_of(kind: Any) -> dict[str, Any]:
    """Return the defaults of a struct or a dataclass, by the names of the fields that have one."""
    is_dataclass = dataclasses.is_dataclass(kind)
    missing: Any = dataclasses.MISSING if is_dataclass else NODEFAULT
    all_fields: Any = dataclasses.fields(kind) if is_dataclass else fields(kind)
    defaults = {}
    for member in all_fields:
        if member.default is not missing:
            defaults[member.name] = member.default
        elif member.default_factory is not missing:
            defaults[member.name] = member.default_factory()
    return defaults


def equal_but(value: Struct, other: Struct, ignored: str) -> bool:
    """Return whether two values of one type are equal in all fields, except for the field `ignored`."""
    names = [name for name in value.__struct_fields__ if name != ignored]
    return all(getattr(value, name) == getattr(other, name) for name in names)
