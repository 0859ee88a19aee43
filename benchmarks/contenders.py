"""The contenders: no recorder, ours, and what a user would write by hand. The peers have a separate file.

A contender is created once in its process, before the SDK's client. Each lap starts it in an empty directory. It
imports its packages itself, so that no other contender's process has them, and so that the process that prints the
table, which imports this file too, stays small.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.inside import Hooks

Messages = list[dict[str, Any]]


class Unrecorded:
    """Records nothing. The base class of the others: the same calls at the same moments of a lap."""

    title = "unrecorded"
    packages: tuple[str, ...] = ()
    """The measured packages, whose versions are in the table. A contender with such packages is a peer."""
    needs: tuple[str, ...] = ()
    """Further packages that must be installed."""
    heavy = False
    """Whether it is so slow, for example because it writes everything again with every call, that only one lap
    is run.
    """
    uploads = False
    """Whether it sends its records to a server."""
    directory: Path
    """The directory for its files, new in each lap."""

    def install(self, sink: str) -> None:
        """Install the recorder in the process, before there is a client. Uploads are sent to `sink`."""

    def start(self, client: Any) -> None:
        """Begin a run in an empty directory, before the clock starts."""

    def clock_starts(self) -> None:
        """Prepare for the measured part, right before it starts."""

    def record(self, messages: Messages, answer: Any) -> None:
        """Record a call that has just returned, if it is not captured: the SDK's answer, or a similar dict."""

    def finish(self) -> None:
        """End the run. On return all records have left the process, or are in files. This time is measured."""

    def figures(self) -> dict[str, float]:
        """Return the contender's own measurements since the clock started."""
        return {}


class Control(Unrecorded):
    """The same contender a second time: its difference from 1.00 is noise."""

    title = "unrecorded again (control)"


class Ours(Unrecorded):
    """Our recorder around the client."""

    title = "trace_recorder"
    settings: dict[str, Any] = {}  # noqa: RUF012 - a constant, by the name of an argument

    def install(self, sink: str) -> None:
        """Import the recorder."""
        self._recorder_class = import_module("trace_recorder").TrajectoryRecorder

    def start(self, client: Any) -> None:
        """Wrap the client. The run of an earlier recorder has ended."""
        self._recorder = self._recorder_class(self.directory / "run.json", **self.settings)
        self._recorder.wrap(client)

    def finish(self) -> None:
        """Finalize the run, which writes the last document."""
        self._recorder.finalize(success=True)


class OursOnDisk(Ours):
    """Our recorder with an fsync for each record."""

    title = 'trace_recorder, durability="disk"'
    settings = {"durability": "disk"}  # noqa: RUF012 - a constant


class OursUnmasked(Ours):
    """Our recorder without masking: the difference from ours is the cost of masking."""

    title = "trace_recorder, redact=None"
    settings = {"redact": None}  # noqa: RUF012 - a constant


class OursInside(Ours):
    """Our recorder with timers around the functions that capture calls, which change its other figures a little."""

    title = "trace_recorder, measured inside"

    def install(self, sink: str) -> None:
        """Install the timers."""
        super().install(sink)
        self._hooks = Hooks()
        self._hooks.install()

    def clock_starts(self) -> None:
        """Set the timers to zero."""
        self._hooks.reset()

    def figures(self) -> dict[str, float]:
        """Return the timers' figures."""
        return self._hooks.figures()


class WholeFile(Unrecorded):
    """Writes everything so far into the same indented file after each call, as Trae Agent does."""

    title = "the whole file each time"
    heavy = True

    def start(self, client: Any) -> None:
        """Begin with an empty document."""
        self._path = self.directory / "run.json"
        self._document: dict[str, Any] = {
            "task": "measure",
            "start_time": datetime.now(UTC).isoformat(),
            "end_time": "",
            "provider": "openai",
            "model": "gpt-4.1",
            "max_steps": 200,
            "llm_interactions": [],
            "agent_steps": [],
            "success": False,
            "final_result": None,
            "execution_time": 0.0,
        }

    def record(self, messages: Messages, answer: Any) -> None:
        """Write the document with this call."""
        self._document["llm_interactions"].append(interaction(messages, answer))
        self._save()

    def finish(self) -> None:
        """Write the document with the result."""
        self._document |= {"end_time": datetime.now(UTC).isoformat(), "success": True}
        self._save()

    def _save(self) -> None:
        with self._path.open("w", encoding="utf-8") as file:
            json.dump(self._document, file, indent=2, ensure_ascii=False)


class FullLines(Unrecorded):
    """Writes a line of JSON for each call, with all of its messages."""

    title = "full records as lines"

    def start(self, client: Any) -> None:
        """Begin without a file."""
        self._path = self.directory / "run.jsonl"

    def record(self, messages: Messages, answer: Any) -> None:
        """Append the call."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(interaction(messages, answer), ensure_ascii=False) + "\n")


def interaction(messages: Messages, answer: Any) -> dict[str, Any]:
    """Return a call in the form of Trae Agent's document. The answer is the SDK's, or a joined dict."""
    answer = answer if isinstance(answer, dict) else answer.model_dump()
    choice, usage = answer["choices"][0], answer.get("usage") or {}
    return {
        "timestamp": datetime.now(UTC).isoformat(),
        "provider": "openai",
        "model": "gpt-4.1",
        "input_messages": [{"role": message["role"], "content": message["content"]} for message in messages],
        "response": {
            "content": choice["message"]["content"],
            "model": answer["model"],
            "finish_reason": choice["finish_reason"],
            "usage": {
                "input_tokens": usage.get("prompt_tokens"),
                "output_tokens": usage.get("completion_tokens"),
                "cache_creation_input_tokens": None,
                "cache_read_input_tokens": (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
                "reasoning_tokens": (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
            },
            "tool_calls": None,
        },
        "tools_available": None,
    }


OWN: dict[str, type[Unrecorded]] = {
    "unrecorded": Unrecorded,
    "control": Control,
    "ours": Ours,
    "ours-disk": OursOnDisk,
    "ours-unmasked": OursUnmasked,
    "ours-inside": OursInside,
    "whole-file": WholeFile,
    "full-lines": FullLines,
}
