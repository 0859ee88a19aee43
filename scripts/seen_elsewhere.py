"""One run in the viewer, in a Phoenix, in an MLflow and in inspect view: their token totals compared, pictures taken.

usage: python scripts/seen_elsewhere.py PICTURES PHOENIX MLFLOW INSPECT      the last three are environments
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 240
TOTALS = (
    "import sys; from inspect_ai.log import read_eval_log as read; "
    "print(*[(u.input_tokens, u.output_tokens) for u in read(sys.argv[1]).stats.model_usage.values()])"
)
_PROJECT = '{ projects { edges { node { id trace(traceId: "%s") { rootSpan { %s } } } } } }'
_COUNTS = ("cumulativeTokenCountPrompt", "cumulativeTokenCountCompletion")
Totals = tuple[int, int]


def main(pictures: Path, phoenix: Path, mlflow: Path, inspect: Path) -> None:
    """Record a run, show it in each program, compare the totals, and take the pictures."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as programs:
        place = Path(directory)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC", "DO_NOT_TRACK": "1"}
        _run(sys.executable, "-m", "examples.demo.find_a_bug", "runs", cwd=place, env=environment)
        run = place / "runs" / "mended.json"
        document = json.loads(run.read_text())
        trace = document["trajectory_id"]
        ports = [_free_port() for _ in range(4)]
        addresses = [f"http://127.0.0.1:{port}" for port in ports]
        settings = {"PHOENIX_WORKING_DIR": directory, "PHOENIX_PORT": str(ports[0]), "PHOENIX_GRPC_PORT": str(ports[3])}
        stored = ("--backend-store-uri", f"sqlite:///{place / 'mlflow.db'}", "--default-artifact-root", directory)
        for command, url in (
            ((phoenix / "bin/phoenix", "serve"), addresses[0]),
            ((mlflow / "bin/mlflow", "server", "--host", "127.0.0.1", "--port", ports[1], *stored), addresses[1]),
            ((inspect / "bin/inspect", "view", "start", "--log-dir", place / "logs", "--port", ports[2]), addresses[2]),
        ):
            (place / "logs").mkdir(exist_ok=True)
            programs.enter_context(_serving(command, url, place, environment | settings))
        export = (sys.executable, "-m", "trace_recorder", "export", run, "-f")
        _run(*export, "otlp", "--endpoint", addresses[0], "--form", "both", cwd=ROOT)
        _ask(f"{addresses[1]}/api/2.0/mlflow/experiments/create", {"name": "demo"})
        _run(*export, "otlp", "--endpoint", addresses[1], "--header", "x-mlflow-experiment-id=1", cwd=ROOT)
        _run(*export, "inspect", "--form", "eval", "-o", place / "logs", cwd=ROOT)
        time.sleep(5)  # Phoenix stores spans with a delay
        metrics = document["metrics"]
        project, of_phoenix = _of_phoenix(addresses[0], trace)
        totals = {
            "trace_recorder": (metrics["input_tokens"], metrics["output_tokens"]),
            "Phoenix": of_phoenix,
            "MLflow": _of_mlflow(addresses[1], trace),
            "Inspect": _of_inspect(inspect, place / "logs" / "mended.eval"),
        }
        for name, total in totals.items():
            print(f"{name:16} {total[0]} tokens in, {total[1]} out")
        if len({*totals.values()}) != 1:
            sys.exit("the totals are not equal")
        places = [
            place / "runs",
            f"{addresses[0]}/projects/{project}/traces/{trace}",
            f"{addresses[1]}/#/experiments/1/traces",
            addresses[2],
        ]
        _run("node", "e2e/elsewhere.mjs", pictures.resolve(), trace, *places, cwd=ROOT / "viewer_page")


def _of_phoenix(at: str, trace: str) -> tuple[str, Totals]:
    said = _ask(f"{at}/graphql", {"query": _PROJECT % (trace, " ".join(_COUNTS))})
    node = next(edge["node"] for edge in said["data"]["projects"]["edges"] if edge["node"]["trace"])
    counts = node["trace"]["rootSpan"]
    return node["id"], (int(counts[_COUNTS[0]]), int(counts[_COUNTS[1]]))


def _of_mlflow(at: str, trace: str) -> Totals:
    about = _ask(f"{at}/api/3.0/mlflow/traces/tr-{trace}")["trace"]["trace_info"]["trace_metadata"]
    usage = json.loads(about["mlflow.trace.tokenUsage"])
    return usage["input_tokens"], usage["output_tokens"]


def _of_inspect(environment: Path, log: Path) -> Totals:
    said = subprocess.run([environment / "bin/python", "-c", TOTALS, log], capture_output=True, text=True, check=True)
    first, second = said.stdout.strip("()\n ").split(",")
    return int(first), int(second)


def _ask(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - of this machine
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


@contextmanager
def _serving(command: tuple[object, ...], url: str, place: Path, environment: dict[str, str]) -> Iterator[None]:
    """Run a server during a block, which begins when the server answers."""
    with (place / "servers.log").open("ab") as log:
        program = subprocess.Popen([*map(str, command)], cwd=place, env=environment, stdout=log, stderr=log)
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while not _answers(url):
            if program.poll() is not None or time.monotonic() > end:
                sys.exit(f"{command[0]} does not answer: {(place / 'servers.log').read_text()[-2000:]}")
            time.sleep(0.5)
        yield
    finally:
        program.terminate()
        program.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=10).close()  # noqa: S310
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _run(*command: object, **options: Any) -> None:
    subprocess.run([*map(str, command)], check=True, **options)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]))
