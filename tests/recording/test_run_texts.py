"""The texts of a run's own records: how many are kept, and which of them are masked again."""

from __future__ import annotations

from trace_recorder.recording.run_texts import MAX_REMEMBERED_CHARS, RunTexts


def mask(text: str) -> tuple[str, int]:
    return text.replace("secret", "****"), text.count("secret")


def test_only_changed_texts_are_masked_again() -> None:
    """A text that masking changes is returned once, with its record and its number of secrets."""
    texts = RunTexts()
    texts.keep(1, "a secret, a secret")
    texts.keep(2, "nothing")

    assert [*texts.mask_again(mask)] == [(1, "a ****, a ****", 2)]
    assert [*texts.mask_again(mask)] == []


def test_kept_texts_are_bounded() -> None:
    """A text beyond the limit is not kept. A text that masking shortens makes room for others."""
    texts = RunTexts()
    texts.keep(1, "secret" * (MAX_REMEMBERED_CHARS // 6))
    texts.keep(2, "no room for a secret")
    assert [seq for seq, _, _ in texts.mask_again(mask)] == [1]

    texts.keep(3, "room for a secret")

    assert [seq for seq, _, _ in texts.mask_again(mask)] == [3]


def test_a_text_that_a_handler_adds_meanwhile_is_kept() -> None:
    """A text that a signal handler adds during masking is masked the next time."""
    texts = RunTexts()
    texts.keep(1, "a secret")

    for seq, _, _ in texts.mask_again(mask):
        texts.keep(seq + 1, "another secret")

    assert [seq for seq, _, _ in texts.mask_again(mask)] == [2]
