"""The texts of a run's own records: how many are kept, and which of them are masked again."""

from __future__ import annotations

import pytest

from trace_recorder.recording.run_texts import MAX_REMEMBERED_CHARS, RunTexts
from trace_recorder.storage.fact_writer import FactWriter, record_of
from trace_recorder.storage.redaction.redactor import Redaction


@pytest.fixture(name="facts")
def _facts() -> FactWriter:
    """A writer whose redactor masks one word."""
    return FactWriter(Redaction(lambda text: text.replace("secret", "****"), {}))


def test_only_changed_texts_are_masked_again(facts: FactWriter) -> None:
    """A text that masking changes is returned once, with its record and its number of secrets."""
    texts = RunTexts()
    texts.keep(1, '"value":["a secret","a secret"]')
    texts.keep(2, '"value":"nothing"')

    [redaction] = texts.mask_again(facts.mask)

    assert record_of(redaction) == ("redaction", '{"of":1,"redacted":2,"value":["a ****","a ****"]}')
    assert [*texts.mask_again(facts.mask)] == []


def test_kept_texts_are_bounded(facts: FactWriter) -> None:
    """A text beyond the limit is not kept. A text that masking shortens makes room for others."""
    texts = RunTexts()
    texts.keep(1, f'"value":"{"secret" * ((MAX_REMEMBERED_CHARS - 10) // 6)}"')
    texts.keep(2, '"value":"no room for a secret"')
    assert [text.own["of"] for text in texts.mask_again(facts.mask)] == [1]

    texts.keep(3, '"value":"room for a secret"')

    assert [text.own["of"] for text in texts.mask_again(facts.mask)] == [3]


def test_a_text_that_a_handler_adds_meanwhile_is_kept(facts: FactWriter) -> None:
    """A text that a signal handler adds during masking is masked the next time."""
    texts = RunTexts()
    texts.keep(1, '"value":"a secret"')

    for text in texts.mask_again(facts.mask):
        texts.keep(text.own["of"] + 1, '"value":"another secret"')

    assert [text.own["of"] for text in texts.mask_again(facts.mask)] == [2]
