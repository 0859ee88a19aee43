"""The formats that `export` writes, by name: a table, one row a format.

A row says what a run becomes: rows of one file, a document of its own, or sessions, each a file of lines. A view is
imported when its format is asked for, and called with a report of what it leaves out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Literal

from trace_recorder.cli.export_names import conversation_file
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

Kind = Literal["rows", "documents", "sessions"]
ReportingView = Callable[..., tuple[Payload, Counter[str]]]
"""A view that returns what it left out as well: for an iterator, that is complete when it ends."""


@dataclass(frozen=True, slots=True)
class Source:
    """A run that is to be exported: how its file is called, and where images may go."""

    name: str
    directory: Path = Path()


@dataclass(frozen=True, slots=True)
class Format:
    """A format: what a run becomes, the view that makes it, and the forms in which it does, if there are several."""

    kind: Kind
    module: str
    function: str
    forms: tuple[str, ...] = ()
    begins_with_metadata: bool = False
    has_index: bool = False
    """Whether each row has the number of its run among all, as `index`."""
    trains: bool = False

    @property
    def suffix(self) -> str:
        """That of the file that a run becomes."""
        return ".json" if self.kind == "documents" else ".jsonl"

    def view(self, form: str | None, *, include_incomplete: bool = False) -> ReportingView:
        """Import the view. Raises ValueError where the format is of no such form, or is not made for training."""
        if include_incomplete:
            if not self.trains:
                raise ValueError("this format leaves no answer out: --include-incomplete is for openai and trl")
            return partial(self.view(form), include_incomplete=True)
        if form is not None and form not in self.forms:
            said = f"its forms are {', '.join(self.forms)}" if self.forms else "it has one form only"
            raise ValueError(f"this format has no form {form!r}: {said}")
        view: ReportingView = getattr(import_module(f"trace_recorder.views.{self.module}"), self.function).with_report
        if form is None:
            return view
        if self.function == "turns_one_by_one":
            return partial(view, parser=import_module("trace_recorder.views.toolbrain.parsing").PARSERS[form])
        return partial(view, **{_FORM_ARGUMENTS.get(self.function, "form"): form})


_FORM_ARGUMENTS = {"to_hierarchy": "cut", "to_otlp": "conventions"}

FORMATS: dict[str, Format] = {
    "atif": Format("documents", "atif.document", "to_atif_files"),
    "hierarchy": Format("documents", "hierarchy.document", "to_hierarchy", forms=("turn", "message")),
    "inspect": Format("documents", "inspect.log", "to_inspect", forms=("json", "eval")),
    "invariant": Format("rows", "invariant.dataset", "to_invariant_dataset", begins_with_metadata=True, has_index=True),
    "openai": Format("rows", "training.openai_finetuning", "to_openai_finetuning", trains=True),
    "otlp": Format("sessions", "otlp.otlp_json", "to_otlp", forms=("genai", "genai-0.1", "openinference", "both")),
    "session-traces": Format("sessions", "session_traces", "to_session_traces"),
    "toolbrain": Format("documents", "toolbrain.turns", "turns_one_by_one", forms=("calls", "code", "react")),
    "traces": Format("sessions", "pi_sessions", "to_traces"),
    "trae": Format("documents", "trae", "to_trae"),
    "trl": Format("rows", "training.trl", "to_trl", forms=("messages", "prompt_completion", "tokens"), trains=True),
}


def outputs_of(
    name: str, view: ReportingView, trajectory: Trajectory, source: Source
) -> tuple[Iterator[tuple[str, Payload]], Counter[str]]:
    """Return what a run becomes, and what is left out of it, which is known when the first has been read to its end.

    A piece is the name of a file with its content, or a row without a name.
    """
    if name == "atif":
        return view(trajectory, f"{source.name}.json", source.directory / f"{source.name}_images")
    made, left_out = view([trajectory] if name == "invariant" else trajectory)
    return _outputs(name, made, source), left_out


def _outputs(name: str, made: Payload, source: Source) -> Iterator[tuple[str, Payload]]:
    if FORMATS[name].kind == "documents":
        yield f"{source.name}{'.eval' if isinstance(made, bytes) else '.json'}", made
    elif name == "otlp":
        yield conversation_file(source.name, 0), made
    elif FORMATS[name].kind == "sessions":
        for number, session in enumerate(made):
            yield conversation_file(source.name, number), session
    elif name == "invariant":
        yield from (("", line) for line in map(json.loads, made) if line["messages"])
    else:
        yield from (("", row) for row in made)
