"""Record every run of the views' tests, a run with a sound, and the corpus if it is present, into a directory.

usage: python -m tests.readers.write_runs DIRECTORY      (in the project's own environment)
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from tests.formats.corpus_runs import corpus_runs
from tests.formats.runs import every
from trace_recorder import TrajectoryRecorder


def record_sound(path: Path) -> None:
    """Record a call whose prompt has a sound, which few formats can express."""
    sound = {"data": base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode(), "format": "wav"}
    content = [{"type": "text", "text": "What is it?"}, {"type": "input_audio", "input_audio": sound}]
    with TrajectoryRecorder(path, task="Name the sound.") as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": content}], {"content": "A bell."}, "openai", "m")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    record_sound(target / "sound.json")
    made = 1 + len(every(target)) + sum(1 for _ in corpus_runs(target))
    print(f"{made} runs in {target}")
