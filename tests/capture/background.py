"""Background responses of providers, and the records that a run has of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google import genai

from tests.journals import RawRecord, read_raw
from tests.provider import Answer, Server

USAGE = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"at":"it"}'}


def response(status: str, *output: object, number: int = 1, **more: object) -> dict[str, object]:
    """Return a response in OpenAI's form."""
    identity = f"resp_{number}"
    return {"id": identity, "object": "response", "model": "o9", "status": status, "output": [*output], **more}


def said(text: str) -> dict[str, object]:
    """Return an item of a response's output."""
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def answer(body: object, status: int = 200) -> Answer:
    """Return an answer of the server."""
    return Answer([json.dumps(body).encode()], status)


def event(kind: str, number: int, **more: object) -> bytes:
    """Return an event of a stream."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number, **more})}\n\n".encode()


QUEUED, AT_WORK = answer(response("queued")), answer(response("in_progress"))
FINAL = answer(response("completed", said("Here."), usage=USAGE))


def ask(client: Any) -> Any:
    """Ask for a background response."""
    return client.responses.create(model="o9", input="Look.", background=True)


def endings(path: Path) -> list[RawRecord]:
    """Return the records of the ends of responses in a journal."""
    records = read_raw(path.with_suffix(".jsonl").read_bytes())
    return [record for record in records if isinstance(record, RawRecord) and record.kind == "llm_response"]


def document(path: Path) -> list[dict[str, Any]]:
    """Return the calls in a document."""
    calls: list[dict[str, Any]] = json.loads(path.read_text())["llm_interactions"]
    return calls


@contextmanager
def google_client(server: Server) -> Iterator[Any]:
    """Yield a Google client of a local server."""
    with genai.Client(api_key="k", http_options={"base_url": server.url}) as client:  # type: ignore[arg-type]
        yield client


def streamed_final() -> bytes:
    """Return the last event of a stream, which has the whole response."""
    return event("response.completed", 2, response=response("completed", said("Here."), usage=USAGE))
