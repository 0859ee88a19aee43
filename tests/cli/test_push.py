"""`trace-recorder export --push`: what is missing is reported before anything is read, and nothing is sent then.

That traces arrive is for `tests/readers/check_push.py`, which has the real client.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from tests.capture.server import plain, serving
from tests.cli.invoking import invoke, recorded
from trace_recorder.errors import PushError
from trace_recorder.views.invariant.push import send

SECRET = "a-key-that-is-secret"


def pushed(run: Path, *arguments: object) -> tuple[Result, list[Any]]:
    """What the command did, and what a server was sent meanwhile."""
    with serving(plain({})) as server:
        result = invoke("export", run, "-f", "invariant", "--push", "my-set", "--push-url", server.url, *arguments)
        return result, server.requests


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And sends nothing, and writes nothing."""
    monkeypatch.setitem(sys.modules, "invariant_sdk.client", None)
    monkeypatch.setenv("INVARIANT_API_KEY", SECRET)
    result, requests = pushed(recorded(tmp_path / "run.json"), "-o", tmp_path / "set.jsonl")

    assert (result.exit_code, requests, (tmp_path / "set.jsonl").exists()) == (1, [], False)
    assert result.output == (
        "trace-recorder: Datasets are pushed by invariant-sdk, which is not installed: "
        "pip install 'trace-recorder[invariant]'\n"
    )


@pytest.mark.parametrize("key", ["", "  ", None])
def test_without_a_key_it_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    """And sends nothing."""
    monkeypatch.setitem(sys.modules, "invariant_sdk", ModuleType("invariant_sdk"))
    monkeypatch.setitem(sys.modules, "invariant_sdk.client", ModuleType("invariant_sdk.client"))
    monkeypatch.delenv("INVARIANT_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("INVARIANT_API_KEY", key)
    result, requests = pushed(recorded(tmp_path / "run.json"))

    assert (result.exit_code, requests) == (1, [])
    assert "put it into the environment variable INVARIANT_API_KEY" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["-f", "openai", "--push", "x"], 2, "an invariant dataset is pushed, by its name"),
        (["-f", "invariant", "--push-url", "http://x"], 2, "an invariant dataset is pushed, by its name"),
        (["-f", "invariant", "--push", ""], 2, "an invariant dataset is pushed, by its name"),
        (["-f", "invariant", "--push", "my set"], 1, "Only letters, digits, - and _ may be in its name"),
    ],
)
def test_misuse_is_told(tmp_path: Path, arguments: list[str], code: int, why: str) -> None:
    """Before anything is read."""
    result = invoke("export", recorded(tmp_path / "run.json"), *arguments)

    assert (result.exit_code, why in " ".join(result.output.replace("│", " ").split())) == (code, True)


def test_no_key_stands_in_what_is_told_of_a_refusal() -> None:
    """Though the server says it, and the address has a password."""
    refusal = SimpleNamespace(status_code=403, text=f"{{'detail': 'the key {SECRET} is not known'}}")

    class HTTPError(Exception):
        response = refusal

    def refuse(**_: object) -> None:
        try:
            raise HTTPError  # noqa: TRY301 - one is the other's context, as with the real client
        except HTTPError:
            raise RuntimeError("HTTP error")  # noqa: B904 - likewise

    client = SimpleNamespace(
        api_key=SECRET, api_url="https://me:word@example.org:8/", create_request_and_push_trace=refuse
    )
    with pytest.raises(PushError) as raised:
        send([{"messages": [], "annotations": [], "metadata": {}}], "set", client)

    told = "https://example.org:8 refused the traces: HTTP 403, {'detail': 'the key [REDACTED] is not known'}"
    assert str(raised.value) == told
