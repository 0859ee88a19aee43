"""Checks the settings of a recorder.

A wrong setting raises when the recorder is made, before anything is recorded. Otherwise a wrong redactor or exporter
would fail later, inside the guard, and nobody would notice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from trace_recorder.attach.exporting import Exporter
from trace_recorder.guard import ignore_failures, logger
from trace_recorder.storage.content_tiers.tiers import CONTENTS, Content

CONTENT_VARIABLE = "TRACE_RECORDER_CONTENT"
"""The environment variable that says how much content is written if the program does not."""


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise ValueError if a setting is not one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}, and must be one of {', '.join(map(repr, allowed))}")


def check_bool(name: str, value: object) -> None:
    """Raise TypeError if a setting is not a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, and must be True or False.")


def check_path(name: str, value: object) -> None:
    """Raise TypeError if a setting is not a path."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is {value!r}, and must be a path, as a str or a pathlib.Path.")


def check_redactors(redact: object, on_secret: object, content: Content) -> None:
    """Raise TypeError if `redact` is not a function, a list of functions, or None, or `on_secret` not a function.

    Raise ValueError if there is an `on_secret` that would never be called, or a `content` that is masked by nothing.
    """
    if content == "masked" and redact is None:
        raise ValueError("content='masked' masks names and addresses, and redact=None masks nothing: leave one out.")
    if on_secret is not None and not callable(on_secret):
        raise TypeError(f"on_secret is {on_secret!r}, and must be a function that takes a SecretMatch, or None.")
    if on_secret is not None and redact is None:
        raise ValueError("on_secret is never called with redact=None, because then no secrets are searched.")
    if redact is None or callable(redact):
        return
    if isinstance(redact, str) or not isinstance(redact, Sequence) or not all(map(callable, redact)):
        raise TypeError(
            f"redact is {redact!r}, and must be a function that takes a text and returns it masked, a list of such "
            "functions, or None for no masking."
        )


def content_setting(content: Content | None, environment: Mapping[str, str]) -> Content:
    """Return how much of the run's content is written: as the program says, or the environment, or else all of it.

    Raises ValueError if the program says something unknown. If the environment does, nothing is written but the
    structure, because recording must not end the program, and must not write more than was meant.
    """
    if content is not None:
        check_choice("content", content, CONTENTS)
        return content
    text = environment.get(CONTENT_VARIABLE, "").strip().lower() or "full"
    for known in CONTENTS:
        if text == known:
            return known
    message = "%s is %r, and must be one of %s. No text is recorded."
    with ignore_failures:
        logger.error(message, CONTENT_VARIABLE, text, ", ".join(CONTENTS))
    return "none"


def exporters_of(exporters: Sequence[Exporter]) -> tuple[Exporter, ...]:
    """Return the exporters as a tuple. Raises TypeError if they are not a list or a tuple of exporters."""
    if not isinstance(exporters, list | tuple) or not all(hasattr(exporter, "start") for exporter in exporters):
        raise TypeError(f"exporters is {exporters!r}, and must be a list of exporters, such as [otlp(endpoint)].")
    return tuple(exporters)
