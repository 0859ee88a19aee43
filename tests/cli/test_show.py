"""`show` prints each content of a run once, without changes, and names missing contents."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.showing import label, shown
from tests.data.shown import ASSISTANT, RESULT, SYSTEM, TASK, by_hand, captured
from tests.data.written import Writing, asked, called, said
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.cli.text_layout import (
    MAX_CHARACTERS,
    MAX_LINES,
    Entry,
    EntryWriter,
    local_time,
    seconds,
)
from trace_recorder.values.control_characters import escape_control_characters
from trace_recorder.values.messages import Payload

CAPTURED = """\
run.jsonl
  task       Mend a.py
  status     unknown
  model      openai, gpt-4o
  time       2025-06-12 22:05:46 +0200
  calls      4 LLM calls (5 attempts, 1 min 20 s), 1 tool call, 4 steps
  tokens     1,200 in, 30 out, 1,000 read from the cache
  metadata   seed: 7

step 1, llm_1, calling_tool, 22:05:49
  call       openai gpt-4o (as gpt-4o-2024-08-06), openai-chat, 1.50 s, tool_calls
  prompt     2 messages
    system     You mend [b]code[/b].
    user       Mend a.py
  tokens     1,200 in, 30 out, 1,000 read from the cache
  answer     I look.
  tool       read_file {"path": "a.py"}
    result     print(\\x1b[1m)
               exit()

step 2, llm_2, completed, 22:05:53
  call       openai gpt-4o (as gpt-4o-2024-08-06), openai-chat, 1 min 17 s in 2 attempts, stop
  attempt    1, 20 ms, HTTP 429, rate_limit: later
  attempt    2, after a pause of 1.98 s, 1 min 15 s, inferred, HTTP 200
  prompt     4 messages: 2 as in llm_1, its answer, 1 result shown above
  answer     It prints nothing.

step 3, llm_3, thinking, 22:05:58
  call       openai gpt-4o, openai-chat, 1.50 s
  prompt     3 messages: 1 as in llm_1, its answer, 1 new; 1 of llm_1 gone
    user       Then mend it
  answer     Half an ans
  incomplete it ended early: the caller closed it

step 4, llm_4, thinking, 22:06:01
  call       openai gpt-4o, openai-chat
  prompt     1 message
    user       Mend a.py
  incomplete no answer is on file
"""

BY_HAND = """\
run.jsonl
  task       List
  status     failed, no success
  error      RuntimeError: lost
  model      anthropic, claude
  time       2025-06-12 22:05:46 +0200, took 8.25 s
  calls      2 LLM calls, 1 tool call (1 failed), 2 steps
  tokens     9 in, 2 out
  annotation judge: {"score": 3}
  reward     tests 0.5, weight 2.0 for step 1: half of them
  gap        2025-06-12 22:05:50 +0200: record a request: OSError: disk full

llm_1, 22:05:49
  call       anthropic claude, recorded by hand
  prompt     2 messages
    system     You mend [b]code[/b].
    user       Mend a.py
  tokens     9 in, 2 out
  answer     I list.
  tool       bash {"command": "ls"}

step 1, calling_tool, 22:05:50
  prompt     2 messages: 2 as in llm_1
  answer     as in llm_1
  tool       bash {"command": "ls"}
    result     a.py
               b.py
  failed     denied
  lakeview_summary It listed the files.

llm_2, 22:05:53
  call       anthropic claude, recorded by hand
  prompt     1 message: 1 result shown above
  answer     Done.

step 2, error, 22:05:54
  reflection Too easy.
  error      Bad: luck
"""


@pytest.fixture(autouse=True)
def _two_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a journal."""
    return tmp_path / "run.jsonl"


def test_a_captured_run_is_shown_step_by_step(path: Path) -> None:
    """`show` prints each message where it is new. It names attempts, broken streams and missing answers."""
    captured(path).journal.close()

    assert shown(path) == CAPTURED


def test_a_run_recorded_by_hand_is_shown_in_the_order_of_time(path: Path) -> None:
    """Calls and steps are in the order of time. A text that both have is printed once."""
    assert shown(by_hand(path)) == BY_HAND


def test_one_step_is_shown_alone(path: Path) -> None:
    """`show --step` prints no head, and the same new messages as `show` prints for that step."""
    captured(path).journal.close()

    assert shown(path, "--step", "2") == CAPTURED.split("\n\n")[2] + "\n"


def test_a_step_is_shown_with_its_calls(path: Path) -> None:
    """Calls with the number of the step are shown with the step."""
    writing = Writing(path)
    writing.request(1, asked(TASK), step_number=7, agent="scout")
    writing.response(1, body=said("Hi."))
    told: dict[str, Payload] = dict.fromkeys(("llm_response", "tool_calls", "tool_results", "reflection", "error"))
    writing.add_body("agent_step", {"llm_messages": None}, step_number=7, state="completed", agent="scout", **told)
    writing.journal.close()

    headings = [line for line in shown(path, "--step", "7").splitlines() if line[:1].strip()]
    assert headings == ["llm_1, in step 7, agent scout, 22:05:48", "step 7, completed, agent scout, 22:05:50"]


def test_an_open_call_is_distinguished_from_a_lost_call(path: Path) -> None:
    """During the run a call without an answer is waiting. After the run its answer is missing."""
    writing = captured(path, socket.gethostname())

    running = label(shown(path), "incomplete")
    writing.journal.close()
    assert (running[-1], label(shown(path), "incomplete")[-1]) == ("in flight, no answer yet", "no answer is on file")


def test_an_incomplete_stream_is_shown_as_incomplete(path: Path) -> None:
    """`show` prints the received part of a killed process's stream, and marks it as incomplete."""
    writing = Writing(path)
    writing.request(1, asked(TASK, stream=True))
    writing.stream(1, 'data: {"choices": [{"index": 0, "delta": {"content": "Hal"}}]}\n\n')
    writing.journal.close()

    output = shown(path)
    assert (label(output, "answer"), label(output, "incomplete")) == (
        ["Hal"],
        ["the rest of the answer is not on file"],
    )


def test_a_long_text_is_shortened(path: Path) -> None:
    """`show` shortens a long text and prints by how much. With --full the text is complete."""
    writing = Writing(path)
    writing.request(1, asked({"role": "user", "content": "x" * (MAX_CHARACTERS + 1234)}))
    writing.response(1, body=said("\n".join(map(str, range(MAX_LINES + 3)))))
    writing.journal.close()

    lines = shown(path).splitlines()
    assert label(shown(path), "user") == ["x" * MAX_CHARACTERS + "... (1,234 more characters)"]
    assert lines[-2:] == [" " * 13 + str(MAX_LINES - 1), " " * 13 + "... (9 more characters)"]
    assert label(shown(path, "--full"), "user") == ["x" * (MAX_CHARACTERS + 1234)]


def test_long_arguments_have_a_line_each(path: Path) -> None:
    """Long arguments of a tool are printed line by line, so that a file which the tool writes can be read."""
    writing = Writing(path)
    writing.request(1, asked(TASK))
    writing.response(1, body=said(None, called("c", "write", path="a.py", content="print()\n" * 20)))
    writing.journal.close()

    lines = shown(path).splitlines()
    at = lines.index("  tool       write")
    assert lines[at + 1 : at + 4] == ["    path       a.py", "    content    print()", "               print()"]


def test_an_image_is_not_shown_as_text(path: Path) -> None:
    """Parts that are not text are shown as JSON. Long strings in it are shortened."""
    image = {"type": "image_url", "image_url": {"url": "data:" + "A" * 5000}}
    writing = Writing(path)
    writing.request(1, asked({"role": "user", "content": [{"type": "text", "text": "See:"}, image]}))
    writing.journal.close()

    lines = shown(path).splitlines()
    shortened = "data:" + "A" * 195 + "... (4,805 more characters)"
    at = lines.index("    user       See:")
    assert lines[at + 1] == f'               {{"type": "image_url", "image_url": {{"url": "{shortened}"}}}}'


def test_cache_marks_make_no_message_new(path: Path) -> None:
    """A cache mark that moves from call to call does not make a message new, because it is not part of the
    conversation.
    """

    def marked(text: str) -> Payload:
        part = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
        return {"role": "user", "content": [part]}

    writing = Writing(path)
    writing.request(1, asked(SYSTEM, marked("one")))
    writing.response(1, body=said("ok"))
    answer = {"role": "assistant", "content": "ok"}
    writing.request(2, asked(SYSTEM, {"role": "user", "content": "one"}, answer, marked("two")))
    writing.journal.close()

    assert label(shown(path), "prompt") == ["2 messages", "4 messages: 2 as in llm_1, its answer, 1 new"]
    assert label(shown(path), "user") == ["one", "two"]


def test_an_answer_that_the_agent_changed_is_new(path: Path) -> None:
    """`show` prints an answer of the model or a tool result again if the agent changed it in the next prompt."""
    writing = Writing(path)
    writing.request(1, asked(TASK))
    writing.response(1, body=said("I look.", called("call_1", "read_file", path="a.py")))
    writing.request(2, asked(TASK, {**ASSISTANT, "content": "I looked."}, RESULT))
    writing.request(3, asked(TASK, ASSISTANT, {**RESULT, "content": "(left out)"}))
    writing.journal.close()

    assert label(shown(path), "prompt")[1:] == [
        "3 messages: 1 as in llm_1, 1 result shown above, 1 new",
        "3 messages: 1 as in llm_1, its answer, 1 new",
    ]


def test_all_answers_of_a_call_are_shown(path: Path) -> None:
    """If a call asked for several answers, each answer is shown with its number."""
    body = said("one")
    body["choices"].append({"index": 1, "message": {"role": "assistant", "content": "two"}, "finish_reason": "stop"})
    writing = Writing(path)
    writing.request(1, asked(TASK, n=2))
    writing.response(1, body=body)
    writing.journal.close()

    assert shown(path).splitlines()[-2:] == ["  answer     one", "  choice 1   two"]


def test_metadata_under_the_name_of_an_origin_is_shown(tmp_path: Path) -> None:
    """The line about a fork's origin replaces only metadata that a fork wrote, not the agent's own value of
    that name.
    """
    written = {"trajectory_id": "t", "file": "a.jsonl", "interaction_id": "llm_2", "step_number": 2}
    metadata_lines = {}
    for name, value in {"fork": written, "own": {"branch": "main"}}.items():
        with TrajectoryRecorder(tmp_path / f"{name}.json", metadata={"forked_from": value}):
            pass
        metadata_lines[name] = label(shown(tmp_path / f"{name}.json"), "metadata")

    assert metadata_lines == {"fork": [], "own": ['forked_from: {"branch": "main"}']}


def test_the_json_is_the_document_with_the_full_history(path: Path) -> None:
    """`--json` prints the result of `to_document`."""
    by_hand(path)

    assert json.loads(shown(path, "--json")) == load(path).to_document()


def test_long_lines_are_wrapped_beside_their_label() -> None:
    """In a narrow terminal the text stays beside its label. Colours appear only where the terminal supports them."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=34, legacy_windows=False)

    EntryWriter(console, full=False).write(
        [Entry("answer", "The tests of this project fail.\n\n  日本語 日本語 日本語", style="green")]
    )
    assert file.getvalue() == (
        "  answer     The tests of this\n"
        "             project fail.\n"
        "\n"
        "               日本語 日本語\n"
        "             日本語\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x07\x7f\x9b", "\\x1b[31mred\\x07\\x7f\\x9b"),
        ("a\r\nb\tc", "a\\r\nb\tc"),
        ("\u202eevil\u2066\ufeff", "\\u202eevil\\u2066\\ufeff"),
        ("\ud800", "\\ud800"),
        (
            "[bold]Grüße[/bold] :smile: \U0001f468\u200d\U0001f469",
            "[bold]Grüße[/bold] :smile: \U0001f468\u200d\U0001f469",
        ),
    ],
)
def test_terminal_controls_are_made_visible(text: str, expected: str) -> None:
    """Escapes, bells, and characters that change the direction of writing are made visible.

    Other characters are unchanged.
    """
    assert escape_control_characters(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (0.0004, "0 ms"),
        (0.25, "250 ms"),
        (0.9996, "1.00 s"),
        (9.996, "10.0 s"),
        (59.96, "1 min 00 s"),
        (3599.7, "1 h 00 min"),
        (7320, "2 h 02 min"),
        ("soon", "soon"),
    ],
)
def test_durations_are_printed_with_three_figures(value: Payload, expected: str) -> None:
    """Durations of any size have three figures. A value that is not a number is printed unchanged."""
    assert seconds(value) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [("2025-06-12T20:05:46Z", "2025-06-12 22:05:46 +0200"), ("yesterday", "yesterday"), (None, ""), (5, "5")],
)
def test_times_are_printed_in_the_local_zone(timestamp: Payload, expected: str) -> None:
    """`show` prints times in the local time zone, and prints a value that is not a time unchanged."""
    assert local_time(timestamp) == expected
