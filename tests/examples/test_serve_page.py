"""The page docs/serve.md: its commands print the shown output."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.examples.environment import environment
from tests.processes import ROOT
from tests.provider import free_port, serving
from tests.rerun.runs import ask, client, said
from trace_recorder import TrajectoryRecorder

PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_print_the_shown_lines(tmp_path: Path) -> None:
    """The page's server command runs with a free port, and each other command prints the shown lines while it runs."""
    with serving(said("There is one.")) as server, TrajectoryRecorder(tmp_path / "runs" / "first.json") as recorder:
        with client(f"{server.url}/v1") as made:
            ask(recorder.wrap(made), "List the files")
    port = str(free_port())
    (_, served), (_, asked) = BLOCKS
    start, *promised = served.replace("8421", port).splitlines()
    surroundings = environment("", tmp_path) | {"NO_PROXY": "127.0.0.1"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}

    command = start.removeprefix("$ ").split()
    with subprocess.Popen(command, cwd=tmp_path, env=surroundings, **streams) as process:
        assert process.stdout is not None
        try:
            assert [process.stdout.readline().rstrip("\n") for _ in promised] == promised
            for line in re.findall(r"\$ (.*)\n(.*)\n", asked.replace("8421", port)):
                done = subprocess.run(line[0], shell=True, env=surroundings, capture_output=True, text=True, check=True)
                assert done.stdout == line[1]
        finally:
            process.kill()


def test_every_block_is_tested() -> None:
    """The tests of this file run every block of the page."""
    assert [(language, text.count("$ ")) for language, text in BLOCKS] == [("console", 1), ("console", 2)]
