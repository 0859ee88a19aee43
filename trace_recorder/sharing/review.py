"""The review: a person looks at each text that was found, and says whether it stays or is masked.

What is asked does not depend on a terminal: `questions_of` yields the questions, and `decided` makes a plan of answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from trace_recorder.sharing.contents import SharedContents
from trace_recorder.sharing.shared_file import SharePlan
from trace_recorder.sharing.tier_masker import identifies_people
from trace_recorder.storage.content_tiers.tiers import Content

Answer = Literal["keep", "mask"]
TOOL, MODEL, PATH = "tool", "model", "path"


class Question(NamedTuple):
    """A text that was found: its kind, where it is first, and in how many `places`. `usual` is what the tier does."""

    kind: str
    text: str
    where: str
    places: int
    usual: Answer


def questions_of(contents: SharedContents, content: Content) -> Iterator[Question]:
    """Yield what a person has to decide about. Without texts, identifiers are left, and ids are not asked for."""
    if content == "none":
        for kind, names in ((TOOL, contents.tools), (MODEL, contents.models)):
            for name, count in names.most_common():
                yield Question(kind, name, "", count, "keep")
        for other, count in contents.others.most_common():
            yield Question(other.member, other.text, "", count, "keep")
        return
    for text, count in contents.found.most_common():
        first = contents.places[text]
        path = "/".join(map(str, first.place.path)) or "the line"
        usual: Answer = "mask"
        if content == "full" and identifies_people(text.kind):
            usual = "keep"
        yield Question(text.kind, text.text, f"{first.run}, {first.place.kind or 'document'} {path}", count, usual)
    for path, count in contents.paths.most_common():
        yield Question(PATH, path, "", count, "keep")


def decided(plan: SharePlan, answers: Iterable[tuple[Question, Answer]]) -> SharePlan:
    """Return a plan with the answers. An answer that says what the tier does anyway changes nothing."""
    kept, removed = set(plan.kept), set(plan.removed)
    for question, answer in answers:
        if answer == question.usual:
            continue
        if answer == "keep":
            kept.add(question.text)
        else:
            removed.add(question.text)
    return SharePlan(plan.content, plan.names, frozenset(kept), frozenset(removed))
