"""Secrets in JSON that are known by the name of their member."""

from __future__ import annotations

import re
from collections.abc import Collection

from trace_recorder.storage.redaction.name_kinds import SCHEMES, is_secret_value, kind_of
from trace_recorder.storage.redaction.names import has_cookies

_SCHEME = re.compile(rf"{SCHEMES} {{1,3}}", re.IGNORECASE)
_SPACE = re.compile(r"\s")


def is_secret_member(name: str, value: str, short: Collection[str]) -> bool:
    """Whether the value of a member of JSON is secret by the member's name."""
    kind = kind_of(name)
    if kind is None:
        return False
    if kind == "cookie":
        return has_cookies(value)
    said = _SCHEME.sub("", value.strip(), count=1)
    return said in short or (_SPACE.search(said) is None and is_secret_value(kind, name, said, "quoted"))
