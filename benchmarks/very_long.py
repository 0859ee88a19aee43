"""10,000 calls in one run: whether memory, and the written bytes of a call, stay the same until the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.contenders import Messages, Unrecorded
from benchmarks.measuring import memory, sizes
from benchmarks.workloads import KB, SYSTEM, Conversation, text


@dataclass(frozen=True)
class VeryLong(Conversation):
    """A history that grows to `kept` messages, and then slides. Memory is read after a tenth, half, and all of the
    calls.
    """

    kept: int = 50

    def run(self, client: Any, contender: Unrecorded, messages: Messages) -> dict[str, float]:
        """Make the calls. Return the bytes in memory and on disk at three moments."""
        figures: dict[str, float] = {}
        moments = {self.calls // 10: "tenth", self.calls // 2: "half", self.calls: "end"}
        for number in range(1, self.calls + 1):
            messages.append({"role": "user", "content": text(number, KB)})
            messages.append(self.turn(client, contender, messages))
            messages[:] = [SYSTEM, *messages[1:][-self.kept :]]
            if number in moments:
                figures[f"memory_{moments[number]}"] = memory()
                figures[f"journal_{moments[number]}"] = sizes(contender.directory)["journal"]
        return figures
