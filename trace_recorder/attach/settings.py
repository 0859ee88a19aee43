"""Checks the settings of a recorder.

A wrong setting raises when the recorder is made, before anything is recorded. Otherwise a wrong redactor or exporter
would fail later, inside the guard, and nobody would notice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from trace_recorder.attach.exporting import Exporter


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


def check_redactors(redact: object, on_secret: object) -> None:
    """Raise TypeError if `redact` is not a function, a list of functions, or None, or `on_secret` not a function.

    Raise ValueError if there is an `on_secret` that would never be called.
    """
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


def exporters_of(exporters: Sequence[Exporter]) -> tuple[Exporter, ...]:
    """Return the exporters as a tuple. Raises TypeError if they are not a list or a tuple of exporters."""
    if not isinstance(exporters, list | tuple) or not all(hasattr(exporter, "start") for exporter in exporters):
        raise TypeError(f"exporters is {exporters!r}, and must be a list of exporters, such as [otlp(endpoint)].")
    return tuple(exporters)
