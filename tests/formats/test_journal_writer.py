"""A described run as the lines of a journal: the lines state the described facts, and store each message once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.files import check_run
from trace_recorder.facts import AgentStepFact
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.run import (
    Call,
    ForeignAgent,
    ForeignConversation,
    ForeignRun,
    Histories,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.storage.items.shared_lists import ListPrefix
from trace_recorder.values.trajectory import Trajectory

_AT = "2026-01-02T03:04:05.000000+00:00"
_LATER = "2026-01-02T03:04:09.500000+00:00"


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _call(conversation: ForeignConversation, answer: str, **more: object) -> Call:
    call = Call(time=_AT, conversation=conversation, length=len(conversation), response={"content": answer})
    for name, value in more.items():
        setattr(call, name, value)
    conversation.answer(call.response or {})
    return call


def _read(tmp_path: Path, *events: object, **about: object) -> Trajectory:
    run = ForeignRun(identity="one", format="some", events=list(events), **about)  # type: ignore[arg-type]
    return check_run(run, tmp_path)


def test_the_stated_values_of_a_call_are_read_back(tmp_path: Path) -> None:
    conversation = ForeignConversation()
    conversation.add(_user("hello"))
    schema = {"name": "look", "input_schema": {"type": "object"}}
    call = _call(
        conversation,
        "hi",
        provider="p",
        model="m",
        tools=[schema],
        parameters={"temperature": 0.5},
        error={"type": "overloaded", "message": "busy", "status": 529},
        duration_seconds=1.5,
        time_to_first_token_seconds=0.25,
        stream=True,
        complete=False,
        ended_by="cancelled",
    )
    call.response = {"content": "hi", "usage": {"input_tokens": 3, "output_tokens": 0}, "reasoning": "hm"}
    (interaction,) = _read(tmp_path, call).llm_interactions
    assert (interaction.provider, interaction.model, interaction.api, interaction.timestamp) == ("p", "m", "some", _AT)
    assert (interaction.duration_seconds, interaction.time_to_first_token_seconds, interaction.stream) == (
        1.5,
        0.25,
        True,
    )
    assert (interaction.complete, interaction.ended_by, interaction.parameters) == (
        False,
        "cancelled",
        {"temperature": 0.5},
    )
    assert interaction.error is not None
    assert (interaction.error.type, interaction.error.message, interaction.error.status) == ("overloaded", "busy", 529)
    assert [(tool.name, tool.parameters) for tool in interaction.tools] == [("look", {"type": "object"})]
    assert (interaction.response.content, interaction.response.reasoning) == ("hi", "hm")
    assert (interaction.response.usage.input_tokens, interaction.response.usage.output_tokens) == (3, 0)


def test_branches_share_their_messages(tmp_path: Path) -> None:
    """A rewritten history, and a branch of a branch, have their stated messages, and no message is stored twice."""
    trunk = ForeignConversation()
    trunk.add(_user("a"))
    first = _call(trunk, "b")
    trunk.add(_user("c"))
    second = _call(trunk, "d")
    branch = trunk.branch(2)
    branch.add(_user("e"))
    third = _call(branch, "f")
    twig = branch.branch(1)
    twig.add(_user("g"))
    fourth = _call(twig, "h")
    run = _read(tmp_path, first, second, third, fourth)
    seen = [[message.content for message in call.input_messages] for call in run.llm_interactions]
    assert seen == [["a"], ["a", "b", "c"], ["a", "b", "e"], ["a", "g"]]
    lines = journal_lines(ForeignRun(identity="x", events=[first, second, third, fourth]))
    assert sum(b'"kind":"item"' in line for line in lines) == len("abcdefgh")


def test_histories_find_what_a_list_of_messages_continues(tmp_path: Path) -> None:
    histories, events, lists = Histories(), [], []
    main = [_user(str(number)) for number in range(40)]
    other = [_user("other"), *main[:5]]
    for number in range(1, 40):
        lists += [main[:number], other[: 1 + number // 8]]
    lists += [main[:3], [*main[:7], _user("rewritten")], main]
    for messages in lists:
        conversation, length = histories.add(messages)
        events.append(Call(time=_AT, conversation=conversation, length=length, response={"content": "x"}))
    run = _read(tmp_path, *events)
    assert [[message.given for message in call.input_messages] for call in run.llm_interactions] == lists
    lines = [*journal_lines(ForeignRun(identity="x", events=[*events]))]
    assert sum(b'"kind":"item"' in line for line in lines) == 40 + 1 + 1


def test_the_size_grows_linearly_with_the_calls() -> None:
    sizes = []
    for calls in (100, 400):
        conversation = ForeignConversation()
        events = []
        for number in range(calls):
            conversation.add(_user(f"question {number:06} " + "x" * 500))
            events.append(_call(conversation, f"answer {number:06}"))
        sizes.append(sum(map(len, journal_lines(ForeignRun(identity="x", events=[*events])))))
    assert sizes[1] < 4.1 * sizes[0]


def test_tools_sub_agents_and_steps_are_read_back(tmp_path: Path) -> None:
    conversation, inner = ForeignConversation(), ForeignConversation()
    conversation.add(_user("go"))
    inner.add(_user("part"))
    asks = {"content": None, "tool_calls": [{"call_id": "t1", "name": "delegate", "arguments": {"what": "part"}}]}
    outer = Call(time=_AT, conversation=conversation, length=1, response=asks)
    ran = ToolRun(
        time=_AT,
        name="delegate",
        arguments={"what": "part"},
        call_id="t1",
        execution_id="e1",
        ended=_LATER,
        success=False,
        error="no",
        duration_seconds=4.5,
    )
    sub = _call(inner, "done", agent=ForeignAgent(name="helper", agent_id="h1", parent_execution_id="e1"))
    run = _read(tmp_path, outer, ran, sub, start_time=_AT, end_time=_LATER)
    assert run.llm_interactions[1].agent == "helper"
    (result,) = run.agent_steps[0].tool_results
    assert (result.call_id, result.success, result.error, result.duration_seconds) == ("t1", False, "no", 4.5)
    assert run.execution_time == 4.5
    members = dict.fromkeys(("llm_response", "tool_calls", "tool_results", "reflection", "error"))
    fact = AgentStepFact(step_number=7, state="completed", **members)
    source_step = TimedFact(fact, _AT, {"llm_messages": ListPrefix(conversation, 1)})
    run = _read(tmp_path, source_step, TimedFact.summary(step_number=7, value="all"))
    (step,) = run.agent_steps
    assert (step.step_number, step.extra["lakeview_summary"]) == (7, "all")
    assert [message.content for message in step.llm_messages or ()] == ["go"]


def test_other_facts_of_a_run_are_read_back(tmp_path: Path) -> None:
    run = _read(
        tmp_path,
        TimedFact.annotation(key="k", value=[1]),
        TimedFact.reward(name="s", value=0.5, explanation="why"),
        TimedFact.gap(what="line 3", why="it is not JSON"),
        TimedFact.unread(what="progress", value={"a": 1}),
        task="t",
        status="failed",
        success=False,
        error={"type": "E", "message": "m"},
        source={"version": "9"},
    )
    assert (run.task, run.status, run.success, run.annotations) == ("t", "failed", False, {"k": [1]})
    assert [(reward.name, reward.value, reward.explanation) for reward in run.rewards] == [("s", 0.5, "why")]
    assert [(gap.what, gap.why) for gap in run.gaps] == [("line 3", "it is not JSON")]
    assert run.metadata["imported_from"] == {"format": "some", "id": "one", "version": "9"}
    assert (run.start_time, run.end_time, run.execution_time) == (None, None, None)


def test_secrets_are_masked(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "aB3dE6gH9" * 10 + "AA"
    conversation = ForeignConversation()
    conversation.add(_user(f"use {key}"))
    run = _read(tmp_path, _call(conversation, f"I use {key}"), TimedFact.unread(what="env", value=key), task=key)
    lines = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key.encode() not in lines
    assert run.metrics["redactions"] == 5


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("2026-01-02T03:04:05Z", _AT),
        ("2026-01-02T03:04:05", _AT),
        ("2026-01-02T04:04:05+01:00", "2026-01-02T04:04:05.000000+01:00"),
        (1767323045, _AT),
        (1767323045.0, _AT),
        (1767323045000, _AT),
        ("1767323045000000000", _AT),
        *[
            (value, "")
            for value in ("", None, True, "soon", -1, 0, float("nan"), float("inf"), 10**40, [], {}, "9" * 500)
        ],
    ],
)
def test_times_are_written_in_our_form(value: object, time: str) -> None:
    assert stated_time(value) == time


def test_values_that_are_not_json_are_described(tmp_path: Path) -> None:
    run = _read(
        tmp_path, TimedFact.annotation(key="nan", value=float("nan")), TimedFact.annotation(key="half", value="\ud800")
    )
    assert run.annotations["nan"] == {"__type__": "float", "repr": "nan"}
    assert run.annotations["half"] == {"__type__": "str", "repr": "'\\ud800'"}


def test_a_run_with_a_single_known_time_has_no_end() -> None:
    """The duration is unknown, because zero would be wrong."""
    answer = Call(time="2026-01-01T00:00:01+00:00", conversation=None, response={"content": "a"})
    run = ForeignRun(identity="r", events=[answer])
    assert run.times() == ("2026-01-01T00:00:01+00:00", "")
    run.events.append(Call(time="2026-01-01T00:00:03+00:00", conversation=None))
    assert run.times() == ("2026-01-01T00:00:01+00:00", "2026-01-01T00:00:03+00:00")


def test_two_calls_with_the_same_id_stay_two_calls(tmp_path: Path) -> None:
    """The second call gets a new id. The test's first call already has an id that we would make up."""
    answers = [("a", "one"), ("a", "two"), ("call-4", "three"), (None, "four"), (None, "five")]
    calls = [_call(ForeignConversation(), answer, interaction_id=identity) for identity, answer in answers]

    read = _read(tmp_path, *calls).llm_interactions

    assert [(one.interaction_id, one.response.content) for one in read] == [
        ("a", "one"),
        ("a-2", "two"),
        ("call-4", "three"),
        ("call-4-2", "four"),
        ("call-5", "five"),
    ]
