"""Rewards of saved runs, computed by the user's functions, which take ToolBrain's turns or a `Trajectory`.

    def reward_exact_match(trace, **kwargs) -> float: …          a run as ToolBrain's list of turns
    def frugal(trajectory: Trajectory) -> float | None: …        a run as it was recorded
    def judged(traces, **kwargs) -> list[float]: …               a batch: all runs, compared with each other

The first parameter decides what the function gets, as in ToolBrain. If the parameter is called `traces` or
`trajectories`, the function gets a batch. If the parameter is called `trajectory`, or annotated as a `Trajectory`, the
function gets a trajectory. A function returns None if there is no reward.
"""

from __future__ import annotations

import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

from trace_recorder.formats.toolbrain.parsing import Parser, parse_tool_calls
from trace_recorder.formats.toolbrain.turns import to_turns
from trace_recorder.guard import try_call
from trace_recorder.values.trajectory import Trajectory

RewardFunction = Callable[..., Any]


def reward_function(name: str) -> RewardFunction:
    """Import a reward function by its name, as `imported_function` does, and check its parameters."""
    value = imported_function(name)
    function: RewardFunction = getattr(value, "reward_func", value)  # ToolBrain's wrappers hold the function
    _parameters(function)
    return function


def imported_function(name: str) -> RewardFunction:
    """Import the function with the name `module:function` or `path/to/file.py:function`.

    Raises ValueError if it is missing.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ValueError(f"{name!r} names no function: give module:function, or file.py:function")
    if place.endswith(".py") and not Path(place).is_file():
        raise ValueError(f"{name!r} names no function: there is no file {place}")
    find: Callable[[str, str], object] = _in_module
    if place.endswith(".py"):
        find = _in_file
    value = try_call(partial(_call_without_exit, find, place, attribute), partial(_raise_import_error, place))
    if not callable(value):
        raise ValueError(f"{name!r} names no function: {place} has no such function")  # noqa: TRY004 - not a wrong type
    function: RewardFunction = value
    return function


def _in_file(file: str, attribute: str) -> object:
    import runpy  # noqa: PLC0415 - most uses of this module import no file

    _add_to_sys_path(Path(file).absolute().parent)
    return runpy.run_path(file).get(attribute)


def _in_module(module: str, attribute: str) -> object:
    _add_to_sys_path(Path.cwd())
    value: object = import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part, None)
    return value


def _add_to_sys_path(directory: Path) -> None:
    """Make the modules of a directory importable, as Python does for the directory of a script."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _raise_import_error(place: str, error: Exception) -> object:
    if isinstance(error, ModuleNotFoundError) and error.name:
        raise ValueError(f"there is no module {error.name}: is it in this directory, or installed?") from error
    raise ValueError(f"{place} cannot be imported: {located_error(error)}") from error


def _call_without_exit(function: RewardFunction, /, *arguments: object, **named: object) -> Any:
    """Call the user's function. Raises RuntimeError if the function raises SystemExit."""
    try:
        return function(*arguments, **named)
    except SystemExit as ended:
        raise RuntimeError(f"it tries to end the program, with {ended.code!r}") from ended


def located_error(error: BaseException, function: RewardFunction | None = None) -> str:
    """Describe an error in a user's code: its class, its message, and the file and line in the user's own function.

    Without a function, the line is in the module that was being imported.
    """
    code = None
    if function is not None:
        code = _code_of(function)
    place = next(_error_locations(error, code), None)
    if place is None:
        return f"{type(error).__name__}: {error}"
    return f"{type(error).__name__}: {error} ({place})"


def _error_locations(error: BaseException, code: CodeType | None) -> Iterator[str]:
    """Yield each place in `code` at which an error was raised, and then the first line of `code`.

    If `code` is None, yield the places in imported modules.
    """
    if isinstance(error, SyntaxError) and code is None:
        yield f"{error.filename}, line {error.lineno}"
    for raised in filter(None, (error, error.__cause__)):
        for frame, line in traceback.walk_tb(raised.__traceback__):
            running = frame.f_code
            if running is code or (code is None and running.co_name == "<module>"):
                yield f"{running.co_filename}, line {line}, in {running.co_name}"
    if code is not None:
        yield f"{code.co_filename}, line {_first_line(code)}, in {code.co_name}"


def _first_line(code: CodeType) -> int:
    """Return the line of `def`, below the decorators."""
    lines = [line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno]
    return min(lines, default=code.co_firstlineno + 1) - 1


def _code_of(function: RewardFunction) -> CodeType | None:
    """Return the code of a function without its wrappers, or of the `__call__` of an object."""
    inner = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inspect.unwrap(inner.func)
    called = getattr(inner, "__func__", inner)
    code = getattr(called, "__code__", None) or getattr(getattr(type(inner), "__call__", None), "__code__", None)  # noqa: B004 - the method itself is needed
    if isinstance(code, CodeType):
        return code
    return None


def is_batch(function: RewardFunction) -> bool:
    """Whether a function takes all runs at once."""
    return _parameters(function)[0].name in {"traces", "trajectories"}


def score(
    trajectory: Trajectory, function: RewardFunction, parser: Parser = parse_tool_calls, /, **variables: object
) -> float | None:
    """Return the reward of a run, or None if the function returns None.

    `parser` makes the turns for a function that takes turns. The `variables` that the function accepts are passed by
    name. An exception of the function is not caught, except SystemExit, which becomes a RuntimeError. Raises ValueError
    if the reward is not a finite number.
    """
    parameters = _parameters(function)
    run: object = trajectory
    if not _takes_trajectory(parameters[0]):
        run = _turns_of(trajectory, parser)
    return _reward(_call_without_exit(function, run, **_accepted_arguments(parameters, variables)))


def score_batch(
    trajectories: Sequence[Trajectory],
    function: RewardFunction,
    parser: Parser = parse_tool_calls,
    /,
    **variables: object,
) -> list[float | None]:
    """Return the reward of each run of a batch, in order, from one call of the function.

    The arguments and exceptions are those of `score`. Raises ValueError also if the number of rewards is not the number
    of runs.
    """
    parameters = _parameters(function)
    runs: list[object] = [*trajectories]
    if parameters[0].name == "traces":
        runs = [_turns_of(trajectory, parser) for trajectory in trajectories]
    values = list(_call_without_exit(function, runs, **_accepted_arguments(parameters, variables)))
    if len(values) != len(runs):
        raise ValueError(f"there are {len(values)} rewards for {len(runs)} runs, and each run needs one")
    return [_reward(value) for value in values]


def _reward(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the reward is {number}, and must be a finite number")
    return number


def _parameters(function: RewardFunction) -> list[inspect.Parameter]:
    """Return a function's parameters. Raises ValueError if the function has no parameter for a run."""
    parameters = [*inspect.signature(function).parameters.values()]
    name = getattr(function, "__name__", "the function")
    if not parameters or parameters[0].kind is inspect.Parameter.VAR_KEYWORD:
        raise ValueError(f"{name} takes no run: its first parameter must be a trace or a trajectory")
    return parameters


def _takes_trajectory(first: inspect.Parameter) -> bool:
    annotation = first.annotation
    if isinstance(annotation, str):
        return first.name == "trajectory" or annotation.rpartition(".")[2] == "Trajectory"
    return first.name == "trajectory" or annotation is Trajectory


def _accepted_arguments(parameters: list[inspect.Parameter], variables: dict[str, object]) -> dict[str, object]:
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return variables
    names = {parameter.name for parameter in parameters[1:]}
    return {name: value for name, value in variables.items() if name in names}


def _turns_of(trajectory: Trajectory, parser: Parser) -> object:
    return to_turns(trajectory, parser, include_replayed=True)
