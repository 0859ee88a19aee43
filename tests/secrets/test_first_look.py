"""The first look finds all words at once: by the automaton, and by the plain pattern where there is no automaton."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.processes import python
from tests.secrets import hostile
from tests.secrets.corpus import innocent, keys
from trace_recorder.storage.redaction.first_look import WORDS, Look, find_words, find_words_by_pattern


def drawn(seed: int, size: int) -> str:
    """Draw a text of words and parts of words, in any case, with other letters between them."""
    random = Random(seed)
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        word = random.choice(WORDS).decode()
        word = random.choice([word, word.upper(), word[: random.randint(1, len(word))], "a" * random.randint(1, 40)])
        parts.append(word + random.choice(["", "", " ", "é", "→ ", '"', "\n", "\ud800"]))
    return "".join(parts)


TEXTS = {
    "keys": [key.text for key in keys(2)],
    "innocent": [*innocent().values()],
    "hostile": [text for _, text in (*hostile.pumped(600), *hostile.mixed(600, 60))],
    "drawn": [drawn(seed, size) for seed, size in enumerate((0, 1, 40, 700, 5000, 20_000))],
}


def places_of(word: bytes, data: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)


@pytest.mark.parametrize("kind", TEXTS)
def test_both_searches_find_the_same_words(kind: str) -> None:
    """The automaton and the plain pattern find each word at each position, also within other words."""
    assert find_words() != find_words_by_pattern()
    for text in TEXTS[kind]:
        data = text.encode("latin-1", "replace").lower()
        exact = sorted(
            (number, at, at + len(word)) for number, word in enumerate(WORDS) for at in places_of(word, data)
        )

        assert sorted(find_words()(data)) == sorted(find_words_by_pattern()(data)) == exact


@pytest.mark.parametrize("kind", TEXTS)
def test_without_the_automaton_the_same_places_are_found(kind: str) -> None:
    """An interpreter that has no `ahocorasick_rs` gets the same looks."""
    looks = [Look(text) for text in TEXTS[kind]]
    plain = [Look(text, find_words_by_pattern()) for text in TEXTS[kind]]

    assert [(look.literals, look.names, look.marks, look.runs) for look in looks] == [
        (look.literals, look.names, look.marks, look.runs) for look in plain
    ]


BUSY_DAEMONS = """
    import threading
    from trace_recorder.storage.redaction.text_masking import default_redactor
    text = "def f(token): return key\\n" * 2000
    masked = threading.Semaphore(0)
    def mask():
        while True:
            default_redactor(text)
            masked.release()
    for _ in range(8):
        threading.Thread(target=mask, daemon=True).start()
    for _ in range(40):
        masked.acquire()
"""


def test_the_interpreter_ends_while_daemons_search() -> None:
    """A daemon thread that is inside the automaton when the interpreter ends does not abort the process."""
    ended = python(BUSY_DAEMONS)

    assert (ended.returncode, ended.stderr) == (0, "")
