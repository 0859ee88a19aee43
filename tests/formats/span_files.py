"""Files of spans, which we wrote in the forms of OTLP and of tools that list spans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_000_000_000
BEGAN = 1_760_000_000 * SECOND
"""2025-10-09T08:53:20Z."""

GIVEN = [{"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]}]
ASKED = {
    "role": "assistant",
    "parts": [
        {"type": "reasoning", "content": "A tool knows."},
        {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}},
    ],
}
ANSWERED = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "18 degrees"}]}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "It is 18 degrees."}], "finish_reason": "stop"}


def attributes(members: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes in OTLP's form.

    A value that is not a scalar becomes JSON text, as the conventions require.
    """
    return [{"key": name, "value": _any_value(value)} for name, value in members.items()]


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value if isinstance(value, str) else json.dumps(value)}


def span(
    number: int,
    name: str,
    parent: int | None = None,
    *,
    start: float = 0,
    seconds: float | None = 1,
    error: str | None = None,
    events: Iterable[dict[str, Any]] = (),
    **members: Any,
) -> dict[str, Any]:
    """Return a span in OTLP's form. In the names of the arguments, `__` stands for a dot."""
    started = BEGAN + int(start * SECOND)
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": name,
        "startTimeUnixNano": str(started),
        **({} if seconds is None else {"endTimeUnixNano": str(started + int(seconds * SECOND))}),
        "attributes": attributes({key.replace("__", "."): value for key, value in members.items()}),
        "events": list(events),
        "status": {} if error is None else {"code": 2, "message": error},
    }


def call(number: int, parent: int | None, prompt: Any, answer: Any, **more: Any) -> dict[str, Any]:
    """Return a span of a chat call by the GenAI conventions."""
    return span(
        number,
        "chat gpt-4o",
        parent,
        gen_ai__operation__name="chat",
        gen_ai__provider__name="openai",
        gen_ai__request__model="gpt-4o",
        gen_ai__input__messages=prompt,
        **({} if answer is None else {"gen_ai__output__messages": [answer]}),
        **more,
    )


def agent_run() -> list[dict[str, Any]]:
    """Return the spans of an agent with two calls and one tool, in the order in which they end."""
    usage = {"gen_ai__usage__input_tokens": 10, "gen_ai__usage__output_tokens": 5}
    tool = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "weather", "gen_ai__tool__call__id": "c1"}
    arguments = {"gen_ai__tool__call__arguments": {"city": "Paris"}, "gen_ai__tool__call__result": "18 degrees"}
    agent = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "guide", "final_result": "18"}
    sums = {"gen_ai__usage__input_tokens": 20, "gen_ai__aggregated_usage__input_tokens": 20}
    return [
        call(2, 1, GIVEN, ASKED, start=1, **usage),
        span(3, "execute_tool weather", 1, start=2.5, **tool, **arguments),
        call(4, 1, [*GIVEN, ASKED, ANSWERED], SAID, start=4, **usage),
        span(1, "invoke_agent guide", seconds=6, **agent, **sums),
    ]


def otlp(spans: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return an OTLP request with these spans."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": attributes({"service.name": "app"})},
                "scopeSpans": [{"scope": {"name": "test", "version": "1"}, "spans": list(spans)}],
            }
        ]
    }


def written(directory: Path, value: Any, name: str = "traces.json") -> Path:
    """Write a JSON value to a file, and return its path."""
    path = directory / name
    path.write_text(json.dumps(value))
    return path
