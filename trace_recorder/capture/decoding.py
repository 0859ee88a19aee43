"""Decodes bodies that have a content encoding: gzip, deflate, br and zstd, if their libraries are installed.

The body of a request that is a multipart form becomes JSON (`dialects/form_bodies.py`).

An HTTP library offers the server only the encodings that it can decode itself, with these same libraries. A program
that uses the proxy may offer other encodings. Therefore the extra `proxy` installs the libraries for br and zstd.

A body that decompresses to more than `max_size` allows is not on file. Its compressed bytes are not on file either,
because secrets in them cannot be masked. A gap states their number and their digest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from hashlib import sha256

from trace_recorder.background_work import yield_to_others
from trace_recorder.decompression import MAX_RATIO, Decoder, TooLargeError, decoder_of
from trace_recorder.dialects.form_bodies import Headers, content_type_of, form_as_json, is_form
from trace_recorder.dialects.stream_framing import MEDIA_TYPE, FrameDecoder
from trace_recorder.guard import try_call

_UNSUSPICIOUS_BYTES = 1024 * 1024
"""Parts of a body are written without delay up to this length, however well the body is compressed."""
PLAIN_BEGINNINGS = b"{["
"""A body that begins with one of these bytes is JSON, and has no encoding. Nearly all requests have such a body."""


def body_decoder(content_encoding: str, content_type: str) -> Decoder | None:
    """Return a decoder for the values of the headers `Content-Encoding` and `Content-Type`.

    Return None if the body needs no decoding, or has an unknown encoding. The decoder of a Bedrock stream turns frames
    into lines of text.
    """
    decode = decoder_of(content_encoding)
    if not content_type.startswith(MEDIA_TYPE):
        return decode
    if decode is not None:
        return _frames(decode)
    if content_encoding.strip().lower() in {"", "identity"}:
        return _frames(lambda data: iter((data,)))
    return None


def _frames(decode: Decoder) -> Decoder:
    read_frames = FrameDecoder()
    return lambda data: map(read_frames, decode(data))


class EncodedBody:
    """The body of one response that must be decoded. Its chunks are decoded piece by piece, when the caller asks.

    `why_missing` says why a part of the body is missing, or is None. The thread that reads the response calls the other
    methods.
    """

    def __init__(self, decode: Decoder) -> None:
        self.is_too_large = False
        """Whether decoding stopped because the body decompresses to more than `max_size` allows."""
        self._decode = decode
        self._waiting: deque[tuple[float, Iterator[bytes]]] = deque()
        self._received = self._decoded = 0
        self._digest = sha256()
        self._failure: str | None = None

    @property
    def has_more(self) -> bool:
        """Whether received bytes wait to be decoded."""
        return bool(self._waiting)

    @property
    def may_be_too_large(self) -> bool:
        """Whether the body has become so much longer that decoding it further may exceed the limit.

        No part of such a body is written before its end, because a body that is too large is not recorded.
        """
        return self._decoded > max(_UNSUSPICIOUS_BYTES, MAX_RATIO * self._received)

    def add(self, time: float, data: bytes) -> None:
        """Take the next received bytes, and the time at which they came."""
        self._received += len(data)
        self._digest.update(data)
        if self._failure is None:
            self._waiting.append((time, self._pieces(data)))

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield decoded pieces. The decoder is called for the first piece, so `add` cannot fail."""
        yield from self._decode(data)

    def next_piece(self) -> tuple[float, bytes]:
        """Decode one more piece. Return the time of its chunk and its bytes, which may be empty.

        Raises any exception if the bytes cannot be decoded. After that, and after the limit, no byte is decoded.
        """
        time, pieces = self._waiting[0]
        try:
            piece = next(pieces, None)
        except TooLargeError as error:
            self.is_too_large = True
            self._stop(str(error))
            return time, b""
        except BaseException:
            self._stop("a part of it could not be decoded")
            raise
        if piece is None:
            self._waiting.popleft()
            return time, b""
        self._decoded += len(piece)
        return time, piece

    def _stop(self, why: str) -> None:
        self._failure = why
        self._waiting.clear()

    def why_missing(self) -> str | None:
        """Return why a part of the body is missing, with the number and the digest of the received bytes."""
        if self.is_too_large:
            return f"{self._failure}; {_describe(self._received, self._digest.hexdigest())}"
        if self._failure is None and self.has_more:
            return "a part of it was not decoded yet"
        return self._failure


def plain_request(headers: Headers, body: bytes) -> bytes:
    """Return the decoded body of a request, and a multipart form as JSON.

    A body that is not encoded, or cannot be decoded, is returned unchanged.

    Raises TooLargeError if the body decompresses to more than `max_size` allows. The message has the number and the
    digest of its bytes. Call this function in a thread if `may_be_encoded` returns True and an event loop waits.
    """
    if body[:1] in PLAIN_BEGINNINGS:  # an empty body too
        return body
    decode = decoder_of(_encoding_of(headers))
    if decode is not None:
        decoded = try_call(_joined, _undecodable, decode, body)
        if decoded is not None:
            body = decoded
    form = try_call(form_as_json, _undecodable, content_type_of(headers), body)
    return body if form is None else form


def may_be_encoded(headers: Headers, body: bytes) -> bool:
    """Whether `plain_request` may change a body. The result may be any number of times longer than the body seems."""
    if body[:1] in PLAIN_BEGINNINGS:
        return False
    return is_form(headers) or decoder_of(_encoding_of(headers)) is not None


def _encoding_of(headers: Headers) -> str:
    return b",".join([value for name, value in headers if name.lower() == b"content-encoding"]).decode("latin-1")


def _joined(decode: Decoder, body: bytes) -> bytes:
    pieces = []
    try:
        for piece in decode(body):
            pieces.append(piece)
            yield_to_others()
    except TooLargeError as error:
        raise TooLargeError(f"{error}; {_describe(len(body), sha256(body).hexdigest())}") from None
    return b"".join(pieces)


def _undecodable(error: Exception) -> None:
    if isinstance(error, TooLargeError):
        raise error


def _describe(size: int, digest: str) -> str:
    return f"the {size} compressed bytes have the SHA-256 digest {digest}"
