"""The command `share`: writes runs into one file for other people, after it has said what is in it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from trace_recorder.cli.arguments import DefaultRuns, IndexPath, check_names, completion_of, paths_or_default
from trace_recorder.cli.output import console, fail, print_lines
from trace_recorder.cli.read_files import process
from trace_recorder.cli.selecting import Where, select_runs, selection_of
from trace_recorder.cli.text_layout import in_one_line, pluralize
from trace_recorder.storage.content_tiers.tiers import CONTENTS, Content

if TYPE_CHECKING:
    from trace_recorder.sharing.contents import SharedContents
    from trace_recorder.sharing.identifiers import Identifier
    from trace_recorder.sharing.review import Answer, Question
    from trace_recorder.sharing.runs import RunToShare
    from trace_recorder.sharing.shared_file import Written

MOST_NAMES = 8
"""The summary names at most this many tools, paths or names."""
_SHOWN_CHARS = 200

Output = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="FILE", help="The file to write: a .zip, or an .html page that shows the runs."
    ),
]
ContentOption = Annotated[
    str,
    typer.Option(
        "--content",
        metavar="|".join(CONTENTS),
        help="How much is shared: everything, everything but names and addresses, or figures and structure alone.",
        autocompletion=completion_of(CONTENTS),
    ),
]
Review = Annotated[bool, typer.Option("--review", help="Ask about each text that was found: keep or mask it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Write the file without asking.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


def share(  # noqa: PLR0913, PLR0917 - one argument for each option
    output: Output,
    content: ContentOption,
    paths: DefaultRuns = None,
    where: Where = None,
    review: Review = False,
    yes: Yes = False,
    force: Force = False,
    index: IndexPath = None,
) -> None:
    """Write runs into one file that `load`, `view` and `import` read.

    Prints what is in the runs, asks, and then writes. The runs are never changed, and nothing is sent anywhere. With
    --content none, the file has no text of the runs: only structure, times, tokens, costs, names of tools and models,
    and digests of texts. docs/after.md says what each content leaves out.
    """
    from trace_recorder.sharing.shared_file import is_page_name  # noqa: PLC0415 - the help does not need it

    check_names([content], CONTENTS, "--content")
    tier: Content = next(each for each in CONTENTS if each == content)
    if not is_page_name(output) and output.suffix.lower() != ".zip":
        raise typer.BadParameter(f"{output} is neither a .zip nor an .html", param_hint="-o")
    if review and not sys.stdin.isatty():
        fail("--review asks questions, and the input is not a terminal. Nothing was written.")
    if output.is_dir():
        fail(f"{output} is a directory: give the name of a file as -o")
    if output.exists() and not force:
        fail(f"{output} exists: give another -o, or --force to replace it")
    selected = select_runs(paths_or_default(paths), selection_of(where), index=index)
    with TemporaryDirectory(prefix="trace-recorder-share-") as directory:
        _share(selected.paths, Path(directory), output, tier, review=review, yes=yes, force=force)
    if selected.unreadable:
        raise typer.Exit(1)


def _share(  # noqa: PLR0913 - the options of the command
    paths: list[Path], directory: Path, output: Path, content: Content, *, review: bool, yes: bool, force: bool
) -> None:
    from trace_recorder.sharing.contents import shared_contents  # noqa: PLC0415
    from trace_recorder.sharing.review import decided, questions_of  # noqa: PLC0415
    from trace_recorder.sharing.runs import runs_to_share  # noqa: PLC0415
    from trace_recorder.sharing.shared_file import SharePlan, write_shared_file  # noqa: PLC0415
    from trace_recorder.sharing.textless_runs import TextlessRuns  # noqa: PLC0415

    runs = process(paths[0], lambda: [*runs_to_share(paths, directory)], "shared")
    textless = TextlessRuns(directory)
    contents = process(paths[0], partial(shared_contents, runs, content, textless), "shared")
    print_lines(console(), _summary(contents, content))
    plan = SharePlan(content, contents.names)
    if review:
        plan = decided(plan, _answers([*questions_of(contents, content)]))
    if not yes and not _is_confirmed(output):
        return
    write = partial(write_shared_file, runs, output, plan, textless=textless, replace=force)
    written = process(output, write, "written")
    print_lines(console(), [_result(output, written, runs)])


def _is_confirmed(output: Path) -> bool:
    if not sys.stdin.isatty():
        fail(f"nothing was written: --yes writes {output} without asking")
    if typer.confirm(f"Write {output}?"):
        return True
    typer.echo("Nothing was written.")
    return False


def _result(output: Path, written: Written, runs: list[RunToShare]) -> str:
    text = f"wrote {output} ({written.size / 1e6:.1f} MB, {pluralize(len(runs), 'run')})"
    if written.masked:
        text += f", {pluralize(written.masked, 'place')} masked"
    if written.damaged:
        text += f", {pluralize(written.damaged, 'damaged line')}"
    return text


# ── the summary ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _summary(contents: SharedContents, content: Content) -> Iterator[str]:
    """Yield what is in the runs, a line for each kind, and what the tier does with it."""
    fates = _FATES[content]
    yield f"content   {content}: {fates.meaning}"
    yield (
        f"runs      {pluralize(contents.runs, 'run')}, {pluralize(contents.calls, 'call')}, "
        f"{pluralize(contents.steps, 'step')}, {contents.journal_bytes / 1e6:.1f} MB of journals"
    )
    yield f"secrets   {_kinds(contents.secrets)}: {fates.secrets}"
    yield f"people    {_kinds(contents.identities)}: {fates.people}"
    if contents.names:
        yield f"names     {_some(contents.names)}: {fates.people}"
    yield f"paths     {_some(contents.paths)}: {fates.paths}"
    yield f"images    {pluralize(contents.images, 'image')}, {contents.image_bytes / 1e6:.1f} MB: {fates.images}"
    yield f"tools     {_some(contents.tools)}: in the file"
    yield f"models    {_some(contents.models)}: in the file"
    if content == "none":
        others = (f"{other.member} {other.text}" for other in sorted(contents.others, key=_is_not_a_name))
        yield f"others    {_some(others)}: in the file"
        yield f"ids       {pluralize(len(contents.ids), 'id')}: in the file"
    if contents.damaged_lines:
        damage = pluralize(contents.damaged_lines, "line")
        yield f"damage    {damage} of journals that cannot be read: {fates.damage}"


class _Fates(NamedTuple):
    """What a tier means, and what it does with each kind of content, in words."""

    meaning: str
    secrets: str
    people: str
    paths: str
    images: str
    damage: str


_KEPT, _MASKED, _REMOVED = "in the file", "masked in the file", "not in the file"
_FATES: dict[Content, _Fates] = {
    "full": _Fates(
        meaning="everything, with secrets masked",
        secrets=_MASKED,
        people=_KEPT,
        paths=_KEPT,
        images=_KEPT,
        damage="in the file, masked as texts",
    ),
    "masked": _Fates(
        meaning="everything, with secrets, names of users and hosts, e-mail and IP addresses masked",
        secrets=_MASKED,
        people=_MASKED,
        paths="their names of users are masked",
        images=_KEPT,
        damage="in the file, masked as texts",
    ),
    "none": _Fates(
        meaning="structure and figures, and a digest in place of each text",
        secrets=_REMOVED,
        people=_REMOVED,
        paths=_REMOVED,
        images=_REMOVED,
        damage="left out",
    ),
}


def _is_not_a_name(identifier: Identifier) -> bool:
    """Return False for the names that a person gave, which are said first."""
    return identifier.member not in {"name", "provider", "state"}


def _kinds(counts: dict[str, int]) -> str:
    named = [f"{count} {kind}" for kind, count in sorted(counts.items(), key=lambda pair: -pair[1])]
    return ", ".join(named) or "no places found"


def _some(names: Iterable[str]) -> str:
    every = [*names]
    text = ", ".join(in_one_line(name)[:_SHOWN_CHARS] for name in every[:MOST_NAMES]) or "none found"
    if len(every) > MOST_NAMES:
        text += f", and {len(every) - MOST_NAMES} more"
    return text


# ── the review ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _answers(questions: list[Question]) -> Iterator[tuple[Question, Answer]]:
    """Ask each question, and yield it with its answer. Exits if the answer is to stop."""
    for number, question in enumerate(questions, 1):
        title = f"{number} of {len(questions)}: {question.kind}, {pluralize(question.places, 'place')}"
        if question.where:
            title += f" in {question.where}"
        print_lines(console(), [title, f"    {in_one_line(question.text)[:_SHOWN_CHARS]}"])
        word = typer.prompt("keep, mask or stop", default=question.usual).strip().lower()
        while word not in _WORDS:
            word = typer.prompt("Please say keep, mask or stop", default=question.usual).strip().lower()
        answer = _WORDS[word]
        if answer is None:
            fail("stopped: nothing was written")
        yield question, answer


_WORDS: dict[str, Answer | None] = {
    **dict.fromkeys(("keep", "k"), "keep"),
    **dict.fromkeys(("mask", "m"), "mask"),
    **dict.fromkeys(("stop", "s"), None),
}
