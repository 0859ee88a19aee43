"""What `show` prints beside answers' texts: refusals unchanged, other content by its kind, and errors of
several parts.
"""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import Answer, Wire, asked
from tests.chat_calls import call as exchanged
from tests.cli.invoking import invoke
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.values.messages import Payload


def shown(path: Path) -> list[str]:
    """Return the lines that `show` prints of a run."""
    result = invoke("show", path)
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.output.splitlines()]


CHAT = {"choices": [{"index": 0, "message": {"role": "assistant", "content": None, "refusal": "I cannot."}}]}
PARTS = [{"type": "refusal", "refusal": "I cannot."}]
RESPONSES = {"output": [{"type": "message", "role": "assistant", "content": PARTS}], "status": "completed"}


@pytest.mark.parametrize(
    ("path", "request_body", "body"),
    [
        ("chat/completions", asked("evil"), {"id": "c", "model": "m", **CHAT}),
        ("responses", {"model": "m", "input": "evil"}, {"id": "r", "object": "response", "model": "m", **RESPONSES}),
    ],
    ids=["chat", "responses"],
)
def test_a_refusal_is_shown(tmp_path: Path, path: str, request_body: Payload, body: Payload) -> None:
    """The refusal is shown in the words of the model."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True)
    with recorder, httpx.Client(transport=Wire(Answer(json.dumps(body).encode())), trust_env=False) as client:
        recorder.wrap(client).post(f"https://api.openai.com/v1/{path}", json=request_body)

    assert "refusal    I cannot." in shown(tmp_path / "run.json")


def test_the_transcript_of_a_spoken_answer_is_shown(tmp_path: Path) -> None:
    """An answer that is a sound has no other text. The sound itself is counted."""
    sound = {"id": "audio_1", "data": "UklGRg==", "transcript": "It rains."}
    message = {"role": "assistant", "content": None, "audio": sound}
    with TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True) as recorder:
        exchanged(recorder, asked("q"), Answer(json.dumps({"choices": [{"index": 0, "message": message}]}).encode()))

    assert {"audio      It rains.", "beside     1 x audio"} <= {*shown(tmp_path / "run.json")}


def test_an_answer_that_is_not_json_is_shown(tmp_path: Path) -> None:
    """A proxy's HTML page with status 200 is shown, and not taken for an empty answer."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True)
    with recorder:
        exchanged(recorder, asked("q"), Answer(b"<html>Log in.</html>", media="text/html"))

    assert "not read   <html>Log in.</html>" in shown(tmp_path / "run.json")


def test_a_background_response_is_shown_with_its_status(tmp_path: Path) -> None:
    """The call of a background response has no answer yet, and no finish reason."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True)
    body = {"id": "r", "object": "response", "model": "m", "status": "queued", "output": []}
    with recorder, httpx.Client(transport=Wire(Answer(json.dumps(body).encode())), trust_env=False) as client:
        recorder.wrap(client).post(
            "https://api.openai.com/v1/responses", json={"model": "m", "input": "q", "background": True}
        )

    [about] = [line for line in shown(tmp_path / "run.json") if line.startswith("call ")]
    assert about.endswith(", queued")


def test_the_input_of_embeddings_is_shown(tmp_path: Path) -> None:
    """`show` prints the input of an embeddings call, which has no prompt."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True)
    body = {"object": "list", "model": "e", "data": [{"index": 0, "embedding": [0.5]}]}
    with recorder, httpx.Client(transport=Wire(Answer(json.dumps(body).encode())), trust_env=False) as client:
        recorder.wrap(client).post(
            "https://api.openai.com/v1/embeddings", json={"model": "e", "input": ["tea", "cups"]}
        )

    lines = shown(tmp_path / "run.json")
    assert "input      tea" in lines
    assert "cups" in lines
    assert not [line for line in lines if line.startswith("prompt")]


def test_an_error_without_a_message_is_shown_by_its_class(tmp_path: Path) -> None:
    """An error without a message, such as that of a cancelled call, is shown by its class name."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True)
    with recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], TimeoutError(), "openai", "m")

    assert "error      TimeoutError" in shown(tmp_path / "run.json")


def test_other_content_of_an_answer_is_named(tmp_path: Path) -> None:
    """`show` names content beside an answer's text by its kind, as exports count it."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True)
    message = {"role": "assistant", "content": "See.", "annotations": [{"type": "url_citation"}]}
    body = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message}]}
    with recorder:
        exchanged(recorder, asked("q"), Answer(json.dumps(body).encode()))

    assert "beside     1 x citations" in shown(tmp_path / "run.json")


def test_a_tool_error_of_several_parts_is_shown_as_text(tmp_path: Path) -> None:
    """A tool of Anthropic's may fail with a list of parts. `show` prints the text of each part on its own line."""
    parts = [{"type": "text", "text": "no such"}, {"type": "text", "text": "file"}]
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": parts, "is_error": True}
    use = {"type": "tool_use", "id": "t1", "name": "cat", "input": {}}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use"}
    question = {"role": "user", "content": "q"}
    again = [question, {"role": "assistant", "content": [use]}, {"role": "user", "content": [failed]}]
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True)
    for messages, content in (([question], [use]), (again, [{"type": "text", "text": "gone"}])):
        wire = Wire(Answer(json.dumps({**body, "content": content}).encode()))
        with httpx.Client(transport=wire, trust_env=False) as client:
            sent = {"model": "m", "max_tokens": 9, "messages": messages}
            recorder.wrap(client).post("https://api.anthropic.com/v1/messages", json=sent)
    recorder.finalize()

    [result] = load(tmp_path / "run.json").agent_steps[0].tool_results
    assert (result.success, result.error) == (False, "no such\nfile")


def test_an_answer_in_several_parts_is_recognised(tmp_path: Path) -> None:
    """A sentence that citations cut in three is not shown again when the agent sends it back."""
    texts: list[Payload] = [{"type": "text", "text": text} for text in ("The grass ", "is green", ".")]
    question = {"role": "user", "content": "q"}
    again = [question, {"role": "assistant", "content": texts}, {"role": "user", "content": "more"}]
    body = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="try", strict=True)
    wire = Wire(Answer(json.dumps({**body, "content": texts}).encode()))
    with recorder, httpx.Client(transport=wire, trust_env=False) as client:
        for messages in ([question], again):
            sent = {"model": "m", "max_tokens": 9, "messages": messages}
            recorder.wrap(client).post("https://api.anthropic.com/v1/messages", json=sent)

    assert "prompt     3 messages: 1 as in llm_1, its answer, 1 new" in shown(tmp_path / "run.json")
