"""Every export of real exchanges has every answer and question that the recorded bytes have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from tests.contents import real, shown
from tests.contents.comparing import EXPORTS, READERS
from tests.contents.shown import Conversation, Shown
from tests.formats.corpus_runs import record
from tests.searching import covering
from tests.wire.corpus import DIRECTORY, Exchange, kinds_of, load
from trace_recorder import Trajectory
from trace_recorder import load as load_run
from trace_recorder.formats.format_writer import EXPORT_FORMATS, OutputPlace

pytestmark = pytest.mark.skipif(not load(), reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")
TRAINING = frozenset({"openai", "trl", "trl-prompt_completion"})
"""Formats that leave out answers which were cut off, because they are not trained on."""
BY_STEP = dict.fromkeys(("hierarchy", "hierarchy-message"), shown.hierarchy_steps)
"""Formats whose steps are one conversation only if no history was rewritten. In the corpus histories are rewritten."""


def recordings() -> Sequence[list[Exchange]]:
    """Return the exchanges of each run. CI has a run for each kind of exchange."""
    all_of_them = [list(found) for _, found in groupby(load(), key=lambda one: one.source.partition("#")[0])]
    return covering(all_of_them, lambda exchanges: frozenset().union(*map(kinds_of, exchanges)))


def compared(exchanges: Iterable[Exchange]) -> list[tuple[Exchange, real.Said]]:
    """Return the exchanges whose answer has a form that can be compared."""
    answered = [exchange for exchange in exchanges if exchange.status == 200 and exchange.dialect in real.ANSWERS]
    return [(one, answer) for one in answered if (answer := _answer_of(one)) is not None]


@cache
def _answer_of(exchange: Exchange) -> real.Said | None:
    return real.answer_of(exchange.dialect, exchange.response_text, streamed=exchange.stream)


@cache
def _loaded(run: Path) -> Trajectory:
    return load_run(run)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[Exchange]]:
    """Return each recording of the corpus as a run."""
    directory = tmp_path_factory.mktemp("corpus")
    made = {directory / f"corpus_{number}.json": exchanges for number, exchanges in enumerate(recordings())}
    for path, exchanges in made.items():
        record(path, exchanges, exchanges[0].source)
    return made


def conversations(run: Path, export: str) -> list[Conversation]:
    """Return the conversations that an export of a run has."""
    name, *more = EXPORTS[export][0]
    view = EXPORT_FORMATS[name].with_options(more[1] if more else None)
    source = OutputPlace(run.stem, run.parent / export)
    pieces, _ = EXPORT_FORMATS[name].outputs(view, _loaded(run), source)
    payloads = [line for _, payload in pieces for line in payload] if name == "otlp" else [one for _, one in pieces]
    reader: Shown = BY_STEP.get(export, READERS[export])
    return reader(payloads, source.directory, "")


def keys(conversations: list[Conversation], export: str) -> set[str]:
    """Return keys of the exported answers. In ToolBrain the text before a tool call is a thought."""
    answers = [
        message for conversation in conversations for message in conversation.messages if message.role == "assistant"
    ]
    shown_as = [(answer.text, answer.calls) for answer in answers]
    if export == "toolbrain":
        shown_as += [(answer.thought, answer.calls) for answer in answers if answer.calls]
        shown_as += [
            ("", [("final_answer", {"answer": answer.text})]) for answer in answers
        ]  # ToolBrain has a final answer as a call of this name
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
def test_an_export_has_the_answers_of_real_models(export: str, runs: dict[Path, list[Exchange]]) -> None:
    """An export has the text of each answer with its calls and their arguments, and the texts of the users."""
    lost = {run.stem: found for run, exchanges in runs.items() if (found := missing(run, exchanges, export))}

    assert lost == {}


def test_most_answers_can_be_compared() -> None:
    """Only a few answers have a form that the comparison does not know."""
    chats = [one for one in load() if one.status == 200 and one.dialect in real.ANSWERS]

    assert len(compared(chats)) > 0.95 * len(chats)


def test_a_missing_answer_is_found(runs: dict[Path, list[Exchange]]) -> None:
    """All answers are reported as missing if the export of another run is compared."""
    (first, _), (_, others), *_ = runs.items()

    assert missing(first, others, "openai")
