"""Session traces for the Hugging Face Hub, in the simple form that its documentation describes.

Each conversation is one session and one file: a header line, and a line for each message. All content is text. The Hub
also reads Pi's sessions (`writing.py`), which have more members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trace_recorder.dialects.json_access import as_text
from trace_recorder.dialects.message_text import text_of
from trace_recorder.figures.call_figures import origin_of
from trace_recorder.figures.content.chat_form import arguments_text, text_lines
from trace_recorder.figures.content.kinds import THOUGHTS
from trace_recorder.figures.conversations.conversation import (
    Conversation,
    ConversationLine,
    conversations,
    lines_with_results,
)
from trace_recorder.figures.conversations.steps_of_turns import steps_by_turn
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import (
    ARGUMENTS,
    ContentSupport,
    FormatSupport,
    count_all_but,
    count_unsupported_contents,
)
from trace_recorder.formats.pi.own_members import HARNESS, INTERACTION, ORIGIN
from trace_recorder.formats.pi.writing import milliseconds, session_identity
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.trajectory import AgentStep, Trajectory

_SUPPORTED: FormatSupport = {"answers": ContentSupport.of(THOUGHTS)}
_MEMBERS_WITHOUT_CONTENT = {"role", "content", "timestamp", "model", INTERACTION, ORIGIN}
_ROLES = {"developer": "system", "system": "system", "tool": "tool", "assistant": "assistant"}


@view
def to_session_traces(left_out: LeftOut, trajectory: Trajectory) -> list[list[dict[str, Payload]]]:
    """Return the sessions of a run, each as a list of lines for a JSONL file.

    A run without messages has no sessions.
    """
    turns = turns_of(trajectory)
    steps = steps_by_turn(trajectory, turns).steps
    count_all_but(trajectory, left_out, ARGUMENTS)
    count_unsupported_contents(turns, left_out, _SUPPORTED)
    sessions = []
    for number, conversation in enumerate(conversations(trajectory, turns)):
        messages = [*_messages(conversation, steps)]
        if messages:
            header = {"type": "session", "harness": HARNESS, "id": session_identity(trajectory, number)}
            header |= without_none(name=conversation.agent or as_text(trajectory.task))
            sessions.append([header, *messages])
    return sessions


def _messages(conversation: Conversation, steps: Mapping[Turn, Sequence[AgentStep]]) -> Iterator[dict[str, Payload]]:
    for line in lines_with_results(conversation, steps):
        message = _message(line)
        if message["content"] or message.keys() - _MEMBERS_WITHOUT_CONTENT or not line.answer:
            yield {"type": "message", "message": message}


def _message(line: ConversationLine) -> dict[str, Payload]:
    message, source = line.message, line.turn.interaction
    role = _ROLES.get(message.role, "user")
    content, call_id = text_of(message), None
    if role == "tool":
        content, call_id = text_lines(message), message.call_id
    calls = [
        {"id": call.call_id, "function": {"name": call.name, "arguments": arguments_text(call)}}
        for call in message.tool_calls
    ]
    members = without_none(
        role=role,
        content=content,
        reasoningContent=message.reasoning or None,
        toolCalls=calls or None,
        toolCallId=call_id,
        timestamp=milliseconds(source.timestamp),
    )
    if line.answer:
        members |= without_none(model=source.response.model or source.model)
        members |= without_none(**{INTERACTION: source.interaction_id, ORIGIN: origin_of(source)})
    return members
