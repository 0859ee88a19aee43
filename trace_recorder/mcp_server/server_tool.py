"""The type of a tool: its name, its description for the model, its arguments, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from trace_recorder.mcp_server.answers import DEFAULT_CHARACTERS, MAX_CHARACTERS, MIN_CHARACTERS, Json
from trace_recorder.mcp_server.served_runs import ServedRuns, WorkTime

RunId = Annotated[str, Meta(description="The `id` of a run, as list_runs returns it.", max_length=1000)]
Query = Annotated[
    str,
    Meta(
        description='Selects runs. Terms that all have to match: words, "a phrase", text~WORD, status:failed, '
        "success:no, has:error, task:WORDS, model:NAME, provider:NAME, agent:NAME, tool:NAME, tool:NAME>3, "
        "failed_tool:NAME, error:TEXT, reward:NAME>=0.5, meta:KEY=VALUE, tag:NAME, session:NAME, "
        "id:TRAJECTORY_ID, parent:TRAJECTORY_ID, since:7d, until:2025-06-12, steps>10, calls>3, failed_calls>0, "
        "tokens>1000, cost>0.5, seconds>60. - before a term negates it. Empty: every run.",
        max_length=2000,
    ),
]
Size = Annotated[
    int, Meta(description="The largest size of the answer, in characters.", ge=MIN_CHARACTERS, le=MAX_CHARACTERS)
]


class ToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments that every tool takes."""

    max_characters: Size = DEFAULT_CHARACTERS


A = TypeVar("A", bound=ToolArguments)


@dataclass(frozen=True, slots=True)
class ServerTool(Generic[A]):
    """A tool of the server. `answer` may raise any exception; its message becomes the answer.

    `seconds` is the time after which the tool stops, and says what it has not done.
    """

    name: str
    description: str
    arguments: type[A]
    answer: Callable[[ServedRuns, A, WorkTime], Json]
    seconds: float = 10.0

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        name = self.arguments.__name__
        _, components = msgspec.json.schema_components([self.arguments])
        return {key: value for key, value in components[name].items() if key not in {"title", "description"}}
