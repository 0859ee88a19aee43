"""Calls to Bedrock by boto3 and by aiobotocore, for agents that are killed or have a fault.

Only an environment with these libraries has such agents: `.venv-aiohttp` of `scripts/check-aiohttp`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tests.seams.bedrock import KEYS
from trace_recorder import TrajectoryRecorder

Payload = Any
Ask = Callable[[list[Payload], int, bool], str]
"""A function that sends messages and the greatest length of the answer, as a stream or not, and returns the text."""
LIBRARIES = tuple(name for name in ("boto3", "aiobotocore") if find_spec(name))


@cache
def _session(library: str) -> Payload:
    """Return the one session of a library, which keeps what it has read of the service's description."""
    return import_module("boto3").Session() if library == "boto3" else import_module("aiobotocore.session").AioSession()


def warm_up(library: str) -> None:
    """Import a library, and read its description of the service. Forks of this process then need not do so."""
    session = _session(library)
    if library == "boto3":
        session.client("bedrock-runtime", **_arguments("http://127.0.0.1:9")).close()


def _arguments(address: str) -> dict[str, Payload]:
    kind = import_module("botocore.config").Config if not find_spec("aiobotocore") else None
    config = (kind or import_module("aiobotocore.config").AioConfig)(retries={"max_attempts": 1})
    return {"endpoint_url": address, "region_name": "us-east-1", "config": config, **KEYS}


@contextmanager
def asking(library: str, recorder: TrajectoryRecorder, address: str) -> Iterator[Ask]:
    """Yield a function that asks a recorded client of a library."""
    if library == "boto3":
        client = recorder.wrap(_session(library).client("bedrock-runtime", **_arguments(address)))
        yield lambda messages, length, stream: _asked(client, messages, length, stream=stream)
        return
    made = _session(library).create_client("bedrock-runtime", **_arguments(address))
    with asyncio.Runner() as runner:
        opened = runner.run(made.__aenter__())
        try:
            recorder.wrap(opened)
            yield lambda messages, length, stream: runner.run(_asked_async(opened, messages, length, stream=stream))
        finally:
            runner.run(made.__aexit__(None, None, None))


def _body(messages: list[Payload], length: int) -> dict[str, Payload]:
    converted = [{"role": one["role"], "content": [{"text": one["content"]}]} for one in messages]
    return {"modelId": "m", "messages": converted, "inferenceConfig": {"maxTokens": length}}


def _asked(client: Payload, messages: list[Payload], length: int, *, stream: bool) -> str:
    body = _body(messages, length)
    if stream:
        return "".join(map(_piece, client.converse_stream(**body)["stream"]))
    return str(client.converse(**body)["output"]["message"]["content"][0]["text"])


async def _asked_async(client: Payload, messages: list[Payload], length: int, *, stream: bool) -> str:
    body = _body(messages, length)
    if stream:
        return "".join([_piece(event) async for event in (await client.converse_stream(**body))["stream"]])
    return str((await client.converse(**body))["output"]["message"]["content"][0]["text"])


def _piece(event: Payload) -> str:
    return str(event.get("contentBlockDelta", {}).get("delta", {}).get("text", ""))
