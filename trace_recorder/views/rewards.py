"""Rewards over saved runs: functions of the user's, in ToolBrain's form or over a `Trajectory`.

    def reward_exact_match(trace, **kwargs) -> float: …          a run as ToolBrain's list of turns
    def frugal(trajectory: Trajectory) -> float | None: …        a run as it was recorded
    def judged(traces, **kwargs) -> list[float]: …               a batch: all runs, held against each other

Which of them a function is, its first parameter says, as in ToolBrain: `traces` and `trajectories` are a batch; one
called `trajectory`, or annotated as a `Trajectory`, is given that. None is no reward.
"""

from __future__ import annotations

import inspect
import math
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from trace_recorder.trajectory import Trajectory

Function = Callable[..., Any]


def reward_function(name: str) -> Function:
    """Find a function by `module:function` or `path/to/file.py:function`. Raises ValueError where there is none."""
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ValueError(f"{name!r} names no function: module:function, or file.py:function, is expected")
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise ValueError(f"{name!r} names no function: there is no file {place}")
        held = runpy.run_path(place).get(attribute)
    else:
        held = _in_module(place, attribute)
    if not callable(held):
        raise ValueError(f"{name!r} names no function: {place} has none of that name")  # noqa: TRY004 - of the caller
    function: Function = getattr(held, "reward_func", held)  # a wrapper of ToolBrain's holds one
    _parameters(function)
    return function


def _in_module(module: str, attribute: str) -> object:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: object = import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"there is no module {error.name}: is it in this directory, or installed?") from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return found


def is_batch(function: Function) -> bool:
    """Whether a function takes all runs at once."""
    return _parameters(function)[0].name in {"traces", "trajectories"}


def score(trajectory: Trajectory, function: Function, **variables: object) -> float | None:
    """Give the reward of a run; None where the function gives none.

    `variables` are passed by name, those only that the function takes. What it raises passes; ValueError where what
    it gives is no finite number.
    """
    parameters = _parameters(function)
    run = trajectory if _takes_trajectory(parameters[0]) else _trace_of(trajectory)
    return _reward(function(run, **_taken(parameters, variables)))


def score_batch(trajectories: Sequence[Trajectory], function: Function, **variables: object) -> list[float | None]:
    """Give the reward of each run of a batch, in their order, by one call of the function; otherwise as `score`.

    Raises ValueError where it gives another number of rewards than there are runs.
    """
    parameters = _parameters(function)
    takes_turns = parameters[0].name == "traces"
    runs = [_trace_of(one) for one in trajectories] if takes_turns else list(trajectories)
    values = list(function(runs, **_taken(parameters, variables)))
    if len(values) != len(runs):
        raise ValueError(f"there are {len(values)} rewards for {len(runs)} runs, and there has to be one for each")
    return [_reward(value) for value in values]


def _reward(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the reward is {number}, and has to be a finite number")
    return number


def _parameters(function: Function) -> list[inspect.Parameter]:
    """A function's parameters. Raises ValueError where it does not take a run, or several."""
    parameters = [*inspect.signature(function).parameters.values()]
    name = getattr(function, "__name__", "the function")
    if not parameters or parameters[0].kind is inspect.Parameter.VAR_KEYWORD:
        raise ValueError(f"{name} takes no run: its first parameter has to be a trace or a trajectory")
    return parameters


def _takes_trajectory(first: inspect.Parameter) -> bool:
    annotation = first.annotation
    named = annotation.rpartition(".")[2] == "Trajectory" if isinstance(annotation, str) else annotation is Trajectory
    return first.name == "trajectory" or named


def _taken(parameters: list[inspect.Parameter], variables: dict[str, object]) -> dict[str, object]:
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return variables
    names = {parameter.name for parameter in parameters[1:]}
    return {name: value for name, value in variables.items() if name in names}


def _trace_of(trajectory: Trajectory) -> object:
    return import_module("trace_recorder.views.toolbrain").to_turns(trajectory)
