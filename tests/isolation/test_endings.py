"""A call that ends early has the same outcome for its caller as unwrapped, and is recorded once, with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import trio

from tests.isolation.endings import ASYNC, SYNC, TRIO, Agent, Ending
from tests.isolation.outcomes import in_all
from tests.provider import serving
from trace_recorder import TrajectoryRecorder, load

Payload = Any


def run_sync(ending: Ending, agent: Agent) -> None:
    """Run an agent that does not await."""
    with agent.client:
        ending.act(agent)


async def _work(ending: Ending, agent: Agent) -> None:
    async with agent.client:
        await ending.act(agent)


def run_asyncio(ending: Ending, agent: Agent) -> None:
    """Run an agent on asyncio."""
    asyncio.run(_work(ending, agent))


def run_trio(ending: Ending, agent: Agent) -> None:
    """Run an agent on trio."""
    trio.run(_work, ending, agent)


ENDINGS = [
    pytest.param(ending, make, run, id=f"{how}: {name}")
    for how, make, run, endings in (
        ("sync", openai.OpenAI, run_sync, SYNC),
        ("asyncio", openai.AsyncOpenAI, run_asyncio, ASYNC),
        ("trio", openai.AsyncOpenAI, run_trio, TRIO),
    )
    for name, ending in endings.items()
]


def raised(ending: Ending, make: Payload, run: Payload, bind: Callable[[Payload], Payload]) -> Payload:
    """Run an agent whose call ends early, and return the exception."""
    with serving(ending.answer) as server:
        client = bind(make(api_key="k", base_url=f"{server.url}/v1", max_retries=0, **ending.options))
        try:
            run(ending, Agent(client, server))
        except BaseException as error:  # noqa: BLE001 - these tests need Ctrl-C and cancellation
            return in_all(error)
        return None


@pytest.mark.parametrize(("ending", "make", "run"), ENDINGS)
def test_an_early_end_is_recorded_with_its_reason(tmp_path: Path, ending: Ending, make: Payload, run: Payload) -> None:
    """A call that ends early raises the same exception as without a recorder, and is recorded once with the received
    part and the reason.
    """
    unwrapped = raised(ending, make, run, lambda client: client)
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        wrapped = raised(ending, make, run, recorder.wrap)

    [interaction] = load(recorder.trajectory_path).llm_interactions
    assert wrapped == unwrapped
    assert (
        interaction.complete,
        (interaction.ended_by or "").partition(":")[0],
        interaction.response and interaction.response.content,
    ) == (
        *(False, ending.ended_by if interaction.ended_by else ""),
        ending.content,
    )
    assert (interaction.error and interaction.error.type) == (ending.ended_by if ending.failed else None)


ERRORS = ("ConnectError", "ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "ReadError", "ProxyError")


@pytest.mark.parametrize("name", ERRORS)
def test_an_exception_of_the_transport_is_the_call_s_error(tmp_path: Path, name: str) -> None:
    """Any exception of the transport reaches the caller unchanged, and is the interaction's error."""
    error = getattr(httpx2, name)("no luck")

    def fail(_: httpx2.Request) -> httpx2.Response:
        raise error

    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        with recorder.wrap(httpx2.Client(transport=httpx2.MockTransport(fail))) as client:
            with pytest.raises(httpx2.TransportError) as caught:
                client.post("http://provider.test/v1/chat/completions", json={"model": "m"})

    [one] = load(recorder.trajectory_path).llm_interactions
    assert caught.value is error
    assert (one.complete, one.error and (one.error.type, one.error.message)) == (False, (name, "no luck"))
