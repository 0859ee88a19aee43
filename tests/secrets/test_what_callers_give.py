"""No secret that a caller gives is on file, in whatever argument or attribute, and of whatever type its value is.

The arguments come from the signatures of the public methods, so a new argument is tested without a change here. A new
argument that a call needs must have a value in `VALID`.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import trace_recorder
from tests.chat_calls import CHAT, Wire, asked, said
from tests.secrets.corpus import keys
from trace_recorder import TrajectoryRecorder
from trace_recorder.recording.amend import append_annotation, append_end, append_rewards

KEY = f"gsk_{next(key.longest for key in keys() if key.service == 'Groq')}"
"""A key of a known form."""
VALUE = "Winter-is-c0ming/and-so-on"
"""The value of an environment variable. It has no known form."""
VALID: Mapping[str, object] = {
    "arguments": {},
    "call_id": "c1",
    "error": None,
    "exit_code": 1,
    "explanation": None,
    "final_result": None,
    "key": "k",
    "lakeview_summary": "x",
    "llm_messages": None,
    "llm_response": None,
    "max_steps": None,
    "messages": [],
    "metadata": None,
    "model": "m",
    "name": "n",
    "provider": "p",
    "reflection": None,
    "response": "x",
    "rewards": [{"name": "n", "value": 1}],
    "session": "chat 1",
    "state": "thinking",
    "status": "failed",
    "step_number": 1,
    "success": None,
    "task": "x",
    "tool_calls": None,
    "tool_results": None,
    "tools": None,
    "value": 1,
    "weight": 1,
}
"""A value for each argument."""
PLACES = frozenset({"trajectory_path", "directory", "path", "self"})
"""Arguments that say where the files are."""
SETTINGS = frozenset(
    {
        "history",
        "redact",
        "on_secret",
        "durability",
        "strict",
        "exporters",
        "recorder",
        "library",
        "function",
        "content",
    }
)
"""Arguments that no file contains."""


class Held:
    """An object with a secret in its repr."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return f"<held {self._secret}>"


@dataclass
class Settings:
    """A dataclass with a secret."""

    github_token: str


KINDS: dict[str, Callable[[str], object]] = {
    "text": lambda secret: f"use {secret}",
    "secret alone": lambda secret: secret,
    "dict": lambda secret: {"plan": 1, "github_token": secret},
    "name in a dict": lambda secret: {secret: 1},
    "list": lambda secret: ["a", [secret]],
    "bytes": str.encode,
    "exception": lambda secret: ValueError(f"no {secret}"),
    "object": Held,
    "dataclass": Settings,
    "like a description": lambda secret: {"__type__": [secret], "repr": {"a": secret}},
}
METHODS = {
    name: method
    for name, method in inspect.getmembers(TrajectoryRecorder, inspect.isfunction)
    if not name.startswith("_") and name not in {"start_recording", "finalize_recording"}
}
FUNCTIONS = {
    name: getattr(trace_recorder, name)
    for name in ("agent", "annotate", "http_client", "reward", "step", "tool", "tool_call", "wrap")
}
AMENDS = {function.__name__: function for function in (append_annotation, append_end, append_rewards)}


def parameters_of(function: Callable[..., object]) -> list[str]:
    """Return the arguments of a function that a file may contain."""
    names = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
    ]
    return [name for name in names if name not in PLACES | SETTINGS]


def arguments_for(function: Callable[..., object], name: str, value: object) -> dict[str, object]:
    """Return arguments for a call: one has the value, and every other has a valid value."""
    return {
        parameter: value if parameter == name else VALID[parameter]
        for parameter in parameters_of(function)
        if parameter != "client"
    }


def attributes_of(block: object) -> Iterator[str]:
    """Yield the attributes of an open block that a program may set."""
    for name in dir(block):
        if not name.startswith("_") and not callable(getattr(block, name)):
            yield name


def send(client: httpx.Client, **body: object) -> None:
    """Send a chat request."""
    with client:
        client.post(CHAT, content=json.dumps({**asked("x"), **body}).encode())


def enter(result: object, value: object | None) -> None:
    """Use what a method has returned. If a value is given, set all attributes of the returned block to it."""
    if isinstance(result, httpx.Client):
        send(result)
    elif hasattr(result, "__enter__"):
        with result:
            for name in attributes_of(result) if value is not None else ():
                with contextlib.suppress(AttributeError):
                    setattr(result, name, value)
            trace_recorder.annotate("inside", 1)
    elif inspect.isfunction(result):
        with contextlib.suppress(TypeError):
            result(lambda: 1)()


def call(function: Callable[..., object], arguments: Mapping[str, object], value: object | None = None) -> None:
    """Call a function and use its result. A refused argument raises an exception of the recorder or of Python."""
    client = httpx.Client(transport=Wire(said("x")), trust_env=False)
    own = {"client": client} if "client" in inspect.signature(function).parameters else {}
    own |= {"transport": Wire(said("x")), "library": "httpx"} if function.__name__ == "http_client" else {}
    with contextlib.suppress(TypeError, ValueError, trace_recorder.TraceRecorderError):
        enter(function(**own, **arguments), value)


def files_with(secret: str, directory: Path) -> list[str]:
    """Return the files in a directory that have a secret, as it is or with the escapes of JSON."""
    spelled = {secret.encode(), json.dumps(secret)[1:-1].encode(), json.dumps(repr(secret))[1:-1].encode()}
    return sorted(
        path.name
        for path in directory.rglob("*")
        if path.is_file() and any(map(path.read_bytes().__contains__, spelled))
    )


@pytest.fixture(params=[KEY, VALUE], ids=["a key", "a value of the environment"])
def secret(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a secret. The environment has `VALUE`."""
    monkeypatch.setenv("APP_DB_PASSWORD", VALUE)
    return str(request.param)


CASES = [
    *((f"recorder.{name}", method) for name, method in METHODS.items()),
    *((f"trace_recorder.{name}", function) for name, function in FUNCTIONS.items()),
]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(function, name, id=f"{label}({name})")
        for label, function in CASES
        for name in parameters_of(function)
    ],
)
def test_no_argument_brings_a_secret_into_a_file(
    tmp_path: Path, secret: str, function: Callable[..., object], name: str
) -> None:
    """A run is recorded with each kind of value, and no file has the secret."""
    for kind, value in KINDS.items():
        recorder = TrajectoryRecorder(tmp_path / f"{kind}.json")
        if function is not METHODS["start"]:
            recorder.start()
        bound = function.__get__(recorder) if function in METHODS.values() else function
        call(bound, arguments_for(function, name, value(secret)))
        with contextlib.suppress(trace_recorder.TraceRecorderError):
            recorder.finalize()

    assert files_with(secret, tmp_path) == []


@pytest.mark.parametrize("method", ["step", "agent", "tool_call"])
def test_no_attribute_of_a_block_brings_a_secret_into_a_file(tmp_path: Path, secret: str, method: str) -> None:
    """A program sets every attribute of an open step, agent or tool call to each kind of value."""
    function = METHODS[method]
    for kind, value in KINDS.items():
        with TrajectoryRecorder(tmp_path / f"{kind}.json") as recorder:
            call(function.__get__(recorder), arguments_for(function, "", None), value(secret))

    assert (files_with(secret, tmp_path), len([*tmp_path.iterdir()])) == ([], 2 * len(KINDS))


@pytest.mark.parametrize("name", parameters_of(TrajectoryRecorder))
def test_no_argument_of_the_recorder_brings_a_secret_into_a_file(tmp_path: Path, secret: str, name: str) -> None:
    """The first record has the arguments."""
    for kind, value in KINDS.items():
        arguments = arguments_for(TrajectoryRecorder, name, value(secret))
        with contextlib.suppress(TypeError), TrajectoryRecorder(tmp_path / f"{kind}.json", **arguments):
            pass

    assert files_with(secret, tmp_path) == []


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(function, name, id=f"{label}({name})")
        for label, function in AMENDS.items()
        for name in parameters_of(function)
    ],
)
def test_no_later_record_brings_a_secret_into_a_file(
    tmp_path: Path, secret: str, function: Callable[..., object], name: str
) -> None:
    """Rewards, annotations and ends are appended to the journal of an ended run."""
    for kind, value in KINDS.items():
        with TrajectoryRecorder(tmp_path / f"{kind}.json") as recorder:
            pass
        given = value(secret)
        if name == "rewards":
            given = [{"name": given, "value": 1, "explanation": given}]
        call(function, {"path": recorder.trajectory_path, **arguments_for(function, name, given)})

    assert files_with(secret, tmp_path) == []


@pytest.mark.parametrize("member", ["model", "user", "tools", "metadata", "temperature"])
def test_no_member_of_a_request_brings_a_secret_into_a_file(tmp_path: Path, secret: str, member: str) -> None:
    """The recorder reads some members of a captured request itself."""
    for kind in ("secret alone", "text", "dict", "list"):
        with TrajectoryRecorder(tmp_path / f"{kind}.json") as recorder:
            client = recorder.wrap(httpx.Client(transport=Wire(said("x")), trust_env=False))
            send(client, **{member: KINDS[kind](secret)})

    assert files_with(secret, tmp_path) == []
