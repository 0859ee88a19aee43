"""The page docs/viewer-interface.md: its examples have the members that the answers have."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from tests.chat_calls import rich_run
from tests.processes import ROOT
from tests.viewer.recorded import growing, record
from tests.viewer.serving import serving
from trace_recorder import load
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.one_file import run_data

PAGE = (ROOT / "docs" / "viewer-interface.md").read_text(encoding="utf-8")
OPTIONAL = {"cost_estimated", "unrequested", "given", "removed"}


@cache
def example(heading: str) -> dict[str, Payload]:
    """The first JSON block below a heading."""
    _, _, section = PAGE.partition(f"\n{heading}")
    assert section, heading
    block = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert block is not None
    found: dict[str, Payload] = json.loads(block[1])
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Payload]:
    """The answers about a run with records of every kind, by address."""
    directory = tmp_path_factory.mktemp("runs")
    rich_run(directory / "run.json")
    record(directory / "two.json", growing(2))
    with serving(directory) as client:
        run = "/api/runs/run.json"
        outline = client.get(run).json()
        since = client.get(f"{run}/since", params={"version": outline["version"]}).json()
        raw = [client.get(f"{run}/interactions/{number}/raw").json() for number in (1, 2)]
        return {
            "outline": outline,
            "since": since,
            "list": client.get("/api/runs").json(),
            "raw": raw[1],
            "interaction": client.get("/api/runs/two.json/interactions/2").json(),
            "step": client.get("/api/runs/two.json/steps/1").json(),
            "compare": client.get("/api/compare", params={"a": "run.json", "b": "two.json"}).json(),
            "file": run_data(load(directory / "two.json"), "two.json"),
        }


def members(value: Payload) -> set[str]:
    return set(value) - OPTIONAL


def test_the_list_is_as_described(answers: dict[str, Payload]) -> None:
    """The list and its rows."""
    said, found = example("## The list"), answers["list"]

    assert members(said) == members(found)
    assert members(said["runs"][0]) == members(found["runs"][0])


def test_the_outline_is_as_described(answers: dict[str, Payload]) -> None:
    """The outline, its facts, and the entries of interactions and steps."""
    documented, answered = example("## The outline"), answers["outline"]
    interaction, step = example("### An interaction in the outline"), example("### A step in the outline")

    assert members(documented) == members(answered)
    assert members(documented["run"]) == members(answered["run"])
    assert documented["counts"].keys() == answered["counts"].keys()
    assert members(documented["agents"][0]) == members(answered["agents"][0])
    assert members(interaction) == members(answered["interactions"][0])
    assert members(interaction["prompt"]) == members(answered["interactions"][0]["prompt"])
    assert members(interaction["attempts"][0]) == members(answered["interactions"][0]["attempts"][0])
    assert members(step) == members(answered["steps"][0])
    calls = [call for one in answered["steps"] for call in one["tool_calls"]]
    assert {*map(frozenset, map(members, calls))} == {frozenset(members(step["tool_calls"][0]))}


def test_the_parts_of_a_run_are_as_described(answers: dict[str, Payload]) -> None:
    """Answers, raw data, steps, changes, and the data of the one file."""
    documented = example("## Answers")["interactions"][0]
    answered = answers["interaction"]
    step, found_step = example("## Steps")["steps"][0], answers["step"]

    assert members(documented) == members(answered)
    assert members(documented["response"]) == members(answered["response"])
    assert members(documented["attempts"][0]) - {"error"} <= members(answered["attempts"][0])
    assert members(example("## Raw")) == members(answers["raw"])
    assert members(example("## Raw")["request"]) == members(answers["raw"]["request"])
    assert members(example("## Raw")["stream"]) == members(answers["raw"]["stream"])
    assert members(step) == members(found_step)
    assert members(step["tool_calls"][0]["result"]) == members(found_step["tool_calls"][0]["result"])
    assert members(example("## Following a run")) == members(answers["since"])
    assert members(example("## Comparing")) == members(answers["compare"])
    sections = json.loads(re.findall(r'^\{"kind": "file".*\}$', PAGE, re.MULTILINE)[0])["sections"]
    assert members(sections) == {*answers["file"], "texts"}


def test_every_address_is_described(answers: dict[str, Payload]) -> None:
    """The table of addresses has each route of the server, and no other."""
    source = (ROOT / "trace_recorder" / "viewer" / "server.py").read_text(encoding="utf-8")
    source = source.replace("Route(run,", 'Route("/api/runs/ID",').replace('f"{run}', '"/api/runs/ID')
    routes = re.findall(r'Route\("([^"]*)"', source)
    paths = {re.sub(r"\{+number\}+", "N", one) for one in routes} - {"/"}
    said = {one.partition("?")[0] for one in re.findall(r"^\| `(?:GET|POST) ([^`]+)`", PAGE, re.MULTILINE)}

    assert said == paths
