"""Responses that a provider makes in the background, and how they state that they are not final.

The records of the dialects (`Background`) have the requests that poll them.

Sources: OpenAI's guide "Background mode" (Responses), Google's reference of Interactions; the requests are those of
their SDKs.
"""

from __future__ import annotations

from functools import lru_cache

from trace_recorder.dialects.dialect import DIALECTS, dialect_of
from trace_recorder.values.messages import LLMResponse, Payload

NOT_FINAL = ("in_progress", "queued")
"""The values of `status` while the model works."""


def background_id(body: Payload) -> str | None:
    """Return the id by which a response is polled, or None if it is final or not a response."""
    if not isinstance(body, dict) or body.get("status") not in NOT_FINAL:
        return None
    identity = body.get("id")
    return identity if isinstance(identity, str) and identity else None


def is_final(body: Payload) -> bool:
    """Whether the answer to a poll states that the response is final."""
    return isinstance(body, dict) and isinstance(body.get("status"), str) and body["status"] not in NOT_FINAL


@lru_cache(maxsize=64)
def answers_in_background(api: str) -> bool:
    """Whether a dialect has such responses."""
    dialect = dialect_of(api)
    return dialect is not None and dialect.background is not None


DIALECTS.on_change.append(answers_in_background.cache_clear)


def tells_all(api: str, url: str) -> bool:
    """Whether a polled stream has the whole response.

    The last event of OpenAI's streams has the whole response. A resumed stream of Google lacks the earlier events.
    """
    dialect = dialect_of(api)
    polled = dialect.background if dialect else None
    return "last_event_id=" not in url or (polled is not None and polled.resumed_is_whole)


def goes_on(response: LLMResponse) -> bool:
    """Whether a response was not final, so that a later answer to a poll may be."""
    return response.finish_reason is None and response.extra.get("status") in NOT_FINAL
