"""A run from which texts were removed can still be replayed and forked."""

from __future__ import annotations

import json
from pathlib import Path

import openai
import pytest

from tests.rerun.runs import ask, client, record, said
from trace_recorder import ReplayMismatchError, fork, redact, replay

MASK = "[REDACTED:removed]"
ASKED = "Who is Ann Lee, and how old?"


def test_a_redacted_run_is_replayed(tmp_path: Path) -> None:
    """The mask in the recorded request equals the text in the live request. The answer comes with its mask."""
    path = tmp_path / "run.json"
    record(path, [said("Ann Lee is 7")], lambda model: ask(model, ASKED))
    redact(path, text="Ann Lee")

    with replay(path) as replayed:
        answer = ask(replayed.wrap(client()), ASKED)

    assert answer == f"{MASK} is 7"


def test_a_mismatch_says_that_texts_were_removed(tmp_path: Path) -> None:
    """A text that a function has changed does not equal the live text, and the message says why."""
    path = tmp_path / "run.json"
    record(path, [said("Ann Lee is 7")], lambda model: ask(model, ASKED))
    redact(path, function=lambda text: text.replace("Ann", "X"))

    with replay(path, strict=False) as replayed, pytest.raises(openai.APIConnectionError) as refused:
        ask(replayed.wrap(client()), ASKED)

    assert isinstance(refused.value.__cause__, ReplayMismatchError)
    assert "Texts were removed from this recording" in str(refused.value.__cause__)


def test_a_redacted_run_is_forked(tmp_path: Path) -> None:
    """The call before the fork point is answered from the redacted run."""
    path = tmp_path / "run.json"

    def twice(model: openai.OpenAI) -> list[str]:
        return [ask(model, ASKED), ask(model, "and then?")]

    record(path, [said("Ann Lee is 7"), said("nothing")], twice)
    redact(path, text="Ann Lee")

    with fork(path, at="llm_2", answer=json.loads(said("nothing else").chunks[0])) as branch:
        answers = twice(branch.wrap(client()))

    assert answers == [f"{MASK} is 7", "nothing else"]
