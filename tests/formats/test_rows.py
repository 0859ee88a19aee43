"""Rows of conversations: ShareGPT's rows, rows that Harbor exports, and chat messages as a list of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import PRODUCED, loaded, produced_files, results_in, said_in
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of

_OSLO, _ROME = ("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})


@pytest.mark.parametrize("path", produced_files("sharegpt/*"), ids=lambda path: path.suffix)
def test_each_row_of_sharegpt_is_a_run(path: Path) -> None:
    runs = [*loaded(path)]
    assert [said_in(run) for run in runs] == [
        [{"saw": 1, "text": "An assistant."}, {"saw": 3, "text": "Hi."}],
        [{"saw": 2, "text": None, "asked": [_OSLO]}, {"saw": 4, "text": "Yes, it is."}],
        [
            {"saw": 2, "text": "I ask for both.", "asked": [_OSLO, _ROME]},
            {"saw": 5, "text": "Clear in Oslo, and <tool_call> is a tag."},
        ],
    ]
    assert [results_in(run) for run in runs] == [
        [],
        [("call_0", "weather", None, '{"sky": "clear"}')],
        [("call_0", "weather", None, "clear"), ("call_1", "weather", None, "rain")],
    ]
    assert [run.task for run in runs] == ["Who are you?", "Is it sunny in Oslo?", "Oslo and Rome?"]
    assert [tool.name for tool in runs[1].llm_interactions[0].tools] == ["weather"]
    assert runs[2].llm_interactions[0].response.reasoning == "Two cities."
    assert runs[0].metadata["row"] == {"source": "made"}


def test_the_rows_of_a_trial_of_harbor_are_one_run() -> None:
    """Harbor 0.25 produced the rows from two trials. Each row has the messages that the model saw for one answer."""
    failed, solved = loaded(PRODUCED / "harbor-traces" / "terminus.traces.json")
    for run in (failed, solved):
        assert said_in(run) == [
            {"saw": 2, "text": "I look.", "asked": [("bash", {"command": "ls | wc -l"})]},
            {"saw": 4, "text": "There are three."},
        ]
        assert [tool.name for tool in run.llm_interactions[0].tools] == ["bash"]
        assert run.llm_interactions[0].response.reasoning == "List first."
        assert run.llm_interactions[1].input_messages[-1].content == "3"
        assert (run.provider, run.model, run.start_time) == (
            "openai",
            "gpt-5-mini",
            "2026-11-20T09:59:00.000000+00:00",
        )
    assert (failed.status, failed.error and failed.error.type) == ("failed", "AgentTimeoutError")
    assert [(reward.name, reward.value) for reward in solved.rewards] == [("reward", 1.0)]


def test_a_row_of_harbor_continues_any_row_before_it(tmp_path: Path) -> None:
    """Rows of an agent and of its sub-agent may alternate, and no answer becomes two calls."""
    main, other = (
        [("system", "s"), ("user", asked), ("assistant", answer)] for asked, answer in (("q", "a"), ("part", "b"))
    )
    conversations = [main, other, [*main, ("user", "more"), ("assistant", "c")]]
    rows = [
        {
            "conversations": [{"role": role, "content": content} for role, content in messages],
            "agent": "x",
            "episode": f"episode-{number}",
            "trial_name": "t",
        }
        for number, messages in enumerate(conversations)
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    [run] = loaded(path)
    assert said_in(run) == [{"saw": 2, "text": "a"}, {"saw": 2, "text": "b"}, {"saw": 4, "text": "c"}]


def test_answers_repeated_after_a_compaction_by_harbor_are_not_new_calls(tmp_path: Path) -> None:
    """After a compaction a row begins with a summary and the last messages. Answers whose rows are missing are calls
    too.
    """
    first = [("user", "q"), ("assistant", "ok"), ("user", "r"), ("assistant", "b")]
    compacted = [("user", "summary"), ("assistant", "b"), ("user", "s"), ("assistant", "ok"), ("user", "t")]
    later = [*compacted, ("assistant", "ok"), ("user", "u"), ("assistant", "c")]
    rows = [
        {
            "conversations": [{"role": role, "content": content} for role, content in messages],
            "agent": "x",
            "episode": f"episode-{number}",
            "trial_name": "t",
        }
        for number, messages in enumerate([first, [*compacted, ("assistant", "ok")], later])
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    [run] = loaded(path)
    assert said_in(run) == [
        {"saw": 1, "text": "ok"},
        {"saw": 3, "text": "b"},
        {"saw": 5, "text": "ok"},
        {"saw": 7, "text": "c"},
    ]


def test_a_document_may_be_a_list_of_rows(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": text}]} for text in "ab"
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([*rows, 7]))
    assert format_of(Source(path)) == "chat-messages"
    first, second, third = loaded(path)
    assert [said_in(run) for run in (first, second, third)] == [
        [{"saw": 1, "text": "a"}],
        [{"saw": 1, "text": "b"}],
        [],
    ]
    assert [gap.why for gap in third.gaps] == ["it is not an object"]
