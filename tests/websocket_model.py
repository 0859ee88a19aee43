"""The fake model of `tests/scripted_model.py` behind a websocket, as OpenAI's Responses API offers one.

The server keeps the conversation of each response, so a client sends only what is new, with `previous_response_id`. It
keeps every message in both directions, as texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection

from tests.provider import Request
from tests.scripted_model import Model
from trace_recorder.dialects.stream_framing import events

PATH = "/v1/responses"


@dataclass
class WebsocketModel:
    """A model that answers `response.create`. One object serves any number of websockets, in any threads."""

    model: Model
    sent: list[str] = field(default_factory=list)
    """The messages of the clients."""
    received: list[str] = field(default_factory=list)
    """The messages to the clients."""
    _items: dict[str, list[Any]] = field(default_factory=dict)
    """The conversation up to the end of each response, by the id of the response."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, websocket: ServerConnection) -> None:
        """Answer the messages of a websocket until it is closed."""
        try:
            for message in websocket:
                assert isinstance(message, str)
                with self._lock:
                    self.sent.append(message)
                    answer = [*self._answer(json.loads(message))]
                    self.received += answer
                for event in answer:
                    websocket.send(event)
        except ConnectionClosed:
            return

    def _answer(self, event: dict[str, Any]) -> Iterator[str]:
        lane = {"stream_id": event["stream_id"]} if "stream_id" in event else {}
        before = self._items.get(event.get("previous_response_id", ""), [])
        given = event["input"]
        added = given if isinstance(given, list) else [{"role": "user", "content": given}]
        if event.get("generate") is False:
            identity = f"resp_warm_{len(self.sent)}"
            self._items[identity] = [*before, *added]
            response = {"id": identity, "object": "response", "status": "in_progress", "output": [], "model": "m"}
            yield json.dumps({"type": "response.created", "response": response} | lane)
            yield json.dumps({"type": "response.completed", "response": response | {"status": "completed"}} | lane)
            return
        body = event | {"input": [*before, *added], "stream": True}
        answer = self.model(Request(PATH, {}, json.dumps(body).encode()))
        [data] = answer.chunks
        assert isinstance(data, bytes)
        if answer.status != 200:
            yield json.dumps({"type": "error", "status": answer.status, **json.loads(data)} | lane)
            return
        for _, text in events(data.decode()):
            completed = json.loads(text)
            yield json.dumps(completed | lane)
        response = completed["response"]
        self._items[response["id"]] = [*before, *added, *response["output"]]
