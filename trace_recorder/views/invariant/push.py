"""Sending a dataset's traces to an Invariant Explorer, by its own client: `invariant-sdk`, the extra `invariant`.

All traces go in one request, so that all arrive or none does. The key is the environment's INVARIANT_API_KEY; it
is in no message, whatever a server answers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn
from urllib.parse import urlsplit

from trace_recorder.errors import PushError
from trace_recorder.guard import try_call
from trace_recorder.values.messages import Payload, without_none

KEY = "INVARIANT_API_KEY"
_DATASET_NAME = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
_LONGEST = 300
"""How many characters of a server's refusal are shown."""


def check_name(dataset: str | None) -> None:
    """Raise ValueError where a dataset's name has other characters than letters, digits, - and _."""
    if dataset is not None and not _DATASET_NAME.fullmatch(dataset):
        raise ValueError(f"The dataset is called {dataset!r}. Only letters, digits, - and _ may be in its name.")


def explorer(api_url: str | None = None) -> Any:
    """Make the client of an Explorer; without an address it is INVARIANT_API_ENDPOINT's, or the public one.

    Raises ImportError where the extra is not installed, and PushError where there is no key.
    """
    try:
        sdk = import_module("invariant_sdk.client")
    except ImportError:
        raise ImportError(
            "Datasets are pushed by invariant-sdk, which is not installed: pip install 'trace-recorder[invariant]'"
        ) from None
    if not os.environ.get(KEY, "").strip():
        raise PushError(f"There is no key for the Explorer: put it into the environment variable {KEY}.")
    return sdk.Client(**without_none(api_url=api_url))


def send(traces: Sequence[Mapping[str, Payload]], dataset: str | None, client: Any) -> list[str]:
    """Send traces, as `to_invariant_dataset` has them, in one request; return the ids that they got there.

    Raises PushError where the server refuses them, or cannot be reached.
    """
    if not traces:
        return []
    answer = try_call(
        lambda: client.create_request_and_push_trace(
            **{name: [trace[name] for trace in traces] for name in ("messages", "annotations", "metadata")},
            dataset=dataset,
        ),
        partial(_refused, client),
    )
    return list(answer.id)


def address_of(client: Any) -> str:
    """Return the scheme, host and port to which a client sends."""
    parts = urlsplit(str(getattr(client, "api_url", "")))
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def _refused(client: Any, error: Exception) -> NoReturn:
    response: Any = getattr(error.__context__, "response", None)  # what the client raises does not have it
    if response is None:
        raise PushError(
            _without_key(f"The traces could not be sent to {address_of(client)}: {error}", client)
        ) from error
    said = " ".join(str(response.text).split())[:_LONGEST]
    raise PushError(
        _without_key(
            f"{address_of(client)} refused the traces: HTTP {response.status_code}" + (f", {said}" if said else ""),
            client,
        )
    ) from error


def _without_key(text: str, client: Any) -> str:
    key = getattr(client, "api_key", None)
    return text.replace(key, "[REDACTED]") if key else text
