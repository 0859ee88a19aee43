"""Figures, commands and the viewer show which calls were replayed, and which runs are replays and forks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.cli.invoking import invoke
from tests.provider import Answer, plain, serving
from tests.rerun.runs import ask, client
from tests.viewer.serving import serving as serving_viewer
from trace_recorder import TrajectoryRecorder, diff, fork, load, replay, to_dataframe
from trace_recorder.figures.assertions import TrajectoryAssertions
from trace_recorder.figures.stats import Stats
from trace_recorder.viewer.followed_runs import costs_of
from trace_recorder.viewer.one_file import run_data

USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13, "cost": 0.5}


def billed(text: str) -> Answer:
    """Return a chat completion with its tokens and their cost."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    about = {"id": f"c-{text}", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE}
    return plain({**about, "choices": [choice]})


def work(made: openai.OpenAI) -> None:
    for text in ("one", "two"):
        ask(made, text)


@dataclass(frozen=True)
class Runs:
    """A run of two calls, its replay, its fork at the second call, and a fork whose second answer a person wrote."""

    directory: Path

    def __getitem__(self, name: str) -> Path:
        return self.directory / f"{name}.json"

    def loaded(self, name: str) -> Any:
        return load(self[name])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Record these runs in one directory."""
    made = Runs(tmp_path_factory.mktemp("origins"))
    with serving(*map(billed, ("1", "2", "3"))) as server:
        url = f"{server.url}/v1"
        with TrajectoryRecorder(made["first"], strict=True) as recorder:
            work(recorder.wrap(client(url)))
        with replay(made["first"]) as run, TrajectoryRecorder(made["again"], strict=True) as recorder:
            work(recorder.wrap(run.wrap(client())))
        with fork(made["first"], at="llm_2", recorder=TrajectoryRecorder(made["branch"])) as branch:
            work(branch.wrap(client(url)))
        message = {"role": "assistant", "content": "mine"}
        answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        with fork(made["first"], at="llm_2", answer=answer, recorder=TrajectoryRecorder(made["hand"])) as by_hand:
            work(by_hand.wrap(client(url)))
    return made


MADE = {"first": 2, "again": 0, "branch": 1, "hand": 0}
REPLAYED = {"first": 0, "again": 2, "branch": 1, "hand": 2}


@pytest.mark.parametrize("name", MADE)
def test_no_figure_counts_replayed_calls(name: str, runs: Runs) -> None:
    """In every view, calls, tokens and costs count only the calls that were made."""
    run, made, replayed = runs.loaded(name), MADE[name], REPLAYED[name]
    stats = Stats()
    stats.add(run)
    llm = stats.to_json()["llm"]
    [row] = json.loads(invoke("list", runs[name], "--json").stdout)["trajectories"]
    calls = to_dataframe(run, library="polars").to_dicts()
    [frame] = to_dataframe(run, of="runs", library="polars").to_dicts()
    compared = diff(run, run).a.figures
    expected = (made, replayed, 10 * made or None, 3 * made or None, 0.5 * made or None)

    assert {
        "metrics": figures_in(run.metrics, "llm_calls", "replayed_llm_calls", "total_input_tokens", "output_tokens"),
        "stats": (
            *(llm["calls"], llm.get("replayed", 0)),
            *(llm["tokens"].get("prompt"), llm["tokens"].get("completion"), llm["cost"].get("stated")),
        ),
        "list": figures_in(row, "llm_calls", "replayed_llm_calls", "input_tokens", "output_tokens"),
        "runs": figures_in(frame, "calls", "replayed_calls", "input_tokens", "output_tokens"),
        "calls": (
            *(sum(not call["is_replayed"] for call in calls), sum(call["is_replayed"] for call in calls)),
            *(sum(call[what] or 0 for call in calls) or None for what in ("input_tokens", "output_tokens", "cost")),
        ),
        "diff": (
            *(compared.calls, compared.replayed_calls or 0),
            *(compared.input_tokens, compared.output_tokens, compared.cost),
        ),
    } == dict.fromkeys(("metrics", "stats", "list", "runs", "calls", "diff"), expected)
    assert costs_of(runs[name])["cost"] == expected[-1]


def figures_in(found: Any, calls: str, replayed: str, *tokens: str) -> tuple[object, ...]:
    return (found[calls], found.get(replayed) or 0, *(found.get(name) for name in (*tokens, "cost")))


def test_an_assertion_about_tokens_includes_replayed_answers(runs: Runs) -> None:
    """The tokens are those of all answers, including answers from a recording."""
    again = TrajectoryAssertions(runs["again"].with_suffix(".jsonl"))

    assert (again.total_tokens, again.cost) == (26, 1.0)


SHOWN = {
    "again": (
        "replay of first.jsonl",
        "0 LLM calls, 2 replayed LLM calls, 0 tool calls, 2 steps",
        ["from llm_1 of first.jsonl", "from llm_2 of first.jsonl"],
    ),
    "branch": (
        "fork of first.jsonl at llm_2 (step 2)",
        "1 LLM call",
        ["from llm_1 of first.jsonl"],
    ),
    "hand": (
        "fork of first.jsonl at llm_2 (step 2)",
        "0 LLM calls, 2 replayed LLM calls, 0 tool calls, 2 steps",
        ["from llm_1 of first.jsonl", "answered by hand, in place of llm_2 of first.jsonl"],
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_show_names_the_source_of_answers(name: str, runs: Runs) -> None:
    """The header names the source run once. Each replayed call names the recorded call."""
    output = invoke("show", runs[name]).output
    origin, calls, sources = SHOWN[name]

    assert labelled(output, "origin") == [origin]
    assert labelled(output, "calls")[0].startswith(calls)
    assert labelled(output, "replayed") == sources
    spent = [text.endswith(", when it was recorded") for text in labelled(output, "tokens")[MADE[name] > 0 :]]
    assert sum(spent) == sum(source.startswith("from") for source in sources)
    assert labelled(output, "metadata") == []


def labelled(said: str, label: str) -> list[str]:
    """Return the texts of the entries with a label."""
    rows = [line.split(maxsplit=1) for line in said.splitlines()]
    return [row[1] for row in rows if len(row) == 2 and row[0] == label]


def test_tail_names_the_source_of_answers(runs: Runs) -> None:
    """The first line names the source run. The steps are those of `show`."""
    said = invoke("tail", runs["again"]).output

    assert said.splitlines()[0] == f"{runs['again'].with_suffix('.jsonl')}: replay of first.jsonl, 2 steps so far"
    assert labelled(said, "replayed") == ["from llm_1 of first.jsonl", "from llm_2 of first.jsonl"]


def test_diff_marks_replayed_calls(runs: Runs) -> None:
    """A replay equals its run. In a comparison with a fork, differing steps before the fork point are marked as
    replayed.
    """
    same = invoke("diff", runs["first"], runs["again"])
    other = invoke("diff", runs["again"], runs["branch"])
    equal, again = diff(load(runs["first"]), load(runs["again"])), same.output.splitlines()[1]

    assert (same.exit_code, equal.equal) == (0, True)
    assert f"{runs['again']}: completed, replay of first.jsonl, m, 2 steps, 0 calls, 2 replayed calls" in again
    assert "a step 2 (replayed) | b step 2: answer" in other.output
    assert equal.to_dict()["b"]["replay_of"]["file"] == "first.jsonl"
    assert equal.to_dict()["steps"][0]["b"]["replayed_from"]["interaction_id"] == "llm_1"


def test_list_shows_replays_and_forks_below_their_run(runs: Runs) -> None:
    """A replay has a column of its own, and `stats` counts it among the runs."""
    table = invoke("list", runs.directory).output.splitlines()
    counted = invoke("stats", runs.directory).output.splitlines()

    assert [line.split()[:2][-1] if line.startswith("└") else line.split()[0] for line in table[1:]] == [
        *("first.json", "again.json", "branch.json", "hand.json")
    ]
    assert table[2].endswith("first.jsonl")
    assert counted[0] == "runs    4 runs: 4 completed, of them 1 replay; none judged"
    assert counted[1] == "calls   3 LLM calls, 5 replayed"


def test_the_viewer_links_runs_and_calls_to_their_source(runs: Runs) -> None:
    """The list names the source run. The page has the ids of the runs to which its links lead."""
    with serving_viewer(runs.directory) as viewer:
        rows = {row["id"]: row for row in viewer.get("/api/runs").json()["runs"]}
        again, first, hand = (viewer.get(f"/api/runs/{name}.json").json() for name in ("again", "first", "hand"))

    identity = load(runs["first"]).trajectory_id
    source = {"trajectory_id": identity, "interaction_id": "llm_2"}
    assert rows["again.json"]["replay_of"] == {"trajectory_id": identity, "file": "first.jsonl"}
    assert (rows["again.json"]["llm_calls"], rows["again.json"]["cost"]) == (0, None)
    assert again["run"]["replay_of"] == rows["again.json"]["replay_of"]
    assert [call["replayed_from"] for call in again["interactions"]] == [{**source, "interaction_id": "llm_1"}, source]
    assert hand["interactions"][1]["replayed_from"] == {**source, "by_hand": True}
    assert {call[name] for call in again["interactions"] for name in ("cost", "prompt_tokens", "usage")} == {None}
    assert [call["replayed_from"] for call in first["interactions"]] == [None, None]
    nobody = dict.fromkeys(("forked_from", "replay_of", "parent"))
    nothing = {**nobody, "forks": [], "replays": [], "children": [], "sources": {}}
    assert again["relations"] == nothing | {"replay_of": "first.json", "sources": {identity: "first.json"}}
    assert hand["relations"] == nothing | {
        **dict.fromkeys(("forked_from", "parent"), "first.json"),
        "sources": {identity: "first.json"},
    }
    forks = [{"id": name, "step_number": 2} for name in ("branch.json", "hand.json")]
    assert first["relations"] == nothing | {"replays": ["again.json"], "forks": forks}


def test_an_exported_page_names_the_sources(runs: Runs) -> None:
    """A page of a single run has no other run to link to, so it shows only names."""
    again = run_data(load(runs["again"]), "again")["run"]

    assert again["run"]["replay_of"]["file"] == "first.jsonl"
    assert [call["replayed_from"]["interaction_id"] for call in again["interactions"]] == ["llm_1", "llm_2"]
