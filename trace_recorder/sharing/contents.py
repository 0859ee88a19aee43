"""What is in the runs that are to be shared: for the summary before a file is written, and for the review.

Nothing is written here. Each journal is read once as `share` would rewrite it, and loaded once for its figures.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from trace_recorder.facts import StartFact
from trace_recorder.reading.own_files import load_own
from trace_recorder.sharing.identifiers import ID, Identifier, identifiers_of
from trace_recorder.sharing.runs import RunToShare
from trace_recorder.sharing.textless_runs import TextlessRuns
from trace_recorder.sharing.tier_masker import FoundText, TierMasker, identifies_people
from trace_recorder.storage.content_tiers.textless_journal import TextlessRecord
from trace_recorder.storage.content_tiers.tiers import Content
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.redaction.identities import Identities, identities_of_machine, users_in_homes
from trace_recorder.storage.rewritten_journal import RewrittenJournal
from trace_recorder.storage.text_edits import TextPlace
from trace_recorder.values.content_parts import Image, images_of, parts_of
from trace_recorder.values.message_equality import json_key
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.tool_uses import tool_uses_of
from trace_recorder.values.trajectory import Trajectory

MOST_PATHS = 500
"""At most this many different paths are kept."""
_PATH = re.compile(
    r"(?<![\w.:/\\<])(?:/(?:home|Users|root|etc|var|opt|tmp|usr|srv|mnt|media|private|data|work|app|workspace)"
    r"/[\w.@+-][\w./@+-]{0,200}|[A-Za-z]:\\{1,2}[\w.-][\w.\\ -]{0,200})"
)


class FoundPlace(NamedTuple):
    """The first place of a found text: the name of its run, and where it is in the journal."""

    run: str
    place: TextPlace


@dataclass(slots=True)
class SharedContents:
    """The contents of all runs together.

    `found` counts each secret, name and address by its text. `paths` counts absolute paths of files. If the runs are
    shared without texts, `others` counts the words that stay beside the names of tools and models. `ids` are their ids.
    """

    runs: int = 0
    journal_bytes: int = 0
    calls: int = 0
    steps: int = 0
    images: int = 0
    image_bytes: int = 0
    damaged_lines: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    others: Counter[Identifier] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    found: Counter[FoundText] = field(default_factory=Counter)
    places: dict[FoundText, FoundPlace] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)

    @property
    def secrets(self) -> Counter[str]:
        """How many places have secrets that today's rules find, by kind."""
        return Counter({kind: count for kind, count in self.kinds.items() if not identifies_people(kind)})

    @property
    def identities(self) -> Counter[str]:
        """How many places have names and addresses, by kind."""
        return Counter({kind: count for kind, count in self.kinds.items() if identifies_people(kind)})


def shared_contents(runs: Sequence[RunToShare], content: Content, textless: TextlessRuns) -> SharedContents:
    """Read the runs, and return what is in them, and in the file that is made of them.

    `textless` keeps the runs without their texts for the file. Raises OSError and TrajectoryFormatError.
    """
    names = dict.fromkeys(identities_of_machine(os.environ))
    for run in runs:
        names |= dict.fromkeys(_names_in(run))
    contents = SharedContents(runs=len(runs), names=[*Identities(names).names])
    for run in runs:
        _add_texts(contents, run)
        _add_figures(contents, load_own(run.journal))
    if content == "none":
        for run in runs:
            _add_identifiers(contents, textless.records(run))
    return contents


def _add_identifiers(contents: SharedContents, records: Iterable[TextlessRecord]) -> None:
    for identifier in identifiers_of(records):
        if identifier.member == ID:
            contents.ids.add(identifier.text)
        elif identifier.text not in contents.tools and identifier.text not in contents.models:
            contents.others[identifier] += 1


def _names_in(run: RunToShare) -> Iterable[str]:
    """Yield the names of users and hosts that a run states: in its first record, and in home directories."""
    with run.journal.open("rb") as file:
        first = next(read_records(file.readline()), None)
        if isinstance(first, Record) and isinstance(first.fact, StartFact) and first.fact.host:
            yield first.fact.host
            yield first.fact.host.partition(".")[0]
        file.seek(0)
        for line in file:
            if b"home/" in line or b"Users" in line:
                yield from users_in_homes(line.decode("utf-8", "replace"))


def _add_texts(contents: SharedContents, run: RunToShare) -> None:
    masker = TierMasker(Identities(contents.names))
    rewritten = RewrittenJournal(run.journal, masker)
    for _ in rewritten.lines():
        continue
    contents.damaged_lines += rewritten.counts.damaged
    contents.journal_bytes += run.journal.stat().st_size
    contents.found.update(masker.found)
    contents.kinds.update(masker.kinds)
    for text, place in masker.places.items():
        contents.places.setdefault(text, FoundPlace(run.name, place))
    with run.journal.open("rb") as file:
        for line in file:
            for path in _PATH.findall(line.decode("utf-8", "replace")):
                if path in contents.paths or len(contents.paths) < MOST_PATHS:
                    contents.paths[path] += 1


def _add_figures(contents: SharedContents, trajectory: Trajectory) -> None:
    contents.calls += len(trajectory.llm_interactions)
    contents.steps += len(trajectory.agent_steps)
    contents.tools.update(use.name for _, use in tool_uses_of(trajectory))
    sent = EqualMessages(json_key)
    for call in trajectory.llm_interactions:
        contents.models.update(sorted({str(model) for model in (call.model, call.response.model) if model}))
        contents.tools.update(sorted({tool.name for tool in call.tools if tool.name} - contents.tools.keys()))
        sent.shared_numbers_of(call.input_messages or ())
    messages = chain.from_iterable(map(parts_of, sent.messages))
    answers = chain.from_iterable(images_of(call.response) for call in trajectory.llm_interactions)
    images = {part.address: part for part in chain(messages, answers) if isinstance(part, Image)}
    contents.images += len(images)
    contents.image_bytes += sum(len(image.data or "") * 3 // 4 for image in images.values())
