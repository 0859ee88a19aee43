"""Streams of OpenAI's chat and completions dialects state their tokens only where the request asks for that.

Without `stream_options={"include_usage": True}` OpenAI, and most who speak its dialect, leave them out; some send them
all the same. A request is never changed for this: that they are missing is said, with what to set.
"""

from __future__ import annotations

from trace_recorder.values.messages import Payload

USAGE_ADVICE = 'set stream_options={"include_usage": True} in the request'
_APIS = frozenset({"openai-chat", "openai-completions"})


def may_omit_usage(api: str | None, include_usage: Payload) -> bool:
    """Whether a stream may leave out its tokens, as the request's option was not true."""
    return api in _APIS and include_usage is not True
