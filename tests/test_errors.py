"""The tree of exceptions, as the head of its module draws it."""

from __future__ import annotations

import pytest

from trace_recorder import errors


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("TraceRecorderError", (Exception,)),
        ("RecorderStateError", (errors.TraceRecorderError, RuntimeError)),
        ("AlreadyFinalizedError", (errors.RecorderStateError,)),
        ("TrajectoryPathError", (errors.TraceRecorderError, OSError)),
        ("UnsupportedClientError", (errors.TraceRecorderError, TypeError)),
        ("BoundClientError", (errors.TraceRecorderError, ValueError)),
        ("TrajectoryFormatError", (errors.TraceRecorderError, ValueError)),
        ("EmptyTrajectoryError", (errors.TraceRecorderError, ValueError)),
    ],
)
def test_each_exception_has_a_base_of_the_package_and_of_python(name: str, bases: tuple[type, ...]) -> None:
    """Each exception of the package is a TraceRecorderError, and an exception of the fitting built-in class."""
    assert getattr(errors, name).__bases__ == bases


def test_the_header_draws_every_exception() -> None:
    """The drawing at the head of the module has exactly the package's exceptions."""
    drawn = {word for word in (errors.__doc__ or "").split() if word.endswith("Error")}

    assert drawn == {name for name, one in vars(errors).items() if getattr(one, "__module__", "") == errors.__name__}


def test_a_path_error_has_the_system_s_reason() -> None:
    """A TrajectoryPathError is an OSError with its number, its message and its path."""
    error = errors.TrajectoryPathError(21, "is a directory", "/tmp/x")

    assert (error.errno, str(error)) == (21, "[Errno 21] is a directory: '/tmp/x'")
