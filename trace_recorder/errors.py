"""The exceptions that this package raises, and nothing else.

    TraceRecorderError
    ├── RecorderStateError        a method was called in a state of the run that does not allow it
    │   └── AlreadyFinalizedError     … after finalize()
    ├── TrajectoryPathError       the path for the files cannot be used
    ├── UnsupportedClientError    wrap() does not know the inside of this client
    ├── BoundClientError          the client's HTTP client is bound to another recorder
    ├── ReplayMismatchError       a replay got a request that its recording does not answer
    ├── TrajectoryFormatError     load() was given a file that is not a trajectory
    │   └── UnreadableRunsError       load_all() met files that are not trajectories
    ├── QueryError                a search for runs has a term that the query language does not have
    ├── RulesError                a check has rules with mistakes, or runs that it cannot pair
    ├── PriceFileError            the file of the user's own prices cannot be read, or has no prices
    ├── RetentionError            a file retention.toml states a rule that cannot be understood
    ├── SharingError              runs cannot be written into one file for others
    ├── RedactionRuleError        redact() was given a rule that cannot be used
    ├── EmptyTrajectoryError      a run has no turns, tools or task, and a view's format needs a step
    ├── RenderingError            a chat template rejected a conversation
    ├── PushError                 runs could not be sent to a service
    └── ClientError               a client of `trace_recorder.clients` cannot be made, or cannot do what was asked
        ├── MissingKeyError           no API key was given or found in the environment
        ├── MissingExtraError         a package that is needed, such as a provider's SDK, is not installed
        ├── UnknownProviderError      create_client() was given an unknown name
        ├── MessageFormatError        a message or a tool has a form that cannot be sent
        ├── StreamNotFinishedError    the response of a stream was used before the end of the stream
        └── AnswerError               the provider answered 200 with an error in the body

Only calls of the package's own functions and clients raise these exceptions. A failure to record never raises in the
agent (`guard.py`), and the agent gets the exceptions of a provider's SDK unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class TraceRecorderError(Exception):
    """Any error of this package."""


class RecorderStateError(TraceRecorderError, RuntimeError):
    """A method of a recorder was called in a state that does not allow it."""


class AlreadyFinalizedError(RecorderStateError):
    """A record was added to a run that has been finalized."""


class TrajectoryPathError(TraceRecorderError, OSError):
    """The files of a trajectory cannot be created at this path."""


class UnsupportedClientError(TraceRecorderError, TypeError):
    """`wrap` was given an object without a supported HTTP client in it."""


class BoundClientError(TraceRecorderError, ValueError):
    """The HTTP client of a client is bound to another recorder, which still runs."""


class ReplayMismatchError(TraceRecorderError):
    """A replay got a request that its recording does not have, or did not get a request that its recording has."""


class TrajectoryFormatError(TraceRecorderError, ValueError):
    """`load` was given a file that is not a trajectory, or a trajectory of a newer version."""


class QueryError(TraceRecorderError, ValueError):
    """A query for runs has an unknown term. The message lists the terms of the query language."""


class RulesError(TraceRecorderError, ValueError):
    """The rules of a check have mistakes, or its runs cannot be paired. The message has a line for each mistake."""


class PriceFileError(TraceRecorderError, ValueError):
    """The file of prices that the environment names cannot be read, or is not a file of prices."""


class RetentionError(TraceRecorderError, ValueError):
    """A file retention.toml cannot be read as TOML, or states a rule that cannot be understood. Nothing is deleted."""


class SharingError(TraceRecorderError):
    """Runs cannot be written into one file for others."""


class RedactionRuleError(TraceRecorderError, ValueError):
    """`redact` was given a text, a pattern, a function or an address that it cannot use."""


class EmptyTrajectoryError(TraceRecorderError, ValueError):
    """A run has no turns, no tools and no task, and the format of the view needs at least one step."""


class RenderingError(TraceRecorderError, ValueError):
    """A view was given a chat template that rejects the messages of the run."""


class PushError(TraceRecorderError):
    """Traces could not be sent, because there is no key, or the server refused the traces or could not be reached."""


class ClientError(TraceRecorderError):
    """A client of `trace_recorder.clients` cannot be made, or cannot do what was asked of it."""


class MissingKeyError(ClientError, ValueError):
    """A client was created without an API key, and the environment has none."""


class MissingExtraError(ClientError, ImportError):
    """A package that is needed is not installed: the SDK of a client, or a library of data frames."""


class UnknownProviderError(ClientError, ValueError):
    """`create_client` was given an unknown name of a provider."""


class MessageFormatError(ClientError, ValueError):
    """A message, a part of a message, or a tool has a form that the client cannot send."""


class StreamNotFinishedError(ClientError, RuntimeError):
    """The response of a stream was used before the stream had been read to its end."""


class AnswerError(ClientError):
    """A provider answered 200 with an error in the body.

    `error` is the error in the body. `status_code` is the error's code, or None if the code is not an integer.
    """

    def __init__(self, provider: str, error: object) -> None:
        super().__init__(f"{provider} answered 200 with an error in the body: {error}")
        self.error = error
        self.status_code: int | None = None
        if isinstance(error, dict) and isinstance(error.get("code"), int):
            self.status_code = error["code"]


class UnreadableRunsError(TrajectoryFormatError):
    """Some runs of a directory cannot be read. `failures` maps the path of each such run to its error."""

    def __init__(self, failures: Mapping[Path, Exception]) -> None:
        self.failures = failures
        lines = [f"{path}: {error}" for path, error in failures.items()]
        super().__init__("\n  ".join([f"{len(lines)} of the files cannot be read as runs:", *lines]))
