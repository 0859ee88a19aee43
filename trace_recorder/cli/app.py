"""The commands by name. A command's module is imported only when the command is called, so that commands start quickly.

The exit code is 0 for success, 2 for misuse, and 1 for any other failure (2 for the commands in `FAILURE_CODES`). One
sentence on stderr, or a finding of `validate`, describes the failure. Commands that run a program exit as the program
did.

typer's own help adds Python's types, such as `<list[Path]>`, and brackets that depend on the version of typer.
Therefore `RecorderCommand` shows only the metavar that the command declares for an argument, such as `[PATH...]`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from trace_recorder.cli.output import fail
from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.errors import TraceRecorderError
from trace_recorder.storage.paths import PRICES_VARIABLE
from trace_recorder.version import __version__

ClickObject = Any
"""A context, a formatter or a parameter of click. Newer versions of typer use classes of typer instead of click's."""
COMMAND_PARAMETER = "command"
"""The name of the parameter whose value is the command line of the program to run."""


class RecorderCommand(TyperCommand):
    """A command of typer with a plain help text, which may also take the command line of a program after `--`."""

    def collect_usage_pieces(self, ctx: ClickObject) -> list[str]:
        """Return the words of the usage line after the command's name."""
        return [self.options_metavar or "", *(name for name, _ in self._argument_records(ctx))]

    def format_options(self, ctx: ClickObject, formatter: ClickObject) -> None:
        """Write a section of arguments and a section of options."""
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
        """Parse the words before `--`, and keep the words after `--` as the command line of the program to run.

        Otherwise typer would take the program's name as the RUN if the RUN before `--` is omitted.
        """
        args = self._repeated_options(args)
        takes_run = {"run", COMMAND_PARAMETER} <= {param.name for param in self.params}
        if not takes_run or "--" not in args or ctx.resilient_parsing:
            return self._parse(ctx, args)
        position = args.index("--")
        words = args[position + 1 :]
        rest = self._parse(ctx, args[:position])
        ctx.params[COMMAND_PARAMETER] = [*(ctx.params.get(COMMAND_PARAMETER) or ()), *words]
        return rest

    def _repeated_options(self, args: list[str]) -> list[str]:
        """Repeat an option whose metavar ends with "..." before each of its values: `--against a b` has two.

        A shell makes several words of a pattern such as `live/*.json`.
        """
        names = {
            name
            for param in self.params
            if param.param_type_name == "option" and (getattr(param, "metavar", None) or "").endswith("...")
            for name in param.opts
        }
        repeated, option = [], ""
        for position, word in enumerate(args):
            if word.startswith("-"):
                option = word
            elif option in names and args[position - 1] != option:
                repeated.append(option)
            repeated.append(word)
        return repeated

    def _parse(self, ctx: ClickObject, args: list[str]) -> list[str]:
        """Parse words. Refuse an option that takes one value and is given twice: click would drop the first value."""
        if not ctx.resilient_parsing:
            params: list[ClickObject] = [*self.make_parser(ctx).parse_args([*args])[2]]
            for param, number in Counter(params).items():
                if number > 1 and param.param_type_name == "option" and not (param.multiple or param.is_flag):
                    raise typer.BadParameter("it takes one value, and is given twice", ctx=ctx, param=param)
        return super().parse_args(ctx, args)

    def _argument_records(self, ctx: ClickObject) -> list[tuple[str, str]]:
        arguments: list[ClickObject] = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return [(argument.metavar, argument.help or "") for argument in arguments]


GROUPS = {
    "Record and replay": {
        "run": "run:run",
        "proxy": "proxy:proxy",
        "mcp-tap": "mcp_tap:mcp_tap",
        "replay": "replay:replay",
        "fork": "replay:fork",
        "serve": "replay:serve",
    },
    "Look": {
        "list": "list_command:list_",
        "show": "show_command:show",
        "tail": "tail:tail",
        "view": "view:view",
    },
    "Many runs": {
        "stats": "stats:stats",
        "grep": "grep:grep",
        "find": "find:find",
        "index": "find:index",
        "sql": "sql_command:sql",
    },
    "Compare and check": {
        "diff": "diff:diff",
        "check": "check:check",
        "validate": "validate:validate_",
    },
    "Change and share": {
        "score": "score:score",
        "recover": "recover:recover",
        "export": "export:export",
        "share": "share:share",
        "import": "import_command:import_",
        "prune": "prune:prune_",
        "redact": "redact:redact_",
    },
    "For coding agents": {
        "mcp": "mcp_command:mcp",
        "skill": "skill:skill",
    },
}
"""The commands as the help groups and orders them: for each, the module and the function."""
COMMANDS = {name: place for commands in GROUPS.values() for name, place in commands.items()}
FAILURE_CODES = {"check": 2, "diff": 2, "find": 2, "grep": 2}
"""The exit codes of the commands that do not exit with 1 if they fail.

The exit code 1 of these commands is an answer, such as "no match".
"""
_RUN_PROGRAMS = {"run", "proxy", "mcp-tap"}
"""Commands that run a program.

The first word that is neither an option nor an option's value begins the program's command line, with or without `--`.
"""
_START_PROGRAMS = {*_RUN_PROGRAMS, "replay", "fork", "serve"}
"""Commands that compute no costs. A bad file of prices must not stop a program."""
_COMPLETION_VARIABLES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The environment variables in which shells pass the line that is to be completed."""


class RecorderGroup(TyperGroup):
    """The program, whose help lists the commands in groups."""

    def format_commands(self, ctx: ClickObject, formatter: ClickObject) -> None:
        """Write a section for each group of commands, with the first sentence of each command's help."""
        size = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            commands: list[tuple[str, ClickObject]] = [(name, self.get_command(ctx, name)) for name in group]
            rows = [(name.ljust(size), command.get_short_help_str(80)) for name, command in commands if command]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def app_for(words: Sequence[str]) -> typer.Typer:
    """Return an application for a command line.

    It has only the command that the first word names, or all commands if the first word names no command.
    """
    if "_TRACE_RECORDER_COMPLETE" in os.environ:
        words = next(filter(None, map(os.environ.get, _COMPLETION_VARIABLES)), "").split()[1:]
    if words and words[0] in COMMANDS:
        return app_of([words[0]])
    return app_of(COMMANDS)


def app_of(names: Iterable[str]) -> typer.Typer:
    """Return an application with these commands."""
    app = typer.Typer(
        name="trace-recorder",
        cls=RecorderGroup,
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
        handled = _with_error_handler(name, command)
        app.command(name, cls=RecorderCommand, context_settings=settings)(handled)
    return app


def _with_error_handler(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls the command.

    If the command raises an error of this package, the function prints the error as one sentence, and exits.
    """

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            if name not in _START_PROGRAMS and os.environ.get(PRICES_VARIABLE):
                _check_prices()
            command(*arguments, **options)
        except (UnreadableError, TraceRecorderError) as error:
            fail(str(error), FAILURE_CODES.get(name, 1))

    return run


def _check_prices() -> None:
    """Read the user's prices, so that a bad file is reported once, and not for each run. Raises PriceFileError."""
    from trace_recorder.figures.own_prices import own_prices  # noqa: PLC0415 - few environments name a file of prices

    own_prices()


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"trace-recorder {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit.")
]


def options(version: Version = False) -> None:  # noqa: ARG001 - the callback of the option prints the version
    """Look at what an agent did: the runs that trace_recorder recorded."""
