"""Functions that record to the current recorder, so that one client or tool at module level can serve many runs.

A method of a `TrajectoryRecorder` records to that recorder. A function of this module looks up, at each call, the
recorder that is active in the context of the call, or the recorder of the step or sub-agent that is open there. Without
such a recorder, the recorder that was passed to `instrument` is meant. Otherwise `unassigned.py` says whether the only
open run is meant. The last is the recorder of the command that runs this process. `instrument` and the commands use the
same target as wrapped clients, so this rule is stated once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

from trace_recorder.attach import unassigned
from trace_recorder.attach.lifecycle import RecorderTarget
from trace_recorder.attach.recorder import TrajectoryRecorder, active, running
from trace_recorder.capture import sdk_clients as clients
from trace_recorder.capture.sdk_clients import Library, newest_library
from trace_recorder.capture.seam import Target, guard
from trace_recorder.recording import context as steps
from trace_recorder.recording import tools
from trace_recorder.recording.run import Run

if TYPE_CHECKING:  # each library is imported when it is needed
    import httpx
    import httpx2

Client = TypeVar("Client")


@dataclass(slots=True)
class Defaults:
    """The recorders of everything that belongs to no recorder of its context. There is one instance."""

    instrumented: TrajectoryRecorder | None = None
    """The recorder that was passed to `instrument`. It comes before the only running recorder."""
    of_command: Callable[[], TrajectoryRecorder] | None = None
    """Returns the recorder of the command that runs this process, such as `trace-recorder run`. It comes last."""


defaults = Defaults()


class FollowingTarget:
    """The target of captured calls that are recorded by the recorder that is active in the context of the call."""

    follows_context: ClassVar[bool] = True

    def open_run(self) -> Run | None:
        """Return the run of a call that is made here, or None. Begin the run if necessary."""
        recorder = _following("an LLM call")
        if recorder is None:
            return None
        return recorder._lifecycle.open_run("a wrapped client")

    def run_of_tool(self) -> Run | None:
        """Return the run that records a tool's execution. The run is chosen as `open_run` chooses it."""
        recorder = _following("a tool call")
        if recorder is None:
            return None
        return recorder._lifecycle.open_run("a tool")

    def run_in_progress(self) -> Run | None:
        """Return the run that `open_run` would return if it is open already.

        Never begin a run, and log nothing.
        """
        context = _of_context()
        for recorder in (context, defaults.instrumented):
            if recorder is not None and recorder._lifecycle.is_running():
                return recorder._lifecycle.run_in_progress()
        only = None
        if context is None:
            only = unassigned.only_recorder()
        if only is None:
            only = _made_for_command()
        if only is None:
            return None
        return only._lifecycle.run_in_progress()

    def is_running(self) -> bool:
        """Return False, because this target is not bound to one run."""
        return False

    def is_inferred(self, run: Run, /) -> bool:
        """Whether neither a recorder of this context nor a default has the run."""
        recorders = (_of_context(), defaults.instrumented, _made_for_command())
        return not any(recorder is not None and recorder._lifecycle.run is run for recorder in recorders)


following = FollowingTarget()


def wrap(client: Client, provider: str | None = None) -> Client:
    """Record every LLM call of a client to the recorder that is active where the call is made.

    Return the client. Raises UnsupportedClientError if the client cannot be recorded, and BoundClientError if the
    client is bound to another recorder.

    Examples:
        >>> client = wrap(OpenAI())
        >>> with TrajectoryRecorder(task="count the files"):
        ...     reply = run_my_agent(client)
    """
    return clients.wrap(client, following, provider)


@overload
def tool(function: tools.Tool, /) -> tools.Tool: ...


@overload
def tool(*, name: str | None = None) -> Callable[[tools.Tool], tools.Tool]: ...


def tool(function: Callable[..., object] | None = None, /, *, name: str | None = None) -> object:
    """Record the calls of a function as executions of a tool, by the recorder that is active at each call.

    Use this as a decorator, with or without a name, as `TrajectoryRecorder.tool`.

    Examples:
        >>> @tool
        ... def search(query: str) -> list[str]:
        ...     return ["a book"]
        >>> with TrajectoryRecorder(task="what is tea?"):
        ...     books = search("tea")
    """
    return tools.make_tool(following.run_of_tool, function, name)


def step(step_number: int | None = None) -> steps.Step:
    """Begin a step of the recorder that is active here, as `TrajectoryRecorder.step` does.

    If no recorder is active, the step is not recorded. The step's number is then `step_number`, or 1.

    Examples:
        >>> with TrajectoryRecorder(task="count the files"), step() as current:
        ...     reply = run_my_agent(wrap(OpenAI()))
        ...     current.reflection = "nothing is left to count"
    """
    recorder = _active("a step")
    if recorder is not None:
        return recorder.step(step_number)
    return steps.Step(None, 1 if step_number is None else step_number)


def agent(name: str) -> steps.Agent:
    """Mark a sub-agent of the recorder that is active here, as `TrajectoryRecorder.agent` does.

    Examples:
        >>> with TrajectoryRecorder(task="what is tea?"), agent("researcher"):
        ...     reply = run_my_agent(wrap(OpenAI()))
    """
    recorder = _active("a sub-agent")
    if recorder is not None:
        return recorder.agent(name)
    return steps.Agent(None, name)


def tool_call(name: str, arguments: object = None, call_id: str | None = None) -> tools.AnnouncedExecution:
    """Record a tool's execution to the recorder that is active here, as `TrajectoryRecorder.tool_call` does."""
    recorder = _active("a tool call")
    if recorder is None:
        return tools.AnnouncedExecution(None, name, arguments, call_id)
    return recorder.tool_call(name, arguments, call_id)


def annotate(key: str, value: object) -> None:
    """Record an annotation of the run of the recorder that is active here, as `TrajectoryRecorder.annotate` does."""
    recorder = _active("an annotation")
    if recorder is not None:
        recorder.annotate(key, value)


def reward(
    name: str,
    value: float,
    weight: float = 1.0,
    step_number: int | None = None,
    explanation: str | None = None,
) -> None:
    """Record a reward of the run of the recorder that is active here, as `TrajectoryRecorder.reward` does."""
    recorder = _active("a reward")
    if recorder is not None:
        recorder.reward(name, value, weight, step_number, explanation)


def current_recorder() -> TrajectoryRecorder | None:
    """Return the recorder that is active in this context, or None."""
    return active()


def _active(what: str) -> TrajectoryRecorder | None:
    """Return the recorder that is active here, and begin its run if necessary. Return None if nothing can be recorded.

    `what` says in warnings and error texts what was to be recorded, such as "a reward".
    """
    recorder = _following(what)
    if recorder is None or recorder._lifecycle.open_run(what) is None:
        return None
    return recorder


def _following(what: str) -> TrajectoryRecorder | None:
    """Return the recorder of something that happens here, or None if it belongs to no run."""
    with guard.protect(f"find the run of {what}"):
        recorder = _chosen()
        if recorder is None:
            unassigned.report(what)
        return recorder
    return None


def _chosen() -> TrajectoryRecorder | None:
    """Return the recorder of this context, or else the first default, or None."""
    recorder, instrumented = _of_context(), defaults.instrumented
    if recorder is not None and recorder._lifecycle.is_running():
        return recorder
    if instrumented is not None and not instrumented._lifecycle.ended:
        return instrumented
    if defaults.of_command is None:
        return recorder or unassigned.only_recorder()
    return unassigned.only_recorder() or defaults.of_command()


def _made_for_command() -> TrajectoryRecorder | None:
    """Return the recorder of the command that runs this process, if it has been made."""
    if defaults.of_command is None:
        return None
    return next((recorder for recorder in running if recorder._lifecycle.is_of_command), None)


def _of_context() -> TrajectoryRecorder | None:
    """Return the recorder that is active here, or else the recorder of the step or sub-agent that is open here.

    A dependency of a web framework may run in another context than its handler. The handler can then open a step.
    """
    recorder = active()
    if recorder is not None and not recorder._lifecycle.ended:
        return recorder
    run = steps.run_of_block()
    if run is None:
        return recorder
    return next((other for other in running if other._lifecycle.run is run), recorder)


def unwrap(client: Client) -> Client:
    """Undo `wrap` for a client, and return the client.

    A client that is not wrapped is returned unchanged. Raises UnsupportedClientError if the argument is not a client.
    """
    return clients.unwrap(client)


@overload
def http_client(
    *,
    recorder: TrajectoryRecorder | None = ...,
    provider: str | None = ...,
    library: Literal["httpx2"] | None = ...,
    **arguments: Any,
) -> httpx2.Client: ...
@overload
def http_client(
    *,
    recorder: TrajectoryRecorder | None = ...,
    provider: str | None = ...,
    library: Literal["httpx"],
    **arguments: Any,
) -> httpx.Client: ...
def http_client(
    *,
    recorder: TrajectoryRecorder | None = None,
    provider: str | None = None,
    library: Library | None = None,
    **arguments: Any,
) -> object:
    """Return a new HTTP client whose LLM calls are recorded.

    An SDK may accept this client, as in `OpenAI(http_client=…)`. The calls are recorded by `recorder`. If `recorder` is
    None, each call is recorded by the recorder that is active where the call is made. `library` is "httpx" or "httpx2".
    The default is "httpx2" if httpx2 is installed, because openai ≥ 3, anthropic ≥ 1 and google-genai ≥ 3 accept
    clients of httpx2. `arguments` are passed to the library's `Client`.
    """
    client = import_module(library or newest_library()).Client(**{"follow_redirects": True, **arguments})
    return clients.wrap(client, _target(recorder), provider)


@overload
def async_http_client(
    *,
    recorder: TrajectoryRecorder | None = ...,
    provider: str | None = ...,
    library: Literal["httpx2"] | None = ...,
    **arguments: Any,
) -> httpx2.AsyncClient: ...
@overload
def async_http_client(
    *,
    recorder: TrajectoryRecorder | None = ...,
    provider: str | None = ...,
    library: Literal["httpx"],
    **arguments: Any,
) -> httpx.AsyncClient: ...
def async_http_client(
    *,
    recorder: TrajectoryRecorder | None = None,
    provider: str | None = None,
    library: Library | None = None,
    **arguments: Any,
) -> object:
    """Return a new async HTTP client whose LLM calls are recorded. The arguments are the same as for `http_client`."""
    client = import_module(library or newest_library()).AsyncClient(**{"follow_redirects": True, **arguments})
    return clients.wrap(client, _target(recorder), provider)


def _target(recorder: TrajectoryRecorder | None) -> Target:
    check_recorder(recorder)
    if recorder is None:
        return following
    return RecorderTarget(recorder)


def check_recorder(recorder: object) -> None:
    """Raise TypeError if an argument is neither a recorder nor None."""
    if recorder is not None and not isinstance(recorder, TrajectoryRecorder):
        raise TypeError(f"recorder is {recorder!r}, and must be a TrajectoryRecorder or None.")
