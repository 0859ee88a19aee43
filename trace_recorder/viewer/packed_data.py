"""The data of the one self-contained file: each section as compressed JSON, and each long text once.

A tool's result is in a message, in a step and in a raw request. So every long text of a run is in the section `texts`,
and the other sections name it: by a string that begins with `MARK`, followed by its number. A recorded text that begins
with `MARK` itself is in `texts` too, however short, so that no recorded text is taken for a name.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping

from trace_recorder.values.messages import Payload
from trace_recorder.viewer.page_template import json_text

MARK = "\u0001"
LONG_CHARACTERS = 128
"""Texts of at least this length are in `texts`."""
_LEVEL = 3
"""The level of zlib. Level 6 takes two and a half times as long, for files that are 6 % smaller."""


def packed(sections: Mapping[str, Payload]) -> dict[str, str]:
    """Return the sections, and the section of their long texts, as base64 of zlib-compressed JSON."""
    texts = _Texts()
    made = {name: _compressed(texts.named_in(value)) for name, value in sections.items()}
    return {**made, "texts": _compressed(texts.values)}


def _compressed(value: Payload) -> str:
    return base64.b64encode(zlib.compress(json_text(value).encode(), _LEVEL)).decode()


class _Texts:
    """The long texts of a run. The number of a text is its place."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._names: dict[str, str] = {}

    def named_in(self, value: Payload) -> Payload:
        """Return a copy of a value in which long texts are named. It may be nested deeper than the stack allows."""
        whole: list[Payload] = [value]
        waiting: list[dict[str, Payload] | list[Payload]] = [whole]
        while waiting:
            branch: Payload = waiting.pop()
            for key, member in branch.items() if isinstance(branch, dict) else enumerate(branch):
                if isinstance(member, str):
                    if len(member) >= LONG_CHARACTERS or member.startswith(MARK):
                        branch[key] = self._name_of(member)
                elif isinstance(member, dict | list | tuple):
                    branch[key] = copy = {**member} if isinstance(member, dict) else [*member]
                    waiting.append(copy)
        return whole[0]

    def _name_of(self, text: str) -> str:
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"{MARK}{len(self.values)}"
            self.values.append(text)
        return name
