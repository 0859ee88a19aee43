"""Says in the log, once a process, that streamed calls leave out their tokens, and what to set.

It is looked at the assembled answer of a whole stream, where there is one anyway; never at a chunk, and no more once
it has been said.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict
from trace_recorder.dialects.readers import reader_of
from trace_recorder.dialects.stream_usage import USAGE_ADVICE, may_omit_usage
from trace_recorder.guard import logger, try_call
from trace_recorder.values.messages import Payload

_said: list[str] = []


def look(api: str, request: bytes, assembled: Payload) -> None:
    """Look at a whole stream: the bytes of its request, and the response as it was assembled.

    A request that names the option is taken to have chosen.
    """
    if _said or as_dict(assembled).get("usage") or not may_omit_usage(api, b'"include_usage"' in request):
        return
    reader = reader_of(api)
    if reader is None or reader.read_response(assembled).usage.is_known:
        return
    _said.append(USAGE_ADVICE)
    message = "the tokens of a streamed call are not stated: %s (logged once)"
    try_call(lambda: logger.warning(message, USAGE_ADVICE), lambda _: None)
