"""The tool `search_texts`: searches prompts, answers and tools, as the command `grep` does.

Only plain text is searched for. A regular expression from outside could take longer than any time that is set for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from trace_recorder.catalog.matching_lines import MatchingLine, matching_lines
from trace_recorder.catalog.query import Term, parse_query
from trace_recorder.catalog.searched_values import PLACES, SearchPlace
from trace_recorder.mcp_server.answers import Json, fitting
from trace_recorder.mcp_server.listing import INDEX_ADVICE, failures_of
from trace_recorder.mcp_server.served_runs import FoundRun, MatchingRunReader, ServedRuns, WorkTime
from trace_recorder.mcp_server.server_tool import Query, ServerTool, ToolArguments
from trace_recorder.values.messages import without_none
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.parameters import BadRequestError

MAX_MATCHES = 200
_CURSOR = re.compile(r"([0-9]{1,9}):(.+)", re.DOTALL)


class SearchTexts(ToolArguments, frozen=True, kw_only=True):
    """The arguments of `search_texts`."""

    text: Annotated[
        str, Meta(description="The text to find. It is plain text of one line.", min_length=1, max_length=1000)
    ]
    ignore_case: bool = False
    run: Annotated[str, Meta(description="The `id` of a run, to search only there.", max_length=1000)] = ""
    query: Query = ""
    places: Annotated[tuple[SearchPlace, ...], Meta(description="Where to search.", min_length=1)] = PLACES
    limit: Annotated[int, Meta(description="At most this many lines.", ge=1, le=MAX_MATCHES)] = 30
    cursor: Annotated[
        str, Meta(description="`next_cursor` of the answer before, with the same other arguments.", max_length=1100)
    ] = ""


def search_texts(runs: ServedRuns, arguments: SearchTexts, time: WorkTime) -> Json:
    """Return lines that have the text, each with its run, step and call."""
    flags = re.NOFLAG
    if arguments.ignore_case:
        flags = re.IGNORECASE
    search = _TextSearch(re.compile(re.escape(arguments.text), flags), {*arguments.places}, time)
    if arguments.run:
        run = runs.opened(arguments.run)
        with run.lock:
            trajectory = run.answers.trajectory
        skipped = _skipped(arguments.cursor, arguments.run)
        lines = search.in_run(arguments.run, trajectory, skipped)
    else:
        lines = search.in_runs(runs, arguments)
    matches = []
    for match in lines:
        matches.append(match)
        if len(matches) > arguments.limit:
            break
    rows = fitting(map(_row, matches[: arguments.limit]), arguments.max_characters - 2500)
    answer: Json = {"matches": rows}
    if len(rows) < len(matches):
        following = matches[len(rows)]
        answer["next_cursor"] = f"{search.position_of(following)}:{following.file}"
    elif search.stopped_at is not None:
        answer["incomplete"] = f"the time was over before all runs were searched. {INDEX_ADVICE}"
        answer["next_cursor"] = f"0:{search.stopped_at}"
    return answer | failures_of(search.reader)


class _TextSearch:
    """A search over the texts of runs, which stops when its time is over. `stopped_at` is the next run then."""

    def __init__(self, expression: re.Pattern[str], places: set[SearchPlace], time: WorkTime) -> None:
        self.stopped_at: str | None = None
        self.reader = MatchingRunReader(())
        self._expression = expression
        self._places = places
        self._time = time
        self._positions: dict[int, int] = {}

    def position_of(self, match: MatchingLine) -> int:
        """Return how many matches of its run come before a match that was found."""
        return self._positions[id(match)]

    def in_run(self, identity: str, trajectory: Trajectory, skipped: int) -> Iterator[MatchingLine]:
        """Yield the matches in a run, without the first `skipped` ones."""
        matches = matching_lines(trajectory, identity, self._expression, self._places)
        for position, match in enumerate(matches):
            if position >= skipped:
                self._positions[id(match)] = position
                yield match

    def in_runs(self, runs: ServedRuns, arguments: SearchTexts) -> Iterator[MatchingLine]:
        """Yield the matches in the runs that match the query, from the run of the cursor on."""
        terms = parse_query(arguments.query)
        self.reader = MatchingRunReader(terms)
        if not arguments.ignore_case:
            terms += (Term("text", arguments.text),)  # an index knows which runs have the text
        waiting = runs.found(terms)
        skipped = 0
        if arguments.cursor:
            skipped, first = _place(arguments.cursor)
            waiting = _from(waiting, first)
        for run in waiting:
            if self._time.is_over:
                self.stopped_at = run.identity
                return
            trajectory = self.reader.read(run)
            if trajectory is not None:
                yield from self.in_run(run.identity, trajectory, skipped)
            skipped = 0


def _from(runs: Iterator[FoundRun], first: str) -> Iterator[FoundRun]:
    """Yield the runs from the run with an id on."""
    is_there = False
    for run in runs:
        is_there = is_there or run.identity == first
        if is_there:
            yield run
    if not is_there:
        raise BadRequestError("the run of the cursor does not match any more: search again without the cursor")


def _skipped(cursor: str, identity: str) -> int:
    if not cursor:
        return 0
    skipped, run = _place(cursor)
    if run != identity:
        raise BadRequestError("the cursor belongs to another run")
    return skipped


def _place(cursor: str) -> tuple[int, str]:
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise BadRequestError("the cursor is not one that search_texts returned")
    return int(match[1]), match[2]


def _row(match: MatchingLine) -> Json:
    return without_none(
        run=match.file, step=match.step, interaction=match.interaction_id, where=match.where, line=match.line
    )


SEARCH_TEXTS = ServerTool(
    "search_texts",
    "Search the prompts, answers, tool calls and tool results of runs for a text. Each match has its run, and the step "
    "or interaction that show_step takes. For regular expressions, use run_sql with regexp_matches.",
    SearchTexts,
    search_texts,
    seconds=20.0,
)
