"""All eight formats count what they leave out, in the words that `export` prints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.formats.made import call, dataset_of_one, run, use
from trace_recorder.formats.left_out import (
    ANNOTATIONS,
    ARGUMENTS,
    ATTEMPTS,
    CHOICES,
    GAPS,
    OTHER_CALLS,
    REWARDS,
    SAMPLED,
    STEP_NOTES,
    UNANSWERED,
)
from trace_recorder.views import (
    View,
    to_atif,
    to_hierarchy,
    to_openai_finetuning,
    to_session_traces,
    to_traces,
    to_trae,
    to_trl,
    to_turns,
)

_CHOICES = [
    {
        "index": 0,
        "content": "a",
        "extra": {"token_ids": [1], "logprobs": {"content": [{"token": "a", "logprob": -1.0}]}},
    },
    {"index": 1, "content": "b"},
]
_TRIED = [{"number": number, "timestamp": "2025-06-12T20:00:01+00:00"} for number in (0, 1)]
_FAILED = call(["q"], api="openai-chat") | {"response": {}, "error": {"type": "x", "message": "y"}}
_STEP = {"step_number": 1, "timestamp": "2025-06-12T20:00:01+00:00", "state": "completed", "llm_messages": None}
EVERYTHING = run(
    call(
        ["q"], "a", use("c1") | {"arguments": "ls"}, response={"choices": _CHOICES, "reasoning": "t"}, attempts=_TRIED
    ),
    _FAILED,
    call([], None, api="embeddings"),
    agent_steps=[{**_STEP, "reflection": "good", "error": None, "lakeview_summary": "short"}],
    rewards=[{"name": "r", "value": 1.0}],
    annotations={"judge": 3},
    gaps=[{"timestamp": None, "what": "w", "why": "y"}],
)
"""A run with each kind of content that some format cannot express."""
_FAILED_CALLS = "calls that failed, or whose answer or prompt is incomplete"
_SAID_OF_STEPS = {STEP_NOTES: 2, ANNOTATIONS: 1, GAPS: 1}


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (to_atif, {OTHER_CALLS: 1}),
        (
            to_hierarchy,
            {UNANSWERED: 1, ARGUMENTS: 1, OTHER_CALLS: 1, ATTEMPTS: 1, SAMPLED: 1, **_SAID_OF_STEPS},
        ),
        (
            dataset_of_one,
            {ARGUMENTS: 1, OTHER_CALLS: 1, ATTEMPTS: 1, SAMPLED: 1, "thoughts in answers": 1},
        ),
        (
            to_turns,
            {UNANSWERED: 1, CHOICES: 1, OTHER_CALLS: 1, ATTEMPTS: 1, SAMPLED: 1, REWARDS: 1, **_SAID_OF_STEPS},
        ),
        (to_traces, {CHOICES: 1, OTHER_CALLS: 1, ATTEMPTS: 1, SAMPLED: 1, REWARDS: 1, **_SAID_OF_STEPS}),
        (
            to_session_traces,
            {UNANSWERED: 1, CHOICES: 1, OTHER_CALLS: 1, ATTEMPTS: 1, SAMPLED: 1, REWARDS: 1, **_SAID_OF_STEPS},
        ),
        (
            to_trae,
            {
                "errors of calls": 1,
                "thoughts in answers": 1,
                CHOICES: 1,
                ATTEMPTS: 1,
                SAMPLED: 1,
                REWARDS: 1,
                ANNOTATIONS: 1,
                GAPS: 1,
            },
        ),
        (
            to_openai_finetuning,
            {
                _FAILED_CALLS: 1,
                CHOICES: 1,
                "thoughts in answers": 1,
                OTHER_CALLS: 1,
                SAMPLED: 1,
                REWARDS: 1,
                **_SAID_OF_STEPS,
            },
        ),
        (to_trl, {_FAILED_CALLS: 1, CHOICES: 1, OTHER_CALLS: 1, ARGUMENTS: 1, **_SAID_OF_STEPS}),
    ],
    ids=["atif", "hierarchy", "invariant", "toolbrain", "traces", "session-traces", "trae", "openai", "trl"],
)
def test_omitted_content_is_counted(view: View[..., Any], expected: dict[str, int]) -> None:
    """The counts equal those of the run. A value that the format has in another place is not counted."""
    _, left_out = view.with_report(EVERYTHING)

    assert left_out == expected
