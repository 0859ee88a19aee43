"""Sessions over websockets, recorded by the router as a seam or a proxy would do it. No socket is needed."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from trace_recorder import TrajectoryRecorder, load, validate
from trace_recorder.attach.lifecycle import RecorderTarget
from trace_recorder.capture.seam import Binding
from trace_recorder.capture.websocket_connection import WebsocketConnection, begin_websocket
from trace_recorder.values.trajectory import Trajectory

Event = dict[str, Any]
REALTIME = "wss://api.openai.com/v1/realtime?model=gpt-realtime"
RESPONSES = "wss://api.openai.com/v1/responses"


def typed(role: str, text: str, **members: Any) -> Event:
    """Return an item with a text."""
    part = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": part, "text": text}], **members}


def spoken(identity: str, transcript: str | None = None, role: str = "user") -> Event:
    """Return an item with speech, as a server has it."""
    part: Event = {"type": "output_audio" if role == "assistant" else "input_audio", "transcript": transcript}
    return {"id": identity, "type": "message", "role": role, "status": "completed", "content": [part]}


def called(identity: str, call_id: str, name: str = "weather", arguments: str = '{"city": "Ulm"}') -> Event:
    """Return an item with a call of a function."""
    return {"id": identity, "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


class Session:
    """One websocket in the run of a recorder. `numbers` makes ids of responses."""

    def __init__(self, path: Path, url: str = REALTIME, recorder: TrajectoryRecorder | None = None) -> None:
        self.path = path
        self.recorder = recorder or TrajectoryRecorder(path, strict=True, task="talk")
        connection = begin_websocket(Binding(RecorderTarget(self.recorder), None), url, ())
        assert connection is not None
        self.connection: WebsocketConnection = connection
        self.connection.opened(101)
        self.numbers = count(1)
        self.last_item: str | None = None

    def send(self, *events: Event) -> None:
        """Send events."""
        for event in events:
            self.connection.sent(json.dumps(event).encode())

    def receive(self, *events: Event) -> None:
        """Receive events."""
        for event in events:
            self.connection.received(json.dumps(event).encode())

    def added(self, item: Event, *, kinds: tuple[str, ...] = ("added", "done"), after: str | None = None) -> None:
        """Receive the events with which the server adds an item, by default after the last one."""
        previous = after or self.last_item
        for kind in kinds:
            self.receive({"type": f"conversation.item.{kind}", "previous_item_id": previous, "item": item})
        self.last_item = item["id"]

    def create(self, item: Event, **members: Any) -> None:
        """Create an item, and get it confirmed."""
        self.send({"type": "conversation.item.create", "item": item, **members})
        self.added({"id": f"item_{next(self.numbers)}", "status": "completed", **item})

    def answer(self, *output: Event, ask: Event | None = None, by_server: bool = False, **members: Any) -> str:
        """Ask for a response, unless the server begins it, and get it. Return its id."""
        if not by_server:
            self.send(ask or {"type": "response.create"})
        identity = f"resp_{next(self.numbers)}"
        response = {"id": identity, "object": "realtime.response", "conversation_id": "conv_1", "output": []}
        response |= members
        self.receive({"type": "response.created", "response": {**response, "status": "in_progress"}})
        in_conversation = response["conversation_id"] is not None
        for index, item in enumerate(output):
            place = {"response_id": identity, "output_index": index}
            begun = {**item, "status": "in_progress"} | ({"content": []} if "content" in item else {})
            self.receive({"type": "response.output_item.added", **place, "item": begun})
            if in_conversation:
                self.added(begun, kinds=("added",))
            self.receive({"type": "response.output_item.done", **place, "item": item})
            if in_conversation:
                self.receive({"type": "conversation.item.done", "item": item})
        done = {"status": "completed", **response, "output": [*output]}
        self.receive({"type": "response.done", "response": done})
        return identity

    def end(self, code: int = 1000) -> Trajectory:
        """End the websocket and the run, and return the run. Its document agrees with its journal."""
        self.connection.ended("the program closed it", code, "")
        self.recorder.finalize()
        report = validate(self.path)
        assert report.ok, report.findings
        return load(self.path)


def prompts(run: Trajectory) -> list[list[tuple[str, Any]]]:
    """Return the role and the content of each message of each call."""
    return [[(message.role, message.content) for message in call.input_messages] for call in run.llm_interactions]
