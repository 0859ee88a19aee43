"""The README: every block is run as it stands, in its order, in one fresh directory; its transcript is the demo's."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.capture.server import CHAT, plain, serving
from tests.examples.environment import environment
from tests.processes import ROOT
from trace_recorder import load
from trace_recorder.derive.validate import validate

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
AGENT = """
import openai
openai.OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "Hello!"}])
"""
"""An agent of the reader's, in which nothing is ours."""


def shell(program: str) -> list[str]:
    """The commands of the blocks that call a program, without what is said of them."""
    lines = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
    return [line.partition("    #")[0].strip() for line in lines if line.startswith(program)]


def test_every_block_is_looked_at() -> None:
    """There is none that the tests below do not run."""
    lines = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]

    assert len(lines) == sum(len(shell(program)) for program in ("pip", "make", "trace-recorder"))
    assert {language for language, _ in BLOCKS} == {"python", "sh", "console"}
    assert len(BLOCKS) == len(re.findall(r"^```\w", PAGE, re.MULTILINE))


def test_a_reader_in_a_hurry_is_spared() -> None:
    """The page is short."""
    assert len(PAGE.splitlines()) <= 170


def run(command: list[str], place: Path, surroundings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=place, env=surroundings, capture_output=True, text=True, check=False)


def test_the_blocks_do_what_they_say(tmp_path: Path) -> None:
    """From the first to the last: each block of Python, then each command over what they have left."""
    (tmp_path / "agent.py").write_text(AGENT)
    failed = []
    with serving(plain(CHAT)) as server:
        surroundings = environment(server.url, tmp_path)
        for language, text in BLOCKS:
            if text.startswith("# rewards.py\n"):
                (tmp_path / "rewards.py").write_text(text)
            elif language == "python":
                done = run([sys.executable, "-c", text], tmp_path, surroundings)
                failed += [(text, done.stderr)] if done.returncode or done.stderr else []
        for command in shell("trace-recorder"):
            done = run(["sh", "-e", "-c", command], tmp_path, surroundings)
            said = [line for line in done.stderr.splitlines() if not line.startswith("trace-recorder: ")]
            failed += [(command, done.stderr)] if done.returncode or said or "cannot" in done.stderr else []

    assert failed == []
    runs = [load(path) for path in (tmp_path / "trajectories").glob("*.json")]
    assert sorted((str(one.task), len(one.llm_interactions), len(one.rewards)) for one in runs) == [
        ("How many files are here?", 1, 1),
        ("What is 17 * 23?", 1, 1),
        ("fix the failing test", 1, 1),
        ("python agent.py", 1, 1),
    ]
    assert all(validate(path).ok for path in (tmp_path / "trajectories").glob("*.json"))
    assert len([*(tmp_path / "atif").glob("*.json")]) == 4


def test_a_loop_that_is_marked_is_as_the_page_says(tmp_path: Path) -> None:
    """The step, its agent, its tool and what was thought of it are on file."""
    [block] = [text for language, text in BLOCKS if language == "python" and "@trace_recorder.tool" in text]
    with serving(plain(CHAT)) as server:
        run([sys.executable, "-c", block], tmp_path, environment(server.url, tmp_path))

    [run_] = [load(path) for path in (tmp_path / "trajectories").glob("*.json")]
    [step] = run_.agent_steps
    assert (step.agent, step.reflection, [one.result for one in step.tool_results]) == (
        *("calculator", "nothing is left to compute"),
        [{"product": 391}],
    )
    assert (run_.success, run_.final_result) == (True, {"product": 391})


def test_what_is_installed_is_there() -> None:
    """The package has the name and the extra that the page installs."""
    [command] = shell("pip")
    _, _, wanted = shlex.split(command)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, extra = re.fullmatch(r"(.*)\[(.*)\]", wanted).groups()  # type: ignore[union-attr]

    assert (name, extra in project["optional-dependencies"]) == (project["name"], True)


@pytest.mark.parametrize("command", shell("make"))
def test_what_is_made_can_be_made(command: str) -> None:
    """`make` knows the targets, and the demo the options."""
    program, *arguments = shlex.split(command)
    told = subprocess.run([program, "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    options = shlex.split(told.splitlines()[-1])[3:] if "demo" in arguments else []
    keyless = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
    if options:
        done = run([sys.executable, "-m", "examples.demo", *options], ROOT, keyless)
        assert "needs a key: set ANTHROPIC_API_KEY" in done.stderr


# ── the demo's transcript ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the demo prints, line by line, in the form in which runs of it are equal."""
    place = tmp_path_factory.mktemp("demo")
    surroundings = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    surroundings |= {"PYTHONPATH": str(ROOT), "TZ": "UTC"}
    done = run([sys.executable, "-m", "examples.demo"], place, surroundings)
    assert (done.returncode, done.stderr) == (0, "")
    return [alike(line) for line in done.stdout.splitlines()]


def alike(line: str) -> str:
    """A line without what differs from run to run: moments, durations, room between columns, where Python is."""
    line = re.sub(r"[\d.,]+ (ms|s)\b", "TIME", line)
    line = re.sub(r"\d{8}_\d{6}(\.\d+)?|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d", "MOMENT", line)
    return " ".join(re.sub(r"^\$ \S*trace-recorder ", "$ trace-recorder ", line).split())


def test_the_transcript_is_that_of_the_demo(shown: list[str]) -> None:
    """Each of its lines is printed, in that order, with what stands between them left out where it says so."""
    [transcript] = [text for language, text in BLOCKS if language == "console"]
    at, skipped = 0, True
    for line in map(alike, transcript.splitlines()):
        if line == "...":
            skipped = True
            continue
        found = shown.index(line, at)
        assert (skipped or found == at or line.startswith("$"), line) == (True, line)
        at, skipped = found + 1, False
    assert at == len(shown)


def test_the_demo_says_how_to_call_the_command(shown: list[str], tmp_path: Path) -> None:
    """In the words in which it can be typed: the command of the environment in which the demo runs."""
    command = Path(sys.executable).with_name("trace-recorder")
    typed = run([sys.executable, "-c", SHOWING], tmp_path, {**os.environ, "PYTHONPATH": str(ROOT)}).stdout
    assert typed.splitlines()[1].split() == ["$", str(command), "list", "empty"]
    assert next(line for line in shown if line.startswith("$")) == "$ trace-recorder list trajectories/demo_MOMENT"
    assert ".venv/bin/trace-recorder" in PAGE


SHOWING = """
from pathlib import Path
from examples.demo.showing import show
Path("empty").mkdir()
show("list", Path("empty"))
"""
