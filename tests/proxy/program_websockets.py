"""Codex and Copilot CLI over websockets: plainly, through the proxy, and over HTTP.

    python -m tests.proxy.program_websockets DIRECTORY    # the directory has node_modules; `nox -s programs` makes one

The program must end in the same way in all three. Every message must be on file, and the calls over a websocket must
have the tools and the texts of the calls over HTTP.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.provider import serving
from tests.proxy.programs import VOLATILE, Program, answer_of, by_proxy, is_same, model_of, programs, run
from tests.websocket_model import WebsocketModel
from tests.websocket_provider import serving_websockets
from trace_recorder import load
from trace_recorder.values.trajectory import Trajectory

COPILOT = {"COPILOT_PROVIDER_WIRE_API": "responses"}
OVER_WEBSOCKETS = {"COPILOT_PROVIDER_TRANSPORT": "websockets"}
NAMES = ("Codex", "Copilot CLI")


def compare(program: Program, place: Path) -> str:
    """Run a program in the three ways. Return what was compared. Raises AssertionError if something differs."""
    program = replace(program, environment=program.environment | COPILOT)
    over_websockets = replace(program, environment=program.environment | OVER_WEBSOCKETS)
    over_http, with_websockets = (Path(tempfile.mkdtemp(dir=place)) for _ in range(2))
    with serving(partial(answer_of, model_of(program))) as server:
        expected = run(program, server.url, place, _home(place), prefix=by_proxy(over_http))
    with serving_websockets(WebsocketModel(model_of(program))) as url:
        plain = run(over_websockets, url, place, _home(place))
    model = WebsocketModel(model_of(program))
    with serving_websockets(model) as url:
        recorded = run(over_websockets, url, place, _home(place), prefix=by_proxy(with_websockets))
    for process in (plain, recorded):
        assert process.returncode == expected.returncode, (process.returncode, process.stderr[-800:])
        assert _words(process.stdout) == _words(expected.stdout), (process.stdout, expected.stdout)
    assert model.sent, recorded.stderr[-800:]
    before, after = _runs(over_http), _runs(with_websockets)
    assert _calls(after) == _calls(before), (_calls(after), _calls(before))
    on_file = [call.raw_request for each in after for call in each.llm_interactions]
    sent = [json.loads(message) for message in model.sent]
    assert sorted(map(_key, on_file)) == sorted(_key(event) for event in sent if event.get("generate") is not False)
    warm_ups = sum(event.get("generate") is False for event in sent)
    return f"{len(on_file)} calls, {warm_ups} warm-ups, {len(model.received)} events, exit code {recorded.returncode}"


def _home(place: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=place))


def _words(printed: str) -> list[str]:
    """Return the words that a program printed, in any order: Copilot prints the output of a tool inside a long text."""
    return sorted(VOLATILE.sub("*", printed).split())


def _runs(directory: Path) -> list[Trajectory]:
    return [load(path) for path in sorted(directory.glob("*.json"))]


def _calls(runs: Sequence[Trajectory]) -> list[Any]:
    """Return what the calls of a program say, without ids and times."""
    calls = [call for each in runs for call in each.llm_interactions]
    said = [(call.response.content, [tool.name for tool in call.response.tool_calls]) for call in calls]
    return [*said, [[result.name for step in each.agent_steps for result in step.tool_results] for each in runs]]


def _key(body: Any) -> str:
    return json.dumps(body, sort_keys=True)


def main(tools: Path) -> int:
    """Compare the programs, and print a line for each."""
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for program in programs(tools.absolute(), place):
            if program.name in NAMES:
                failed += not is_same(f"{program.name} over websockets", partial(compare, program, place))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
