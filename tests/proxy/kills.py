"""Kills of the proxy at random moments: what its clients had been given whole is on file, and every document is JSON.

    python -m tests.proxy.kills [KILLS]        # the long run; a line at its end

Eight clients ask at once, half of them for streams, each in a session of its own. One whole answer that is not on file,
or differs there, is a problem; so is a document that is no JSON.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.faults.answering import Provider, answering
from tests.processes import ROOT
from trace_recorder import load

CLIENTS = 8


@dataclass
class Client:
    """One client: what it was given whole, by the question, until the proxy was gone."""

    url: str
    number: int
    given: dict[str, str] = field(default_factory=dict)

    def ask(self) -> None:
        """Ask again and again."""
        streams = self.number % 2 == 1
        headers = {"session-id": f"session {self.number}"}
        with httpx.Client(timeout=60, headers=headers) as client:
            for turn in range(100_000):
                question = f"{self.number} {turn}"
                body = {"model": "m", "max_tokens": 40 * (1 + turn % 50), "stream": streams}
                body["messages"] = [{"role": "user", "content": question}]
                try:
                    response = client.post(self.url, json=body)
                except httpx.TransportError:
                    return
                self.given[question] = response.text


def kill_once(provider: Provider, seed: int, directory: Path) -> tuple[int, list[str]]:
    """Kill a proxy while its clients ask; return how many answers they had, and what is wrong."""
    command = [sys.executable, "-m", "trace_recorder", "proxy", "--upstream", f"mine={provider.url}"]
    with subprocess.Popen(
        [*command, "--directory", str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as proxy:
        assert proxy.stdout is not None
        url = proxy.stdout.readline().split()[3].rstrip(",") + "/mine/agent/v1/chat/completions"
        clients = [Client(url, number) for number in range(CLIENTS)]
        threads = [threading.Thread(target=client.ask) for client in clients]
        for thread in threads:
            thread.start()
        time.sleep(random.Random(seed).uniform(0.05, 1.5))
        proxy.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    return sum(len(client.given) for client in clients), [*_problems(clients, directory)]


def _problems(clients: list[Client], directory: Path) -> list[str]:
    found = []
    for document in directory.glob("*.json"):
        try:
            json.loads(document.read_bytes())
        except ValueError as error:
            found.append(f"{document.name} is no JSON: {error}")
    on_file = {
        str(call.input_messages[-1].content): call.raw_stream or json.dumps(call.raw_response)
        for path in directory.glob("*.jsonl")
        for call in load(path).llm_interactions
        if call.answered
    }
    for client in clients:
        for question, given in client.given.items():
            if on_file.get(question) != given:
                found.append(f"{question!r}: given {given[:200]!r}, on file {str(on_file.get(question))[:200]!r}")
    return found


def main(kills: int) -> int:
    """Kill a number of proxies; print what was lost."""
    answers, problems = 0, []
    with answering() as provider:
        for seed in range(kills):
            with tempfile.TemporaryDirectory() as directory:
                given, found = kill_once(provider, seed, Path(directory))
            answers += given
            problems += [f"kill {seed}: {problem}" for problem in found]
    print("\n".join(problems[:20]))
    print(f"{kills} kills, {answers} whole answers given, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
