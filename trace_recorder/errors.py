"""The exceptions that this package raises, and nothing else.

    TraceRecorderError
    ├── RecorderStateError        a method was called at a moment of the run at which it makes no sense
    │   └── AlreadyFinalizedError     … after finalize()
    ├── TrajectoryPathError       the path for the files cannot be used
    ├── UnsupportedClientError    wrap() does not know the inside of this client
    ├── BoundClientError          the client's HTTP client is bound to another recorder
    ├── TrajectoryFormatError     load() was given a file that is no trajectory
    ├── EmptyTrajectoryError      a view's format has no place for a run in which nothing happened
    └── RenderingError            a chat template did not take a conversation

They are raised for misuse of the recorder's own methods only. A failure of recording never raises in the agent
(see `guard.py`); what a provider raises passes through untouched.
"""


class TraceRecorderError(Exception):
    """Any error of this package."""


class RecorderStateError(TraceRecorderError, RuntimeError):
    """A recorder's method was called at a moment at which it makes no sense."""


class AlreadyFinalizedError(RecorderStateError):
    """Something was to be recorded in a run that has been finalized."""


class TrajectoryPathError(TraceRecorderError, OSError):
    """The path that was given cannot hold a trajectory."""


class UnsupportedClientError(TraceRecorderError, TypeError):
    """`wrap` was given an object in which it finds no HTTP client that it knows."""


class BoundClientError(TraceRecorderError, ValueError):
    """Two recorders would have to be bound to one HTTP client."""


class TrajectoryFormatError(TraceRecorderError, ValueError):
    """`load` was given a file that is not a trajectory, or is one of a newer version."""


class EmptyTrajectoryError(TraceRecorderError, ValueError):
    """A view was given a run in which nothing happened, and its format has no place for that."""


class RenderingError(TraceRecorderError, ValueError):
    """A view was given a chat template that does not take the messages of the run."""
