"""The kernel: the rooms that recording, reading and replaying need, without any room around them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.test_rules import PACKAGE, ROOMS, TABLE

KERNEL = ROOMS[: ROOMS.index("rerun") + 1]
"""The rooms of the page's first table: all that recording, reading and replaying need."""


def test_the_kernel_is_the_first_table() -> None:
    """The page about the architecture has two tables of rooms. The first one ends with the last room of the kernel."""
    kernel, around = TABLE.split("| around the kernel | holds |")

    assert [name for name in KERNEL if f"| `{name}" not in kernel] == []
    assert [name for name in ROOMS if name not in KERNEL and f"| `{name}" not in around] == []


ALONE = """
from pathlib import Path

import httpx
from openai import OpenAI

from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.reading.own_files import load_own
from trace_recorder.rerun.replayer import Replay


def answer(request):
    message = {"role": "assistant", "content": "Paris"}
    return httpx.Response(200, json={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def ask(wrap):
    client = wrap(OpenAI(api_key="key", http_client=httpx.Client(transport=httpx.MockTransport(answer))))
    messages = [{"role": "user", "content": "the capital of France?"}]
    return client.chat.completions.create(model="model", messages=messages).choices[0].message.content


with TrajectoryRecorder("run.json", task="ask") as recorder:
    ask(recorder.wrap)
run = load_own(Path("run.json"))
print(run.status, run.llm_interactions[0].response.content)
with Replay("run.json") as replay:
    print(ask(replay.wrap), len(load_own(Path("run.json")).agent_steps))
"""


def test_the_kernel_imports_nothing_around_it(tmp_path: Path) -> None:
    """A copy of the kernel alone records, reads and replays a run."""
    for name in KERNEL:
        for path in (PACKAGE / name, PACKAGE / f"{name}.py"):
            if path.is_dir():
                shutil.copytree(path, tmp_path / "trace_recorder" / name)
            elif path.is_file():
                (tmp_path / "trace_recorder").mkdir(exist_ok=True)
                shutil.copy(path, tmp_path / "trace_recorder")
    (tmp_path / "trace_recorder" / "__init__.py").touch()
    ended = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.stderr, ended.stdout) == ("", "completed Paris\nParis 1\n")
