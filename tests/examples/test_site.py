"""The site of docs/ builds without a broken link, and its reference has every public name."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trace_recorder
from tests.processes import ROOT

CONFIGURATION = ROOT / "zensical.toml"
ALIASES = {"fork", "replay", "__version__"}
"""`fork` and `replay` are in the reference as the classes `Fork` and `Replay`."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site in a separate folder, or raise the builder's message."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    text = CONFIGURATION.read_text(encoding="utf-8").replace('paths = ["."]', f'paths = ["{ROOT}"]')
    (folder / CONFIGURATION.name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return folder / "build" / "site"


def pages(navigation: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the pages that the navigation names."""
    for entry in navigation:
        if isinstance(entry, str):
            yield entry
            continue
        for value in entry.values():
            yield from [value] if isinstance(value, str) else pages(value)


def test_every_page_is_in_the_navigation() -> None:
    """Each page of docs/ is in the navigation once, except decisions, to which other pages link."""
    named = sorted(pages(tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))["project"]["nav"]))
    files = sorted(page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md"))
    assert named == [page for page in files if not page.startswith("decisions/")]


def test_the_reference_has_every_public_name(site: Path) -> None:
    """Each public name has exactly one heading on the pages of the reference."""
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    headings = re.findall(r'<h\d id="(trace_recorder\.[\w.]+)"', text)
    names = {name.rpartition(".")[2] for name in headings}
    assert set(trace_recorder.__all__) - names == ALIASES
    assert sorted(headings) == sorted(set(headings))


def test_no_page_loads_from_another_host(site: Path) -> None:
    """No page loads a script, style, font or picture from another host."""
    loads = re.compile(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(https?:[^"]*)"')
    assert {
        page.name: found for page in site.rglob("*.html") if (found := loads.findall(page.read_text("utf-8")))
    } == {}


def test_the_first_page_shows_the_example_of_the_readme() -> None:
    """The code on the site's first page is the README's, which a test runs."""
    block = re.compile(r"```python\n(.*?)```", re.DOTALL)
    first = block.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert first == block.findall((ROOT / "README.md").read_text(encoding="utf-8"))[:1]


def test_the_list_for_language_models_is_up_to_date(site: Path) -> None:
    """docs/llms.txt is the output of `scripts/llms`, each address in it exists, and the file is at the site's root."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "llms"), "--print"], capture_output=True, text=True, check=True
    )
    text = (site / "llms.txt").read_text(encoding="utf-8")
    addresses = re.findall(r"^- \[[^\]]*\]\((.*?)\)", text, re.MULTILINE)

    assert done.stdout == (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8") == text
    assert [address for address in addresses if not (site / address).is_file()] == []
    assert addresses
