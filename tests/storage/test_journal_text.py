"""The text of a journal that is not recorded live: numbers, times, and items of bodies and of known lists."""

from __future__ import annotations

from tests.journals import TIME, RawRecord, read_raw
from trace_recorder.facts import GapFact, LLMInteractionFact
from trace_recorder.formats.foreign_runs.run import ForeignConversation
from trace_recorder.storage.items.shared_lists import ListPrefix
from trace_recorder.storage.journal_text import JournalText
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

FACT = LLMInteractionFact(interaction_id="c", provider=None, model=None, response=None)


def text() -> JournalText:
    return JournalText(Redaction(default_redactor, {}))


def records(*lines: bytes) -> list[RawRecord]:
    return [record for record in read_raw(b"".join(lines)) if isinstance(record, RawRecord)]


def test_lines_have_numbers_and_the_given_times() -> None:
    """Each line has the next number, also after the items of a body. An element that is on file is no new item."""
    journal, gap, body = text(), GapFact(time="", what="a", why="b"), b'{"messages":[{"content":"a"}]}'

    lines = [
        *journal.lines_of(gap, TIME),
        *journal.lines_with_body(FACT, body, TIME, "all members"),
        *journal.lines_with_body(FACT, body, "", "all members"),
    ]

    assert [(record.seq, record.kind, record.time) for record in records(*lines)] == [
        (1, "gap", TIME),
        (2, "item", TIME),
        (3, "llm_interaction", TIME),
        (4, "llm_interaction", ""),
    ]


def test_known_lists_are_stored_once() -> None:
    """The elements of a list are written at its first prefix. A branch adds its own. An unknown list is null."""
    journal, trunk = text(), ForeignConversation()
    trunk.own += [{"content": "a"}, {"content": "b"}, {"content": "c"}]
    branch = trunk.branch(2)
    branch.add({"content": "d"})

    first = records(*journal.lines_with_lists(FACT, {"messages": ListPrefix(trunk, 1)}, {"n": 1}, TIME))
    second = records(*journal.lines_with_lists(FACT, {"messages": ListPrefix(branch, 3), "tools": None}, {}, TIME))

    assert [record.data["n"] for record in first[:-1]] == [0, 1, 2]
    assert (first[-1].data["items"], first[-1].data["body"]) == ({"messages": [[0, 0]]}, {"messages": None, "n": 1})
    assert [record.data["value"] for record in second[:-1]] == [{"content": "d"}]
    assert second[-1].data["items"] == {"messages": [[0, 1], [3, 3]]}
    assert second[-1].data["body"] == {"messages": None, "tools": None}
