"""What the first start of a process costs, against `import openai`: CPU of new processes, one after another.

    python -m benchmarks.starting [ROUNDS]

All packages have bytecode, as after an installation. The first call is made over the HTTP library's mock transport,
with 13 KB of source code in its prompt. `httpx`, which every SDK imports, is imported before. The call's document is
written by the document's thread, whose CPU counts too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median

GOAL = 0.25
_CALL = """
source = open(httpx.__file__).read()
source = (open(httpx._client.__file__).read() + source)[:13_000]
said = {"role": "assistant", "content": source[:3_000]}
answer = {"id": "a", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": said}]}
transport = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))
client = recorder.wrap(httpx.Client(base_url="https://api.openai.com", transport=transport))
client.post("/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": source}]})
path = recorder.trajectory_path
while '"llm_interactions": []' in path.read_text():
    time.sleep(0.05)
"""
PROGRAMS = {
    "import openai": ("", "import openai"),
    "the first start": ("", "recorder = trace_recorder.TrajectoryRecorder(sys.argv[1]); recorder.start()"),
    "instrument()": ("", "trace_recorder.instrument()"),
    "the first start and call": (
        "import httpx, json",
        "recorder = trace_recorder.TrajectoryRecorder(sys.argv[1]); recorder.start()" + _CALL,
    ),
}


def cpu_ms(name: str, directory: str) -> float:
    """Run a program in a new process, and return the CPU of its measured part in milliseconds."""
    before, measured = PROGRAMS[name]
    code = f"import os, sys, time\n{before}\nbegan = time.process_time()\n"
    if "openai" not in name:
        code += "import trace_recorder\n"
    code += f"{measured}\nprint(time.process_time() - began, flush=True)\nos._exit(0)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": f"{directory}/bytecode"}
    with tempfile.TemporaryDirectory(dir=directory) as run:
        command = [sys.executable, "-c", code, f"{run}/run.json"]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return 1000 * float(ended.stdout)


def main() -> None:
    """Print the CPU of each program, and its ratio to `import openai`."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    measured: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds + 1):
            for name, values in measured.items():
                milliseconds = cpu_ms(name, directory)
                if number:  # the first round writes the bytecode
                    values.append(milliseconds)
    base = measured["import openai"]
    for name, values in measured.items():
        ratio = median(value / beside for value, beside in zip(values, base, strict=True))
        print(f"{name:26} {median(values):6.0f} ms, {ratio:.2f} of `import openai`")
    print(f"goal of the first start and of instrument(): {GOAL}")


if __name__ == "__main__":
    main()
