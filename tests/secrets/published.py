"""The lists of `docs/secret-patterns.md` and `results/secret-kinds.md`, generated from the code.

`python -m tests.secrets.published` updates both pages.
"""

from __future__ import annotations

import re

from tests.processes import ROOT
from tests.secrets.corpus import keys
from tests.secrets.everywhere import PLACES
from trace_recorder.storage.redaction.patterns import FORMS

PAGE = ROOT / "docs" / "secret-patterns.md"
KINDS = ROOT / "results" / "secret-kinds.md"


def lists() -> dict[str, str]:
    """Return the kinds of secrets that are masked by their form, and the kinds of measured texts."""
    signs: dict[str, list[str]] = {}
    for shape in FORMS:
        signs.setdefault(shape.what, []).append(shape.literal.strip())
    rows = [f"{what:22}{'  '.join(dict.fromkeys(some))}" for what, some in sorted(signs.items())]
    kinds = ", ".join(dict.fromkeys(key.service.removeprefix("named: ") for key in keys(1)))
    return {
        "shapes": "\n".join(["```text", *rows, "```"]),
        "kinds": f"{len(keys(1))} kinds: {kinds}.",
        "places": f"{len(PLACES)} places: {', '.join(PLACES)}.",
    }


def page(text: str) -> str:
    """Return the page with its current lists."""
    for name, said in lists().items():
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        text = re.sub(
            f"{marks[0]}.*?{marks[1]}", lambda _, m=marks, s=said: f"{m[0]}\n{s}\n{m[1]}", text, flags=re.DOTALL
        )
    return text


def write() -> None:
    """Update both pages."""
    for path in (PAGE, KINDS):
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
