"""The command `export`: its arguments and its exit codes. `export_files.py` writes the runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import DefaultRuns, Jobs, check_names, completion_of, paths_or_default
from trace_recorder.cli.engines import DEFAULT_ENGINE, Address, Engine, EngineName, jobs_for
from trace_recorder.cli.export_files import Export, ExportTarget
from trace_recorder.cli.export_run import Conversion
from trace_recorder.cli.list_runs import listing, runs_of
from trace_recorder.cli.output import fail, warn
from trace_recorder.cli.selection import (
    Failed,
    Meta,
    Model,
    Reward,
    Selection,
    Since,
    Task,
    Tool,
    Until,
    metadata_of,
    time_of,
)
from trace_recorder.tables.remote_files import remote_output, url_of
from trace_recorder.values.messages import Payload
from trace_recorder.views.export_format import EXPORT_FORMATS

_SERVICES = ("langfuse", "langsmith")
"""Formats that are sent to a service and never written to a file."""
Name = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=f"One of: {', '.join((*EXPORT_FORMATS, *_SERVICES))}.",
        autocompletion=completion_of((*EXPORT_FORMATS, *_SERVICES)),
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", metavar="PATH", help="A directory, or a file if the format writes one file. Default: stdout."
    ),
]


def _complete_form(incomplete: str) -> list[str]:
    """Return the forms that a shell offers. Only this function imports the modules of all formats."""
    return completion_of({form for known in EXPORT_FORMATS.values() for form in known.forms})(incomplete)


Form = Annotated[
    str | None,
    typer.Option(
        "--form",
        "--parser",
        metavar="FORM",
        help="trl: messages, prompt_completion, tokens; hierarchy: turn, message; toolbrain: calls, code, react; "
        "otlp: genai, genai-0.1, openinference, both; inspect: json, eval; parquet: tables, scout.",
        autocompletion=_complete_form,
    ),
]
Dataset = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The name of the dataset, in its metadata.")
]
Metadata = Annotated[
    list[str] | None, typer.Option("--metadata", metavar="KEY=VALUE", help="More metadata. A value may be JSON.")
]
IncludeIncomplete = Annotated[
    bool,
    typer.Option(
        "--include-incomplete",
        help="openai, trl: also train on answers that were cut off, are incomplete, or are empty.",
    ),
]
Endpoint = Annotated[str | None, typer.Option(metavar="URL", help="otlp, langfuse, langsmith: send the runs there.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an export or a transfer that was interrupted.")]
NoContent = Annotated[
    bool,
    typer.Option(
        "--no-content", help="otlp and services: leave out prompts, answers, and what tools got and returned."
    ),
]
NewMessages = Annotated[bool, typer.Option("--new-messages", help="otlp: only the new messages of each prompt.")]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="KEY=VALUE", help="With --endpoint: a header to send with each request."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


def export(  # noqa: PLR0913, PLR0917 - one argument an option
    name: Name,
    paths: DefaultRuns = None,
    out: Out = None,
    form: Form = None,
    dataset: Dataset = None,
    metadata: Metadata = None,
    include_incomplete: IncludeIncomplete = False,
    endpoint: Endpoint = None,
    resume: Resume = False,
    no_content: NoContent = False,
    new_messages: NewMessages = False,
    header: Header = None,
    force: Force = False,
    jobs: Jobs = None,
    model: Model = None,
    task: Task = None,
    since: Since = None,
    until: Until = None,
    tool: Tool = None,
    reward: Reward = None,
    meta: Meta = None,
    failed: Failed = False,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Write runs in another format.

    Contents that the format has no place for are counted. A run that cannot be read is reported and skipped; the exit
    code is then 1.
    """
    workers = Engine(engine, address)
    select = Selection(
        model=model,
        task=task,
        since=time_of(since, "--since"),
        until=time_of(until, "--until"),
        failed=failed,
        tool=tool,
        reward=reward,
        metadata=metadata_of(meta),
    )
    paths = _selected(paths_or_default(paths), select)
    spans = {"content": not no_content, "new_messages": new_messages}
    if endpoint or name in _SERVICES:
        _send_spans(paths, name, endpoint, form, spans, header or [], resume=resume)
        return
    _check_spans(name, of_spans=no_content or new_messages, of_sending=bool(header))
    check_names([name], (*EXPORT_FORMATS, *_SERVICES), "--format")
    if resume and EXPORT_FORMATS[name].kind == "rows":
        raise typer.BadParameter("this format writes all rows into one file", param_hint="--resume")
    dataset_metadata = parse_key_values(metadata or [], "--metadata") | ({"name": dataset} if dataset else {})
    options = tuple(spans.items()) if name == "otlp" else ()
    with _failing(), _local_output(out, force=force, resume=resume) as local:
        runs = paths
        target = _target(name, local, len(runs))
        exported = Export(
            Conversion(name, form, include_incomplete, force, resume, options),
            target,
            dataset_metadata,
            jobs_for(runs, jobs),
            workers,
        )
        exported.conversion.view()  # misuse is reported before anything is read
        exported.run(runs)
        for line in exported.summary(out or "stdout"):
            warn(line)
    if exported.total.failed:
        raise typer.Exit(1)


def _selected(paths: list[Path], select: Selection) -> list[Path]:
    """Return the runs that match, in the order of their start. If there is no condition, no run is read for this."""
    if not select.terms:
        return runs_of(paths)
    listed = listing(paths, select=select, terms=select.terms)
    for other in listed.others:
        warn(other.reason)
    return [Path(row.path) for row in listed.trajectories] or fail("no run matches")


def _check_spans(name: str, *, of_spans: bool, of_sending: bool) -> None:
    if name != "otlp" and of_spans:
        raise typer.BadParameter("--no-content and --new-messages are for otlp", param_hint="--format")
    if of_sending:
        raise typer.BadParameter("--resume and --header go with --endpoint", param_hint="--endpoint")


@contextmanager
def _local_output(out: str | None, *, force: bool, resume: bool) -> Iterator[str | None]:
    """Yield the path to write to. If the output is an address of fsspec, the files are copied there afterwards."""
    if out is None or (url := url_of(out)) is None:
        yield out
        return
    if resume:
        raise typer.BadParameter(
            "an export to an address cannot be continued: leave out --resume", param_hint="--resume"
        )
    with remote_output(url, force=force) as local:
        yield f"{local}/" if out.endswith("/") else str(local)


@contextmanager
def _failing() -> Iterator[None]:
    """Print which extra is missing, what was misused, or which file cannot be written, and exit."""
    try:
        yield
    except (ImportError, ValueError) as error:
        fail(str(error))
    except OSError as error:
        if error.strerror is not None and error.filename is None:  # an error of stdout, which `main` reports
            raise
        fail(f"{error.filename}: {error.strerror}" if error.strerror else str(error))


def _send_spans(  # noqa: PLR0913, PLR0917 - one argument an option
    paths: list[Path],
    name: str,
    endpoint: str | None,
    form: str | None,
    spans: dict[str, bool],
    headers: list[str],
    *,
    resume: bool,
) -> None:
    send = import_module("trace_recorder.cli.send")
    if name not in send.SERVICES:
        formats = ", ".join(send.SERVICES)
        raise typer.BadParameter(f"{name} cannot be sent, only {formats}", param_hint="--format")
    settings: dict[str, object] = {"content": spans["content"]}
    if name == "otlp":
        values = {key: str(value) for key, value in parse_key_values(headers, "--header").items()}
        settings |= {"headers": values, "conventions": form or "genai", **spans}
    elif form or headers or spans["new_messages"]:
        raise typer.BadParameter("--form, --header and --new-messages are for otlp", param_hint="--format")
    try:
        arrived = send.send_runs(paths, send.target_of(name, endpoint, **settings), resume=resume)
    except (ImportError, ValueError) as error:
        fail(str(error))
    if not arrived:
        raise typer.Exit(1)


def _target(name: str, out: str | None, runs: int) -> ExportTarget:
    try:
        return ExportTarget.of(name, out, runs)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="-o") from None


def parse_key_values(pairs: list[str], option: str) -> dict[str, Payload]:
    """Parse KEY=VALUE pairs. A value is JSON, or else a text."""
    values: dict[str, Payload] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        try:
            values[key] = json.loads(value)
        except ValueError:
            values[key] = value
    return values
