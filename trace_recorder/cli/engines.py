"""The engines that process many runs: processes of this machine, or Ray, which may use many machines.

Both call the same function for each task and return the results in the order of the tasks. So what a command prints,
writes and exits with is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, TypeVar

import typer

from trace_recorder.cli.arguments import check_names, completion_of
from trace_recorder.cli.jobs import in_order

T = TypeVar("T")
R = TypeVar("R")

_NAMES = ("processes", "ray")
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="What does the work: processes (of this machine) or ray (docs/tables.md).",
        autocompletion=completion_of(_NAMES),
    ),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="ADDRESS", help="ray: the cluster. Default: $RAY_ADDRESS, or this machine."),
]
DEFAULT_ENGINE = "processes"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine, and for Ray the address of the cluster."""

    name: str = DEFAULT_ENGINE
    address: str | None = None

    def __post_init__(self) -> None:
        check_names([self.name], _NAMES, "--engine")
        if self.address is not None and self.name != "ray":
            raise typer.BadParameter("it is for --engine ray", param_hint="--address")

    @property
    def repeats_tasks(self) -> bool:
        """Whether a task may run twice, because the process that ran it was lost."""
        return self.name == "ray"

    def in_order(self, work: Callable[[T], R], tasks: Sequence[T], jobs: int = 1, batch: int = 1) -> Iterator[R]:
        """Yield what `work` returns for each task, in their order, as `jobs.in_order` does."""
        if self.name != "ray":
            return in_order(work, tasks, jobs, batch)
        results: Iterator[R] = import_module("trace_recorder.tables.ray_data").in_order(work, tasks, self.address)
        return results


LOCAL = Engine()
"""Processes of this machine."""
