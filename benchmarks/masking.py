"""Measure masking: `mask` over real texts, against `json.dumps` of the same texts in the same run.

`python -m benchmarks.masking [--hostile]`. The ratio is the result, because both times are measured in turns. The texts
are those of `real_texts.py`, and JSON with names of secrets. `--hostile` measures texts made of the words that masking
looks for, and prints the slowest.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from benchmarks import real_texts
from tests.secrets import hostile
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

SIZE = 500_000
ROUNDS = 7
BOUND = 300
"""At most this many milliseconds a MB should masking take for any text."""
ENVIRONMENT = {
    "OPENAI_API_KEY": "opaque-Key-0f-the-user-1",
    "DB_PASSWORD": "Winter-is-c0ming",
    "A_TOKEN": "x9y8z7w6v5u4t3",
}


def small_texts() -> dict[str, str]:
    """Return JSON texts of single messages."""
    contents = {
        "1 KB": "List the files, then run the tests and tell me what fails. " * 17,
        "1 KB with three names": "The key of the token is in the password file, they say; list it. " * 15,
        "90 bytes": "Run the tests again.",
    }
    return {name: json.dumps({"role": "user", "content": content}) for name, content in contents.items()}


def named_texts(size: int) -> dict[str, list[str]]:
    """Return JSON texts with names of secrets, about `size` characters of each kind, as they are masked one by one."""
    schemas = [_schema(word) for word in ("login", "get_token", "users", "rotate_key", "search")]
    rows = [{"key": f"row-{number}", "value": f"{number} of {size}", "id": number} for number in range(size // 60)]
    settings = "".join(
        f"{name}_HOST=localhost\n{name}_PASSWORD=changeme\n{name}_API_KEY=\n{name}_TOKEN=${{TOKEN}}\n{name}_DEBUG=true\n"
        for name in ("DB", "CACHE", "MAIL", "QUEUE", "STORE")
    )
    secret = json.dumps([{"user": "me", "password": "a1b2c3d4e5"}])
    return {
        "one secret in raw JSON": [f"{real_texts.listing(size)[:-1]}, {secret[1:]}"],
        "schemas of tools": [json.dumps(schemas)] * (size // 2000),
        "keys and values": [json.dumps(rows[at : at + 60]) for at in range(0, len(rows), 60)],
        "a file of settings": [json.dumps({"role": "tool", "content": settings * 8})] * (size // 4000),
    }


def _schema(name: str) -> dict[str, object]:
    described = {"type": "string", "description": "The key of the API, or the token of the user."}
    properties = {"api_key": described, "token": described, "password": {"type": "string"}, "query": described}
    parameters = {"type": "object", "properties": properties, "required": ["query", "api_key"]}
    return {"type": "function", "function": {"name": name, "description": "Sign in.", "parameters": parameters}}


def fastest(act: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the shortest CPU time of several tries, in seconds."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        act()
        times.append(time.process_time() - began)
    return min(times)


def least(act: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """Return the shortest CPU times of two actions, which take turns."""
    times = [(fastest(act, 1), fastest(other, 1)) for _ in range(ROUNDS)]
    return min(time for time, _ in times), min(time for _, time in times)


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
    print(f"{'ms for each MB':22} {'mask':>8} {'json.dumps':>11} {'ratio':>6}")
    for name, texts in {**real_texts.requests(SIZE), **named_texts(SIZE)}.items():
        masking, dumping = least(
            lambda: [redaction.mask(text) for text in texts],  # noqa: B023 - called at once
            lambda: [json.dumps(text) for text in texts],  # noqa: B023 - called at once
        )
        each = 1e9 / sum(map(len, texts))
        print(f"{name:22} {masking * each:8.1f} {dumping * each:11.1f} {masking / dumping:6.1f}", flush=True)
    for name, text in small_texts().items():
        print(f"{name:24} {fastest(lambda: [redaction.mask(text) for _ in range(100)]) * 1e4:6.1f} µs")  # noqa: B023


if __name__ == "__main__":
    main()
