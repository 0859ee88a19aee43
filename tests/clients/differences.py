"""The differences between the documents of one agent that ran with seven providers: the table of `results/clients.md`.

`python -m tests.clients.differences` prints it. A row is a member of the document, wherever it is in lists. A cell has
every value of the member in a run, in order. Times, values of ids and numbers of records are left out.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.clients.one_agent import agent
from tests.clients.provider import THINKING, client_at, providers
from tests.provider import serving
from trace_recorder import TrajectoryRecorder

Payload = Any
PROVIDERS = ("openai", "azure", "doubao", "openrouter", "anthropic", "google", "ollama")
QUESTION = "How many lines do the text files have together?"

_MOMENTARY = re.compile(
    r"(^|\.)(timestamp|start_time|end_time|\w+_seconds|execution_time|trajectory_id|headers|cpu|path|journal_records)(\.|$)"
)
_OPAQUE = re.compile(r"(^|\.)(id|call_id|encrypted_content|signature|thoughtSignature|created|created_at|reasoning)$")
_COUNTS = re.compile(r"usage\.|metrics\.|_duration$|_tokens$")
_WHOLE = (
    "llm_interactions.request",
    "llm_interactions.response.extra",
    "llm_interactions.response.usage.extra",
    "llm_interactions.input_messages.extra",
)
"""Members that are the provider's own everywhere, so that one row covers them."""


def documents(directory: Path) -> dict[str, Payload]:
    """Run the agent with each provider. Return the documents by the provider's name."""
    (directory / "a.txt").write_text("1\n2\n")
    (directory / "b.txt").write_text("1\n2\n3\n")
    return {provider: _run(provider, directory) for provider in PROVIDERS}


def _run(provider: str, directory: Path) -> Payload:
    path = directory / "runs" / f"{provider}.json"
    here = Path.cwd()
    os.chdir(directory)
    try:
        with serving(providers()) as server, TrajectoryRecorder(path, task=QUESTION, strict=True) as recorder:
            with client_at(server, provider) as client:
                said = agent(client, QUESTION, **THINKING.get(provider, {}))
            recorder.finalize(success=True, final_result=said)
    finally:
        os.chdir(here)
    return json.loads(path.read_text())


def rows(documents: dict[str, Payload]) -> dict[str, dict[str, str]]:
    """Return the members in which the documents differ, with the value of each provider."""
    facts = {provider: _facts(document) for provider, document in documents.items()}
    names = dict.fromkeys(name for each in facts.values() for name in each)
    table = {name: {provider: facts[provider].get(name, "—") for provider in facts} for name in names}
    return {name: row for name, row in table.items() if len(set(row.values())) > 1}


def markdown(found: dict[str, Payload]) -> str:
    """Return the table as the docs have it."""
    lines = [["member", *found], ["---"] * (len(found) + 1)]
    lines += [[f"`{name}`", *row.values()] for name, row in rows(found).items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _facts(document: Payload) -> dict[str, str]:
    gathered: dict[str, list[str]] = {}
    for name, value in _leaves(document, ""):
        if not _MOMENTARY.search(name) and not name.startswith("agent_steps"):
            gathered.setdefault(name, []).append(_shown(name, value))
    return {name: ", ".join(dict.fromkeys(values)) for name, values in gathered.items()}


def _shown(name: str, value: Payload) -> str:
    if _OPAQUE.search(name) or _COUNTS.search(name) or name in _WHOLE:
        return "given"
    return value if isinstance(value, str) else json.dumps(value)


def _leaves(value: Payload, name: str) -> Iterator[tuple[str, Payload]]:
    if isinstance(value, dict) and value and name not in _WHOLE:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _leaves(inner, name)
    elif value not in (None, [], {}):
        yield name, value


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(markdown(documents(Path(scratch))))
