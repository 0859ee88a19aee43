"""Test files that use the plugin, run by pytest within this process, with an agent and its provider."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

# A pytester run in this process removes the modules that it imported first. Code that still refers to their classes
# would then meet new classes, so these modules are imported before.
import httpcore  # noqa: F401
import httpcore2  # noqa: F401
import httpx  # noqa: F401
import httpx2  # noqa: F401
import openai  # noqa: F401
import pytest

from tests.provider import Answer, Server, serving

KEY = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"
TOOL = """
from pathlib import Path
from trace_recorder import tool

@tool
def search(query):
    with Path("ran").open("a") as file:
        file.write("x")
    if query == "nothing":
        raise LookupError("nothing was found")
    return {"found": [query]}
"""
AGENT = '''
import openai

def run(*questions, **more):
    """Ask each question, and search for each answer."""
    answers = []
    with openai.OpenAI(max_retries=0) as client:
        for question in questions:
            asked = [{"role": "user", "content": question}]
            answer = client.chat.completions.create(model="m", messages=asked, **more)
            answers.append(answer.choices[0].message.content)
            search(answers[-1])
    return answers
'''
LIGHT_AGENT = '''
import os, sys
sys.modules["httpx._main"] = None  # httpx's own command line takes half of the time that its import takes
import httpx

def run(*questions):
    """Ask each question, and search for each answer."""
    answers = []
    with httpx.Client(base_url=os.environ["OPENAI_BASE_URL"]) as client:
        for question in questions:
            asked = {"model": "m", "messages": [{"role": "user", "content": question}]}
            answer = client.post("/chat/completions", json=asked).raise_for_status().json()
            answers.append(answer["choices"][0]["message"]["content"])
            search(answers[-1])
    return answers
'''
"""The agent in processes of their own, which take twice as long to import an SDK as to do all else."""


def answered(text: str) -> Answer:
    """Return a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return Answer([json.dumps(body).encode()])


@dataclass
class Project:
    """A project with an agent in `agent.py` and tests in `test_it.py`."""

    pytester: pytest.Pytester
    monkeypatch: pytest.MonkeyPatch
    requests: list[int] = field(default_factory=list)
    """Return how many requests of each run came to the provider."""

    @property
    def journals(self) -> dict[str, bytes]:
        """Return the files in the project's folder for journals by their paths in it."""
        folder = self.pytester.path / "trajectories"
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    @property
    def ran(self) -> int:
        """Return how often the tool was run."""
        file = Path(self.pytester.path / "ran")
        return len(file.read_text()) if file.exists() else 0

    def run(
        self,
        tests: str,
        *arguments: str,
        answers: tuple[str, ...] = ("hi",),
        subprocess: bool = False,
        key: str | None = KEY,
    ) -> pytest.RunResult:
        """Run tests. The provider gives these answers, and repeats the last one. If `key` is None, no key is set."""
        agent = LIGHT_AGENT if subprocess else AGENT
        self.pytester.makepyfile(agent=TOOL + agent, test_it=f"import pytest\nfrom agent import run\n\n{tests}")
        with serving(*map(answered, answers)) as server:
            self._point_to(server, key)
            run = self.pytester.runpytest_inprocess
            if subprocess:  # without the plugins of all that is installed, whose imports take seconds
                self.monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
                self.monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin -p pytest_trace_recorder")
                run = self.pytester.runpytest_subprocess
            result = run("-p", "no:cacheprovider", *arguments)
        self.requests.append(len(server.requests))
        return result

    def _point_to(self, server: Server, key: str | None) -> None:
        self.monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        if key is None:
            self.monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        else:
            self.monkeypatch.setenv("OPENAI_API_KEY", key)
