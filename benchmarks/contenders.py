"""Who is measured: nobody, ourselves, and what one would write by hand. The peers have a file of their own.

A contender is made once in its process, before the SDK's client is; each lap starts it on an empty directory.
It imports what it needs itself, so that the process of another does not pay for it, and so that the process that
prints the table, which imports this file too, stays small.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.inside import Hooks

Messages = list[dict[str, str]]


class Unrecorded:
    """Records nothing; and what the others are: the same calls at the same moments of a lap."""

    title = "unrecorded"
    packages: tuple[str, ...] = ()
    """The packages that it measures, with their versions in the table. A contender that has some is a peer."""
    needs: tuple[str, ...] = ()
    """Other packages that must be installed."""
    heavy = False
    """Whether it takes so long, as by writing everything again with every call, that one lap has to do."""
    uploads = False
    """Whether it sends what it records to a server."""
    directory: Path
    """Where files go; a fresh one for each lap."""

    def install(self, sink: str) -> None:
        """Install itself in the process, before there is a client. Uploads go to `sink`."""

    def start(self, client: Any) -> None:
        """Begin a run in the directory, which is empty, before the clock starts."""

    def clock_starts(self) -> None:
        """Called before the measured part."""

    def record(self, messages: Messages, answer: Any) -> None:
        """Take a call that has just returned, where it is not captured: the SDK's answer, or a dict like it."""

    def finish(self) -> None:
        """End the run. On return all records have left the process, or are in files. This time is measured."""

    def figures(self) -> dict[str, float]:
        """Return the contender's own measurements since the clock started."""
        return {}


class Control(Unrecorded):
    """The same contender again: its difference from 1.00 is noise."""

    title = "unrecorded again (control)"


class Ours(Unrecorded):
    """The recorder around the client."""

    title = "trace_recorder"
    settings: dict[str, Any] = {}  # noqa: RUF012 - a constant, by the name of an argument

    def install(self, sink: str) -> None:
        """Import it."""
        self._recorder_class = import_module("trace_recorder").TrajectoryRecorder

    def start(self, client: Any) -> None:
        """Wrap the client; an earlier recorder's run has ended."""
        self._recorder = self._recorder_class(self.directory / "run.json", **self.settings)
        self._recorder.wrap(client)

    def finish(self) -> None:
        """Finalize: the last document is written."""
        self._recorder.finalize(success=True)


class OursOnDisk(Ours):
    """With an fsync for each record."""

    title = 'trace_recorder, durability="disk"'
    settings = {"durability": "disk"}  # noqa: RUF012 - a constant


class OursUnmasked(Ours):
    """Without masking: the difference from ours is the cost of masking."""

    title = "trace_recorder, redact=None"
    settings = {"redact": None}  # noqa: RUF012 - a constant


class OursInside(Ours):
    """With timers around the functions that capture calls, which disturb its other figures a little."""

    title = "trace_recorder, measured inside"

    def install(self, sink: str) -> None:
        """Put the timers in."""
        super().install(sink)
        self._hooks = Hooks()
        self._hooks.install()

    def clock_starts(self) -> None:
        """Set the timers to nothing."""
        self._hooks.reset()

    def figures(self) -> dict[str, float]:
        """Return the timers' figures."""
        return self._hooks.figures()


class WholeFile(Unrecorded):
    """Trae Agent's way: everything so far, indented, into the same file, after each call."""

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
    """One line of JSON a call, with the whole of its messages."""

    title = "full records as lines"

    def start(self, client: Any) -> None:
        """Begin with no file."""
        self._path = self.directory / "run.jsonl"

    def record(self, messages: Messages, answer: Any) -> None:
        """Append the call."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(interaction(messages, answer), ensure_ascii=False) + "\n")


def interaction(messages: Messages, answer: Any) -> dict[str, Any]:
    """A call as Trae Agent's document has it; the answer is the SDK's, or a dict that was put together."""
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
