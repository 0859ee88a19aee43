"""With durability="disk", a returned record is on the disk if power fails, and so are the names of its files.

From outside, the order of system calls shows this, which strace prints. The watched agent prints to stdout when a
method of the recorder has returned.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.answering import Provider
from tests.processes import ROOT
from trace_recorder import load

AGENT = """
import os, sys, openai
from tests.faults.unlucky import ask
from trace_recorder import TrajectoryRecorder
recorder = TrajectoryRecorder(sys.argv[1], durability=sys.argv[3])
recorder.start()
os.write(1, b"returned")
client = recorder.wrap(openai.OpenAI(api_key="k", base_url=sys.argv[2], max_retries=0))
for number in range(3):
    ask(client, f"question {number}", stream=number == 2)
    os.write(1, b"returned")
recorder.record_agent_step(1, "completed", [{"role": "user", "content": "by hand"}])
os.write(1, b"returned")
recorder.finalize(success=True)
os.write(1, b"returned")
"""
CALLS = "trace=write,pwrite64,sendto,fsync,fdatasync,link,linkat,rename,renameat,renameat2,mkdir,mkdirat"


@dataclass(frozen=True)
class Call:
    """A system call. The calls are in the order in which they ended."""

    thread: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Watched:
    """A watched agent's system calls, and its directory."""

    calls: list[Call]
    document: Path

    def kinds(self) -> str:
        """Return a letter for each call that concerns a record, in the order of the main thread.

        w: a write to the journal, f: its fsync, s: a request to the model, r: the recorder has returned.
        """
        thread = self.calls[0].thread
        return "".join(self._kind(call) for call in self.calls if call.thread == thread)

    def _kind(self, call: Call) -> str:
        if "run.jsonl" in call.arguments.partition(",")[0]:
            return {"write": "w", "fsync": "f", "fdatasync": "f"}.get(call.name, "")
        if call.name == "sendto":
            return "s"
        return "r" if '"returned"' in call.arguments else ""

    def synced(self, path: Path) -> list[int]:
        """Return when a file or a directory was synchronised."""
        return [at for at, call in enumerate(self.calls) if "sync" in call.name and f"<{path}>" in call.arguments]

    def first(self, pattern: str) -> int:
        """Return when a call was first made."""
        return next(at for at, call in enumerate(self.calls) if re.search(pattern, f"{call.name}({call.arguments}"))


def watch(directory: Path, provider: Provider, durability: str) -> Watched:
    """Run the agent under strace, recording to a directory that it must create. Skip the test if there is no strace."""
    strace = shutil.which("strace") or pytest.skip("there is no strace here")
    output, document = directory / "strace", directory / "new" / "run.json"
    agent = [sys.executable, "-c", AGENT, document, provider.address_for("watched"), durability]
    command = [strace, "-f", "-y", "-s", "64", "-e", CALLS, "-o", output, *agent]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if "ptrace" in ended.stderr:
        pytest.skip(ended.stderr)
    assert (ended.returncode, ended.stderr) == (0, "")
    return Watched(list(read(output.read_text())), document)


def read(text: str) -> list[Call]:
    """Parse strace's output, which prints a call in two parts if a call of a second thread interrupts it."""
    begun: dict[str, str] = {}
    calls = []
    for line in text.splitlines():
        thread, _, rest = line.partition(" ")
        rest = rest.strip()
        if rest.endswith("<unfinished ...>"):
            begun[thread] = rest
        elif (resumed := re.match(r"<\.\.\. (\w+) resumed>", rest)) and thread in begun:
            calls.append(Call(thread, resumed[1], begun.pop(thread).partition("(")[2]))
        elif found := re.match(r"(\w+)\((.*)", rest):
            calls.append(Call(thread, found[1], found[2]))
    return calls


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Watched:
    """An agent that records with durability="disk"."""
    return watch(tmp_path_factory.mktemp("disk"), provider, "disk")


def test_each_record_is_synchronised_before_anything_else(watched: Watched) -> None:
    """After each write to the journal comes its fsync, before a request is sent and before the recorder returns."""
    kinds = watched.kinds()

    assert re.fullmatch(r"(?:wf)+r(?:(?:wf)+s+(?:wf)+r){3}(?:wf)+r(?:wf)+r", kinds), kinds


def test_the_names_of_files_are_synchronised(watched: Watched) -> None:
    """The directory is synchronised after the journal has its name and before `start` returns."""
    named = watched.first(r"^(?:link|rename).*run\.jsonl\"")
    returned = watched.first(r'"returned"')

    assert any(named < at < returned for at in watched.synced(watched.document.parent))


def test_the_parent_of_a_new_directory_is_synchronised(watched: Watched) -> None:
    """The name of a new directory is on the disk before `start` returns, because without it the files would be lost
    too.
    """
    made = watched.first(r'^mkdir.*/new"')
    returned = watched.first(r'"returned"')

    assert any(made < at < returned for at in watched.synced(watched.document.parents[1]))


def test_a_document_is_on_the_disk_before_it_is_renamed(watched: Watched) -> None:
    """Each snapshot is synchronised, then renamed, then its directory is synchronised."""
    document = watched.document
    renamed = [at for at, call in enumerate(watched.calls) if "rename" in call.name and '/run.json"' in call.arguments]
    written = [at for at, call in enumerate(watched.calls) if "sync" in call.name and ".tmp>" in call.arguments]

    assert renamed
    assert all(before < at for before, at in zip(written, renamed, strict=True))
    assert all(any(at < after for after in watched.synced(document.parent)) for at in renamed)


def test_durability_process_synchronises_nothing(tmp_path: Path, provider: Provider) -> None:
    """With durability="process" the run is recorded too, and no call waits for the disk."""
    watched = watch(tmp_path, provider, "process")

    assert [call.name for call in watched.calls if "sync" in call.name] == []
    assert len(load(watched.document).llm_interactions) == 3
