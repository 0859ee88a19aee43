"""The recorder finds the transports of each SDK's client."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.capture.sdk_calls import CALLS
from tests.provider import CHAT, plain, serving
from trace_recorder import (
    TrajectoryRecorder,
    load,
)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_each_client_is_recorded_once(tmp_path: Path, name: str) -> None:
    """Each client's call is recorded once, with its dialect, provider, model and answer."""
    call, body, provider, api = CALLS[name]
    with serving(plain(body)) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        answer = call(server, recorder.wrap)

    [interaction] = load(recorder.trajectory_path).llm_interactions
    assert (
        answer,
        interaction.provider,
        interaction.api,
        interaction.model,
        interaction.response and interaction.response.content,
        interaction.complete,
    ) == (
        "hi",
        provider,
        api,
        "m",
        "hi",
        True,
    )
    assert [interaction.raw_request] == server.bodies()
    assert interaction.raw_response == body


@pytest.mark.parametrize("name", CALLS)
def test_no_key_is_in_the_files(tmp_path: Path, name: str) -> None:
    """The key or token of a client is in neither file."""
    call, body, *_ = CALLS[name]
    echo = {**body, "echo": "a-key-of-the-client, sk-the-openai-client, a-token-of-the-client"}
    with serving(plain(echo)) as server, TrajectoryRecorder(directory=tmp_path) as recorder:
        call(server, recorder.wrap)

    written = recorder.trajectory_path.read_text() + recorder.trajectory_path.with_suffix(".jsonl").read_text()
    sent = " ".join(value for _, headers, _ in server.requests for value in headers.values())
    keys = (
        "a-key-of-the-client",
        "sk-the-openai-client",
        "a-token-of-the-client",
        "ya29.a-token-that-must-not-be-on-file",
    )
    assert [key for key in keys if key in sent and key in written] == []


def test_keys_in_headers_and_urls_are_not_in_the_files(tmp_path: Path) -> None:
    """Keys in extra headers, and in the query or user part of a URL, are in neither file."""
    with serving(plain(CHAT)) as server, TrajectoryRecorder(directory=tmp_path) as recorder:
        url = server.url.replace("http://", "http://user:the-password-of-the-url@")
        with recorder.wrap(
            openai.OpenAI(api_key="sk-client", base_url=f"{url}/v1", default_query={"api_key": "the-key-of-the-url"})
        ) as client:
            client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "my key is the-key-of-a-header"}],
                extra_headers={"X-Gateway-Key": "the-key-of-a-header", "Cookie": "session=the-cookie"},
                extra_query={"key": "the-key-of-the-query"},
            )

    assert b"the-key-of-the-url" in server.requests[0][0].encode()
    written = recorder.trajectory_path.read_text() + recorder.trajectory_path.with_suffix(".jsonl").read_text()
    secrets = (
        "the-password-of-the-url",
        "the-key-of-the-url",
        "the-key-of-a-header",
        "the-cookie",
        "the-key-of-the-query",
    )
    assert [secret for secret in secrets if secret in written] == []
    assert "my key is [REDACTED:known-secret]" in written
