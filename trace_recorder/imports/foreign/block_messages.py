"""Messages made of blocks as in the Anthropic dialect, which several agents' sessions have, added to a history."""

from __future__ import annotations

from trace_recorder.dialects import anthropic_messages
from trace_recorder.imports.foreign.agent_history import AgentHistory
from trace_recorder.imports.foreign.run import Call, Members
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.structs import replace


def add_message(history: AgentHistory, content: Payload, time: str, extra: Members | None = None) -> None:
    """Add a user's message; results of tools in it are messages of their own. `extra` is for all of them."""
    messages = anthropic_messages.read_message({"role": "user", "content": content})
    history.add_all([replace(one, extra=one.extra | (extra or {})) for one in messages], time)


def add_answer(history: AgentHistory, message: Members, time: str) -> Call:
    """Add a call whose response is an assistant's message."""
    answer = {**message, "role": "assistant"}
    response = anthropic_messages.read_response(answer, history.made_up_ids)
    said = anthropic_messages.read_message({"role": "assistant", "content": answer.get("content")})
    return history.call(time, response, said[-1] if said else Message("assistant"))


def first_text(content: Payload) -> str:
    """Return the first text of a message."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return next((text for text in texts if isinstance(text, str) and text), "")
