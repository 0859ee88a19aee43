"""A command of typer with two differences: its help shows only our metavars, and `--` begins another program.

typer's own help adds the types of Python (`<list[Path]>`), and brackets that depend on its version. The metavars of the
arguments are written out where these are declared, such as `[PATH...]`.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

ClickObject = Any
"""A context, a formatter or a parameter, of click or of the copy of click inside newer versions of typer."""
COMMAND_PARAMETER = "command"
"""The parameter of a command that takes the words of another program."""


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
        at = args.index("--")
        words = args[at + 1 :]
        rest = super().parse_args(ctx, args[:at])
        ctx.params[COMMAND_PARAMETER] = [*(ctx.params.get(COMMAND_PARAMETER) or ()), *words]
        return rest

    def _argument_records(self, ctx: ClickObject) -> list[tuple[str, str]]:
        arguments: list[ClickObject] = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return [(argument.metavar, argument.help or "") for argument in arguments]
