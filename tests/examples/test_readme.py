"""The README and docs/commands.md: every block runs unchanged, and prints the output that is shown below it."""

from __future__ import annotations

import copy
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from contextlib import chdir
from pathlib import Path

import pytest

from tests.agents import HTTPX
from tests.cli.invoking import invoke
from tests.examples.answers import CALL
from tests.examples.attach_page import blocks as attach_blocks
from tests.examples.environment import environment
from tests.processes import ROOT
from tests.provider import CHAT, plain, serving
from trace_recorder import load
from trace_recorder.reading.validate import validate

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
Blocks = list[tuple[str, str]]
AGENT = (
    textwrap.dedent(HTTPX)
    + """
body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello!"}]}
httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body)
"""
)
"""A reader's agent, without code of this package."""
DEMO = "$ make demo\n"
"""The beginning of the block that shows what the demo prints."""
PRODUCT = copy.deepcopy(CHAT)
PRODUCT["choices"][0]["message"]["content"] = "17 * 23 = 391."  # type: ignore[index]


def blocks_of(page: str) -> Blocks:
    """Return the blocks of a page, each with its language."""
    return re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL)


def shell(page: str, program: str) -> list[str]:
    """Return the commands in a page's shell blocks that call a program, without their comments."""
    lines = [line for language, text in blocks_of(page) if language == "sh" for line in text.splitlines()]
    return [line.partition("    #")[0].strip() for line in lines if line.startswith(program)]


@pytest.mark.parametrize("page", [README, COMMANDS])
def test_every_block_is_tested(page: str) -> None:
    """The tests of this file run every block."""
    lines = [line for language, text in blocks_of(page) if language == "sh" for line in text.splitlines()]

    assert len(lines) == sum(len(shell(page, program)) for program in ("pip", "make", "trace-recorder"))
    assert {language for language, _ in blocks_of(page)} == {"python", "sh", "console"}
    assert len(blocks_of(page)) == len(re.findall(r"^```\w", page, re.MULTILINE))


def test_the_readme_is_short() -> None:
    """The README has at most the stated number of lines."""
    assert len(README.splitlines()) <= 120


def run(command: list[str], place: Path, surroundings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=place, env=surroundings, capture_output=True, text=True, check=False)


def printed(transcript: str, place: Path, surroundings: dict[str, str]) -> list[str]:
    """Return the commands of a transcript with their current output, without what differs between equal runs."""
    lines = []
    for command in [line for line in transcript.splitlines() if line.startswith("$ ")]:
        done = run(["sh", "-e", "-c", command.removeprefix("$ ")], place, surroundings)
        assert (done.returncode, done.stderr) == (0, ""), command
        lines += [command, *done.stdout.splitlines()]
    return [alike(line) for line in lines]


def assert_printed(transcript: str, shown: list[str]) -> None:
    """Check that each line of a transcript is printed, in its order, with other lines between only at `...`."""
    end, skipped = 0, True
    for line in map(alike, transcript.splitlines()):
        if line == "...":
            skipped = True
            continue
        found = shown.index(line, end)
        assert (skipped or found == end or line.startswith("$"), line) == (True, line)
        end, skipped = found + 1, False
    assert skipped or end == len(shown)


def write_scripts(page: str, place: Path) -> None:
    """Write each block of Python to the file that its first line names."""
    for language, text in blocks_of(page):
        if language == "python":
            (place / text.partition("\n")[0].removeprefix("# ")).write_text(text)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run everything that the README shows, in order in one directory, and compare the outputs."""
    place = tmp_path_factory.mktemp("readme")
    write_scripts(README, place)
    with serving(*map(plain, (CHAT, CALL, PRODUCT))) as server:
        surroundings = {**environment(server.url, place), "TZ": "UTC"}
        surroundings.pop("COLUMNS", None)
        for language, text in blocks_of(README):
            if language == "console" and not text.startswith(DEMO):
                assert_printed(text, printed(text, place, surroundings))
    return place


def test_the_readme_s_outputs_are_true(used: Path) -> None:
    """The README's outputs are those of its commands, its two runs are valid, and the tool is in its step."""
    runs = {one.task: one for one in map(load, sorted((used / "trajectories").glob("*.json")))}

    assert {task: len(one.llm_interactions) for task, one in runs.items()} == {
        "fix the failing test": 1,
        "What is 17 * 23?": 2,
    }
    assert [[result.result for result in step.tool_results] for step in runs["What is 17 * 23?"].agent_steps] == [
        [391],
        [],
    ]


def ended(command: str, place: Path, surroundings: dict[str, str]) -> tuple[int, str]:
    """Return the exit code and the standard error of a command, in this process if the command starts no other."""
    words = shlex.split(command, comments=True)
    if words[0] != "trace-recorder" or "--" in words or words[1] == "mcp":
        done = run(["sh", "-e", "-c", command], place, surroundings)
        return done.returncode, done.stderr
    with chdir(place):
        result = invoke(*words[1:], environment=surroundings)
    return result.exit_code, result.stderr


def test_the_commands_work(used: Path, tmp_path: Path) -> None:
    """Every command of docs/commands.md works on runs that were wrapped, marked, recorded by hand, and recorded from
    outside.
    """
    place = Path(shutil.copytree(used, tmp_path / "place", ignore=shutil.ignore_patterns("bin")))
    write_scripts(COMMANDS, place)
    (place / "agent.py").write_text(AGENT)
    (place / "server.py").write_text("")
    (place / "by_hand.py").write_text(attach_blocks("python")["Record calls by hand"])
    for name in ("golden", "live"):
        shutil.copytree(place / "trajectories", place / name)
    failed = []
    with serving(plain(CHAT)) as server:
        surroundings = environment(server.url, place)
        for command in ("python by_hand.py", *shell(COMMANDS, "trace-recorder")):
            code, errors = ended(command, place, surroundings)
            said = [line for line in errors.splitlines() if not line.startswith("trace-recorder: ")]
            failed += [(command, errors)] if code or said or "cannot" in errors else []

    assert failed == []
    runs = [load(path) for path in (place / "trajectories").glob("*.json")]
    assert sorted((str(run.task), len(run.llm_interactions), len(run.rewards)) for run in runs) == [
        ("How many files are here?", 1, 1),
        ("What is 17 * 23?", 2, 1),
        ("fix the failing test", 1, 1),
        *[("python agent.py", 1, 1)] * 4,
    ]
    assert all(validate(path).ok for path in (place / "trajectories").glob("*.json"))
    assert len([*(place / "atif").glob("*.json")]) == 7


def test_the_installed_extras_exist() -> None:
    """The extras that the page installs exist in the package."""
    [command] = shell(README, "pip")
    _, _, wanted = shlex.split(command)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    place, extras = re.fullmatch(r"(.*)\[(.*)\]", wanted).groups()  # type: ignore[union-attr]

    assert (place, set(extras.split(",")) - project["optional-dependencies"].keys()) == (".", set())


MADE = re.findall(r"`(make [^`]+)`", COMMANDS)


@pytest.mark.parametrize("command", [*shell(README, "make"), *MADE])
def test_the_named_targets_and_options_exist(command: str) -> None:
    """The targets of `make` and the options of the demo that the README names exist."""
    program, *arguments = shlex.split(command)
    told = subprocess.run(
        [program, "-n", "--no-print-directory", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    options = shlex.split(told.splitlines()[-1])[3:] if "demo" in arguments else []
    keyless = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
    if options:
        done = run([sys.executable, "-m", "examples.demo", *options], ROOT, keyless)
        assert "needs a key: set ANTHROPIC_API_KEY" in done.stderr


# ── the demo's transcript ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the demo's output line by line, without the parts that differ between runs."""
    place = tmp_path_factory.mktemp("demo")
    surroundings = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    surroundings |= {"PYTHONPATH": str(ROOT), "TZ": "UTC"}
    done = run([sys.executable, "-m", "examples.demo"], place, surroundings)
    assert (done.returncode, done.stderr) == (0, "")
    return [alike(line) for line in done.stdout.splitlines()]


def alike(line: str) -> str:
    """Return a line without times, durations, ports, column widths, and the path of Python.

    They differ between runs.
    """
    line = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", re.sub(r"[\d.,]+ (ms|s)\b", "TIME", line))
    line = re.sub(r"\d{8}_\d{6}(\.\d+)?|\d{4}-\d\d-\d\d(?: \d\d:\d\d\b)?|\d\d:\d\d:\d\d", "MOMENT", line)
    return " ".join(re.sub(r"^\$ \S*trace-recorder ", "$ trace-recorder ", line).split())


def test_the_transcript_is_the_demo_s_output(shown: list[str]) -> None:
    """docs/commands.md and the README have parts of the output of the demo."""
    [transcript] = [text for _, text in blocks_of(COMMANDS) if text.startswith("A small agent")]
    assert_printed(transcript, shown)

    [part] = [text for language, text in blocks_of(README) if language == "console" and text.startswith(DEMO)]
    assert_printed(part.removeprefix(DEMO), shown)


def test_the_demo_prints_commands_that_can_be_typed(shown: list[str], tmp_path: Path) -> None:
    """The demo prints its commands with the path by which the reader's shell finds the program."""
    command = Path(sys.executable).with_name("trace-recorder")
    typed = run([sys.executable, "-c", SHOWING], tmp_path, {**os.environ, "PYTHONPATH": str(ROOT)}).stdout
    assert typed.splitlines()[1].split() == ["$", str(command), "list", "empty"]
    assert next(line for line in shown if line.startswith("$")) == "$ trace-recorder list trajectories/demo_MOMENT"
    assert ".venv-demo/bin/trace-recorder" in COMMANDS


def test_the_demo_prints_at_most_a_screen_or_two(shown: list[str]) -> None:
    """The demo prints no more than a person reads in a minute."""
    assert len(shown) <= 60


SHOWING = """
from pathlib import Path
from examples.demo.showing import show
Path("empty").mkdir()
show("list", Path("empty"))
"""
