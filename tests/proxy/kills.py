"""Kills the proxy, its program, or both at random moments. Every answer that the program received must be recorded.

    python -m tests.proxy.kills [KILLS]        # the long run; it prints a line at its end

The program has eight threads that ask at once, half of them for streams, each in its own session. It writes each whole
answer to a log. An answer of the log that is not recorded, or is recorded differently, is a problem. So is a document
that is not JSON, or a proxy whose exit code is not that of its killed program.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.faults.answering import Provider, answering
from tests.processes import ROOT
from trace_recorder import load

THREADS = 8
VICTIMS = ("proxy", "program", "both")
START_SECONDS = 300


def ask(log: int, number: int) -> None:
    """Ask again and again, and log each answer with its question."""
    headers = {"session-id": f"session {number}"}
    with httpx.Client(base_url=os.environ["OPENAI_BASE_URL"], timeout=60, headers=headers) as client:
        for turn in range(100_000):
            question = f"{number} {turn}"
            body = {"model": "m", "max_tokens": 40 * (1 + turn % 50), "stream": number % 2 == 1}
            body["messages"] = [{"role": "user", "content": question}]
            try:
                response = client.post("/chat/completions", json=body)
            except httpx.TransportError:
                return
            os.write(log, json.dumps([question, response.text]).encode() + b"\n")


def program(path: str) -> None:
    """Run the program: log its process id, and ask until the proxy is gone."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, b"%d\n" % os.getpid())
    threads = [threading.Thread(target=ask, args=(log, number)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def kill_once(provider: Provider, seed: int, directory: Path) -> tuple[int, list[str]]:
    """Kill the proxy, its program, or both while they work. Return how many answers were logged, and the problems."""
    log, runs = directory / "log", directory / "runs"
    command = [sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--directory", str(runs), "--"]
    command += [sys.executable, "-m", "tests.proxy.kills", "--program", str(log)]
    environment = {**os.environ, "OPENAI_BASE_URL": f"{provider.url}/agent/v1"}
    victim = VICTIMS[seed % len(VICTIMS)]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as proxy:
        try:
            program_id = _program_id_after_first_answer(log)
        except TimeoutError:
            proxy.kill()
            raise
        time.sleep(random.Random(seed).uniform(0, 1.5))
        for process_id in {"proxy": [proxy.pid], "program": [program_id], "both": [proxy.pid, program_id]}[victim]:
            os.kill(process_id, signal.SIGKILL)
        code = proxy.wait()
    _wait_for_end_of(program_id)
    answers = [json.loads(line) for line in log.read_bytes().splitlines(keepends=True)[1:] if line.endswith(b"\n")]
    problems = [*_problems(answers, runs)]
    if code != -signal.SIGKILL:
        problems.append(f"the proxy ended with {code}")
    return len(answers), problems


def _program_id_after_first_answer(log: Path) -> int:
    """Wait for the first answer of the program; return the program's process id."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        lines = log.read_bytes().splitlines() if log.exists() else []
        if len(lines) > 1:
            return int(lines[0])
        time.sleep(0.01)
    raise TimeoutError("the program gets no answer")


def _wait_for_end_of(process_id: int) -> None:
    """Wait for the end of a process whose parent may be gone."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        if _is_zombie(process_id):
            return
        time.sleep(0.01)
    raise TimeoutError("the program does not end")


def _is_zombie(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _problems(answers: list[list[str]], runs: Path) -> Iterator[str]:
    for document in runs.glob("*.json"):
        try:
            json.loads(document.read_bytes())
        except ValueError as error:
            yield f"{document.name} is not JSON: {error}"
    on_file = {
        str(call.input_messages[-1].content): call.raw_stream or json.dumps(call.raw_response)
        for path in runs.glob("*.jsonl")
        for call in load(path).llm_interactions
        if call.answered
    }
    for question, answer in answers:
        if on_file.get(question) != answer:
            yield f"{question!r}: given {answer[:200]!r}, on file {str(on_file.get(question))[:200]!r}"


def main(kills: int) -> int:
    """Kill a number of times, and print the losses."""
    count, problems = 0, []
    with answering() as provider:
        for seed in range(kills):
            with tempfile.TemporaryDirectory() as directory:
                answers, new_problems = kill_once(provider, seed, Path(directory))
            count += answers
            problems += [f"kill {seed} of {VICTIMS[seed % len(VICTIMS)]}: {problem}" for problem in new_problems]
    print("\n".join(problems[:20]))
    print(f"{kills} kills, {count} whole answers given, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        program(sys.argv[2])
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
