"""`Wrapper`: an object that behaves as the library's object inside it, but for what a subclass replaces."""

from __future__ import annotations

from typing import Any


class Wrapper:
    """An object with the attributes and the class of another object, `_inner`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the object inside, so that `isinstance` is true for both classes."""
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # a copy has no attributes at first, and looking up `_inner` would recurse
            raise AttributeError(name)
        return getattr(self._inner, name)
