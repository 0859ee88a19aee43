"""Everything that the docs name exists: files, links, commands, formats, and names in the code.

Pages in docs/decisions/ may name removed files, so only their links are checked.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path
from types import FrameType

import httpx
import pytest

from tests.processes import ROOT
from trace_recorder import TrajectoryRecorder
from trace_recorder.formats.format_writer import EXPORT_FORMATS

ALL = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "results").glob("*.md")])
PAGES = [page for page in ALL if page.parent.name != "decisions" and page.name != "CHANGELOG.md"]
ON_THE_CODE = [
    ROOT / "docs" / name for name in ("architecture.md", "glossary.md", "add-a-dialect.md", "add-a-format.md")
]
OTHERS = {
    *("agent.py", "rewards.py", "file.py", "run.json", "x.journal.json", "aiohttp_openai/"),
    *("broken.json", "discount.py"),  # files that the run in docs/inspect.md has
    *("base_state.json", "chatml.json", "header.json", "x-logs.json", "x-traces.json"),  # of other tools
    *("api_conversation_history.json", ".credentials.json", "auth.json", "config.toml", "models.json"),
    "retention.toml",
}
"""Files that a reader has, or that other tools write, and a folder of another project."""
FILE = re.compile(r"(?:[\w.-]+/)*[\w.-]+\.(?:py|md|json|toml)|(?:[a-z_]+/)+")
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


@cache
def quoted(page: Path) -> frozenset[str]:
    """Return the parts of a page's prose that are in backticks."""
    return frozenset(re.findall(r"`([^`\n]+)`", prose(page)))


@cache
def files() -> frozenset[str]:
    """Return the paths of all files and folders of the project, and each trailing part of these paths."""
    endings = set()
    for top in ("trace_recorder", "tests", "docs", "results", "examples", "benchmarks", "scripts"):
        for path in (ROOT / top).rglob("*"):
            parts = path.relative_to(ROOT).parts
            end = "/" if path.is_dir() else ""
            endings |= {"/".join(parts[at:]) + end for at in range(len(parts))}
    return frozenset(endings | {path.name for path in ROOT.iterdir()} | {f"{path.name}/" for path in ROOT.iterdir()})


def test_the_files_that_a_page_names_exist() -> None:
    """Each file or folder that a page names in backticks, by its path or the end of it, exists."""
    missing = []
    for page in PAGES:
        named = {word for word in quoted(page) if FILE.fullmatch(word)} - OTHERS
        of_runs = {word for word in named if word.startswith(("trajectories/", "runs/", "NAME", ".venv", "/"))}
        missing += [(name_of(page), word) for word in named - of_runs - files()]

    assert missing == []


def test_links_lead_to_existing_files() -> None:
    """Each link of a page to a file or folder of the project leads to an existing one."""
    broken = []
    for page in ALL:
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose(page))
        broken += [(name_of(page), link) for link in links if not (page.parent / link).exists()]

    assert broken == []


def test_the_index_lists_every_decision() -> None:
    """The index links each page of docs/decisions/ under its number and title. A replaced decision has no page."""
    directory = ROOT / "docs" / "decisions"
    lines = re.findall(r"^- (\d+) (.*?); (.*?)\.(?: |$)", (directory / "README.md").read_text("utf-8"), re.MULTILINE)
    titles = {path.name: path.read_text("utf-8").partition("\n")[0] for path in directory.glob("0*.md")}
    pages = [(str(int(name[:4])), f"[{title.partition('. ')[2]}]({name})") for name, title in sorted(titles.items())]

    assert [(number, title) for number, title, _ in lines if title.startswith("[")] == pages
    assert [number for number, title, state in lines if title.startswith("[") == state.startswith("replaced")] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_that_a_page_names_exist(page: Path) -> None:
    """Each script, make target, nox session, module and subcommand that a page names exists."""
    code = "\n".join(quoted(page))
    subcommands = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "trace_recorder" / "cli").glob("*.py"))
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    sessions = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    modules = [name.replace(".", "/") for name in re.findall(r"python -m ((?:tests|benchmarks|examples)[\w.]*)", code)]

    assert [one for one in re.findall(r"scripts/[\w-]+", code) if not (ROOT / one).exists()] == []
    assert [one for one in re.findall(r"\bmake (\w+)", code) if not re.search(rf"^{one}:", targets, re.MULTILINE)] == []
    assert [one for one in re.findall(r"\bnox -[st] (\w+)", code) if one not in sessions] == []
    assert [one for one in re.findall(r"trace-recorder (\w+)", code) if f"def {one}" not in subcommands] == []
    assert [one for one in modules if not ((ROOT / one).is_dir() or (ROOT / f"{one}.py").exists())] == []


@pytest.mark.parametrize("page", ON_THE_CODE, ids=name_of)
def test_the_names_that_a_page_on_the_code_uses_exist(page: Path) -> None:
    """Each identifier in backticks occurs in the package, its tests, or a block of the page."""
    sources = [*(ROOT / "trace_recorder").rglob("*.py"), *(ROOT / "tests" / "formats").glob("*.py")]
    words = set(re.findall(r"\w+", "".join(path.read_text(encoding="utf-8") for path in sources)))
    words |= set(re.findall(r"\w+", "".join(BLOCK.findall(page.read_text(encoding="utf-8")))))
    named = {word for one in quoted(page) if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", one) for word in one.split(".")}

    assert {word for word in named if word not in words and not (ROOT / word).exists()} - {"py", "md", "json"} == set()


def test_every_export_format_is_on_the_page() -> None:
    """docs/commands.md names each format that `export` knows."""
    [line] = re.findall(r"`export --format` knows ([^.]*)\.", (ROOT / "docs" / "commands.md").read_text("utf-8"))

    assert set(re.split(r",\s+|\s+and\s+", line)) == set(EXPORT_FORMATS)


def way_of_one_request(tmp_path: Path) -> list[str]:
    """Return the package's files in the order in which a call enters them, and `os.write`, until the request is
    sent.
    """
    entered: list[str] = []
    package = f"{ROOT / 'trace_recorder'}{os.sep}"

    def listen(frame: FrameType, event: str, called: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            entered.append(Path(frame.f_code.co_filename).relative_to(package).as_posix())
        elif event == "c_call" and called is os.write:
            entered.append("os.write")

    def answer(_: httpx.Request) -> httpx.Response:
        sys.setprofile(None)
        return httpx.Response(200, json={})

    transport = httpx.MockTransport(answer)
    with TrajectoryRecorder(tmp_path / "run.json") as recorder, httpx.Client(transport=transport) as client:
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        before = sys.getprofile()
        sys.setprofile(listen)
        try:
            recorder.wrap(client).post("https://localhost/an/address/of/its/own/chat/completions", json=body)
        finally:
            sys.setprofile(before)
    return entered


def test_one_request_enters_files_in_the_documented_order(tmp_path: Path) -> None:
    """A request enters the files of the page's numbered list in that order, is written, and is then sent."""
    section = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## The way of one request\n")[2]
    lines = re.findall(r"^\d+\. (.*)", section.partition("\nThen ")[0], re.MULTILINE)
    said = [file for line in lines for file in re.findall(r"`([\w/]+\.py|os\.write)`", line)]
    entered = iter(way_of_one_request(tmp_path))

    assert [file for file in said if file not in entered] == []  # each file is searched for after the file before it
    assert (len(lines), said[-1]) == (10, "os.write")
