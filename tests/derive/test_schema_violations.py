"""Which violations are reported if a value fits no alternative of a schema."""

from __future__ import annotations

import json
from pathlib import Path

from tests.chat_calls import asked, call, said
from trace_recorder import TrajectoryRecorder, validate


def test_several_faults_of_a_captured_call_are_those_of_a_captured_call(tmp_path: Path) -> None:
    """The faults are those of captured calls, and not those of calls that were recorded by hand."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        call(recorder, asked("hello"), said("Hello."))
    path.with_suffix(".jsonl").unlink()
    document = json.loads(path.read_text())
    [message] = document["llm_interactions"][0]["input_messages"]
    document["llm_interactions"][0]["input_messages"] = [{**message, "role": 5}, {**message, "role": 6}]
    path.write_text(json.dumps(document))

    errors = [finding.what for finding in validate(path).findings if finding.severity == "error"]
    assert [what.partition(": ")[0] for what in errors] == [
        f"llm_interactions[0].input_messages[{number}].role" for number in (0, 1)
    ]
