"""A run with OpenAI's Responses API, whose instructions apply to one request each."""

from __future__ import annotations

from pathlib import Path

from tests.formats.sdk_conversations import openai_client
from tests.provider import plain, serving
from tests.versions.answers import response_of
from trace_recorder import TrajectoryRecorder
from trace_recorder.values.messages import Payload

SAME, NEW = ["Be brief."] * 3, ["Be brief.", "Be kind.", "Be quick."]
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "status": "completed"}
INPUTS: list[Payload] = [
    [{"role": "developer", "content": "Metric."}, {"role": "user", "content": "How warm is Ulm?"}],
    [{"type": "function_call_output", "call_id": "call_1", "output": "7"}],
    "And Rome?",
]


def responses(path: Path, instructions: list[str]) -> Path:
    """Send three requests to OpenAI, each of which names the response before it."""
    outputs: list[Payload] = [[{**CALL, "arguments": '{"city": "Ulm"}'}], None, None]
    answers = [response_of(text) | {"id": f"resp_{at}"} for at, text in enumerate(["", "7 degrees.", "31."])]
    answers[0]["output"] = outputs[0]
    with serving(*map(plain, answers)) as server, TrajectoryRecorder(path) as recorder:
        with openai_client(server.url, recorder) as client:
            before: Payload = {}
            for number, (asked, instructed) in enumerate(zip(INPUTS, instructions, strict=True)):
                client.responses.create(model="o4", input=asked, instructions=instructed, **before)
                before = {"previous_response_id": f"resp_{number}"}
    return path
