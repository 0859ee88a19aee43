"""Responses that a provider makes in the background: how they say that they are not final, and by which requests they
are polled until they are.

Sources: OpenAI's guide "Background mode" (Responses), Google's reference of Interactions; the requests are those of
their SDKs.
"""

from __future__ import annotations

import re

from trace_recorder.values.messages import LLMResponse, Payload

NOT_FINAL = ("in_progress", "queued")
"""The values of `status` while the model is at work."""

_POLLS = (
    ("openai-responses", re.compile(r"/responses/([^/]+?)(/cancel)?/?$")),
    ("google-interactions", re.compile(r"/interactions/([^/]+?)(/cancel)?/?$")),
)
APIS = frozenset(api for api, _ in _POLLS)
"""The dialects that have such responses."""


def polled_response(method: str, path: str) -> tuple[str, str] | None:
    """Return the dialect and the id of the response that a request polls, or cancels; None for other requests."""
    for api, pattern in _POLLS:
        found = pattern.search(path)
        if found is not None and method == ("POST" if found[2] else "GET"):
            return api, found[1]
    return None


def background_id(body: Payload) -> str | None:
    """Return the id by which a response that is not final is polled; None if it is final, or is none."""
    if not isinstance(body, dict) or body.get("status") not in NOT_FINAL:
        return None
    identity = body.get("id")
    return identity if isinstance(identity, str) and identity else None


def is_final(body: Payload) -> bool:
    """Whether the body of an answer to a poll says that the response is final."""
    return isinstance(body, dict) and isinstance(body.get("status"), str) and body["status"] not in NOT_FINAL


def tells_all(api: str, url: str) -> bool:
    """Whether a stream that is polled has the whole response.

    The last event of OpenAI's has it all; of a stream of Google's that was resumed, what came before is missing.
    """
    return api == "openai-responses" or "last_event_id=" not in url


def goes_on(response: LLMResponse) -> bool:
    """Whether a response, as it was read, was not final: a later answer to a poll may be."""
    return response.finish_reason is None and response.extra.get("status") in NOT_FINAL
