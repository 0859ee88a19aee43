"""Bodies of requests that are made while they are sent: files, iterators, multipart forms.

Such a body is recorded as it passes. The library reads it through a wrapper of this module, in the same order and with
the same exceptions as without it. When the last byte has passed, the seam writes the request. The memory is bounded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from hashlib import sha256
from typing import Any

from trace_recorder.capture.seam import Wrapper


class PassingBody:
    """The bytes of a body that have passed.

    A body of more than `max_bytes` is not kept. The gap has its length and its digest.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.size = 0
        self.is_whole = False
        """Whether the last byte has passed."""
        self._pieces: list[bytes] = []
        self._digest = sha256()

    def take(self, piece: object) -> None:
        """Keep the next piece of the body. A text is sent as UTF-8."""
        data = piece.encode("utf-8", "replace") if isinstance(piece, str) else bytes(piece)  # type: ignore[call-overload]
        was_kept = self.size <= self._max_bytes
        self.size += len(data)
        if was_kept:
            self._pieces.append(data)
        if self.size <= self._max_bytes:
            return
        for kept in self._pieces:
            self._digest.update(kept)
        if not was_kept:
            self._digest.update(data)
        self._pieces = []

    def join(self) -> bytes:
        """Return the bytes that have passed, or b"" if they are too many."""
        return b"".join(self._pieces)

    def missing(self) -> str | None:
        """Return why a part of the body is not on file, or None if all of it is."""
        if self.size > self._max_bytes:
            return f"it has {self.size:,} bytes, sha256 {self._digest.hexdigest()}"
        if not self.is_whole:
            return f"only {self.size:,} bytes of it were seen"
        return None


class PassingIterator(Wrapper):
    """A body over which a library iterates. `on_end` is called after the last piece."""

    def __init__(self, inner: Any, passing: PassingBody, on_end: Callable[[], Any]) -> None:
        super().__init__(inner)
        self._passing = passing
        self._on_end = on_end

    def __iter__(self) -> Iterator[Any]:
        for piece in self._inner:
            self._passing.take(piece)
            yield piece
        self._passing.is_whole = True
        self._on_end()


class PassingFile(PassingIterator):
    """A body that a library reads in blocks. An empty block is the end."""

    def read(self, *size: int) -> Any:
        """Read at most `size` bytes or characters."""
        block = self._inner.read(*size)
        if block:
            self._passing.take(block)
        else:
            self._passing.is_whole = True
            self._on_end()
        return block


class PassingAsyncIterator(PassingIterator):
    """A body over which an async library iterates. The result of `on_end` is awaited after the last piece."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for piece in self._inner:
            self._passing.take(piece)
            yield piece
        self._passing.is_whole = True
        await self._on_end()
