"""Which streams may leave out their token counts.

In OpenAI's chat and completions dialects a stream states its tokens only if the request asks for them with
`stream_options={"include_usage": True}`; some servers state them anyway. The recorder never changes a request. It says
that the counts are missing, and which option to set.
"""

from __future__ import annotations

from trace_recorder.values.messages import Payload

USAGE_ADVICE = 'set stream_options={"include_usage": True} in the request'
_APIS = frozenset({"openai-chat", "openai-completions"})


def may_omit_usage(api: str | None, include_usage: Payload) -> bool:
    """Whether a stream may leave out its token counts, since the request's option was not true."""
    return api in _APIS and include_usage is not True
