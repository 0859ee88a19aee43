"""One agent, with seven providers in three forms: its files differ only where the providers differ."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from examples.clients import one_agent
from tests.clients.differences import PROVIDERS, QUESTION, documents, markdown
from tests.clients.provider import THINKING, client_at, providers
from tests.processes import ROOT
from tests.provider import serving
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.clients import Client, Finished, LLMResponse

KINDS = (*PROVIDERS, "openai-responses")


def sync_form(client: Client, question: str, **params: Any) -> str:
    with client:
        return one_agent.agent(client, question, **params)


def async_form(client: Client, question: str, **params: Any) -> str:
    async def run() -> str:
        async with client:
            return await one_agent.async_agent(client, question, **params)

    return asyncio.run(run())


def streaming_form(client: Client, question: str, **params: Any) -> str:
    with client:
        return one_agent.streaming_agent(client, question, **params)


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "b.txt").write_text("1\n2\n3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("form", [sync_form, async_form, streaming_form])
@pytest.mark.parametrize("kind", KINDS)
def test_the_agent_runs_with_every_provider_in_every_form(files, kind, form):
    """With every provider and in every form, the loop finds the answer in four calls, and sends reasoning back if the
    provider checks it.
    """
    with serving(providers()) as server, TrajectoryRecorder(files / "runs" / "run.json", strict=True) as recorder:
        answer = form(client_at(server, kind), QUESTION, **THINKING.get(kind, {}))

    trajectory = load(recorder.trajectory_path)
    called = [[call.name for call in one.response.tool_calls] for one in trajectory.llm_interactions]
    assert (answer, trajectory.gaps, trajectory.annotations) == ("They have 5 lines together.", (), {})
    assert called == [["list_files"], ["count_lines", "count_lines"], ["add"], []]
    assert {call.provider for call in trajectory.llm_interactions} == {kind.partition("-")[0]}


def test_the_documents_differ_only_as_documented(tmp_path):
    """Each member in which the seven documents of the agent differ is in the table of results/clients.md."""
    table = markdown(documents(tmp_path))

    written = (ROOT / "results" / "clients.md").read_text()
    assert re.findall(r"\| member \|.*?(?=\n\n)", written, re.DOTALL) == [table]


def without_turn(response: LLMResponse) -> LLMResponse:
    """Return a response as the file has it, without the provider's own turn, which is kept only in memory, and without
    signatures, which Google's SDK spells differently.
    """
    calls = tuple(
        replace(call, extra={name: _respelled(value) for name, value in call.extra.items()})
        for call in response.tool_calls
    )
    choices = tuple(replace(choice, tool_calls=calls) for choice in response.choices)
    extra = {name: value for name, value in response.extra.items() if name != "turn"}
    return replace(response, tool_calls=calls, choices=choices, extra=extra)


def _respelled(value: Any) -> Any:
    return value.replace("-", "+").replace("_", "/") if isinstance(value, str) else value


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_returns_the_recorded_responses(tmp_path, kind):
    """`chat`, `achat`, `stream` and `astream` return the responses that `load` reads from the file."""
    asked = ([one_agent.SYSTEM, QUESTION], one_agent.TOOLS.values())
    params = THINKING.get(kind, {})

    async def both(client: Client) -> list[LLMResponse]:
        async with client:
            said = await client.achat(*asked, **params)
            return [said, [event async for event in client.astream(*asked, **params)][-1].response]

    with serving(providers()) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with client_at(server, kind) as client:
            said = [client.chat(*asked, **params), list(client.stream(*asked, **params))[-1].response]
            said += asyncio.run(both(client))

    filed = [call.response for call in load(recorder.trajectory_path).llm_interactions]
    assert [without_turn(response) for response in said] == [without_turn(response) for response in filed]


def test_the_last_event_of_a_stream_has_the_response(tmp_path):
    """The last event of a stream, `Finished`, has the response, which the stream also has from then on."""
    with serving(providers()) as server, client_at(server, "openai") as client:
        stream = client.stream(QUESTION, one_agent.TOOLS.values())
        last = list(stream)[-1]

    assert last == Finished(stream.response, complete=True)


def test_the_example_is_short() -> None:
    """The example agent has at most sixty lines of code."""
    lines = Path(one_agent.__file__).read_text().splitlines()

    assert len([line for line in lines if line.strip()]) <= 60
