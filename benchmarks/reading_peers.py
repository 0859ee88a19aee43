"""Measure other readers of conversations beside this package, in one table, on the same conversation.

They run in a separate environment, `.venv-readers`, whose packages `python -m benchmarks.reading_peers` prints. Each
reads the conversation in its own form: whole documents with all messages of every call, read by `json.load`; an Inspect
log with a model event for each call, read by `inspect_ai.log.read_eval_log`; the SQLite database of simonw/llm, which
stores each message once, as this package does. The figures are CPU, the fastest of several tries, after all imports.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from benchmarks.reading_runs import parsing_seconds, quickest
from trace_recorder import load

PACKAGES = ("inspect-ai", "llm", "httpx")
Prompts = list[list[dict[str, str]]]
Read = tuple[str, Callable[[], object], int]
"""The reader, its input, and the size of the files in bytes."""


def ours(run: Path) -> Iterator[Read]:
    """Read a journal of this package: the last conversation, and every message of every call."""
    size = run.with_suffix(".jsonl").stat().st_size
    yield "trace_recorder: the last conversation", lambda: [*load(run).messages], size
    yield (
        "trace_recorder: every message of every call",
        lambda: [[*call.input_messages] for call in load(run).llm_interactions],
        size,
    )


def whole_documents(prompts: Prompts, directory: Path) -> Iterator[Read]:
    """Read a JSON document with all messages of every call, as recorders without a journal write it."""
    path = directory / "whole.json"
    path.write_text(json.dumps({"llm_interactions": [{"input_messages": prompt} for prompt in prompts]}))
    yield "json.load of the whole document", lambda: json.loads(path.read_bytes()), path.stat().st_size


def inspect_log(prompts: Prompts, directory: Path) -> Iterator[Read]:
    """Read a log of one sample, in both of Inspect's formats."""
    log, event, model = (import_module(f"inspect_ai.{name}") for name in ("log", "event", "model"))
    kinds = {"system": model.ChatMessageSystem, "user": model.ChatMessageUser, "assistant": model.ChatMessageAssistant}
    known: dict[str, object] = {}

    def message(one: dict[str, str]) -> object:
        return known.setdefault(one["content"], kinds[one["role"]](content=one["content"]))

    events = [
        event.ModelEvent(
            model="m",
            input=[message(one) for one in prompt],
            tools=[],
            tool_choice="auto",
            config=model.GenerateConfig(),
            output=model.ModelOutput.from_content("m", "yes"),
        )
        for prompt in prompts
    ]
    sample = log.EvalSample(
        id=1, epoch=1, input="q", target="", messages=[message(one) for one in prompts[-1]], events=events
    )
    about = log.EvalSpec(created="2025-06-12T20:05:46+00:00", task="t", dataset=log.EvalDataset(), model="m", config={})
    whole = log.EvalLog(eval=about, samples=[sample])
    for suffix in ("eval", "json"):
        path = directory / f"log.{suffix}"
        log.write_eval_log(whole, str(path))
        yield f"inspect_ai.log.read_eval_log, .{suffix}", _reading(log, path), path.stat().st_size


def _reading(log: object, path: Path) -> Callable[[], object]:
    return lambda: log.read_eval_log(str(path))  # type: ignore[attr-defined]


def llm_database(prompts: Prompts, directory: Path) -> Iterator[Read]:
    """Read the store of simonw/llm: messages by their content, and each call at the end of a chain of them."""
    llm, logs, migrations, sqlite = (
        import_module(name) for name in ("llm", "llm.logs", "llm.migrations", "sqlite_utils")
    )
    path = directory / "logs.db"
    database = sqlite.Database(path)
    migrations.migrate(database)
    store = logs.LogStore(database)
    thread = store.ensure_thread("conversation")
    makes = {"system": llm.system, "user": llm.user, "assistant": llm.assistant}
    tips, known = [], 0
    for prompt in prompts:
        tips.append(store.append(thread, [makes[one["role"]](one["content"]) for one in prompt[known:]]))
        known = len(prompt)
    database.close()
    size = path.stat().st_size

    def chains(wanted: list[str]) -> list[object]:
        opened = sqlite.Database(path)
        found = [logs.LogStore(opened).load_chain(tip) for tip in wanted]
        opened.close()
        return found

    yield "llm, LogStore: the last conversation", lambda: chains(tips[-1:]), size
    yield "llm, LogStore: every message of every call", lambda: chains(tips), size


def main(run: Path, tries: int) -> None:
    """Print the table."""
    parsed = parsing_seconds(run, tries)
    prompts = [
        [{"role": str(message.role), "content": str(message.content)} for message in call.input_messages]
        for call in load(run).llm_interactions
    ]
    print(f"| {len(prompts)} turns of 4 KB, read by | CPU | of json.loads | file |", "|---|---:|---:|---:|", sep="\n")
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        for rows in (
            ours(run),
            whole_documents(prompts, directory),
            inspect_log(prompts, directory),
            llm_database(prompts, directory),
        ):
            try:
                for name, read, size in rows:
                    taken = quickest(read, tries)
                    print(f"| {name} | {taken:.3f} s | {taken / parsed:.1f} x | {size / 1e6:.1f} MB |", flush=True)
            except ModuleNotFoundError as error:
                print(f"| {error.name} is not installed | | | |")
    print()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(*PACKAGES)
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]))
