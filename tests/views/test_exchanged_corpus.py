"""Every export of real exchanges has every answer and question that their own bytes have."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from tests.contents import real, shown
from tests.contents.comparing import EXPORTS, READERS
from tests.contents.shown import Conversation, Shown
from tests.views.corpus_runs import corpus_runs
from tests.wire.corpus import DIRECTORY, Exchange, load
from trace_recorder import load as load_run
from trace_recorder.views.export_format import EXPORT_FORMATS, OutputPlace

pytestmark = pytest.mark.skipif(not load(), reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")
TRAINING = frozenset({"openai", "trl", "trl-prompt_completion"})
"""Which leave out what was cut off: it is nothing to be trained on."""
BY_STEP = dict.fromkeys(("hierarchy", "hierarchy-message"), shown.hierarchy_steps)
"""Whose runs are of one conversation only where nothing is rewritten, which these are not."""


def recordings() -> list[list[Exchange]]:
    """The exchanges of each run."""
    return [list(found) for _, found in groupby(load(), key=lambda one: one.source.partition("#")[0])]


def compared(exchanges: list[Exchange]) -> list[tuple[Exchange, real.Said]]:
    """Return the exchanges with an answer of a form that is compared."""
    answered = [exchange for exchange in exchanges if exchange.status == 200 and exchange.dialect in real.ANSWERS]
    found = [(one, real.answer_of(one.dialect, one.response_text, streamed=one.stream)) for one in answered]
    return [(one, answer) for one, answer in found if answer is not None]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[Exchange]]:
    """Each recording of the corpus as a run."""
    made = corpus_runs(tmp_path_factory.mktemp("corpus"))
    return dict(zip(made, recordings(), strict=True))


def conversations(run: Path, export: str) -> list[Conversation]:
    """Return the conversations that an export of a run shows."""
    name, *more = EXPORTS[export][0]
    view = EXPORT_FORMATS[name].with_options(more[1] if more else None)
    source = OutputPlace(run.stem, run.parent / export)
    pieces, _ = EXPORT_FORMATS[name].outputs(view, load_run(run), source)
    payloads = [line for _, payload in pieces for line in payload] if name == "otlp" else [one for _, one in pieces]
    reader: Shown = BY_STEP.get(export, READERS[export])
    return reader(payloads, source.directory, "")


def keys(conversations: list[Conversation], export: str) -> set[str]:
    """Return the shown answers; in ToolBrain the text before a tool call is a thought."""
    answers = [
        message for conversation in conversations for message in conversation.messages if message.role == "assistant"
    ]
    shown_as = [(answer.text, answer.calls) for answer in answers]
    if export == "toolbrain":
        shown_as += [(answer.thought, answer.calls) for answer in answers if answer.calls]
        shown_as += [
            ("", [("final_answer", {"answer": answer.text})]) for answer in answers
        ]  # a tool that is no tool there
    return {real.Said(text, [[*call] for call in calls]).key() for text, calls in shown_as}


def missing(run: Path, exchanges: list[Exchange], export: str) -> list[str]:
    """Return the texts that the export does not show."""
    found = conversations(run, export)
    answers = keys(found, export)
    asked = "\n\n".join(one.text for talk in found for one in talk.messages if one.role in {"user", "prompt"})
    lost = []
    for exchange, answer in compared(exchanges):
        if export in TRAINING and real.was_cut(exchange.response_text):
            continue
        lost += [answer.key()] * (answer.key() not in answers)
        lost += [text for text in real.asked_of(exchange.request) if text not in asked]
    return lost


@pytest.mark.parametrize("export", EXPORTS)
def test_an_export_holds_what_real_models_said(export: str, runs: dict[Path, list[Exchange]]) -> None:
    """The text of each answer with its calls and their arguments, and the texts of the users."""
    lost = {run.stem: found for run, exchanges in runs.items() if (found := missing(run, exchanges, export))}

    assert lost == {}


def test_most_answers_are_of_a_form_that_is_compared() -> None:
    """Only a few answers have a form that the comparison does not know."""
    chats = [one for one in load() if one.status == 200 and one.dialect in real.ANSWERS]

    assert len(compared(chats)) > 0.95 * len(chats)


def test_an_answer_that_is_not_shown_is_found(runs: dict[Path, list[Exchange]]) -> None:
    """The export of another run shows no part of an answer."""
    (first, _), (_, others), *_ = runs.items()

    assert missing(first, others, "openai")
