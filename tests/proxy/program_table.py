"""Real programs with and without the proxy, against a provider with the answers of `programs.py`, in one table.

    python -m tests.proxy.program_table DIRECTORY [NAME…]        # `nox -s programs` makes the directory

The directory has node_modules, and an environment for each program in Python, such as `aider/bin/aider`. For each
program it is checked that:

- exit code and output are the same as without the proxy, and each request and answer is on file byte for byte;
- the tokens on file are those that the answers state, and the sub-agents are those that the program started;
- with `--join`, each tool has its duration from the program's session file, and nothing there disagrees;
- `import --home` finds the session, with all of its calls, or with all but the calls beside the conversation;
- a session that begins with the proxy goes on without it, and the reverse.

The table is printed, and appended to `.venv-nox/programs.md`. Exits with 1 if anything differs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from tests.processes import ROOT
from tests.provider import free_port, serving
from tests.proxy.programs import (
    QUESTION,
    SECOND_QUESTION,
    VOLATILE,
    Program,
    answer_of,
    by_proxy,
    model_of,
    programs,
    run,
)
from tests.scripted_model import Sent
from tests.waiting import wait_until
from trace_recorder import load, load_all
from trace_recorder.figures.conversations.inferred_agents import inferred_agents_of
from trace_recorder.figures.conversations.side_calls import side_calls_of
from trace_recorder.values.messages import ToolResult
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.trajectory import Trajectory

RESULTS = ROOT / ".venv-nox" / "programs.md"
TITLES = (
    *("program", "version", "calls", "tools", "tokens in / out", "sub-agents", "exit code", "`--join`", "import"),
    *("resumed without the proxy", "resumed with the proxy"),
)
_INPUT = re.compile(rb'"(?:(?:cache_creation_|cache_read_)?input_tokens|prompt_tokens|promptTokenCount)":\s?(\d+)')
_OUTPUT = re.compile(rb'"(?:output_tokens|completion_tokens|candidatesTokenCount|thoughtsTokenCount)":\s?(\d+)')


@dataclass
class Session:
    """A process of a program in a home directory of its own, its exchanges with the model, and its recorded runs."""

    home: Path
    process: subprocess.CompletedProcess[str]
    sent: list[Sent]
    runs: Sequence[Trajectory]


@dataclass
class Checked:
    """One program with what was checked of it: the cells of its row, and what differs."""

    program: Program
    cells: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    def check(self, titles: Sequence[str], compared: Callable[[], Sequence[object]]) -> None:
        """Compare values, and keep the cells of these columns. If the values differ, the cells say so."""
        try:
            cells = [*map(str, compared())]
        except (AssertionError, subprocess.TimeoutExpired) as error:
            cells = ["DIFFERS"] * len(titles)
            self.differences.append(f"{self.program.name}, {', '.join(titles)}: {str(error)[:3000]}")
        self.cells |= dict(zip(titles, cells, strict=True))


def check(program: Program, tools: Path, place: Path) -> Checked:
    """Check a program in each way."""
    join = ["--join"] if program.joined_tools else []
    checked = Checked(program, dict.fromkeys(TITLES, "DIFFERS"))
    checked.check(TITLES[:2], lambda: (program.name, _version(program, tools)))
    try:
        plain = _session(program, place, _directory(place), with_proxy=False)
        recorded = _session(program, place, _directory(place), *join, with_proxy=True)
    except subprocess.TimeoutExpired as error:
        checked.differences.append(f"{program.name}: {error}")
        return checked
    checked.check(TITLES[2:8], lambda: _compared(program, plain, recorded))
    checked.check(TITLES[8:9], lambda: [_imported(program, place, recorded)])
    checked.check(TITLES[9:10], lambda: [_resumed(program, place, recorded, with_proxy=False)])
    checked.check(TITLES[10:], lambda: [_resumed(program, place, plain, with_proxy=True)])
    return checked


def _session(
    program: Program, place: Path, home: Path, *options: str, with_proxy: bool, command: Sequence[str] | None = None
) -> Session:
    """Run a program, or another command of it."""
    runs, model = _directory(place), model_of(program)
    prefix: Sequence[str] = ()
    if with_proxy and not program.has_own_address:
        prefix = by_proxy(runs, *options)
    with serving(partial(answer_of, model)) as server, ExitStack() as stack:
        url = server.url
        if with_proxy and program.has_own_address:
            url = stack.enter_context(_proxy_beside(url, home, runs, options))
        process = run(program, url, place, home, prefix=prefix, command=command)
    return Session(home, process, model.sent, [load(path) for path in sorted(runs.glob("*.json"))])


@contextmanager
def _proxy_beside(url: str, home: Path, runs: Path, options: Sequence[str]) -> Iterator[str]:
    """Run a proxy that starts no program. Yield the address with which it stands for the provider at `url`."""
    port = free_port()
    words = ("--port", str(port), "--upstream", f"own={url}", "--directory", str(runs), *options)
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "trace_recorder", "proxy", *words]
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=runs, env=environment, stdout=silent, stderr=silent) as proxy:
        try:
            wait_until(partial(_listens, port))
            yield f"http://127.0.0.1:{port}/own"
        finally:
            proxy.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _version(program: Program, tools: Path) -> str:
    """Return the version of the program's package."""
    manifest = tools / "node_modules" / program.package / "package.json"
    if not program.package:
        return ""
    if manifest.exists():
        return str(json.loads(manifest.read_text())["version"])
    places = [*map(str, tools.glob("*/lib/python*/site-packages"))]
    return next(found.version for found in distributions(name=program.package, path=places))


def _compared(program: Program, plain: Session, recorded: Session) -> Sequence[object]:
    """Compare a program with and without the proxy."""
    ends = plain.process, recorded.process
    assert recorded.sent, f"no model was asked: {[end.stderr[-500:] for end in ends]}"
    assert ends[0].returncode == ends[1].returncode, ends
    assert VOLATILE.sub("*", ends[0].stdout) == VOLATILE.sub("*", ends[1].stdout), ends
    calls = [call for each in recorded.runs for call in each.llm_interactions]
    assert sorted(map(_key, _on_file(calls))) == sorted(_key((sent.body, sent.answer)) for sent in recorded.sent)
    counts = [*filter(None, map(counts_of, calls))]
    tokens = [sum(count.prompt or 0 for count in counts), sum(count.completion or 0 for count in counts)]
    assert tokens == [*map(sum, zip(*map(_tokens, recorded.sent), strict=True))], tokens
    results = [result for each in recorded.runs for step in each.agent_steps for result in step.tool_results]
    joined = "no session file"
    if program.joined_tools:
        _check_joined(recorded.runs, results, program.joined_tools)
        joined = f"{program.joined_tools} of {len(results)} tools"
    named = {call.agent_id for call in calls} - {None}
    inferred = {agent for each in recorded.runs for agent in inferred_agents_of(each).values()}
    assert (len(named), len(inferred)) == (program.agents, program.inferred_agents), (named, inferred)
    agents = [f"{len(named)} named"] * bool(named) + [f"{len(inferred)} inferred"] * bool(inferred)
    asked = str(len(calls))
    if len(calls) != len(plain.sent):
        asked += f", without the proxy {len(plain.sent)}"
    return asked, len(results), " / ".join(map(str, tokens)), ", ".join(agents) or 0, ends[0].returncode, joined


def _directory(place: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=place))


def _on_file(calls: Sequence[Any]) -> Iterator[tuple[Any, bytes]]:
    for call in calls:
        answer = call.raw_stream or json.dumps(call.raw_response)
        yield call.raw_request, answer.encode()


def _key(pair: tuple[Any, bytes]) -> tuple[str, str]:
    body, answer = pair
    return json.dumps(body, sort_keys=True), answer.decode()


def _tokens(sent: Sent) -> tuple[int, int]:
    """Return the tokens that an answer states. The last number of each name counts."""
    return tuple(
        sum({match[0].partition(b":")[0]: int(match[1]) for match in pattern.finditer(sent.answer)}.values())
        for pattern in (_INPUT, _OUTPUT)
    )


def _check_joined(runs: Sequence[Trajectory], results: Sequence[ToolResult], tools: int) -> None:
    """Check that a run has the time of each tool from the session file, and that nothing there disagrees."""
    (trajectory,) = runs
    assert trajectory.gaps == (), trajectory.gaps
    assert [result.duration_seconds is not None for result in results] == [True] * tools, results
    assert trajectory.annotations["joined_from"]["tools"] == tools


def _imported(program: Program, place: Path, recorded: Session) -> str:
    """Import the session file that a recorded program wrote."""
    if not program.joined_tools:
        return "no session file"
    imports = _directory(place)
    command = (sys.executable, "-m", "trace_recorder", "import", "--home", "all", "-o", str(imports))
    importing = run(program, "", place, recorded.home, command=command)
    imported = [call for each in load_all(imports) for call in each.llm_interactions]
    side_calls = [call for each in recorded.runs for call in side_calls_of(each)]
    calls = len(recorded.sent)
    assert len(imported) in {calls, calls - len(side_calls)}, (len(imported), importing.stderr)
    return f"{len(imported)} of {calls} calls"


def _resumed(program: Program, place: Path, begun: Session, *, with_proxy: bool) -> str:
    """Ask a second question in a session. Return whether the model got both questions."""
    if not program.resumes:
        return program.why_not_resumed
    for words in program.resumes:
        command = [word.replace("{session}", _session_of_codex(begun.home)) for word in words]
        second = _session(program, place, begun.home, with_proxy=with_proxy, command=command)
        assert second.process.returncode == 0, second.process.stderr[-500:]
        prompts = [text for text in (json.dumps(sent.body) for sent in second.sent) if SECOND_QUESTION in text]
        assert any(QUESTION in prompt for prompt in prompts), (len(prompts), second.process.stdout[-500:])
        calls = [call for each in second.runs for call in each.llm_interactions]
        assert len(calls) == len(second.sent) * with_proxy, (len(calls), len(second.sent))
    return "yes"


def _session_of_codex(home: Path) -> str:
    """Return the id of the only session of Codex, which ends the name of its file."""
    return next((path.stem[-36:] for path in home.glob("sessions/*/*/*/rollout-*.jsonl")), "")


def main(tools: Path, names: Sequence[str]) -> int:
    """Check all programs, or those with these names. Print a row for each, and what differs."""
    rows: list[Sequence[str]] = [TITLES, ["---"] * len(TITLES)]
    differences: list[str] = []
    print(*map(_line, rows), sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for program in programs(tools.absolute(), place):
            if names and program.name not in names:
                continue
            checked = Checked(
                program, dict.fromkeys(TITLES, "") | {"program": program.name, "version": "not installed"}
            )
            if shutil.which(program.command[0]) is not None:
                checked = check(program, tools, place)
            rows.append([checked.cells[title] for title in TITLES])
            differences += checked.differences
            print(_line(rows[-1]), flush=True)
    print("\n".join(differences))
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n".join([f"{datetime.now(UTC):%Y-%m-%d}", "", *map(_line, rows), "", ""]))
    return 1 if differences else 0


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
