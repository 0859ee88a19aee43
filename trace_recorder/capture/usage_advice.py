"""Logs once in each process, at INFO, that a streamed call has no token counts, and which option to set.

Only the assembled response of a complete stream is examined, never a chunk, and none after the message.
"""

from __future__ import annotations

from trace_recorder.dialects.dialect import USAGE_ADVICE, dialect_of, may_omit_usage
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.guard import logger, try_call
from trace_recorder.values.messages import Payload

_said: list[str] = []


def look(api: str, request: bytes, assembled: Payload) -> None:
    """Log at INFO if the assembled response of a stream has no token counts.

    A request that states the option, with either value, is not logged.
    """
    if _said or as_dict(assembled).get("usage") or not may_omit_usage(api, b'"include_usage"' in request):
        return
    dialect = dialect_of(api)
    if dialect is None or dialect.read_response(assembled).usage.is_known:
        return
    _said.append(USAGE_ADVICE)
    message = "the tokens of a streamed call are not stated: %s (logged once)"
    try_call(lambda: logger.info(message, USAGE_ADVICE), lambda _: None)
