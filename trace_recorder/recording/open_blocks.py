"""The `with` blocks that are open around a piece of code, innermost first, in a context variable.

A block may be left in another context than it was entered in, as in an async generator that another task closes, or
before a block inside it, as in generators that take turns. So a block that is left is marked, and every context that
still knows it passes over it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class OpenBlock(Generic[T]):
    """One block: what it stands for, and the block around it."""

    value: T
    outer: OpenBlock[T] | None
    is_open: bool = True


class OpenBlocks(Generic[T]):
    """The open blocks of one kind."""

    def __init__(self, name: str) -> None:
        self.newest: ContextVar[OpenBlock[T] | None] = ContextVar(name, default=None)

    def enter(self, value: T) -> OpenBlock[T]:
        """Open a block in this context; return it, for `leave`."""
        block = OpenBlock(value, self.innermost())
        self.newest.set(block)
        return block

    def leave(self, block: OpenBlock[T]) -> None:
        """Close a block, in all contexts."""
        block.is_open = False
        self.newest.set(self.innermost())

    def innermost(self) -> OpenBlock[T] | None:
        """Return the innermost open block of this context."""
        block = self.newest.get()
        while block is not None and not block.is_open:
            block = block.outer
        return block
