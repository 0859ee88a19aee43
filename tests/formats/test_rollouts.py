"""Results of benchmarks and training: tau2-bench, and verifiers before and from version 1."""

from __future__ import annotations

import json
from pathlib import Path

from tests.formats.files import PRODUCED, results_in, said_in
from trace_recorder import load, load_all
from trace_recorder.figures.rollouts import sampled_rollout
from trace_recorder.formats.foreign_runs.run import Members


def test_simulations_of_tau2_are_runs() -> None:
    """The greeting is the benchmark's own text, and not a call."""
    solved, failed = load_all(PRODUCED / "tau2-bench" / "scripted.json")
    asked = [("create_task", {"user_id": "user_1", "title": "Important Meeting"})]
    assert said_in(solved) == [
        {
            "saw": 2,
            "text": None,
            "asked": asked,
            "usage": {"input_tokens": 900, "output_tokens": 25, "cost": 0.00015000000000000001},
        },
        {
            "saw": 4,
            "text": "I created the task Important Meeting.",
            "usage": {"input_tokens": 980, "output_tokens": 11, "cost": 0.0001536},
        },
    ]
    assert [result[:3] for result in results_in(solved)] == [("call_a1", "create_task", True)]
    assert [(run.status, run.success, run.rewards[0].value) for run in (solved, failed)] == [
        *(("completed", True, 1.0), ("completed", False, 0.0))
    ]
    assert [call.parameters for call in solved.llm_interactions] == [{"temperature": 0}] * 2
    assert solved.annotations["unanswered"][0]["content"] == "Thanks. ###STOP###"


def test_tools_of_the_simulated_user_are_not_the_agent_s(tmp_path: Path) -> None:
    document = json.loads((PRODUCED / "tau2-bench" / "scripted.json").read_text())
    simulation = document["simulations"][0]
    call = {"id": "u1", "name": "toggle_roaming", "arguments": {"on": True}, "requestor": "user"}
    result = {"role": "tool", "id": "u1", "content": "on", "requestor": "user", "error": False}
    of_agent = {"role": "tool", "id": "a2", "content": "ok", "requestor": "assistant", "error": True}
    more: list[Members] = [
        {"role": "user", "content": None, "tool_calls": [call]},
        result,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a2", "name": "look", "arguments": {}}],
            "usage": {},
        },
        {"role": "tool", "tool_messages": [of_agent]},
    ]
    simulation["messages"] += more
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document))
    run = next(iter(load_all(path)))
    last = run.llm_interactions[-1]
    assert ("toggle_roaming" in str([message.to_document() for message in last.input_messages])) is False
    assert results_in(run)[-2:] == [("u1", "toggle_roaming", True, "on"), ("a2", "look", False, "ok")]


def test_a_tool_call_of_the_simulated_user_without_a_result_is_kept(tmp_path: Path) -> None:
    document = json.loads((PRODUCED / "tau2-bench" / "scripted.json").read_text())
    call = {"id": "u1", "name": "toggle_roaming", "arguments": {"on": True}, "requestor": "user"}
    document["simulations"][0]["messages"].append({"role": "user", "content": None, "tool_calls": [call]})
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document))
    calls = [call for step in next(iter(load_all(path))).agent_steps for call in step.tool_calls]
    assert [(call.call_id, call.arguments) for call in calls if call.name == "toggle_roaming"] == [("u1", {"on": True})]


def test_rows_of_verifiers_are_runs() -> None:
    """Answers in the prompt are examples, and not calls."""
    chat, text, failed = load_all(PRODUCED / "verifiers-results" / "results.jsonl")
    assert said_in(chat) == [
        {"saw": 4, "text": "Let me look.", "asked": [("get_weather", {"city": "Tokyo"})]},
        {"saw": 6, "text": "It is sunny."},
    ]
    assert said_in(text) == [{"saw": 1, "text": " fine."}]
    assert results_in(failed) == [("call_0", "get_weather", None, "rain")]
    assert [run.status for run in (chat, text, failed)] == ["completed", "completed", "failed"]
    assert [run.rewards[0].value for run in (chat, text, failed)] == [1.0, 0.0, 0.0]
    assert chat.metadata["row"]["correct"] == 1.0


def test_a_trace_of_verifiers_is_a_run_with_its_branches() -> None:
    run, failed = load_all(PRODUCED / "verifiers" / "traces.jsonl")
    cities = [("get_weather", {"city": city}) for city in ("Tokyo", "Paris", "Rome")]
    first = {
        "input_tokens": 101,
        "output_tokens": 19,
        "cache_read_input_tokens": 41,
        "reasoning_tokens": 3,
        "cost": 0.001,
    }
    assert said_in(run) == [
        {"saw": 2, "text": "Let me look.", "asked": cities[:2], "usage": first},
        {"saw": 0, "text": None},
        {
            "saw": 5,
            "text": "It is sunny in Tokyo, and it rains in Paris.",
            "usage": {"input_tokens": 150, "output_tokens": 11},
        },
        {"saw": 2, "text": "Both are fine.", "usage": {"input_tokens": 60, "output_tokens": 4}},
        {"saw": 3, "text": None, "asked": cities[2:], "usage": {"input_tokens": 70, "output_tokens": 5}},
    ]
    assert [call.duration_seconds for call in run.llm_interactions][::2] == [1.5, 1.0, 1.0]
    assert [call.error.status for call in run.llm_interactions if call.error] == [429]
    assert [result[1:] for result in results_in(run)] == [
        *(("get_weather", None, "sunny"), ("get_weather", None, "rain"), ("get_weather", None, "windy"))
    ]
    assert [(reward.name, reward.value, reward.weight) for reward in run.rewards] == [
        *(("correct", 1.0, 0.8), ("brief", 0.5, 0.2))
    ]
    assert (run.status, run.task, run.final_result) == (
        "completed",
        "Weather in Tokyo and Paris?",
        "It is sunny in Tokyo, and it rains in Paris.",
    )
    assert failed.error is not None
    assert (failed.status, failed.error.message) == ("failed", "down")


def test_a_trace_with_very_many_branches_is_bounded(tmp_path: Path) -> None:
    trace = json.loads((PRODUCED / "verifiers" / "traces.jsonl").read_text().splitlines()[0])["traces"][0]
    answer = {"parent": 1, "message": {"role": "assistant", "content": "Hm."}, "sampled": True}
    trace["nodes"] += [answer] * 600
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(trace) + "\n")
    run = load(path)
    assert [gap.what for gap in run.gaps] == ["the prompts of later branches"]
    assert len(run.llm_interactions) == 605


def test_a_second_call_for_the_same_node_is_a_gap(tmp_path: Path) -> None:
    trace = json.loads((PRODUCED / "verifiers" / "traces.jsonl").read_text().splitlines()[0])["traces"][0]
    number = next(call["node"] for call in trace["calls"] if call.get("node") is not None)
    trace["calls"].append({"node": number, "model": "m"})
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(trace) + "\n")
    run = load(path)
    assert [gap.what for gap in run.gaps] == [f"a call of node {number}"]
    assert len(run.llm_interactions) == 5


def test_events_of_agent_lightning_are_a_run_for_each_attempt() -> None:
    """A call has its request and its answer with the ids, a reward is the run's, and other events are kept."""
    first, second = load_all(PRODUCED / "agent-lightning" / "events.jsonl")
    rollout = sampled_rollout(first)

    assert [(run.metadata["rollout"], run.metadata["attempt"]) for run in (first, second)] == [
        ("ro-7", "at-1"),
        ("ro-7", "at-2"),
    ]
    assert [(branch.token_ids, branch.mask) for branch in rollout.branches] == [
        ([1, 2, 3, 7, 8, 4, 5, 9], [0, 0, 0, 1, 1, 0, 0, 1])
    ]
    assert [run.rewards[0].value for run in (first, second)] == [1.0, 0.0]
    failed = second.llm_interactions[-1]
    assert (failed.error and failed.error.status, failed.error and failed.error.message) == (503, "overloaded")
    assert [call.duration_seconds for call in first.llm_interactions] == [0.25, 0.25]
