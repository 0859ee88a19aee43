"""The formats that `export` writes, by name: a table, one row a format.

A row says what a run becomes: rows of one file, a document of its own, or sessions, each a file of lines. A view is
imported when its format is asked for. It is a function of a trajectory; those that can say what they leave out take
`dropped`, a counter.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Literal

from trace_recorder.cli.export_names import conversation_file
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

Kind = Literal["rows", "documents", "sessions"]


@dataclass(frozen=True, slots=True)
class Source:
    """A run that is to be exported: how its file is called, its number among all, and where images may go."""

    name: str
    number: int
    directory: Path = Path()


@dataclass(frozen=True, slots=True)
class Format:
    """A format: what a run becomes, the view that makes it, and the forms in which it does, if there are several."""

    kind: Kind
    module: str
    function: str
    forms: tuple[str, ...] = ()
    begins_with_metadata: bool = False
    trains: bool = False

    @property
    def suffix(self) -> str:
        """That of the file that a run becomes."""
        return ".json" if self.kind == "documents" else ".jsonl"

    def view(self, form: str | None, *, include_incomplete: bool = False) -> Callable[..., Payload]:
        """Import the view. Raises ValueError where the format is of no such form, or is not made for training."""
        if include_incomplete:
            if not self.trains:
                raise ValueError("this format leaves no answer out: --include-incomplete is for openai and trl")
            return partial(self.view(form), include_incomplete=True)
        if form is not None and form not in self.forms:
            said = f"its forms are {', '.join(self.forms)}" if self.forms else "it has one form only"
            raise ValueError(f"this format has no form {form!r}: {said}")
        view: Callable[..., Payload] = getattr(import_module(f"trace_recorder.views.{self.module}"), self.function)
        if form is None:
            return view
        if self.function == "to_turns":
            return partial(view, parser=import_module("trace_recorder.views.toolbrain.parsing").PARSERS[form])
        return partial(view, **{"cut" if self.function == "to_hierarchy" else "form": form})


FORMATS: dict[str, Format] = {
    "atif": Format("documents", "atif.document", "atif_documents"),
    "hierarchy": Format("documents", "hierarchy.document", "to_hierarchy", forms=("turn", "message")),
    "invariant": Format("rows", "invariant.dataset", "dataset_lines", begins_with_metadata=True),
    "openai": Format("rows", "training.openai_finetuning", "to_openai_finetuning", trains=True),
    "toolbrain": Format("documents", "toolbrain.turns", "to_turns", forms=("calls", "code", "react")),
    "traces": Format("sessions", "pi_sessions", "to_traces"),
    "trae": Format("documents", "trae", "to_trae"),
    "trl": Format("rows", "training.trl", "to_trl", forms=("messages", "prompt_completion", "tokens"), trains=True),
}


def pieces_of(
    name: str, view: Callable[..., Payload], trajectory: Trajectory, source: Source, dropped: Counter[str]
) -> Iterator[tuple[str, Payload]]:
    """Give what a run becomes: a file's name with its content, or for rows, each row with no name."""
    counted = {"dropped": dropped} if "dropped" in signature(view).parameters else {}
    if name == "atif":
        yield from view(trajectory, f"{source.name}.json", source.directory / f"{source.name}_images", **counted)
    elif FORMATS[name].kind == "documents":
        yield f"{source.name}.json", view(trajectory, **counted)
    elif FORMATS[name].kind == "sessions":
        for number, session in enumerate(view(trajectory, **counted)):
            yield conversation_file(source.name, number), session
    elif name == "invariant":
        lines = (json.loads(line) for line in view([trajectory], **counted))
        yield from (("", line | {"index": source.number}) for line in lines if line["messages"])
    else:
        rows: Iterable[Payload] = view(trajectory, **counted)
        yield from (("", row) for row in rows)
