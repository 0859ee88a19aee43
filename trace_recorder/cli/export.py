"""The command `export`: writes runs in an export format, or sends them to a service one by one (`--endpoint`).

`export_files.py` writes the runs, and `send_runs` sends them. A run that cannot be read, written or sent is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from trace_recorder.cli.arguments import (
    DefaultRuns,
    IndexPath,
    Jobs,
    check_names,
    completion_of,
    parse_key_values,
    paths_or_default,
)
from trace_recorder.cli.engines import DEFAULT_ENGINE, Address, Engine, EngineName, jobs_for
from trace_recorder.cli.export_files import Export, ExportTarget
from trace_recorder.cli.export_run import Conversion
from trace_recorder.cli.output import fail, warn
from trace_recorder.cli.read_files import UnreadableError, process_or_error, read_run
from trace_recorder.cli.selecting import (
    Failed,
    Limit,
    Meta,
    ModelOption,
    Reverse,
    RewardOption,
    Since,
    SortBy,
    TaskOption,
    ToolOption,
    Until,
    Where,
    select_runs,
    selection_of,
)
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.formats.format_writer import EXPORT_FORMATS
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.remote_files import remote_output
from trace_recorder.values.trajectory import Trajectory

if TYPE_CHECKING:
    from trace_recorder.exporters.delivery import Delivery

_ONLY_SENT = ("langfuse", "langsmith")
"""Formats that are sent to a service and never written to a file."""
Name = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=f"One of: {', '.join((*EXPORT_FORMATS, *_ONLY_SENT))}.",
        autocompletion=completion_of((*EXPORT_FORMATS, *_ONLY_SENT)),
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", metavar="PATH", help="A directory, or a file if the format writes one file. Default: stdout."
    ),
]


def _complete_form(incomplete: str) -> list[str]:
    """Return the values of `--form` that begin with a text, for the completion of a shell.

    Only this function imports the modules of all formats.
    """
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
    list[str] | None,
    typer.Option(
        "--metadata", metavar="KEY=VALUE", help="Metadata of the dataset. A value may be JSON. May be repeated."
    ),
]
IncludeIncomplete = Annotated[
    bool,
    typer.Option(
        "--include-incomplete",
        help="openai, trl: also train on answers that were cut off, are incomplete, or are empty.",
    ),
]
EndpointOption = Annotated[
    str | None, typer.Option(metavar="URL", help="otlp, langfuse, langsmith: send the runs to this address.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an export or a transfer that was interrupted.")]
NoContent = Annotated[
    bool,
    typer.Option(
        "--no-content", help="otlp and services: leave out prompts, answers, and the arguments and results of tools."
    ),
]
NewMessagesOption = Annotated[
    bool, typer.Option("--new-messages", help="otlp: write only the new messages of each prompt.")
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="KEY=VALUE", help="With --endpoint: a header to send with each request."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


def export(  # noqa: PLR0913, PLR0917 - one argument for each option
    name: Name,
    paths: DefaultRuns = None,
    out: Out = None,
    form: Form = None,
    dataset: Dataset = None,
    metadata: Metadata = None,
    include_incomplete: IncludeIncomplete = False,
    endpoint: EndpointOption = None,
    resume: Resume = False,
    no_content: NoContent = False,
    new_messages: NewMessagesOption = False,
    header: Header = None,
    force: Force = False,
    jobs: Jobs = None,
    where: Where = None,
    model: ModelOption = None,
    task: TaskOption = None,
    since: Since = None,
    until: Until = None,
    tool: ToolOption = None,
    reward: RewardOption = None,
    meta: Meta = None,
    failed: Failed = False,
    sort: SortBy = None,
    reverse: Reverse = False,
    limit: Limit = None,
    index: IndexPath = None,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Write runs in other tools' formats, or send them to a service.

    Contents that the format cannot hold are left out, and counted on stderr. A run that cannot be read is reported and
    skipped; the exit code is then 1.
    """
    workers = Engine(engine, address)
    selection = selection_of(
        where,
        *(model, task, since, until, tool, reward),
        meta=meta,
        failed=failed,
        sort=sort,
        reverse=reverse,
        limit=limit,
    )
    sources = paths_or_default(paths)
    selected = select_runs(sources, selection, index=index, jobs=jobs)
    runs = selected.paths
    spans = {"content": not no_content, "new_messages": new_messages}
    if endpoint or name in _ONLY_SENT:
        arrived = _send_spans(runs, name, endpoint, form, spans, header or [], resume=resume)
        if selected.unreadable or not arrived:
            raise typer.Exit(1)
        return
    _check_unsent(name, has_span_options=no_content or new_messages, has_headers=bool(header))
    check_names([name], (*EXPORT_FORMATS, *_ONLY_SENT), "--format")
    if resume and EXPORT_FORMATS[name].kind == "rows":
        raise typer.BadParameter("this format writes all rows into one file", param_hint="--resume")
    dataset_metadata = parse_key_values(metadata or [], "--metadata")
    if dataset:
        dataset_metadata["name"] = dataset
    options: tuple[tuple[str, bool], ...] = ()
    if name == "otlp":
        options = tuple(spans.items())
    with _failing(), _local_output(out, force=force, resume=resume) as local:
        target = _target(name, local, len(runs))
        exported = Export(
            Conversion(name, form, include_incomplete, force, resume, options),
            target,
            dataset_metadata,
            jobs_for(runs, jobs),
            workers,
            sources=sources,
        )
        exported.conversion.view()  # misuse is reported before anything is read
        exported.run(runs)
        for line in exported.summary(out or "stdout"):
            warn(line)
    if selected.unreadable or exported.total.failed:
        raise typer.Exit(1)


def _check_unsent(name: str, *, has_span_options: bool, has_headers: bool) -> None:
    """Raise BadParameter for an option that does not fit an export into files."""
    if name != "otlp" and has_span_options:
        raise typer.BadParameter("--no-content and --new-messages are for otlp", param_hint="--format")
    if has_headers:
        raise typer.BadParameter("it needs --endpoint", param_hint="--header")


@contextmanager
def _local_output(out: str | None, *, force: bool, resume: bool) -> Iterator[str | None]:
    """Yield the path to write to.

    If `out` is an address of fsspec, yield a temporary path. Its files are copied to the address at the end of the
    block.
    """
    if out is None or (url := remote_address(out)) is None:
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
    """Run the block.

    If an extra is missing, an option is misused, or a file cannot be written, print the error and exit.
    """
    try:
        yield
    except (ImportError, ValueError) as error:
        fail(str(error))
    except OSError as error:
        if error.strerror is not None and error.filename is None:  # an error of stdout, which `main` reports
            raise
        if error.strerror is None:
            fail(str(error))
        fail(f"{error.filename}: {error.strerror}")


def _send_spans(  # noqa: PLR0913, PLR0917 - one argument for each option
    paths: list[Path],
    name: str,
    endpoint: str | None,
    form: str | None,
    spans: dict[str, bool],
    headers: list[str],
    *,
    resume: bool,
) -> bool:
    """Send the runs to a service, and return whether all of them arrived."""
    if name not in SERVICES:
        raise typer.BadParameter(f"{name} cannot be sent, only {', '.join(SERVICES)}", param_hint="--format")
    settings: dict[str, object] = {"content": spans["content"]}
    if name == "otlp":
        values = {key: str(value) for key, value in parse_key_values(headers, "--header").items()}
        settings |= {"headers": values, "conventions": form or "genai", **spans}
    elif form or headers or spans["new_messages"]:
        raise typer.BadParameter("--form, --header and --new-messages are for otlp", param_hint="--format")
    module, function = SERVICES[name]
    try:
        target: SendTarget = getattr(import_module(module), function)(endpoint, **settings)
        return send_runs(paths, target, resume=resume)
    except (ImportError, ValueError) as error:
        fail(str(error))


def _target(name: str, out: str | None, runs: int) -> ExportTarget:
    try:
        return ExportTarget.of(name, out, runs)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="-o") from None


class SendTarget(Protocol):
    """A service that runs are sent to."""

    @property
    def name(self) -> str:
        """The name of the service, for messages on stderr."""

    def sender(self) -> Any:
        """Return a connection to the service. Raises MissingExtraError."""

    def send_run(self, path: Path, trajectory: Trajectory, sender: Any, /, *, resume: bool = False) -> Delivery:
        """Send a run."""


SERVICES: dict[str, tuple[str, str]] = {
    "otlp": ("trace_recorder.exporters.otlp", "otlp"),
    "langfuse": ("trace_recorder.exporters.langfuse", "langfuse"),
    "langsmith": ("trace_recorder.exporters.langsmith", "langsmith"),
}
"""Maps a value of `--format` to a module, and to the function of this module that makes the target."""


MAX_FAILURES = 3
"""Sending stops after this many runs in a row of which no span arrived.

The fault is then in the service, and not in the runs.
"""


def send_runs(runs: Sequence[Path], target: SendTarget, *, resume: bool) -> bool:
    """Send runs, and return whether all of them arrived. Raises MissingExtraError."""
    failed = sent = count = consecutive = 0
    with closing(target.sender()) as sender, _quiet("opentelemetry"):
        for path in runs:
            count += 1
            delivery = process_or_error(path, partial(_send, path, target, sender, resume=resume), "sent")
            if isinstance(delivery, UnreadableError):
                warn(str(delivery))
                failed += 1
                continue
            sent += delivery.sent
            if delivery.missing or delivery.missing_scores:
                counts = {"span": delivery.missing, "score": delivery.missing_scores}
                missing = " and ".join(pluralize(number, noun) for noun, number in counts.items() if number)
                warn(f"{path}: {missing} did not arrive; --resume sends them again")
                failed += 1
            if delivery.missing and not delivery.sent:
                consecutive += 1
            else:
                consecutive = 0
            if consecutive == MAX_FAILURES and count < len(runs):
                warn(
                    f"nothing of {MAX_FAILURES} runs in a row arrived at {target.name}: the remaining runs are not sent"
                )
                break
    warn(f"{pluralize(count, 'run')} read: {pluralize(sent, 'span')} sent to {target.name}")
    return not failed


@contextmanager
def _quiet(library: str) -> Iterator[None]:
    """Turn off the log of a library during the block.

    `send_runs` itself reports the spans of a run that did not arrive.
    """
    log = logging.getLogger(library)
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def _send(path: Path, target: SendTarget, sender: Any, *, resume: bool) -> Delivery:
    return target.send_run(path, read_run(path), sender, resume=resume)
