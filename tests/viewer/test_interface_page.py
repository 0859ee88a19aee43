"""docs/viewer-interface.md and the types of `viewer_page/src/data/types.ts` describe exactly the viewer's answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.chat_calls import rich_run
from tests.processes import ROOT
from tests.viewer.recorded import growing, record
from tests.viewer.serving import groups_in, serving
from trace_recorder import load
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.one_file import run_data

PAGE = (ROOT / "docs" / "viewer-interface.md").read_text(encoding="utf-8")
TYPES = (ROOT / "viewer_page" / "src" / "data" / "types.ts").read_text(encoding="utf-8")


@cache
def members_of(name: str) -> dict[str, bool]:
    """Return the names of the members of an interface, each with whether it is required."""
    declaration = re.search(
        rf"^(?:export )?interface {name}(?: extends ([^{{]+))? {{\n(.*?)^}}", TYPES, re.DOTALL | re.MULTILINE
    )
    assert declaration is not None, name
    extended = re.search(r"\w+$|(?<=Omit<)\w+", (declaration[1] or "").strip())
    inherited = members_of(extended[0]) if extended else {}
    own = re.findall(r"^  (\w+)(\??):", declaration[2], re.MULTILINE)
    return inherited | {member: not optional for member, optional in own}


def check(name: str, *values: Payload) -> None:
    """Assert that each value has the members of an interface."""
    members = members_of(name)
    for value in values:
        assert {member for member, required in members.items() if required} <= {*value} <= {*members}, name


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Payload]:
    """Return the answers about a run with records of every kind, by URL."""
    directory = tmp_path_factory.mktemp("runs")
    rich_run(directory / "run.json")
    record(directory / "two.json", growing(2))
    with serving(directory) as client:

        def get(address: str, **parameters: str) -> Payload:
            return client.get(f"/api/{address}", params=parameters).json()

        unchanged = get("runs")
        while unchanged["changed"]:  # each answer computes some costs
            unchanged = get("runs", since=unchanged["version"])
        outline = get("runs/run.json")
        numbers = range(1, outline["counts"]["interactions"] + 1)
        return {
            "list": get("runs"),
            "unchanged": unchanged,
            "find": get("find", query="has:error"),
            "groups": [groups_in(client, "model"), groups_in(client, ["status", "task"])],
            "table": client.get("/api/table", params={"run": ["run.json", "two.json"]}).json(),
            "outlines": [outline, get("runs/two.json")],
            "since": get("runs/run.json/since", version=outline["version"]),
            "messages": get("runs/run.json/messages")["messages"],
            "interactions": get("runs/run.json/interactions")["interactions"],
            "interaction": get("runs/two.json/interactions/2"),
            "raw": [get(f"runs/run.json/interactions/{number}/raw") for number in numbers],
            "items": get("runs/run.json/items")["items"],
            "steps": get("runs/run.json/steps")["steps"] + get("runs/two.json/steps")["steps"],
            "compare": get("compare", a="run.json", b="two.json"),
            "pair": get("compare/pairs/0", a="run.json", b="two.json"),
            "file": run_data(load(directory / "two.json"), "two.json"),
        }


def test_the_lists_have_the_documented_types(answers: dict[str, Payload]) -> None:
    """The list, its rows, a search, and a table of several runs have the members of their types."""
    check("ChangedList", answers["list"])
    check("RunSummary", *answers["list"]["runs"])
    check("UnchangedList", answers["unchanged"])
    check("Found", answers["find"])
    check("RunTable", answers["table"])
    check("TableRun", *answers["table"]["runs"])
    check("TableCell", *(cell for row in answers["table"]["rows"] for cell in row if cell))


def test_groups_have_the_documented_types(answers: dict[str, Payload]) -> None:
    """Groups of runs, their figures, differences and pairs have the members of their types."""
    check("Groups", *answers["groups"])
    groups = [group for one in answers["groups"] for group in one["groups"]]
    check("RunGroup", *groups)
    spreads = [*filter(None, (spread for group in groups for spread in group["figures"].values()))]
    check("FigureSpread", *spreads)
    check("Estimate", *(spread["median"] for spread in spreads))
    differences = [difference for one in answers["groups"] for difference in one["differences"]]
    assert differences
    check("GroupDifference", *differences)
    check("TaskPairs", *(difference["pairs"] for difference in differences if difference["pairs"]))


def test_the_outline_has_the_documented_types(answers: dict[str, Payload]) -> None:
    """The outline, its facts, its entries and its changes have the members of their types."""
    outlines = answers["outlines"]
    check("Outline", *outlines)
    check("Changes", answers["since"])
    check("Relations", *(outline["relations"] for outline in outlines))
    check("RunHead", *(outline["run"] for outline in outlines))
    check("Reward", *(reward for outline in outlines for reward in outline["run"]["rewards"]))
    check("Counts", *(outline["counts"] for outline in outlines))
    check("Agent", *(agent for outline in outlines for agent in outline["agents"]))
    calls = [call for outline in outlines for call in outline["interactions"]]
    check("Call", *calls)
    check("Prompt", *(call["prompt"] for call in calls))
    check("AttemptOutline", *(attempt for call in calls for attempt in call["attempts"]))
    steps = [step for outline in outlines for step in outline["steps"]]
    check("StepOutline", *steps)
    check("ToolOutline", *(tool for step in steps for tool in step["tool_calls"]))


def test_the_parts_of_a_run_have_the_documented_types(answers: dict[str, Payload]) -> None:
    """Messages, answers, raw data, steps and the sections of a self-contained page have the members of their types."""
    check("Message", *answers["messages"])
    interactions = [*answers["interactions"], answers["interaction"]]
    check("Answer", *interactions)
    check("Response", *(call["response"] for call in interactions if call["response"]))
    check("Attempt", *(attempt for call in interactions for attempt in call["attempts"]))
    assert "prompt" in answers["interaction"]
    check("Raw", *answers["raw"])
    check("Item", *answers["items"])
    check("StepDetail", *answers["steps"])
    tools = [tool for step in answers["steps"] for tool in step["tool_calls"]]
    check("ToolDetail", *tools)
    results = {frozenset(tool["result"]) for tool in tools if tool["result"]}
    assert results == {
        frozenset(
            re.findall(r"^    (\w+):", re.split(r"interface ToolDetail ", TYPES)[1].split("\n}")[0], re.MULTILINE)
        )
    }
    check("RunData", answers["file"])


def test_a_comparison_has_the_documented_types(answers: dict[str, Payload]) -> None:
    """A comparison of two runs, and of two of their steps, has the members of its types."""
    check("Comparison", answers["compare"])
    pairs: Iterator[Payload] = (pair[side] for pair in answers["compare"]["pairs"] for side in "ab")
    check("ComparedStep", *filter(None, pairs))
    check("PairDifferences", answers["pair"])
    check("ValueChange", *(change for difference in answers["pair"]["differences"] for change in difference["changes"]))


def test_every_url_is_described() -> None:
    """The page's table of addresses has exactly the routes of the server."""
    source = (ROOT / "trace_recorder" / "viewer" / "server.py").read_text(encoding="utf-8")
    source = source.replace("Route(run,", 'Route("/api/runs/ID",').replace('f"{run}', '"/api/runs/ID')
    routes = re.findall(r'Route\("([^"]*)"', source)
    paths = {re.sub(r"\{+number\}+", "N", one) for one in routes} - {"/"}
    documented = {one.partition("?")[0] for one in re.findall(r"^\| `(?:GET|POST) ([^`]+)`", PAGE, re.MULTILINE)}

    assert documented == paths


def test_every_type_of_the_page_exists() -> None:
    """The last column of the page's table names only interfaces of `types.ts`, or lists of them."""
    named = re.findall(r"\| `(?:\{\"\w+\": \[)?([A-Z]\w+)(?:\]\})?` \|$", PAGE, re.MULTILINE)
    declared = re.findall(r"^export (?:interface|type) (\w+)", TYPES, re.MULTILINE)

    assert len(named) == 18
    assert {*named} <= {*declared}
