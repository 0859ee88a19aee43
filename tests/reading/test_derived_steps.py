"""Derived steps: if an agent marks no steps, each model call is a step, with the results of its tool calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from tests.journals import TIME, folded, journal_of
from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep

Ending = Literal["whole", "none", "cut off", "refused", "failed"]
REFUSAL = {"error": {"type": "rate_limit", "message": "slow"}}


@dataclass(frozen=True)
class Call:
    """A call whose request has `results`, by call id, and whose response asks for `calls`."""

    number: int
    calls: tuple[str, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    agent: str | None = None
    ending: Ending = "whole"
    api: str = "openai-chat"

    def records(self) -> list[tuple[str, Payload]]:
        """Return the records of the call."""
        identity = {"interaction_id": f"llm_{self.number}", "attempt": 0}
        brought = [{"role": "tool", "tool_call_id": name, "content": said} for name, said in self.results]
        messages = {"model": "m", "messages": [{"role": "user", "content": f"call {self.number}"}, *brought]}
        agent = {"agent": self.agent} if self.agent else {}
        request = {**identity, **agent, "api": self.api, "items": {}, "body": messages}
        return [("llm_request", request), *[(kind, {**identity, **data}) for kind, data in self._end()]]

    def _end(self) -> list[tuple[str, Payload]]:
        asked = [
            {"id": name, "type": "function", "function": {"name": f"tool-{name}", "arguments": "{}"}}
            for name in self.calls
        ]
        message = {"role": "assistant", "content": "x", **({"tool_calls": asked} if asked else {})}
        answer = {"id": f"r{self.number}", "model": "m", "choices": [{"index": 0, "message": message}]}
        endings: dict[Ending, list[tuple[str, Payload]]] = {
            "whole": [("llm_response", {"status": 200, "complete": True, "body": answer})],
            "cut off": [("llm_response", {"status": 200, "complete": False, "body": answer})],
            "refused": [("llm_response", {"status": 429, "complete": True, "body": REFUSAL})],
            "failed": [("llm_error", {"type": "TimeoutError", "message": "slow"})],
            "none": [],
        }
        return endings[self.ending]


def call(number: int, *calls: str, results: dict[str, str] | None = None, agent: str | None = None) -> Call:
    """Return a call whose request has `results`, by call id, and whose response asks for `calls`."""
    return Call(number, calls, tuple((results or {}).items()), agent)


def steps_of(*calls: Call) -> list[AgentStep]:
    """Return the steps of a journal of these calls."""
    return list(folded(journal_of(*(record for call in calls for record in call.records()))).agent_steps)


def answers(*calls: Call) -> list[dict[str, Payload]]:
    """Return the results of each derived step, by call id."""
    return [{result.call_id: result.result for result in step.tool_results} for step in steps_of(*calls)]


def test_a_call_is_a_step() -> None:
    """A derived step has the time, the answer, the tool calls, their results, and the id of its call."""
    step, last = steps_of(call(1, "a", agent="researcher"), call(2, results={"a": "found"}, agent="researcher"))

    assert step.interaction is not None
    assert last.interaction is not None
    assert step == AgentStep(
        step_number=1,
        timestamp=TIME,
        state="calling_tool",
        llm_response=step.interaction.response,
        tool_calls=(ToolCall("a", "tool-a", {}),),
        tool_results=(ToolResult("a", name="tool-a", success=None, result="found"),),
        agent="researcher",
        interaction=step.interaction,
        derived=True,
    )
    assert (step.interaction.interaction_id, last.interaction.interaction_id) == ("llm_1", "llm_2")
    assert (last.step_number, last.state) == (2, "completed")


@pytest.mark.parametrize(
    ("ending", "state", "error"),
    [
        ("whole", "completed", None),
        ("none", "thinking", None),
        ("cut off", "thinking", None),
        ("refused", "error", "rate_limit: slow"),
        ("failed", "error", "TimeoutError: slow"),
    ],
)
def test_the_state_of_a_step_follows_from_its_call(ending: Ending, state: str, error: str | None) -> None:
    """A step whose call is open or was cut off is "thinking". A failed call makes the step an error."""
    [step] = steps_of(Call(1, ending=ending))

    assert (step.state, step.error, step.tool_calls) == (state, error, ())


def test_embeddings_are_not_steps() -> None:
    """A call in which no model decides anything, such as an embeddings call, gets no step."""
    steps = steps_of(call(1), Call(2, api="embeddings"), call(3))

    assert [(step.step_number, step.interaction and step.interaction.interaction_id) for step in steps] == [
        (1, "llm_1"),
        (2, "llm_3"),
    ]


def test_results_find_their_calls() -> None:
    """Each of several parallel calls gets its own result, if the results come together and in a different order."""
    assert answers(call(1, "a", "b", "c"), call(2, results={"c": "3", "a": "1"})) == [{"a": "1", "c": "3"}, {}]


def test_a_result_of_an_unknown_call_hides_no_other() -> None:
    """Such a result may come before the other results of its request."""
    assert answers(call(1, "a"), call(2, results={"unknown": "0", "a": "1"})) == [{"a": "1"}, {}]


def test_a_late_result_is_found() -> None:
    """A result need not come with the next call."""
    assert answers(call(1, "a"), call(2, "b"), call(3, results={"b": "2", "a": "1"})) == [{"a": "1"}, {"b": "2"}, {}]


def test_a_result_without_its_call_is_ignored() -> None:
    """A history that begins in the middle has results of calls that were not recorded."""
    assert answers(call(1, results={"x": "0"}), call(2, "a"), call(3, results={"a": "1", "y": "2"})) == [
        {},
        {"a": "1"},
        {},
    ]


def test_repeated_ids_are_each_answered_once() -> None:
    """If a provider gives no ids, made-up ids repeat. A result then answers the newest open call with that id."""
    assert answers(call(1, "call_0"), call(2, "call_0", results={"call_0": "1"}), call(3, results={"call_0": "2"})) == [
        {"call_0": "1"},
        {"call_0": "2"},
        {},
    ]


def test_agents_that_use_the_same_ids_have_their_own_results() -> None:
    """Two agents with separate conversations and the same ids take turns, and neither gets the other's results."""
    assert answers(
        call(1, "call_0", agent="one"),
        call(2, "call_0", agent="two"),
        call(3, agent="one", results={"call_0": "of one"}),
        call(4, agent="two", results={"call_0": "of two"}),
    ) == [{"call_0": "of one"}, {"call_0": "of two"}, {}, {}]


def test_an_answered_call_keeps_its_result() -> None:
    """A later result with the same id belongs to a second agent, whose own call was not recorded, and does not replace
    it.
    """
    assert answers(
        call(1, "call_0", agent="one"),
        call(2, agent="one", results={"call_0": "right"}),
        call(3, agent="two", results={"call_0": "of something else"}),
    ) == [{"call_0": "right"}, {}, {}]


def test_a_repeated_request_changes_nothing() -> None:
    """A retry of the user's code has the same results again."""
    assert answers(
        call(1, "a"), call(2, results={"a": "1"}), call(3, results={"a": "1"}), call(4, results={"a": "late"})
    ) == [{"a": "1"}, {}, {}, {}]


def unnamed(number: int, *names: str, results: tuple[tuple[str, str, str], ...] = ()) -> list[tuple[str, Payload]]:
    """Return the records of a call to Gemini, which gives calls no ids: each result has the agent's own id, name and
    value.
    """
    identity = {"interaction_id": f"llm_{number}", "attempt": 0}
    brought = [
        {"functionResponse": {"id": own, "name": name, "response": {"result": said}}} for own, name, said in results
    ]
    contents = [{"role": "user", "parts": [{"text": f"call {number}"}, *brought]}]
    parts = [{"functionCall": {"name": name, "args": {}}} for name in names] or [{"text": "done"}]
    answer = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    return [
        ("llm_request", {**identity, "api": "google-generate", "items": {}, "body": {"contents": contents}}),
        ("llm_response", {**identity, "status": 200, "complete": True, "body": answer}),
    ]


def test_a_result_with_the_agent_s_own_id_answers_a_call_by_its_name() -> None:
    """If only the agent gives ids, a result answers the next open call with its name."""
    first = (("own-2", "count", "2"), ("own-1", "look", "1"), ("own-3", "look", "3"))
    records = [
        *unnamed(1, "look", "count", "look"),
        *unnamed(2, "look", results=first),
        *unnamed(3, results=(*first, ("own-4", "look", "4"))),
    ]

    steps = folded(journal_of(*records)).agent_steps

    assert [{result.call_id: result.result for result in step.tool_results} for step in steps] == [
        {"call_0": "1", "call_1": "2", "call_2": "3"},
        {"call_0": "4"},
        {},
    ]


def test_a_result_with_an_unknown_id_answers_no_call_with_an_id() -> None:
    """Its name may equal that of an open call with an id from the provider."""
    stray = unnamed(2, results=(("y", "tool-a", "0"),))

    steps = folded(journal_of(*call(1, "a").records(), *stray)).agent_steps

    assert [step.tool_results for step in steps] == [(), ()]


def test_a_run_without_calls_has_no_steps() -> None:
    """A run without calls has no steps."""
    assert steps_of() == []
