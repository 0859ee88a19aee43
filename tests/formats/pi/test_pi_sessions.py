"""Agent traces as Pi's sessions. The readers datasets and teich are in `tests/readers/check_traces.py`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.formats.made import Payload, assistant, call, gave, run, system, use
from trace_recorder import Trajectory
from trace_recorder.formats.pi.writing import to_traces
from trace_recorder.values.messages import Block
from trace_recorder.views import View, to_atif, to_hierarchy, to_openai_finetuning, to_trae, to_trl, to_turns

LS = use("c1", command="ls")


def messages(session: list[Payload]) -> list[Payload]:
    """Return the messages of a session without their times."""
    told = [line["message"] for line in session if line["type"] == "message"]
    return [{name: value for name, value in one.items() if name != "timestamp"} for one in told]


def test_a_conversation_is_a_session() -> None:
    """Thoughts, texts and calls are parts. Counts exclude cached tokens. The finish reason is in Pi's word and
    in ours.
    """
    usage = {"input_tokens": 30, "output_tokens": 9, "cache_read_input_tokens": 20, "cost": 0.5}
    first = call(["q"], "I look.", LS, response={"reasoning": "so", "usage": usage, "finish_reason": "tool_calls"})
    [session] = to_traces(run(first, call(["q", assistant("I look.", LS), gave("c1", "a.py")], "done")))

    assert session[0]["type"] == "session"
    assert (session[0]["version"], session[0]["timestamp"]) == (3, "2025-06-12T20:00:01+00:00")
    asked, looked, result, answered = messages(session)
    assert asked == {"role": "user", "content": [{"type": "text", "text": "q"}]}
    assert looked == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "so"},
            {"type": "text", "text": "I look."},
            {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
        ],
        "api": "openai-chat",
        "provider": "openai",
        "model": "m-1",
        "usage": {"input": 10, "output": 9, "cacheRead": 20, "totalTokens": 39, "cost": {"total": 0.5}},
        "stopReason": "toolUse",
        "finishReason": "tool_calls",
        "durationSeconds": 0.25,
        "interactionId": "llm_1",
    }
    assert result == {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "bash",
        "content": [{"type": "text", "text": "a.py"}],
        "isError": False,
    }
    assert answered["stopReason"] == "stop"


def test_each_line_is_the_child_of_the_line_before() -> None:
    """Ids are unique in a session. Each line names the line before it as its parent."""
    [session] = to_traces(run(call([system("s"), "q"], "a")))

    entries = session[1:]
    assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]
    assert len({entry["id"] for entry in entries}) == len(entries)


def test_a_rewritten_history_is_a_session_that_names_its_parent() -> None:
    """Both sessions have ids that are the same at each export."""
    made = run(call(["rules", "q"], "a"), call(["rules", "summary"], "b"))
    first, second = to_traces(made)

    assert second[0]["parentSession"] == first[0]["id"]
    assert [line.get("copied") for line in second if line["type"] == "message"] == [True, None, None]
    assert to_traces(made) == [first, second]


def test_failures_have_pi_s_words() -> None:
    """A failed call, a call that was cut off, and a failed tool are stated in Pi's words."""
    failed = call(["q"]) | {"response": {}, "error": {"type": "rate_limit", "message": "later"}}
    cut = call(["q"], "half", complete=False, ended_by="the caller closed it")
    [session] = to_traces(run(failed, cut))

    _, first, second = messages(session)
    assert (first["stopReason"], first["errorMessage"]) == ("error", "rate_limit: later")
    assert (second["stopReason"], second["errorMessage"]) == ("aborted", "the caller closed it")


def test_a_failed_tool_is_an_error(trajectories: Mapping[str, Trajectory]) -> None:
    """A tool result is an error if its message says so, or if only a step recorded the failure."""
    [thinking] = to_traces(trajectories["thinking"])
    alone = to_traces(trajectories["steps_alone"])[0]

    assert [message["isError"] for message in messages(thinking) if message["role"] == "toolResult"] == [False, True]
    [denied] = [message for message in messages(alone) if message["role"] == "toolResult"]
    assert (denied["isError"], denied["content"]) == (True, [{"type": "text", "text": "denied"}])


ALPHA = Block("reasoning", "alpha"), Block("text", "I look."), Block("tool_call", call_id="c1")
BETA = Block("reasoning", "beta"), Block("tool_call", call_id="c2")


def interleaved() -> Trajectory:
    """Return a run whose answer has thoughts between its calls."""
    uses = use("c1", command="ls"), use("c2", command="pwd")
    blocks = [block.to_document() for block in (*ALPHA, *BETA)]
    return run(call(["q"], "I look.", *uses, response={"reasoning": "alpha\n\nbeta", "blocks": blocks}))


def test_interleaved_blocks_are_parts_in_their_order() -> None:
    """A thought comes before the call that follows it, as in the model's answer."""
    [session], left_out = to_traces.with_report(interleaved())

    _, answer = messages(session)
    assert answer["content"] == [
        {"type": "thinking", "thinking": "alpha"},
        {"type": "text", "text": "I look."},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
        {"type": "thinking", "thinking": "beta"},
        {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {"command": "pwd"}},
    ]
    assert left_out == {}


@pytest.mark.parametrize("view", [to_atif, to_hierarchy, to_openai_finetuning, to_trae, to_trl, to_turns])
def test_a_lost_order_of_blocks_is_counted(view: View[..., Payload]) -> None:
    """Formats with one field each for thoughts, text and calls count answers in which these alternate."""
    _, left_out = view.with_report(interleaved())

    assert left_out["interleaved thoughts, texts and calls in answers"] == 1
