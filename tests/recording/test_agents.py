"""Sub-agents: each call, step and tool belongs to its agent, in any number of tasks and processes."""

from __future__ import annotations

import asyncio
import contextvars
import json
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import httpx
import openai
import pytest

import trace_recorder
from tests.chat_calls import CHAT, Wire, asked, call, said
from tests.journals import records_of
from tests.provider import SILENCE, chat_chunk, serving, stream
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.formats.atif.writing import to_atif
from trace_recorder.reading.validate import validate
from trace_recorder.values.messages import Payload


def ask(recorder: TrajectoryRecorder, text: str = "go") -> None:
    """Record a call that is answered with text."""
    call(recorder, asked(text), said("done", identity=text))


def whose(recorder: TrajectoryRecorder) -> list[Payload]:
    """Return the agent, its id and its parent for each interaction, and assert that journal and document agree."""
    recorder.save_trajectory()
    path = recorder.trajectory_path
    document = json.loads(path.read_bytes())["llm_interactions"]
    ones = [(call.agent, call.agent_id, call.parent_agent_id) for call in load(path).llm_interactions]
    assert [tuple(one.get(name) for name in ("agent", "agent_id", "parent_agent_id")) for one in document] == ones
    return ones


def test_a_call_has_its_agent_and_the_parent(recorder: TrajectoryRecorder) -> None:
    """Each call names its agent and the agent around that agent, and blocks of agents can be nested."""
    with recorder.agent("lead") as lead:
        ask(recorder)
        with recorder.agent("helper") as helper:
            ask(recorder)
        ask(recorder)
    ask(recorder)

    assert whose(recorder) == [
        ("lead", "agent_1", None),
        ("helper", "agent_2", "agent_1"),
        ("lead", "agent_1", None),
        (None, None, None),
    ]
    assert (lead.agent_id, helper.agent_id, helper.parent_agent_id) == ("agent_1", "agent_2", "agent_1")


def test_everything_that_is_recorded_has_its_agent(recorder: TrajectoryRecorder) -> None:
    """Manual calls, tools, and steps with or without a block name their agent."""
    with recorder.agent("one"), recorder.agent("two"):
        recorder.record_llm_interaction([], {"content": "x"}, "p", "m")
        recorder.record_agent_step(1, "completed")
        with recorder.step(), recorder.tool_call("t"):
            pass

    ours = {"agent": "two", "agent_id": "agent_2", "parent_agent_id": "agent_1"}
    kinds = ("llm_interaction", "agent_step", "step_start", "tool_call", "tool_result")
    told = [record for record in records_of(recorder.trajectory_path) if record.kind in kinds]
    assert [{name: one.data.get(name) for name in ours} for one in told] == [ours] * 6
    steps = load(recorder.trajectory_path).agent_steps
    assert [{name: getattr(step, name) for name in ours} for step in steps] == [ours] * 2


def test_ten_agents_in_tasks_are_separate(recorder: TrajectoryRecorder) -> None:
    """Ten concurrent agents of the same name each have their own id, calls and steps."""
    lead = recorder.agent("lead")

    async def research(number: int) -> None:
        async with recorder.agent("researcher"):
            await asyncio.sleep(0.001 * (number % 3))
            for _ in range(2):
                async with recorder.step():
                    await asyncio.sleep(0)
                    ask(recorder, f"question {number}")

    async def all_of_them() -> None:
        with lead:
            async with asyncio.TaskGroup() as group:
                for number in range(10):
                    group.create_task(research(number))

    asyncio.run(all_of_them())

    trajectory = load(recorder.trajectory_path)
    by_agent: dict[Payload, set[Payload]] = {}
    for one in trajectory.llm_interactions:
        by_agent.setdefault(one.agent_id, set()).add(one.input_messages[0].content)
    assert {(call.agent, call.parent_agent_id) for call in trajectory.llm_interactions} == {("researcher", "agent_1")}
    assert sorted(map(sorted, by_agent.values())) == sorted([f"question {number}"] for number in range(10))
    ids = [(step.agent_id, step.interaction and step.interaction.agent_id) for step in trajectory.agent_steps]
    assert (len(ids), [one for one, other in ids if one != other]) == (20, [])
    assert sorted(step.step_number for step in trajectory.agent_steps) == list(range(1, 21))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_agents_whose_sibling_fails_are_cancelled(recorder: TrajectoryRecorder, backend: str) -> None:
    """If a sub-agent's sibling fails, its stream is recorded as cancelled, in its own step, with the received part."""

    async def research(client: openai.AsyncOpenAI, number: int, heard: list[int]) -> None:
        async with recorder.agent(f"researcher {number}"), recorder.step():
            messages = [{"role": "user", "content": str(number)}]
            async for _ in await client.chat.completions.create(model="m", messages=messages, stream=True):  # type: ignore[call-overload]
                heard.append(number)  # noqa: PERF401 - the chunks before a failure are wanted

    async def lead(address: str) -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{address}/v1", max_retries=0) as client:
            recorder.wrap(client)
            heard: list[int] = []
            async with recorder.agent("lead"), recorder.step(), anyio.create_task_group() as group:
                for number in range(2):
                    group.start_soon(research, client, number, heard)
                while len(heard) < 2:
                    await anyio.sleep(0.005)
                raise ZeroDivisionError

    with serving(stream(chat_chunk("one"), SILENCE)) as server, pytest.raises(ExceptionGroup):
        anyio.run(lead, server.url, backend=backend)
    recorder.finalize(success=False)

    trajectory = load(recorder.trajectory_path)
    cancelled = "CancelledError" if backend == "asyncio" else "Cancelled"
    told = {(call.agent, call.step_number): call for call in trajectory.llm_interactions}
    steps = {(step.agent, step.step_number): step for step in trajectory.agent_steps}
    assert (len(told), told.keys()) == (2, steps.keys() - {("lead", 1)})
    for one in told.values():
        assert (one.agent, one.response.content) == (f"researcher {one.input_messages[0].content}", "one")
        assert (one.complete, one.error and one.error.type) == (False, cancelled)
    assert {name: str(step.error).partition(":")[0] for name, step in steps.items()} == {
        ("lead", 1): "ExceptionGroup",
        **dict.fromkeys(told, cancelled),
    }
    assert validate(recorder.trajectory_path).ok


def test_a_thread_with_a_copied_context_belongs_to_the_agent(recorder: TrajectoryRecorder) -> None:
    """A thread with a copied context belongs to the agent that started the thread."""

    def work(name: str) -> None:
        with recorder.agent(name):
            ask(recorder)

    with recorder.agent("lead"):
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(work, name)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted((agent, parent) for agent, _, parent in whose(recorder)) == [("a", "agent_1"), ("b", "agent_1")]


def test_a_client_that_follows_the_context_knows_the_agent(recorder: TrajectoryRecorder) -> None:
    """The calls of a client at module level are recorded for the agent of the current context."""
    with httpx.Client(transport=Wire(said("x")), trust_env=False) as client:
        trace_recorder.wrap(client)
        with recorder.agent("a"), recorder.step():
            client.post(CHAT, json=asked("go"))

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (one.agent, one.agent_id, one.step_number) == ("a", "agent_1", 1)


def test_agents_with_the_same_name_have_their_own_tool_results(recorder: TrajectoryRecorder) -> None:
    """Tool results are not mixed up between two agents of the same name that use the same call ids."""
    bash = recorder.tool(lambda text: {"of": text}, name="bash")
    contexts = []
    for name in ("x", "y"):
        context = contextvars.copy_context()
        context.run(recorder.agent("same").__enter__)
        answer = said(None, identity=name, calls=[("call_0", "bash", json.dumps({"text": "?"}))])
        context.run(call, recorder, asked(name), answer)
        contexts.append((name, context))
    for name, context in contexts:
        context.run(bash, name)
    for name, context in contexts:
        told = {"role": "tool", "tool_call_id": "call_0", "content": f"told {name}"}
        context.run(call, recorder, asked(name, told), said("done", identity=f"{name}2"))

    first, second, *_ = load(recorder.trajectory_path).agent_steps
    assert [(one.result, one.sent) for step in (first, second) for one in step.tool_results] == [
        ({"of": "x"}, "told x"),
        ({"of": "y"}, "told y"),
    ]


def test_a_sub_agent_without_steps_is_in_the_step_around_it(recorder: TrajectoryRecorder) -> None:
    """A step has the calls of a sub-agent without steps, and its answer is that of the step's own agent."""
    with recorder.step():
        ask(recorder, "lead")
        with recorder.agent("helper"):
            ask(recorder, "helper")

    [step] = load(recorder.trajectory_path).agent_steps
    assert (step.interaction_ids, step.interaction and step.interaction.interaction_id) == (("llm_1", "llm_2"), "llm_1")


def test_a_secret_in_an_agent_s_name_is_masked(recorder: TrajectoryRecorder) -> None:
    """A secret in an agent's name is masked in each record, and each record counts it."""
    secret = "sk-proj-" + "a1B2" * 12
    with recorder.agent(secret), recorder.step():
        ask(recorder)
        recorder.record_llm_interaction([], {"content": "x"}, "p", "m")

    assert secret not in recorder.trajectory_path.with_suffix(".jsonl").read_text()
    kinds = ("llm_request", "llm_interaction", "step_start", "agent_step")
    assert [record.data.get("redacted") for record in records_of(recorder.trajectory_path) if record.kind in kinds] == [
        1
    ] * 4


CHILD = """
import sys
from trace_recorder import TrajectoryRecorder
with TrajectoryRecorder(sys.argv[1]) as recorder, recorder.agent("child"):
    recorder.record_llm_interaction([], {"content": "x"}, "p", "m")
"""


@pytest.mark.parametrize("several", [False, True])
def test_an_agent_in_a_second_process_names_its_parent(
    recorder: TrajectoryRecorder, tmp_path: Path, several: bool
) -> None:
    """A run in a child process names its parent agent: by the environment, or by `child_environment()` if several runs
    are open.
    """
    others = [TrajectoryRecorder(tmp_path / "other.json")] if several else []
    for other in others:
        other.start()
    with recorder.agent("lead"):
        environment = recorder.child_environment() if several else None
        subprocess.run([sys.executable, "-c", CHILD, tmp_path / "child.json"], check=True, env=environment)
    for other in others:
        other.finalize()

    [start, *_] = records_of(tmp_path / "child.json")
    assert start.data["parent"] == load(recorder.trajectory_path).trajectory_id
    assert [call.agent for call in load(tmp_path / "child.json").llm_interactions] == ["child"]


def test_atif_separates_sub_agents_with_the_same_name(recorder: TrajectoryRecorder) -> None:
    """In ATIF, each of two sub-agents of the same name is a trajectory of its own."""
    ask(recorder, "lead")
    for text in ("first", "second"):
        with recorder.agent("researcher"):
            ask(recorder, text)

    subs = to_atif(load(recorder.trajectory_path))["subagent_trajectories"]
    assert [sub["agent"]["name"] for sub in subs] == ["researcher"] * 2
    assert [sub["steps"][0]["message"] for sub in subs] == ["first", "second"]
