"""aider: the chats of a directory in the form for people, and the requests to the model with their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.invoking import invoke
from tests.formats.files import PRODUCED, check_run, facts_in, loaded, said_in
from trace_recorder import load
from trace_recorder.facts import GapFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import read_foreign_runs

_CHATS = PRODUCED / "aider" / ".aider.chat.history.md"
_REQUESTS = PRODUCED / "aider-llm" / ".aider.llm.history"
_EDIT = """I will greet by name.

greet.py
```python
<<<<<<< SEARCH
def greet():
    print("hello")
=======
def greet(name):
    print(f"hello {name}")
>>>>>>> REPLACE
```"""
_EXPLAINED = "> A quoted line of the answer.\n\n#### A heading of the answer\n\nThe function takes a name now."
"""The answers of the scripted provider in the produced files."""


def test_each_chat_is_a_run_with_its_answers_and_exact_counts() -> None:
    rounded: dict[str, Any] = {"cost": 0.0066, "extra": {"rounded": {"input_tokens": "2.5k"}}}
    assert [said_in(run) for run in loaded(_CHATS)] == [
        [
            {"saw": 1, "text": _EDIT, "usage": {"output_tokens": 42} | rounded},
            {"saw": 3, "text": _EXPLAINED, "usage": {"output_tokens": 22} | rounded},
        ],
        [{"saw": 1, "text": None}],
        [{"saw": 1, "text": "Done.", "usage": {"input_tokens": 720, "output_tokens": 3, "cost": 0.0018}}],
    ]


def test_a_chat_has_its_task_model_and_time_and_a_failed_request_its_error() -> None:
    first, second, third = loaded(_CHATS)
    assert [run.task for run in (first, second, third)] == ["Greet by name.", "Fail,\nplease.", "Anything left?"]
    assert [call.model for call in first.llm_interactions] == ["openai/gpt-4o"] * 2
    assert first.start_time == "2026-11-25T10:12:09.000000+00:00"
    [failed] = second.llm_interactions
    assert failed.error is not None
    assert failed.error.to_document() == {
        "type": "BadRequestError",
        "message": "OpenAIException - the model is not there",
    }


def test_the_requests_have_the_prompts_that_were_sent() -> None:
    run = load(_REQUESTS)
    assert said_in(run) == [
        {"saw": 5, "text": _EDIT},
        {"saw": 9, "text": _EXPLAINED},
        {"saw": 5, "text": None},
        {"saw": 5, "text": "Done."},
    ]
    second = run.llm_interactions[1]
    assert second.timestamp == "2026-11-25T10:12:21.000000+00:00"
    assert [(message.role, message.content) for message in second.input_messages][1:5] == [
        ("user", "Greet by name."),
        ("assistant", _EDIT),
        ("user", "I committed the changes with git hash 7ee4bb5 & commit msg: feat: greet by name"),
        ("assistant", "Ok."),
    ]


def test_an_empty_answer_is_an_incomplete_call() -> None:
    failed = load(_REQUESTS).llm_interactions[2]
    assert (failed.complete, failed.ended_by) == (False, "the answer is empty")


def test_a_chat_with_trimmed_lines_is_read_the_same(tmp_path: Path) -> None:
    """Editors and hooks remove spaces at the ends of lines. The same run is read."""
    path = tmp_path / "history.md"
    path.write_text("\n".join(line.rstrip() for line in _CHATS.read_text(encoding="utf-8").splitlines()))
    first, *others = loaded(_CHATS)
    trimmed, *others_trimmed = loaded(path)
    assert said_in(trimmed)[0] == said_in(first)[0]
    assert list(map(said_in, others_trimmed)) == list(map(said_in, others))


def test_a_file_without_messages_is_one_run_with_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "history.md"
    path.write_text("\n# aider chat started at 2026-01-01 10:00:00\n\n> Aider v0.86.2  \n" * 3)
    [run] = loaded(path)
    assert [gap.why for gap in run.gaps] == ["the file, read as aider, has no calls and no messages"]


def test_a_chat_with_an_unreadable_line_is_a_run_with_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "history.md"
    heading = "\n# aider chat started at 2026-01-01 10:00:00\n"
    path.write_text(f"{heading}\n#### Hello  \n\nHi.\n{heading}#### {'x' * 2000}  \n")
    first, second = read_foreign_runs(Source(path, max_line_bytes=1000))
    assert [check_run(run, tmp_path).gaps != () for run in (first, second)] == [False, True]
    assert [event.what for event in facts_in(second, GapFact)] == ["line 9"]


def test_a_chat_whose_heading_has_no_time_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "history.md"
    path.write_text(
        "# aider chat started at noon\n#### Hello  \nHi.\n# aider chat started at 2026-01-01 10:00:00\n#### Bye  \n"
    )
    assert [run.task for run in loaded(path)] == ["Hello", "Bye"]


def test_unterminated_counts_are_searched_for_in_linear_time(tmp_path: Path) -> None:
    """A search through the rest of the text for each count would take hours."""
    path = tmp_path / "history.md"
    path.write_text(
        "# aider chat started at 2026-01-01 10:00:00\n#### Hello  \nHi.\n" + "> Tokens: 1 sent  \n" * 200_000
    )
    [run] = loaded(path)
    assert said_in(run) == [{"saw": 1, "text": "Hi."}]


def test_hidden_files_are_found_in_a_directory(tmp_path: Path) -> None:
    invoke("import", PRODUCED / "aider", "-o", tmp_path)
    assert len([*tmp_path.glob("aider-*.json")]) == 3
