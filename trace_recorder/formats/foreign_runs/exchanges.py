"""Makes facts from HTTP exchanges that another tool recorded.

The facts are the same as those that capture makes: a request, the text of a stream, and the headers on the allow-list.
So the imported run can be replayed like a run that capture recorded. Keys in the headers and the address of an exchange
are masked in that exchange and in all later facts. A request that equals an earlier failed request is the next attempt
of that request. Requests that do not go to a model are only counted, in an annotation of the run.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit
from zlib import crc32

from trace_recorder.decompression import decoder_of, max_size
from trace_recorder.dialects.dialect import join_stream, why_incomplete
from trace_recorder.dialects.endpoints import Endpoint, asks_for_stream, is_stream_type, recognise
from trace_recorder.dialects.form_bodies import content_type_of, form_as_json, is_form, without_boundary
from trace_recorder.dialects.json_access import as_elements, as_text
from trace_recorder.facts import Fact, JsonText, LLMErrorFact, LLMRequestFact, LLMResponseFact, LLMStreamFact
from trace_recorder.figures.content.chat_form import utf8_text
from trace_recorder.formats.foreign_runs.run import Event, HttpExchange, Members, TimedFact
from trace_recorder.guard import try_call
from trace_recorder.storage.journal_lines import body_member, text_member
from trace_recorder.storage.redaction import headers
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.urls import clean_url
from trace_recorder.storage.stream_chunks import packed
from trace_recorder.values import structs
from trace_recorder.values.jsonable import to_json, to_jsonable
from trace_recorder.values.messages import JoinedStream, Payload, without_none

_NO_BODY = "its body is not in the file"
_Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsOfExchange:
    """The facts of one exchange: the request without its body, the body, and the answer."""

    request: LLMRequestFact
    body: bytes
    answer: list[Fact]


class ForeignExchangeFacts:
    """A maker of the facts of one run's exchanges. `redaction` learns the keys in headers."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._failed: dict[_Key, tuple[str, int]] = {}

    def facts_of(self, exchange: HttpExchange, identity: str) -> FactsOfExchange:
        """Return the facts of an exchange. `identity` is its id, unless it repeats a request that failed."""
        self._redaction.learn(*headers.secrets(exchange.headers, exchange.url))
        if is_form(exchange.headers):
            form = form_as_json(content_type_of(exchange.headers), exchange.request) or exchange.request
            exchange = replace(exchange, request=form, headers=without_boundary(exchange.headers))
        exchange = replace(exchange, error=to_jsonable(exchange.error))  # a text may have half of a surrogate pair
        key = exchange.url, len(exchange.request), crc32(exchange.request)
        identity, attempt = self._failed.pop(key, (identity, 0))
        members: Members = {"interaction_id": identity, "attempt": attempt}
        if exchange.status is None or exchange.status >= 400:
            self._failed[key] = identity, attempt + 1
        request = _request(exchange, members)
        return FactsOfExchange(request=request, body=exchange.request, answer=self._answer(exchange, members))

    def with_text(self, facts: FactsOfExchange) -> LLMRequestFact:
        """Return a request whose body is not a JSON object, with the body as text or bytes."""
        return structs.replace(facts.request, **text_member(facts.body, self._redaction.mask_bytes))

    def _answer(self, exchange: HttpExchange, members: Members) -> list[Fact]:
        has_failed = exchange.status is not None and exchange.status >= 400  # noqa: PLR2004 - an HTTP status
        members = members | without_none(duration_seconds=exchange.duration_seconds)
        if exchange.status is None or (exchange.response is None and exchange.answer is None and not has_failed):
            error = exchange.error
            if error is None:
                return []
            return [LLMErrorFact(**members, type=error["type"], message=error["message"])]
        members = members | {"status": exchange.status, "headers": headers.kept(exchange.response_headers)}
        if exchange.answer is not None and exchange.response is None:
            answer = to_jsonable(exchange.answer)
            return [LLMResponseFact(**members, complete=True, stream=True, assembled=answer)]
        if exchange.response is not None and _is_stream(exchange):
            return self._stream(exchange, exchange.response, members)
        failure: str | None = None
        if exchange.response is None:
            failure = _NO_BODY
        elif exchange.error is not None:
            failure = str(exchange.error.get("message"))
        fact = LLMResponseFact(
            **members,
            complete=failure is None,
            ended_by=failure or None,
            **body_member(exchange.response or b"", self._redaction.mask_bytes),
        )
        return [fact]

    def _stream(self, exchange: HttpExchange, response: bytes, members: Members) -> list[Fact]:
        masked, count, size = self._redaction.mask_stream(response)
        part = LLMStreamFact(
            **{name: members[name] for name in ("interaction_id", "attempt", "status", "headers")},
            time_to_first_token_seconds=None,
            bytes=size,
            zlib=packed(masked, 6),
            redacted=count or None,
        )
        joined = join_stream(exchange.endpoint.api, masked)
        ended: Members = {"complete": True} | _ending(exchange, joined)
        body: Payload = None
        if joined is not None:
            body = joined.body
        ending = LLMResponseFact(**members, **ended, stream=True, assembled=JsonText(to_json(body)))
        if not response:
            return [ending]
        return [part, ending]


def _request(exchange: HttpExchange, members: Members) -> LLMRequestFact:
    endpoint = exchange.endpoint
    retries = dict(exchange.headers).get(b"x-stainless-retry-count", b"0")
    return LLMRequestFact(
        **members,
        api=endpoint.api,
        provider=endpoint.provider,
        model=endpoint.model,
        method=exchange.method,
        stream=endpoint.streams or None,
        inferred=bool(members["attempt"] and retries == b"0") or None,
        url=clean_url(utf8_text(exchange.url)),
        headers=headers.kept(exchange.headers),
    )


def _is_stream(exchange: HttpExchange) -> bool:
    """Return whether the response of an exchange is a stream."""
    media = headers.kept(exchange.response_headers).get("content-type", "")
    by_type = is_stream_type(media)
    if by_type is None:
        return (exchange.status or 0) < 400 and asks_for_stream(exchange.endpoint, exchange.request)
    return by_type


def _ending(exchange: HttpExchange, joined: JoinedStream | None) -> Members:
    """Return the members that say how a stream ended. A stream that has the last event of its protocol is complete."""
    why: str | None = None
    if (exchange.status or 0) < 300:  # noqa: PLR2004 - an HTTP status
        why = why_incomplete(joined)
    if exchange.error is not None and not (joined is not None and joined.ended):
        why = why or str(exchange.error.get("message"))
    members: Members = {}
    if joined is not None:
        members = without_none(events=joined.events, last_event=joined.ended)
    if why:
        members |= {"complete": False, "ended_by": why}
    return members


OTHER_REQUESTS = "other_requests"
"""The key of the annotation that counts the requests that did not go to a model."""
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_MEMBERS = 100
"""At most this many consecutive gzip members of a body are decompressed.

A longer body is cut there, and the run gets a gap.
"""
_GZIP = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


def model_endpoint(method: Payload, url: Payload) -> Endpoint | None:
    """Return the endpoint of a request to a model, or None for any other request."""
    try:
        parts = urlsplit(utf8_text(as_text(url) or ""))
        return recognise(str(method).upper(), parts.hostname or "", parts.path, parts.port).call
    except ValueError:
        return None


def other_requests(count: int) -> list[Event]:
    """Return an annotation with the number of requests that did not go to a model, or [] if the number is 0."""
    return [TimedFact.annotation(key=OTHER_REQUESTS, value=count)] if count else []


def with_gap(exchange: HttpExchange, name: str, why: str | None = None) -> list[Event]:
    """Return an exchange, and a gap if the response lacks a status or a body, or is incomplete.

    `name` names the exchange in the gap, and `why` says why the response is incomplete.
    """
    has_body = exchange.response is not None or exchange.answer is not None
    if has_body and exchange.status is None:
        why = "it has no status"
    elif exchange.status is not None and not has_body:
        why = "it has no body, or its base64 body cannot be decoded"
    if why is None:
        return [exchange]
    return [exchange, TimedFact.gap(what=f"the response of {name}", why=why, time=exchange.time)]


def header_pairs(headers: Iterable[tuple[Payload, Payload]]) -> list[tuple[bytes, bytes]]:
    """Return headers as bytes. A header with several values becomes a header for each value."""
    pairs = ((name, value) for name, values in headers for value in as_elements(values))
    return [
        (_latin(name), _latin(value))
        for name, value in pairs
        if isinstance(name, str) and isinstance(value, str | bytes)
    ]


def _latin(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1", "replace")


def as_bytes(text: str) -> bytes:
    """Return a text as the bytes of a body. A lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace")


def from_base64(text: str) -> bytes | None:
    """Decode a base64 text. Return None if the text is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def without_encoding(data: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[bytes, str | None]:
    """Decode a body as its Content-Encoding states.

    Return the body, and the reason if it cannot be decoded completely. A body may already be decoded, although its
    header states an encoding. The decoded body is cut at the limit of `max_size`.
    """
    name = next((value.decode("latin-1") for key, value in headers if key.lower() == b"content-encoding"), "")
    bits = _GZIP.get(name.strip().lower())
    if bits is None or not data or (bits == zlib.MAX_WBITS | 16 and not data.startswith(_GZIP_MAGIC)):
        if name.strip().lower() in {"", "identity"} or bits is not None or data[:1] in b"{[ed:":
            return data, None
        return _without_other_encoding(data, name)
    return _decompressed(data, bits)


def _decompressed(data: bytes, bits: int) -> tuple[bytes, str | None]:
    """Decompress a body of zlib's format with this number of window bits."""
    limit = max_size(len(data))
    parts: list[bytes] = []
    remaining = data
    for _ in range(_MAX_MEMBERS):
        decoder = zlib.decompressobj(bits)
        try:
            remaining_limit = max(1, limit - sum(map(len, parts)))  # zlib takes 0 as no limit
            parts.append(decoder.decompress(remaining, remaining_limit))
        except zlib.error as error:
            why: str | None = f"it cannot be decompressed ({error})"
            if bits == zlib.MAX_WBITS:  # the body may be decoded already
                why = None
            return b"".join(parts) if parts else data, why
        if decoder.unconsumed_tail:
            return b"".join(parts), f"it decompresses to more than {limit} bytes"
        remaining = decoder.unused_data
        if remaining.startswith(_GZIP_MAGIC):
            continue
        if not decoder.eof:
            return b"".join(parts), "its compressed data is not complete"
        return b"".join(parts), None
    return b"".join(parts), f"its compressed data has more than {_MAX_MEMBERS} members"


def _without_other_encoding(data: bytes, name: str) -> tuple[bytes, str | None]:
    """Decode a body in br, in zstd, or in several encodings."""
    decode = decoder_of(name)
    if decode is None:
        return data, f"the encoding {name} is not read"
    pieces: list[bytes] = []

    def append_all() -> None:
        pieces.extend(decode(data))

    why: str | None = try_call(append_all, lambda error: f"it cannot be decompressed ({error})")
    return b"".join(pieces) if pieces else data, why
