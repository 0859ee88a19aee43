"""What the attributes of spans mean, one module a vocabulary.

Each has `read(span)`, which returns None for a span that is not its own.

`read_span` asks all of them: a span may carry several, and what one leaves open another may say. The order decides
where two of them say the same thing differently: the more specific first.
"""

from __future__ import annotations

from trace_recorder.imports.foreign.spans.reading import Reading, merged
from trace_recorder.imports.foreign.spans.span import Span
from trace_recorder.imports.foreign.spans.vocabularies import (
    atof,
    genai,
    genai_events,
    langfuse,
    langsmith,
    logfire,
    mlflow,
    openinference,
    openllmetry,
    vercel,
)

__all__ = ("read_span",)

_VOCABULARIES = (atof, mlflow, langsmith, langfuse, genai, genai_events, openinference, openllmetry, vercel, logfire)


def read_span(span: Span) -> Reading:
    """Return what a span means, by all vocabularies that know any of its attributes."""
    readings = (vocabulary.read(span) for vocabulary in _VOCABULARIES)
    return merged(reading for reading in readings if reading is not None)
