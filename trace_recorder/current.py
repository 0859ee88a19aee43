"""The current recorder: clients that follow the context, so that one at module level serves many runs.

`TrajectoryRecorder.wrap` binds a client to one recorder; what is here asks, at each call, which one is active where
the call is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, overload

from trace_recorder import tools
from trace_recorder.capture import clients
from trace_recorder.capture.transport import guard
from trace_recorder.conversation import Payload
from trace_recorder.guard import logger
from trace_recorder.recorder import TrajectoryRecorder, current, running
from trace_recorder.run import Run

Client = TypeVar("Client")
Library = Literal["httpx", "httpx2"]


class FollowingTarget:
    """Tells whichever recorder is active where a call is made."""

    def open_run(self) -> Run | None:
        """The current recorder's run; in a thread that carries no context, that of the only one running."""
        recorder: TrajectoryRecorder | None = None
        with guard("find the run of a call"):
            recorder = current.get() or _only_one("an LLM call")
        return recorder.open_run() if recorder else None

    def run_of_tool(self) -> Run | None:
        """The same, of the call of a tool."""
        recorder: TrajectoryRecorder | None = None
        with guard("find the run of a tool"):
            recorder = current.get() or _only_one("a tool call")
        return recorder.open_run("a tool") if recorder else None

    def is_running(self) -> bool:
        """Never bound to one run."""
        return False

    def context(self) -> Mapping[str, Payload]:
        """Of which agent and step a call made now is."""
        recorder = current.get()
        return recorder.context() if recorder else {}


following = FollowingTarget()


def wrap(client: Client, provider: str | None = None) -> Client:
    """Have every LLM call of a client recorded by the recorder that is active where it is made; return the client.

    Raises UnsupportedClientError and BoundClientError.
    """
    return clients.wrap(client, following, provider)


@overload
def tool(function: tools.Tool, /) -> tools.Tool: ...


@overload
def tool(*, name: str | None = None) -> Callable[[tools.Tool], tools.Tool]: ...


def tool(function: Callable[..., object] | None = None, /, *, name: str | None = None) -> object:
    """Have a function's calls recorded as a tool's, by the recorder that is active where it is called.

    A decorator, with or without a name; see `TrajectoryRecorder.tool`.
    """
    return tools.mark(following.run_of_tool, function, name)


def current_recorder() -> TrajectoryRecorder | None:
    """The recorder that is active in this context, None where there is none."""
    return current.get()


def _only_one(what: str) -> TrajectoryRecorder | None:
    candidates = [one for one in running if one.is_running()]
    if len(candidates) > 1:
        _leave_marks(candidates, what)
    return candidates[0] if len(candidates) == 1 else None


def _leave_marks(recorders: Sequence[TrajectoryRecorder], what: str) -> None:
    why = f"{len(recorders)} recorders are running, and the context of the call names none of them"
    logger.warning("%s goes unrecorded: %s. Copy the context into the thread, or bind the client", what, why)
    for recorder in recorders:
        recorder.note_gap(f"record {what}", why)


def unwrap(client: Client) -> Client:
    """Give a client back what it had before `wrap`; return the same client. One that is not wrapped stays as it is."""
    return clients.unwrap(client)


def http_client(
    *,
    recorder: TrajectoryRecorder | None = None,
    provider: str | None = None,
    library: Library | None = None,
    **arguments: Any,
) -> Any:
    """Make an HTTP client that records, for an SDK or a framework that takes one: `OpenAI(http_client=…)`.

    Bound to `recorder`, or following the context. `library` is "httpx2" where that is installed (openai ≥ 3,
    anthropic ≥ 1 and google-genai ≥ 3 take it), else "httpx"; `arguments` are those of the library's Client.
    """
    made = import_module(library or _library()).Client(**{"follow_redirects": True, **arguments})
    return clients.wrap(made, recorder or following, provider)


def async_http_client(
    *,
    recorder: TrajectoryRecorder | None = None,
    provider: str | None = None,
    library: Library | None = None,
    **arguments: Any,
) -> Any:
    """Make an async HTTP client that records; see `http_client`."""
    made = import_module(library or _library()).AsyncClient(**{"follow_redirects": True, **arguments})
    return clients.wrap(made, recorder or following, provider)


def _library() -> Library:
    if find_spec("httpx2"):
        return "httpx2"
    if find_spec("httpx"):
        return "httpx"
    raise ImportError("An HTTP client needs httpx2 or httpx: pip install httpx2")
