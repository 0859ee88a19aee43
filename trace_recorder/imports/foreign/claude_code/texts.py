"""What the texts of user messages are: typed by a person, or written by the program.

The program marks its own texts with tags, and states an interruption as a message of the user.
"""

from __future__ import annotations

import re

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.values.messages import Payload

_OWN_TEXT = re.compile(
    r"\s*(?:Caveat: |<(?:local-command-\w+|command-(?:name|message|args|contents)|system-reminder|task-notification|"
    r"bash-(?:input|stdout|stderr)|user-memory-input)>)"
)
_CLEAR = "<command-name>/clear</command-name>"
_INTERRUPTED = "[Request interrupted by user"


def typed_text(content: Payload) -> str:
    """Return the text of a message; "" if the program wrote it, but for `/clear` and interruptions."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [as_text(as_dict(part).get("text")) for part in parts if as_dict(part).get("type") == "text"]
    text = "\n".join(text for text in texts if text)
    return text if is_clear(text) or not _OWN_TEXT.match(text) else ""


def is_clear(text: str) -> bool:
    """Whether a message is the command that begins a new conversation."""
    return text.lstrip().startswith(_CLEAR)


def is_interruption(text: str) -> bool:
    """Whether a message says that the user interrupted the model."""
    return text.startswith(_INTERRUPTED)
