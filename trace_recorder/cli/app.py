"""The commands by name. The module of a command is imported when the command is called, so that each starts quickly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer

from trace_recorder.cli.output import fail
from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.cli.typer_command import RecorderCommand
from trace_recorder.cli.version import version
from trace_recorder.errors import TraceRecorderError

COMMANDS = {
    "list": "list_command:list_",
    "show": "show_command:show",
    "tail": "tail:tail",
    "view": "view:view",
    "stats": "stats:stats",
    "diff": "diff:diff",
    "grep": "grep:grep",
    "find": "find:find",
    "index": "index:index",
    "sql": "sql_command:sql",
    "validate": "validate_command:validate_",
    "recover": "recover:recover",
    "export": "export:export",
    "import": "import_command:import_",
    "score": "score:score",
    "run": "run:run",
    "proxy": "proxy:proxy",
    "replay": "replay:replay",
    "fork": "fork:fork",
    "serve": "serve:serve",
}
"""The module and the function of each command, in the order in which the help lists them."""
_FAILS_WITH = {"diff": 2, "find": 2, "grep": 2}
"""The exit codes of failures of commands for which 1 is an answer. All other commands fail with 1."""
_BEFORE_A_COMMAND = {"run", "proxy"}
"""The options of these commands end where the program begins, with or without `--`."""
_COMPLETED = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The environment variables in which shells pass the line to complete."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """Return the application for a command line. It has only the command that the line names, if it names one."""
    if "_TRACE_RECORDER_COMPLETE" in os.environ:
        words = next(filter(None, map(os.environ.get, _COMPLETED)), "").split()[1:]
    name = words[0] if words else ""
    return app_of([name] if name in COMMANDS else COMMANDS)


def app_of(names: Iterable[str]) -> typer.Typer:
    """Return an application with these commands."""
    app = typer.Typer(
        name="trace-recorder",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        settings = {"allow_interspersed_args": False} if name in _BEFORE_A_COMMAND else None
        command = getattr(import_module(f"trace_recorder.cli.{module}"), function)
        app.command(name, cls=RecorderCommand, context_settings=settings)(_failing(command, _FAILS_WITH.get(name, 1)))
    return app


def _failing(command: Callable[..., None], code: int) -> Callable[..., None]:
    """Return a command that prints one sentence and exits if it raises an error of this package."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except (UnreadableError, TraceRecorderError) as error:
            fail(str(error), code)

    return run


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version())
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit.")
]


def options(version: Version = False) -> None:  # noqa: ARG001 - its callback does it
    """Look at what an agent did: the runs that trace_recorder recorded."""
