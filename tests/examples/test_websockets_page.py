"""The page docs/websockets.md: its program runs, and records what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.websocket_provider import Session, serving_scripts
from tests.websocket_scenarios import answer

[PROGRAM] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "websockets.md").read_text("utf-8"), re.DOTALL)


def _answer(session: Session) -> None:
    session.receive()
    session.send(*answer("sunny"))
    session.wait_until_left()


@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")  # openai 3.57 does not
def test_the_program_records_a_websocket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the address of the server is another one."""
    monkeypatch.chdir(tmp_path)
    with serving_scripts(_answer) as server:
        url = server.url.replace("http", "ws") + "/v1"
        client = f"OpenAI(api_key='none', websocket_base_url={url!r})"
        assert PROGRAM.count("OpenAI()") == 1
        exec(PROGRAM.replace("OpenAI()", client), {})
    assert capsys.readouterr().out.splitlines() == ["sunny", "the client closed it"]
