"""Derived steps: where a loop marks none, each call to a model is one, with the results that came back for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from trace_recorder.derive.tool_executions import derive_steps
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction
from trace_recorder.values.messages import NO_RESPONSE, LLMResponse, Payload, RequestReading, ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep


@dataclass(frozen=True)
class Source:
    """What an interaction is made of here: nothing but the results that its request contains."""

    new_tool_results: list[ToolResult] = field(default_factory=list)

    def request(self) -> RequestReading:
        return RequestReading()

    def raw_request(self) -> Payload:
        return None

    raw_response = raw_stream = raw_request


def call(
    number: int, *calls: str, results: dict[str, object] | None = None, agent: str | None = None, **rest: object
) -> LLMInteraction:
    """An interaction that contains `results`, by call id, and asks for `calls`."""
    asked = tuple(ToolCall(identity, f"tool-{identity}", {}) for identity in calls)
    members: dict[str, object] = {
        "response": LLMResponse("x", tool_calls=asked),
        "api": "openai-chat",
        "agent": agent,
        **rest,
    }
    brought = [ToolResult(identity, None, None, result) for identity, result in (results or {}).items()]
    return LLMInteraction(f"llm_{number}", f"2025-06-12T22:05:{number:02}+00:00", "p", "m", Source(brought), **members)  # type: ignore[arg-type]


def answers(*interactions: LLMInteraction) -> list[dict[str, object]]:
    """The results of each derived step, by call id."""
    return [{one.call_id: one.result for one in step.tool_results} for step in derive_steps(interactions)]


def test_a_call_is_a_step() -> None:
    """A step says when, what was answered, what was asked of tools, what came back, and by which call it is known."""
    first = call(1, "a", agent="researcher")
    second = call(2, results={"a": "found"}, agent="researcher")

    step, last = derive_steps([first, second])

    assert step == AgentStep(
        step_number=1,
        timestamp=first.timestamp,
        state="calling_tool",
        llm_response=first.response,
        tool_calls=(ToolCall("a", "tool-a", {}),),
        tool_results=(ToolResult("a", "tool-a", None, "found"),),
        agent="researcher",
        derived=True,
    )
    assert (step.interaction, last.interaction, last.step_number, last.state) == (first, second, 2, "completed")


@pytest.mark.parametrize(
    ("members", "state"),
    [
        ({}, "completed"),
        ({"response": NO_RESPONSE}, "thinking"),
        ({"complete": False}, "thinking"),
        ({"error": ErrorInfo("rate_limit", "slow", 429), "response": NO_RESPONSE}, "error"),
        ({"error": ErrorInfo("overloaded", "stream")}, "error"),
    ],
)
def test_the_state_is_that_of_the_call(members: dict[str, object], state: str) -> None:
    """A call in flight or broken off is thinking, one that failed is an error."""
    [step] = derive_steps([call(1, **members)])  # type: ignore[arg-type]

    assert step.state == state


def test_the_error_of_a_call_is_the_step_s() -> None:
    """A step of a failed call says which error it was."""
    [step] = derive_steps([call(1, error=ErrorInfo("rate_limit", "slow", 429), response=NO_RESPONSE)])

    assert (step.error, step.tool_calls) == ("rate_limit: slow", ())


def test_embeddings_are_no_steps() -> None:
    """A call that decides nothing is not numbered."""
    steps = derive_steps([call(1), call(2, api="embeddings"), call(3)])

    assert [(step.step_number, step.interaction and step.interaction.interaction_id) for step in steps] == [
        (1, "llm_1"),
        (2, "llm_3"),
    ]


def test_results_find_their_calls() -> None:
    """Parallel calls, answered together and in another order, have each its own."""
    assert answers(call(1, "a", "b", "c"), call(2, results={"c": 3, "a": 1})) == [{"a": 1, "c": 3}, {}]


def test_a_result_that_comes_later_is_found() -> None:
    """A result need not come with the next call."""
    assert answers(call(1, "a"), call(2, "b"), call(3, results={"b": 2, "a": 1})) == [{"a": 1}, {"b": 2}, {}]


def test_a_result_without_its_call_is_nobody_s() -> None:
    """A history that begins in the middle answers calls that were never seen."""
    assert answers(call(1, results={"x": 0}), call(2, "a"), call(3, results={"a": 1, "y": 2})) == [{}, {"a": 1}, {}]


def test_ids_that_come_again_are_each_answered_once() -> None:
    """Where a provider gives no ids, made-up ones repeat: the newest open call of that id is meant."""
    assert answers(call(1, "call_0"), call(2, "call_0", results={"call_0": 1}), call(3, results={"call_0": 2})) == [
        {"call_0": 1},
        {"call_0": 2},
        {},
    ]


def test_agents_that_use_the_same_ids_have_their_own_results() -> None:
    """Two agents that take turns, each with a conversation of its own, do not take each other's results."""
    assert answers(
        call(1, "call_0", agent="one"),
        call(2, "call_0", agent="two"),
        call(3, agent="one", results={"call_0": "of one"}),
        call(4, agent="two", results={"call_0": "of two"}),
    ) == [{"call_0": "of one"}, {"call_0": "of two"}, {}, {}]


def test_an_answered_call_stays_answered() -> None:
    """A later result with the same id, of another agent whose own call was not seen, does not take its place."""
    assert answers(
        call(1, "call_0", agent="one"),
        call(2, agent="one", results={"call_0": "right"}),
        call(3, agent="two", results={"call_0": "of something else"}),
    ) == [{"call_0": "right"}, {}, {}]


def test_a_request_that_is_sent_again_changes_nothing() -> None:
    """The user's own retry contains the same results again."""
    again = call(2, results={"a": 1})

    assert answers(call(1, "a"), again, again, call(3, results={"a": "late"})) == [{"a": 1}, {}, {}, {}]


def unnamed(number: int, *calls: ToolCall, results: tuple[ToolResult, ...] = ()) -> LLMInteraction:
    """An interaction with made-up ids of its calls, which contains `results`."""
    made = tuple(replace(one, call_id=f"call_{place}", call_id_made_up=True) for place, one in enumerate(calls))
    return replace(call(number), source=Source(list(results)), response=LLMResponse("x", tool_calls=made))  # type: ignore[arg-type]


def test_calls_that_the_agent_has_named_are_answered() -> None:
    """Where the provider gives no ids and the agent its own, a result is the next open call's of its name."""
    look, count = ToolCall("", "look", {}), ToolCall("", "count", {})
    first = (
        ToolResult("own-2", "count", None, 2),
        ToolResult("own-1", "look", None, 1),
        ToolResult("own-3", "look", None, 3),
    )
    second = ToolResult("own-4", "look", None, 4)

    assert answers(
        unnamed(1, look, count, look),
        unnamed(2, look, results=first),
        unnamed(3, results=(*first, second)),
    ) == [{"call_0": 1, "call_1": 2, "call_2": 3}, {"call_0": 4}, {}]


def test_what_was_never_asked_for_answers_no_call_with_an_id() -> None:
    """A result of an unknown id, of the name of an open call to which the provider gave an id, is nobody's."""
    of_another = replace(call(2), source=Source([ToolResult("y", "tool-a", None, 0)]))  # type: ignore[arg-type]

    assert answers(call(1, "a"), of_another) == [{}, {}]


def test_no_calls_are_no_steps() -> None:
    """A run without calls has no steps."""
    assert derive_steps([]) == []
