"""Which server gets the token of a login."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.provider import Server
from tests.proxy.running import proxying
from trace_recorder.proxy.upstreams import upstreams

BODY = b'{"model":"m","input":"Weather?"}'


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ({"authorization": "Bearer sk-proj-key"}, "/api/v1/responses"),
        ({"authorization": "Bearer token", "chatgpt-account-id": "account"}, "/chatgpt/responses"),
        ({"authorization": "Bearer eyJhbGciOiJub25lIn0.e30.c2ln"}, "/chatgpt/responses"),
    ],
)
def test_the_token_of_a_login_goes_to_its_own_server(
    server: Server, tmp_path: Path, headers: dict[str, str], path: str
) -> None:
    """An API key goes to the API, and the token of a ChatGPT login to the server for logins."""
    addresses = [f"openai={server.url}/api/v1", f"chatgpt={server.url}/chatgpt"]
    with proxying(tmp_path, upstreams({}, addresses)) as proxy:
        httpx.post(f"{proxy.url}/openai/v1/responses", content=BODY, headers=headers)
        ((call,),) = [run.llm_interactions for run in proxy.runs()]
    assert ([request.path for request in server.requests], call.api) == ([path], "openai-responses")


@pytest.mark.parametrize("way", ["variable", "option"])
def test_a_login_goes_to_the_server_that_the_user_names(server: Server, tmp_path: Path, way: str) -> None:
    """A company's gateway gets the tokens of logins too, as without the proxy."""
    address = f"{server.url}/gateway/v1"
    ways = {"variable": upstreams({"OPENAI_BASE_URL": address}), "option": upstreams({}, [f"openai={address}"])}
    with proxying(tmp_path, ways[way]) as proxy:
        headers = {"authorization": "Bearer token", "chatgpt-account-id": "account"}
        httpx.post(f"{proxy.url}/openai/v1/responses", content=BODY, headers=headers)
    assert [request.path for request in server.requests] == ["/gateway/v1/responses"]
