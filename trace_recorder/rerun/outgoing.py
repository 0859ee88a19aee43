"""The changes that a fork makes to a live request before it is sent: another model, another system prompt, an edit.

`forking.py` decides which requests are live. `fork_clients.py`, and `…_answers.py` of the other HTTP libraries, put the
changed body, and the model in the address, into a request of the library.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload

Edit = Callable[[Any], Any]
"""A function that takes the JSON body of a request and returns the body to send."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to send. `model` is the model that the address must name, or None if the address does not change."""

    body: bytes
    model: str | None = None


@dataclass(slots=True)
class Changes:
    """The changes to live requests.

    `model` replaces the models in `replaced`, in the body and in the address. A request for any other model keeps its
    model. `system` replaces the system prompt in dialects that have one. `edit` gets the body after the other changes.
    """

    model: str | None = None
    system: str | None = None
    edit: Edit | None = None
    replaced: set[str] = field(default_factory=set)

    def replace_model_of(self, endpoint: Endpoint, body: Payload) -> None:
        """Add the model that this request names to `replaced`. From now on, requests for this model are changed."""
        self.replaced.update(filter(None, (model_of(endpoint, body),)))

    def applied(self, endpoint: Endpoint, body: bytes) -> Outgoing:
        """Return the request to send. A body that is not a JSON object is not changed, but the address may be.

        Raises TypeError if `edit` does not return a dict.
        """
        model = self.model if endpoint.model in self.replaced else None
        try:
            value: Payload = json.loads(body)
        except ours(ValueError):
            return Outgoing(body, model)
        changed = self._edited(self._changed(endpoint, value)) if isinstance(value, dict) else value
        return Outgoing(body if changed is value else json.dumps(changed, ensure_ascii=False).encode(), model)

    def _changed(self, endpoint: Endpoint, body: dict[str, Payload]) -> dict[str, Payload]:
        model = body.get("model")
        if self.model is not None and isinstance(model, str) and model in self.replaced:
            body = {**body, "model": self.model}
        dialect = dialect_of(endpoint.api)
        if self.system is None or dialect is None or dialect.with_system is None:
            return body
        return dialect.with_system(body, self.system)

    def _edited(self, body: dict[str, Payload]) -> Payload:
        if self.edit is None:
            return body
        edited = self.edit(body)
        if not isinstance(edited, dict):
            raise TypeError(f"edit= returned {type(edited).__name__}, and has to return the body to send, a dict")
        return dict(edited)


def model_of(endpoint: Endpoint, body: Payload) -> str | None:
    """Return the model that a request names in its address or its body."""
    model = body.get("model") if isinstance(body, dict) else None
    return endpoint.model or (model if isinstance(model, str) else None)
