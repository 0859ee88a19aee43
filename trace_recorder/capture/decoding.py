"""Decodes content encodings chunk by chunk: gzip, deflate, br and zstd, if their libraries are installed.

An HTTP library offers the server only the encodings that it can decode itself, with these same libraries. A program
that uses the proxy may offer other encodings. Therefore the extra `proxy` installs the libraries for br and zstd.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module

from trace_recorder.dialects.stream_framing import MEDIA_TYPE, FrameDecoder
from trace_recorder.guard import try_call

Decoder = Callable[[bytes], bytes]
"""A function that takes the next received bytes, and returns the decoded bytes. The decoded bytes may be empty."""


def decoder_of(content_encoding: str, content_type: str = "") -> Decoder | None:
    """Return a decoder for the values of the headers `Content-Encoding` and `Content-Type`.

    Return None if the body has no encoding, or an unknown one. The decoder of a Bedrock stream turns frames into lines
    of text.
    """
    decoders: list[Decoder] = []
    for name in reversed([part.strip().lower() for part in content_encoding.split(",") if part.strip()]):
        if name == "identity":
            continue
        make = _DECODERS.get(name)
        decoder = make() if make else None
        if decoder is None:
            return None
        decoders.append(decoder)
    if content_type.startswith(MEDIA_TYPE):
        decoders.append(FrameDecoder())
    return _chain(decoders) if decoders else None


def plain_request(headers: list[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return the decoded body of a request. A body that is not encoded, or cannot be decoded, is returned unchanged."""
    if not body or body[:1] in b"{[":  # nearly all bodies are JSON
        return body
    encoding = next((value for name, value in headers if name.lower() == b"content-encoding"), b"")
    decode = decoder_of(encoding.decode("latin-1"))
    return body if decode is None else try_call(decode, lambda _: body, body)


def _chain(decoders: list[Decoder]) -> Decoder:
    def decode(data: bytes) -> bytes:
        for decoder in decoders:
            data = decoder(data)
        return data

    return decode


def _gzip() -> Decoder:
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress


def _deflate() -> Decoder:
    decompressors: list[Decoder] = []

    def decode(data: bytes) -> bytes:
        if not decompressors and data:
            has_header = data[0] & 0x0F == 8  # some servers leave the zlib header out
            decompressors.append(zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS).decompress)
        return decompressors[0](data) if data else b""

    return decode


def _brotli() -> Decoder | None:
    for name in ("brotli", "brotlicffi"):
        try:
            decompressor = import_module(name).Decompressor()
        except ImportError:
            continue
        decode: Decoder = getattr(decompressor, "process", None) or decompressor.decompress
        return decode
    return None


def _zstd() -> Decoder | None:
    try:
        decode: Decoder = import_module("zstandard").ZstdDecompressor().decompressobj().decompress
    except ImportError:
        try:
            decode = import_module("compression.zstd").ZstdDecompressor().decompress
        except ImportError:
            return None
    return decode


_DECODERS: dict[str, Callable[[], Decoder | None]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
