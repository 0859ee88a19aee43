"""`show` of calls over websockets: the websockets, transcripts, interruptions, the first audio."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.invoking import invoke
from tests.websocket_sessions import Session, called, spoken, typed
from trace_recorder import load
from trace_recorder.figures.call_figures import time_to_first_audio


def test_show_has_what_was_heard_and_said(tmp_path: Path) -> None:
    """A transcript is marked, because the model had the speech. The answer says how much of it was heard."""
    session = Session(tmp_path / "run.json")
    session.added(spoken("item_a", "Tell me a story."))
    session.added(spoken("item_b"))
    response = {"id": "resp_a", "conversation_id": "conv_1", "audio": {"output": {"voice": "marin"}}}
    session.receive({"type": "response.created", "response": {**response, "status": "in_progress", "output": []}})
    speech = spoken("item_c", "Once upon a time", "assistant")
    session.added(speech, kinds=("added",))
    place = {"response_id": "resp_a", "output_index": 0, "content_index": 0}
    session.receive({"type": "response.output_audio.delta", **place, "delta": "QUJD"})
    details = {"input_token_details": {"audio_tokens": 13}, "output_token_details": {"audio_tokens": 91}}
    usage = {"input_tokens": 132, "output_tokens": 121, **details}
    done = {**response, "status": "completed", "output": [speech], "usage": usage}
    session.receive({"type": "response.done", "response": done})
    session.send({"type": "conversation.item.truncate", "item_id": "item_c", "content_index": 0, "audio_end_ms": 700})
    session.create(typed("user", "Stop"))
    session.answer(called("item_d", "call_1"))
    run = session.end(1001)

    shown = invoke("show", str(tmp_path / "run.json")).output

    lines = [re.sub(r"[0-9.]+ (ms|s)\b", "SECONDS", line.strip()) for line in shown.splitlines()]
    websocket = "wss://api.openai.com/v1/realtime, open for SECONDS, 3 messages sent and 16 received"
    call = "openai gpt-realtime, openai-realtime, SECONDS"
    for line in (
        f"websocket  {websocket}, closed with code 1001, the program closed it",
        f"call       {call}, first token after SECONDS, first audio after SECONDS, completed",
        "user       (spoken) Tell me a story.",
        "user       (spoken, without a transcript)",
        "tokens     132 in, 121 out, 13 of audio in, 91 of audio out",
        "answer     Once upon a time",
        "heard      the first SECONDS, then the user interrupted",
        "beside     1 x audio",
    ):
        assert line in lines, shown
    assert not any(line.startswith("audio ") for line in lines)
    assert [time_to_first_audio(call) is None for call in run.llm_interactions] == [False, True]
    assert load(tmp_path / "run.json").websockets[0].code == 1001


def test_an_error_over_a_websocket_has_no_status_of_the_handshake(tmp_path: Path) -> None:
    """An error has an HTTP status only if its event states one."""
    session = Session(tmp_path / "run.json")
    error = {"type": "server_error", "message": "Try again."}
    session.answer(by_server=True, status="failed", status_details={"type": "failed", "error": error})
    session.send({"type": "response.create", "event_id": "mine"})
    session.receive({"type": "error", "status": 429, "error": {**error, "event_id": "mine"}})
    session.end()

    shown = invoke("show", str(tmp_path / "run.json")).output

    errors = [line.split(maxsplit=1)[1] for line in shown.splitlines() if line.startswith("  error ")]
    assert "1 message sent and 3 received" in shown
    assert errors == ["server_error: Try again.", "HTTP 429, server_error: Try again."]
