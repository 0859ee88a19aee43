"""Sessions of Codex that begin with the proxy and go on without it, and the reverse.

    python -m tests.proxy.program_resumes DIRECTORY        # as tests/proxy/programs.py

Codex resumes only sessions of the provider that it uses. So the provider must be the same with the proxy as without.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.provider import Answer, Request, Server, serving
from tests.proxy.programs import DONE, Program, answer_of, environment_of, is_same
from tests.scripted_model import Model
from trace_recorder import load

KEY = {"auth.json": '{"OPENAI_API_KEY": "k"}', "config.toml": 'openai_base_url = "{url}/v1"'}
WAYS = {
    "begun with the proxy, resumed without": (True, False),
    "begun without the proxy, resumed with it": (False, True),
}


def _answer(model: Model, prompts: list[list[str]], request: Request) -> Answer:
    if request.body:
        items = json.loads(request.body)["input"]
        prompts.append([part["text"] for item in items if item.get("role") == "user" for part in item["content"]])
    return answer_of(model, request)


def check(codex: str, ways: tuple[bool, bool], by: str) -> str:
    """Begin a session and resume it by `--last` or by its id. Raises AssertionError if the second is a new session."""
    model, prompts = Model(lambda _: DONE), []
    with tempfile.TemporaryDirectory() as directory, serving(partial(_answer, model, prompts)) as server:
        home = Path(directory)
        _run(codex, server, home, with_proxy=ways[0], words=("The first question",))
        (session,) = home.glob("sessions/*/*/*/rollout-*.jsonl")
        chosen = "--last" if by == "--last" else session.stem[-36:]
        _run(codex, server, home, with_proxy=ways[1], words=("resume", chosen, "The second question"))
        sessions = [*home.glob("sessions/*/*/*/rollout-*.jsonl")]
        (run,) = map(load, home.glob("runs/*.json"))
    asked = [text for text in prompts[-1] if text in {"The first question", "The second question"}]
    assert asked == ["The first question", "The second question"], prompts[-1]
    assert (sessions, len(run.llm_interactions)) == ([session], 1), sessions
    return "the same session, and the recorded half is on file"


def _run(codex: str, server: Server, home: Path, *, with_proxy: bool, words: tuple[str, ...]) -> None:
    program = Program(
        "Codex", (codex, "exec", "--skip-git-repo-check", "-m", "gpt-5", *words), lambda *_: DONE, files=KEY
    )
    command, environment = environment_of(program, server.url, home)
    prefix = (sys.executable, "-m", "trace_recorder", "proxy", "--directory", home / "runs", "--") if with_proxy else ()
    done = subprocess.run(
        [*map(str, prefix), *command],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def main(tools: Path) -> int:
    """Check all ways, and print a line for each."""
    codex = str(tools.absolute() / "node_modules" / ".bin" / "codex")
    checks = [
        is_same(f"Codex, {name}, resumed by {by}", partial(check, codex, ways, by))
        for name, ways in WAYS.items()
        for by in ("--last", "its id")
    ]
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
