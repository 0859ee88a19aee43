"""The commands by name. A command's module is imported only when the command is called, so that commands start quickly.

Exit codes: 0 is success. 1 is a failure, which one sentence on stderr or the findings describe. 2 is misuse.

typer's own help adds the types of Python (`<list[Path]>`), and brackets that depend on the version of typer. So
`RecorderCommand` shows only the metavar of an argument, such as `[PATH...]`, as the command declares it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from trace_recorder.cli.output import fail
from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.errors import TraceRecorderError
from trace_recorder.version import __version__

ClickObject = Any
"""A context, a formatter or a parameter of click. Newer versions of typer have classes of their own for these."""
COMMAND_PARAMETER = "command"
"""The name of the parameter that has the command line of another program."""


class RecorderCommand(TyperCommand):
    """A command of `trace-recorder`."""

    def collect_usage_pieces(self, ctx: ClickObject) -> list[str]:
        """Return the words of the usage line after the name."""
        return [self.options_metavar or "", *(name for name, _ in self._argument_records(ctx))]

    def format_options(self, ctx: ClickObject, formatter: ClickObject) -> None:
        """Write a section of arguments and one of options."""
        options = [
            record
            for param in self.get_params(ctx)
            if param.param_type_name == "option" and (record := param.get_help_record(ctx))
        ]
        for title, records in (("Arguments", self._argument_records(ctx)), ("Options", options)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: ClickObject, args: list[str]) -> list[str]:
        """Keep the words after `--` for the other program. So the run before `--` may be omitted."""
        takes_run = {"run", COMMAND_PARAMETER} <= {param.name for param in self.params}
        if not takes_run or "--" not in args or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        position = args.index("--")
        words = args[position + 1 :]
        rest = super().parse_args(ctx, args[:position])
        ctx.params[COMMAND_PARAMETER] = [*(ctx.params.get(COMMAND_PARAMETER) or ()), *words]
        return rest

    def _argument_records(self, ctx: ClickObject) -> list[tuple[str, str]]:
        arguments: list[ClickObject] = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return [(argument.metavar, argument.help or "") for argument in arguments]


COMMANDS = {
    "list": "list_command:list_",
    "show": "show_command:show",
    "tail": "tail:tail",
    "view": "view:view",
    "stats": "stats:stats",
    "diff": "diff:diff",
    "grep": "grep:grep",
    "find": "find:find",
    "index": "find:index",
    "sql": "sql_command:sql",
    "validate": "validate:validate_",
    "recover": "recover:recover",
    "export": "export:export",
    "import": "import_command:import_",
    "score": "score:score",
    "run": "run:run",
    "proxy": "proxy:proxy",
    "replay": "replay:replay",
    "fork": "replay:fork",
    "serve": "replay:serve",
}
"""The module and the function of each command, in the order in which the help lists them."""
_FAILURE_CODES = {"diff": 2, "find": 2, "grep": 2}
"""The exit codes with which these commands fail, because 1 is an answer, such as "no match". All others fail with 1."""
_RUN_PROGRAMS = {"run", "proxy"}
"""The options of these commands end where the program begins, with or without `--`."""
_COMPLETION_VARIABLES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The environment variables in which shells pass the line that is to be completed."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """Return the application for a command line: with the command that the line begins with, or with all commands."""
    if "_TRACE_RECORDER_COMPLETE" in os.environ:
        words = next(filter(None, map(os.environ.get, _COMPLETION_VARIABLES)), "").split()[1:]
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
        settings = {"allow_interspersed_args": False} if name in _RUN_PROGRAMS else None
        command = getattr(import_module(f"trace_recorder.cli.{module}"), function)
        handled = _with_error_handler(command, _FAILURE_CODES.get(name, 1))
        app.command(name, cls=RecorderCommand, context_settings=settings)(handled)
    return app


def _with_error_handler(command: Callable[..., None], code: int) -> Callable[..., None]:
    """Return the command with a handler that prints an error of this package as one sentence, and exits."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except (UnreadableError, TraceRecorderError) as error:
            fail(str(error), code)

    return run


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"trace-recorder {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit.")
]


def options(version: Version = False) -> None:  # noqa: ARG001 - the callback of the option prints the version
    """Look at what an agent did: the runs that trace_recorder recorded."""
