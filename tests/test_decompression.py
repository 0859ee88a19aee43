"""Compressed data is decoded in bounded pieces, and refused if it becomes too large."""

from __future__ import annotations

import gzip
import sys
import zlib
from functools import cache, reduce

import pytest

from tests import zstd
from tests.capture.compressing import compressed
from trace_recorder.decompression import FREE_BYTES, MAX_RATIO, TooLargeError, decoder_of, max_size

ENCODINGS = ["gzip", "deflate", "br", "zstd"]
TEXT = "".join(f'{{"role": "user", "content": "line {number}"}}\n' for number in range(5_000)).encode()


@pytest.fixture(params=["backport", "zstandard"])
def zstd_of_either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let zstd be read by Python's own interface, and by the package of httpx where that interface is not installed."""
    if request.param == "zstandard":
        pytest.importorskip("zstandard")
        for name in ("compression.zstd", "backports.zstd"):
            monkeypatch.setitem(sys.modules, name, None)


def decoded(encoding: str, *chunks: bytes) -> list[bytes]:
    decode = decoder_of(encoding)
    assert decode is not None
    return [piece for chunk in chunks for piece in decode(chunk)]


@pytest.mark.usefixtures("zstd_of_either")
@pytest.mark.parametrize("size", [7, 4_096, 1 << 30])
@pytest.mark.parametrize("encoding", [*ENCODINGS, "gzip, br", "zstd,deflate"])
def test_a_text_is_decoded_whatever_its_chunks_are(encoding: str, size: int) -> None:
    data = reduce(compressed, encoding.replace(" ", "").split(","), TEXT)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert b"".join(decoded(encoding, *chunks)) == TEXT


@cache
def packed_zeros(encoding: str) -> bytes:
    """Return a few kilobytes that become 40 MB."""
    return reduce(compressed, encoding.replace(" ", "").split(","), bytes(40_000_000))


@pytest.mark.usefixtures("zstd_of_either")
@pytest.mark.parametrize("encoding", [*ENCODINGS, "gzip, gzip", "br, zstd"])
def test_data_that_becomes_too_large_is_refused_in_bounded_pieces(encoding: str) -> None:
    """A few kilobytes that would become 40 MB are refused. Until then, no piece has more than 2 MB."""
    data = packed_zeros(encoding)
    sizes: list[int] = []
    decode = decoder_of(encoding)
    assert decode is not None
    with pytest.raises(TooLargeError):
        sizes.extend(map(len, decode(data)))
    assert sum(sizes) <= FREE_BYTES
    assert max(sizes, default=0) <= 2 * 1024 * 1024


def test_what_an_inner_encoding_makes_is_limited_too() -> None:
    """A text of empty gzip members, compressed again, decodes to nothing in the end. It is refused on the way.

    The headers of the members are long, so that there are few of them.
    """
    magic, has_extra, size = b"\x1f\x8b\x08", b"\x04", 60_000
    header = magic + has_extra + bytes(6) + size.to_bytes(2, "little") + bytes(size)
    member = header + zlib.compress(b"", wbits=-15) + bytes(8)
    assert gzip.decompress(member * 2) == b""
    members = member * (40_000_000 // len(member))
    with pytest.raises(TooLargeError):
        decoded("gzip, zstd", zstd.compress(members))


@pytest.mark.usefixtures("zstd_of_either")
@pytest.mark.parametrize(
    ("encoding", "whole"),
    [
        ("gzip", gzip.compress(b"one, ") + gzip.compress(b"two") + b"\0\0"),
        ("zstd", zstd.compress(b"one, ") + zstd.compress(b"two")),
    ],
    ids=["gzip", "zstd"],
)
def test_several_members_are_one_text(encoding: str, whole: bytes) -> None:
    """A body may have several members or frames, and zeros after the last member of gzip, in any chunks."""
    chunks = [bytes([byte]) for byte in whole]
    assert [b"".join(decoded(encoding, *parts)) for parts in ((whole,), chunks)] == [b"one, two"] * 2


@pytest.mark.parametrize("encoding", ["", "identity", "x-own", "gzip, x-own", ", ".join(["gzip"] * 6)])
def test_an_encoding_that_is_unknown_or_repeated_has_no_decoder(encoding: str) -> None:
    assert decoder_of(encoding) is None


def test_large_data_may_become_a_multiple_of_its_size() -> None:
    assert [max_size(0), max_size(FREE_BYTES)] == [FREE_BYTES, MAX_RATIO * FREE_BYTES]
