"""The message that `trace-recorder run` prints at its end: what was recorded and where, or why nothing was recorded.

Without it, nobody would notice that an agent is not recorded until somebody looks for the file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from trace_recorder.attach.subprocess.supervisor import CommandResult
from trace_recorder.capture.unseen_clients import advice
from trace_recorder.cli.list_runs import read_summary
from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.values.metrics import metrics_of

_MAX_LISTED = 10
"""How many files the message names."""
_PYTHON = re.compile(r"python[\d.]*w?(\.exe)?", re.IGNORECASE)
_ISOLATING_OPTIONS = "ISE"
"""Options with which Python ignores PYTHONPATH or `sitecustomize` at its start."""
_OPTIONS_WITH_ARGUMENT = "cmWX"
_METRICS = (
    ("llm_calls", "failed_llm_calls", "LLM call"),
    ("replayed_llm_calls", "", "replayed LLM call"),
    ("tool_calls", "failed_tool_calls", "tool call"),
)


def lines(ended: CommandResult, command: Sequence[str]) -> Iterator[str]:
    """Yield what a command recorded, or why it recorded nothing."""
    if ended.documents:
        yield from recorded(ended.documents)
        if ended.unseen:
            yield f"some calls may be missing: {advice(ended.unseen)}"
    else:
        yield f"nothing was recorded: {_reason(ended, command)}"


def recorded(documents: Sequence[Path]) -> Iterator[str]:
    """Yield how much was recorded, and where."""
    files = [_relative_path(path) for path in documents]
    if len(files) == 1:
        yield f"recorded {_amount(documents)}: {files[0]}"
        return
    yield f"recorded {_amount(documents)}:"
    yield from (f"  {file}" for file in files[:_MAX_LISTED])
    if len(files) > _MAX_LISTED:
        yield f"  and {len(files) - _MAX_LISTED} more"


def _amount(documents: Sequence[Path]) -> str:
    """Count runs, calls and tools, and how many of them failed."""
    figures: Counter[str] = Counter()
    for path in documents:
        figures.update(_figures(path))
    parts = [pluralize(len(documents), "run")]
    for name, failed, noun in _METRICS:
        if figures[name] or name == "llm_calls":
            parts.append(pluralize(figures[name], noun) + (f" ({figures[failed]} failed)" if figures[failed] else ""))
    return ", ".join([*parts, *([f"{figures['unreadable']} that cannot be read"] if figures["unreadable"] else [])])


def _figures(path: Path) -> dict[str, int]:
    """Return the counts of a run, as far as it can be read."""
    try:
        run = read_summary(path)
    except UnreadableError:
        return {"unreadable": 1}
    metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
    return {name: count for name, count in metrics.items() if isinstance(count, int)}


def _relative_path(path: Path) -> str:
    """Return a path as a user would type it here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _reason(ended: CommandResult, command: Sequence[str]) -> str:
    if ended.disabled:
        return "TRACE_RECORDER_DISABLED is set"
    if ended.has_recorder:
        return "its files could not be created, or were removed; the agent's own output has the reason"
    if ended.unseen:
        return advice(ended.unseen)
    if ended.imported_http_library:
        return "no LLM call was made through httpx, httpx2, aiohttp, requests or urllib3"
    option = _isolating_option(command)
    if option:
        return f"Python was started with -{option}, which keeps it from loading the recorder"
    return (
        "no Python process in it used httpx, httpx2, aiohttp, requests or urllib3. It may start Python with -I, -S or "
        "-E or in an environment of its own, call no model, or be no Python program: `trace-recorder proxy` records any"
    )


def _isolating_option(command: Sequence[str]) -> str | None:
    """Return the option with which a Python of the command line does not load this package."""
    at = next((at for at, word in enumerate(command) if _PYTHON.fullmatch(os.path.basename(word))), len(command))  # noqa: PTH119 - any word
    for word in command[at + 1 :]:
        if not re.fullmatch("-[A-Za-z]+", word):
            return None
        for letter in word[1:]:
            if letter in _ISOLATING_OPTIONS:
                return letter
            if letter in _OPTIONS_WITH_ARGUMENT:
                return None
    return None
