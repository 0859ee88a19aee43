"""TRAE CLI's sessions: it is a fork of Codex, and writes Codex's rollouts with itself as the provider."""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.imports.foreign import codex
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import ForeignRun
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.token_counts import WHOLE

_PROVIDER = "trae"
_INSTRUCTIONS = "You are TRAE CLI"


def recognizes(source: Source) -> bool:
    """Whether the file is a rollout that names TRAE as its provider, or in its instructions."""
    if not codex.recognizes(source):
        return False
    about = [as_dict(as_dict(line.value).get("payload")) for line in source.first_lines]
    told = (as_text(as_dict(one.get("base_instructions")).get("text")) or "" for one in about)
    return any(one.get("model_provider") == _PROVIDER for one in about) or any(
        text.startswith(_INSTRUCTIONS) for text in told
    )


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one session of a file."""
    return codex.read(source)


FORMAT = ImportFormat(name="traex", recognizes=recognizes, read=read, counting=WHOLE)
