"""Measure masking: `mask` over a megabyte of prose, code, JSON, logs and an image, against `json.loads` of the same.

`python -m benchmarks.masking [SITE-PACKAGES | --hostile]`. The texts are files of the installed packages, and our own
texts. The ratio is the result, because both times are measured in the same run. `--hostile` measures texts made of the
words that masking looks for, and prints the slowest.
"""

from __future__ import annotations

import base64
import json
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.secrets import hostile
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

SIZE = 1_000_000
ROUNDS = 7
BOUND = 300
"""At most this many milliseconds a MB should masking take for any text."""
ENVIRONMENT = {
    "OPENAI_API_KEY": "opaque-Key-0f-the-user-1",
    "DB_PASSWORD": "Winter-is-c0ming",
    "A_TOKEN": "x9y8z7w6v5u4t3",
}


def texts() -> dict[str, str]:
    """Return JSON texts of about a megabyte, made of strings as in a request."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else sysconfig.get_paths()["purelib"])
    code = _of_files(root, "*.py")
    prose = _of_files(root, "METADATA") + _of_files(root, "*.md") + _of_files(root, "*.rst")
    random = Random(1)
    lines = (
        f"2025-06-12T22:05:{random.randint(10, 59)}Z INFO [http] GET /v1/items/{random.randint(1, 99999)} 200 "
        f"{random.randint(1, 999)}ms request_id={random.randbytes(16).hex()}"
        for _ in range(SIZE // 90)
    )
    return {
        "prose": _messages((prose * 20)[:SIZE]),
        "code": _messages(code[:SIZE]),
        "logs": _messages("\n".join(lines)[:SIZE]),
        "JSON": json.dumps([{"id": n, "name": f"item {n}", "tags": ["a", "b"], "price": n / 7} for n in range(15_000)]),
        "an image": json.dumps({"url": base64.b64encode(random.randbytes(SIZE * 3 // 4)).decode()}),
    }


def small_texts() -> dict[str, str]:
    """Return JSON texts of single messages."""
    contents = {
        "1 KB": "List the files, then run the tests and tell me what fails. " * 17,
        "1 KB with three names": "The key of the token is in the password file, they say; list it. " * 15,
        "90 bytes": "Run the tests again.",
    }
    return {name: json.dumps({"role": "user", "content": content}) for name, content in contents.items()}


def _of_files(root: Path, pattern: str) -> str:
    parts: list[str] = []
    for path in sorted(root.rglob(pattern)):
        parts.append(path.read_text(encoding="utf-8", errors="replace"))
        if sum(map(len, parts)) > SIZE:
            break
    return "".join(parts)


def _messages(text: str) -> str:
    parts = [text[at : at + 4000] for at in range(0, len(text), 4000)]
    return json.dumps([{"role": "user", "content": part} for part in parts], ensure_ascii=False)


def fastest(act: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the shortest CPU time of several tries, in seconds."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        act()
        times.append(time.process_time() - began)
    return min(times)


def print_hostile(size: int = 30_000) -> None:
    """Print the slowest of more than a thousand hostile texts for each way into masking, beside prose."""
    texts = [*hostile.pumped(size), *hostile.mixed(size, 400)]
    innocent = hostile.prose(size)
    for way, act in hostile.ways().items():
        prose = fastest(lambda: act(innocent), 10) * 1e9 / size  # noqa: B023
        costs = [(fastest(lambda: act(text), 2) * 1e9 / size, name, text) for name, text in texts]  # noqa: B023
        costs = [
            (fastest(lambda: act(text), ROUNDS) * 1e9 / size if cost > BOUND / 2 else cost, name)  # noqa: B023
            for cost, name, text in costs
        ]
        costs.sort(reverse=True)
        over, median = sum(cost > BOUND for cost, _ in costs), costs[len(costs) // 2][0]
        print(f"\n{way}: {len(texts)} texts of {size // 1000} KB. Ms a MB: prose {prose:.0f}, the median {median:.0f}.")
        print(f"More than {BOUND} ms take {over}. The slowest:")
        for cost, name in costs[:10]:
            print(f"{cost:8.0f} ms  {name[:150]}")


def main() -> None:
    """Print the table."""
    if "--hostile" in sys.argv:
        print_hostile()
        return
    redaction = Redaction(default_redactor, ENVIRONMENT)
    print(f"{'text':10} {'mask':>10} {'json.loads':>11} {'ratio':>6}")
    for name, text in texts().items():
        masking, loading = (fastest(lambda: redaction.mask(text)), fastest(lambda: json.loads(text)))  # noqa: B023
        each = 1e6 / len(text)
        print(f"{name:10} {masking * each * 1e3:7.1f} ms {loading * each * 1e3:8.1f} ms {masking / loading:6.1f}")
    for name, text in small_texts().items():
        print(f"{name:24} {fastest(lambda: [redaction.mask(text) for _ in range(100)]) * 1e4:6.1f} µs")  # noqa: B023


if __name__ == "__main__":
    main()
