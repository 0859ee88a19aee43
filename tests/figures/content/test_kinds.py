"""Every part of a message or an answer is in the export, or counted as left out, in every format."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.figures.content.marked_cases import Case, handmade, of_corpus
from tests.wire.corpus import DIRECTORY
from trace_recorder import Trajectory
from trace_recorder.dialects.json_access import json_value
from trace_recorder.values.content_parts import standard_base64
from trace_recorder.views import (
    to_atif,
    to_hierarchy,
    to_invariant_dataset,
    to_openai_finetuning,
    to_traces,
    to_trae,
    to_trl,
    to_turns,
)

Payload = Any
Reported = tuple[Payload, Counter[str]]
View = Callable[..., Reported]


def _dataset(run: Trajectory) -> Reported:
    lines, left_out = to_invariant_dataset.with_report([run])
    return [*map(json.loads, lines)], left_out


def _with_images(directory: Path, run: Trajectory) -> Reported:
    """Return an ATIF document together with its images as base64."""
    document, left_out = to_atif.with_report(run, directory / "images")
    files = sorted((directory / "images").glob("*"))
    images = [base64.b64encode(file.read_bytes()).decode() for file in files]
    for file in files:
        file.unlink()
    return [document, images], left_out


def _views(directory: Path) -> dict[str, View]:
    """Return every format. Training data has all answers, so that all rows can be searched."""
    return {
        "atif": partial(_with_images, directory),
        "hierarchy": to_hierarchy.with_report,
        "invariant": _dataset,
        "toolbrain": to_turns.with_report,
        "toolbrain with a template": partial(to_turns.with_report, chat_template=TEMPLATE),
        "traces": to_traces.with_report,
        "trae": to_trae.with_report,
        "openai": partial(to_openai_finetuning.with_report, include_incomplete=True),
        "trl": partial(to_trl.with_report, include_incomplete=True),
        "trl by completion": partial(to_trl.with_report, form="prompt_completion", include_incomplete=True),
    }


TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.reasoning_content | default('') }}"
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{{ m.tool_calls | default('') }}\n{% endfor %}"
)


def _vanished(case: Case, views: dict[str, View]) -> Iterator[str]:
    """Yield the formats in which a case's content is neither present nor counted."""
    held = [*_texts(case.content)]
    for name, view in views.items():
        value, left_out = view(case.run())
        shown = _searchable(value)
        if all(any(form in shown for form in (text, standard_base64(text), json.dumps(text)[1:-1])) for text in held):
            continue
        _, without = view(case.run_without())
        if not left_out - without:
            yield f"{case.name}: {name}: {json.dumps(case.content)[:300]}"


_NAMES = frozenset(
    (
        *("type", "role", "id", "call_id", "tool_use_id", "status", "phase", "cache_control", "logprobs"),
        *("mimeType", "mime_type", "media_type", "detail", "resolution"),
    )
)
"""Members that name a part or say how to show it, and are not its content."""


def _texts(value: Payload) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (text for name, inner in value.items() if name not in _NAMES for text in _texts(inner))
    elif isinstance(value, list):
        yield from (text for inner in value for text in _texts(inner))
    elif isinstance(value, str) and isinstance(json_value(value), dict):
        yield from _texts(json_value(value))
    elif isinstance(value, str):
        yield value.partition(";base64,")[2] or value


def _searchable(value: Payload) -> str:
    """Return all texts of an export, including those of JSON within a text."""
    if isinstance(value, dict):
        return "\n".join(f"{name}\n{_searchable(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return "\n".join(map(_searchable, value))
    return str(value)


def test_each_part_is_in_the_export_or_counted(tmp_path: Path) -> None:
    """Each part is in the export, or the export counts one more omission than without the part."""
    views = _views(tmp_path)

    assert [lost for case in handmade() for lost in _vanished(case, views)] == []


@pytest.mark.skipif(not DIRECTORY.is_dir(), reason=f"no corpus in {DIRECTORY}")
def test_each_part_of_the_corpus_is_in_the_export_or_counted(tmp_path: Path) -> None:
    """The test covers each kind of part, item and member that real providers sent."""
    views = _views(tmp_path)

    assert [lost for case in of_corpus() for lost in _vanished(case, views)] == []
