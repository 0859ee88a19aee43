"""The limits within which an index is written. Tests use smaller ones, so that a few runs are enough for all cases."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """The limits within which an index is written."""

    word_table_characters: int = 4_000_000
    """A table of words whose texts have this many characters gets no more texts."""
    block_characters: int = 128_000
    """A block whose texts have this many characters gets no more texts."""
    level: int = 5
    """The level at which texts are compressed, as for `zlib`."""
    digest_bytes: int = 5
    """The length of a text's digest, at most 7."""
    free_pages: int = 512
    """At most this many pages, or a twentieth of the file, stay free.

    A table of words that is written again needs fewer, so these stay for the next one.
    """
    pages_at_once: int = 4000
    """So many pages are given back in one transaction."""


USUAL_LIMITS = IndexLimits()
