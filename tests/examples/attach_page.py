"""Reads the blocks of code of docs/attach.md."""

from __future__ import annotations

import re

from tests.processes import ROOT

PAGE = (ROOT / "docs" / "attach.md").read_text(encoding="utf-8")


def blocks(language: str) -> dict[str, str]:
    """Return the blocks of code of the page by their headings."""
    named: dict[str, str] = {}
    for section in PAGE.split("\n## ")[1:]:
        heading = section.partition("\n")[0]
        for number, block in enumerate(re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL), start=1):
            named[heading if number == 1 else f"{heading} ({number})"] = block
    return named
