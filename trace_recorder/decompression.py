"""Decompresses data that others have made, in bounded pieces: the encodings of HTTP bodies, gzip, deflate, br and zstd.

A few kilobytes may decompress to gigabytes. Therefore all data that the package decompresses has one limit, `max_size`.
A decoder yields the decompressed data piece by piece, and the caller decides when the next piece is made. So neither
the memory nor the time of one step depends on the data.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

MAX_RATIO = 100
"""Compressed data may decompress to at most this many times its size. Logs of agents reach 20 times."""
FREE_BYTES = 32 * 1024 * 1024
"""All data may decompress to this many bytes, however small it is.

A request to Anthropic may have 32 MB, and one to Amazon Bedrock 25 MB. So every body that they take is decoded.
"""
MAX_ENCODINGS = 5
"""A body with more encodings than this is not decoded. A real body has one, or two if a gateway adds its own."""
PIECE_BYTES = 64 * 1024
"""A decoder that can limit its output makes pieces of at most about this many bytes."""
_SLICE_BYTES = 4096
"""Such a decoder gets at most this many bytes at once, because it copies the bytes that it does not use yet."""
_BLIND_SLICE_BYTES = 64
"""Decoders that cannot limit their output get at most this many bytes at once.

A block of zstd has four bytes or more and makes at most 128 KB, so a piece has at most 2 MB.
"""

Decoder = Callable[[bytes], Iterator[bytes]]
"""A function that takes the next received bytes, and yields the decoded bytes in pieces.

Finish one iterator before the next call. Iterating raises an exception of any class if the bytes cannot be decoded.
"""


class TooLargeError(ValueError):
    """The data decompresses to more than `max_size` allows."""


def max_size(compressed: int) -> int:
    """Return to how many bytes a text of `compressed` bytes may decompress."""
    return max(FREE_BYTES, MAX_RATIO * compressed)


def decoder_of(encodings: str) -> Decoder | None:
    """Return a decoder for the value of a header `Content-Encoding`.

    Return None if there is no encoding, an unknown one, or one whose library is not installed. Iterating the result of
    the decoder raises TooLargeError if the data is too large after any of its encodings.
    """
    names = [part.strip().lower() for part in encodings.split(",")]
    makers = [_MAKERS.get(name) for name in reversed(names) if name not in {"", "identity"}]
    if not makers or len(makers) > MAX_ENCODINGS:
        return None
    decoders = [make() for make in makers if make is not None]
    known = [decoder for decoder in decoders if decoder is not None]
    if len(known) < len(makers):
        return None
    return _Bounded(known).decode


class _Bounded:
    """Decoders, each of which gets the output of the one before. `max_size` of the input limits the output of each."""

    def __init__(self, decoders: list[Decoder]) -> None:
        self._decoders = decoders
        self._received = 0
        self._made = [0] * len(decoders)

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._received += len(data)
        pieces = iter((data,))
        for number in range(len(self._decoders)):
            pieces = self._decoded(number, pieces)
        return pieces

    def _decoded(self, number: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            for decoded in self._decoders[number](piece):
                self._made[number] += len(decoded)
                limit = max_size(self._received)
                if self._made[number] > limit:
                    raise TooLargeError(f"it decompresses to more than {limit} bytes")
                yield decoded


def _slices(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


# ── the encodings ────────────────────────────────────────────────────────────────────────────────────────────────────


def _gzip() -> Decoder:
    """Make a decoder of gzip. A body may have several members. Bytes after the last member are ignored."""
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def decode(data: bytes) -> Iterator[bytes]:
        nonlocal decompressor
        for part in _slices(data, _SLICE_BYTES):
            remaining = part
            while remaining:
                if decompressor.eof:
                    if remaining[:1] != b"\x1f":
                        return
                    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
                yield from _inflated(decompressor, remaining)
                remaining = decompressor.unused_data

    return decode


def _deflate() -> Decoder:
    """Make a decoder of zlib's format. Some servers leave its header out, although the RFC does not allow this."""
    decompressor: zlib._Decompress | None = None

    def decode(data: bytes) -> Iterator[bytes]:
        nonlocal decompressor
        for part in _slices(data, _SLICE_BYTES):
            if decompressor is None:
                has_header = part[0] & 0x0F == 8
                decompressor = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
            yield from _inflated(decompressor, part)

    return decode


def _inflated(decompressor: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Yield what zlib makes of `data`, up to the end of the compressed text."""
    piece = b"\0"
    while data or len(piece) == PIECE_BYTES:  # a full piece: zlib may have more, although it took all bytes
        piece = decompressor.decompress(data, PIECE_BYTES)
        data = decompressor.unconsumed_tail
        if piece:
            yield piece


def _brotli() -> Decoder | None:
    for name in ("brotli", "brotlicffi"):
        try:
            return _brotli_decoder(import_module(name).Decompressor())
        except ImportError:
            continue
    return None


def _brotli_decoder(decompressor: Any) -> Decoder:
    process = getattr(decompressor, "process", None) or decompressor.decompress
    if not hasattr(decompressor, "can_accept_more_data"):  # before version 1.2
        return _blind(process)

    def decode(data: bytes) -> Iterator[bytes]:
        for part in _slices(data, _SLICE_BYTES):
            piece = process(part, output_buffer_limit=PIECE_BYTES)
            while piece or not decompressor.can_accept_more_data():
                yield piece
                piece = process(b"", output_buffer_limit=PIECE_BYTES)

    return decode


def zstd_module() -> ModuleType | None:
    """Return the module of Python 3.14 that reads zstd, or its backport, or None."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def _zstd() -> Decoder | None:
    """Make a decoder of zstd. A body may have several frames."""
    module = zstd_module()
    if module is None:
        return _zstandard()
    decompressor = module.ZstdDecompressor()

    def decode(data: bytes) -> Iterator[bytes]:
        nonlocal decompressor
        for part in _slices(data, _SLICE_BYTES):
            remaining = part
            while remaining or not (decompressor.needs_input or decompressor.eof):
                if decompressor.eof:
                    decompressor = module.ZstdDecompressor()
                if piece := decompressor.decompress(remaining, PIECE_BYTES):
                    yield piece
                remaining = decompressor.unused_data

    return decode


def _zstandard() -> Decoder | None:
    """Make a decoder of zstd by the package that httpx requires for this encoding. It cannot limit its output."""
    try:
        make = import_module("zstandard").ZstdDecompressor().decompressobj
    except ImportError:
        return None
    decompressor = make()

    def decode(data: bytes) -> Iterator[bytes]:
        nonlocal decompressor
        for part in _slices(data, _BLIND_SLICE_BYTES):
            remaining = part
            while remaining:
                if decompressor.eof:
                    decompressor = make()
                if piece := decompressor.decompress(remaining):
                    yield piece
                remaining = decompressor.unused_data if decompressor.eof else b""

    return decode


def _blind(decompress: Callable[[bytes], bytes]) -> Decoder:
    """Make a decoder of a function that cannot limit its output."""

    def decode(data: bytes) -> Iterator[bytes]:
        return filter(None, map(decompress, _slices(data, _BLIND_SLICE_BYTES)))

    return decode


_MAKERS: dict[str, Callable[[], Decoder | None]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
