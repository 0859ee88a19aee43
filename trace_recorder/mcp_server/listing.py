"""The tools about many runs: `list_runs` and `run_stats`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from trace_recorder.catalog.query import parse_query
from trace_recorder.catalog.value_tables import KeptPart
from trace_recorder.figures.cost import may_have_price
from trace_recorder.figures.groups import MAX_GROUPINGS, GroupedRuns
from trace_recorder.figures.run_measures import measures_from, measures_of
from trace_recorder.figures.stats import Stats
from trace_recorder.mcp_server.answers import Cutter, Json, fitting
from trace_recorder.mcp_server.served_runs import MatchingRunReader, ServedRuns, WorkTime, identity_of
from trace_recorder.mcp_server.server_tool import Query, ServerTool, ToolArguments
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.parameters import BadRequestError, ListRequest, SortColumn

MAX_ROWS = 200
SHOWN_FAILURES = 3
"""An answer names at most this many runs that cannot be read."""
MAX_NAMES = 100
"""An answer has groups with at most this many names of each grouping."""
INDEX_ADVICE = "`trace-recorder index` in the directory makes an index, with which this is quick"
_CURSOR = re.compile(r"([0-9a-f]{1,16}\.[0-9]{1,9})/([0-9]{1,9})")


class ListRuns(ToolArguments, frozen=True, kw_only=True):
    """The arguments of `list_runs`."""

    query: Query = ""
    sort: Annotated[SortColumn, Meta(description="The column that decides the order.")] = "time"
    descending: Annotated[bool, Meta(description="The newest or the largest first.")] = True
    limit: Annotated[int, Meta(description="At most this many runs.", ge=1, le=MAX_ROWS)] = 20
    cursor: Annotated[
        str, Meta(description="`next_cursor` of the answer before, with the same other arguments.", max_length=100)
    ] = ""


def list_runs(runs: ServedRuns, arguments: ListRuns, time: WorkTime) -> Json:
    """Return rows of the list of runs."""
    request = ListRequest(query=arguments.query.strip(), column=arguments.sort, descending=arguments.descending)
    version, first = None, 0
    if arguments.cursor:
        match = _CURSOR.fullmatch(arguments.cursor)
        if match is None:
            raise BadRequestError("the cursor is not one that list_runs returned")
        version, first = match[1], int(match[2])
    request = replace(request, first=first, last=first + arguments.limit - 1)
    page = _page(runs, replace(request, version=version), time)
    answer: Json = {"count": page["count"], "total": page["total"]}
    if version is not None and page["version"] != version:
        answer["note"] = "the list has changed since the answer before: some runs may come twice, or not at all"
    unfinished = page["unread"] or page["unsearched"]
    if unfinished:
        answer["not_read_yet"] = f"{unfinished} runs; ask again for them. {INDEX_ADVICE}"
    if page["unreadable_count"] and not arguments.cursor:
        answer["unreadable_count"] = page["unreadable_count"]
        answer["unreadable"] = Cutter(1000).fit(page["unreadable"][:SHOWN_FAILURES], None)
    rows = [_row(row) for row in page["runs"] if row is not None]
    answer["runs"] = fitting(rows, arguments.max_characters - 2500)
    following = first + len(answer["runs"])
    if following < page["count"]:
        answer["next_cursor"] = f"{page['version']}/{following}"
    return answer


def _page(runs: ServedRuns, request: ListRequest, time: WorkTime) -> Json:
    """Return rows of the list, after all runs are read, or after the time is over."""
    if request.version is not None:
        return runs.list.page(request)
    page = runs.list.page(replace(request, since=""))
    while not time.is_over and (page["unread"] or page["unsearched"] or _lacks_costs(page, request)):
        page = runs.list.page(replace(request, since=""))
    return page


def _lacks_costs(page: Mapping[str, Payload], request: ListRequest) -> bool:
    """Return whether costs of the page's rows are still to be read, or the costs that decide the order."""
    if request.column == "cost" and page["without_costs"]:
        return True
    rows = (row for row in page["runs"] if row is not None)
    return any(
        row["cost"] is None and row["calls_without_price"] is None and may_have_price(row["status"], row["llm_calls"])
        for row in rows
    )


_COLUMNS = (
    *("task", "status", "success", "error", "provider", "model", "start_time", "execution_time_seconds", "steps"),
    *("llm_calls", "failed_llm_calls", "replayed_llm_calls", "tool_calls", "failed_tool_calls"),
    *("total_input_tokens", "output_tokens", "cost", "cost_estimated", "calls_without_price", "bytes"),
    *("trajectory_id", "session", "parent", "forked_from", "replay_of"),
)


def _row(row: Mapping[str, Payload]) -> Json:
    """Return the row of a run. Its long texts have pointers for `read_value`."""
    known = without_none(**{name: row.get(name) for name in _COLUMNS})
    if row["rewards"]:
        known["rewards"] = row["rewards"]
    fitted = Cutter(2000, longest=300).fit(known, "/run")
    return {"id": identity_of(row["id"]), **fitted}


LIST_RUNS = ServerTool(
    "list_runs",
    "List the recorded runs of AI agents, with status, model, steps, tokens, cost and time, and find runs by a query. "
    "The `id` of a run is what the other tools take.",
    ListRuns,
    list_runs,
)


class RunStats(ToolArguments, frozen=True, kw_only=True):
    """The arguments of `run_stats`."""

    query: Query = ""
    by: Annotated[
        tuple[str, ...],
        Meta(
            description="Compare groups of runs in place of sums: one or two of model, provider, task, agent, tool, "
            "day, status, meta:KEY.",
            max_length=MAX_GROUPINGS,
        ),
    ] = ()
    against: Annotated[
        str, Meta(description="With `by`: the name of the group that others are compared with.", max_length=1000)
    ] = ""


def run_stats(runs: ServedRuns, arguments: RunStats, time: WorkTime) -> Json:
    """Return sums over the runs that match a query, or a comparison of groups of these runs."""
    if arguments.against and not arguments.by:
        raise BadRequestError("`against` needs `by`")
    terms = parse_query(arguments.query)
    figures: _RunSums | _RunGroups = _RunSums()
    if arguments.by:
        figures = _RunGroups(arguments.by, arguments.against or None)
    reader, unread = MatchingRunReader(terms), 0
    for candidate in runs.found(terms, [figures.part]):
        if candidate.kept:
            figures.add_kept(candidate.kept[figures.part])
        elif time.is_over:
            unread += 1
        elif (trajectory := reader.read(candidate)) is not None:
            figures.add(trajectory)
    answer: Json = {}
    if unread:
        answer["incomplete"] = f"{unread} runs were not read in time, and are not counted. {INDEX_ADVICE}"
    return answer | failures_of(reader) | figures.answer(arguments.max_characters - 2000)


class _RunSums:
    """The sums over runs."""

    part: KeptPart = "stats"

    def __init__(self) -> None:
        self._stats = Stats()

    def add_kept(self, text: str) -> None:
        self._stats.merge(Stats.from_text(text))

    def add(self, run: Trajectory) -> None:
        self._stats.add(run)

    def answer(self, characters: int) -> Json:
        figures: Json = Cutter(characters).fit(self._stats.to_json(), None)
        return figures


class _RunGroups:
    """The groups of runs, and their differences. Raises QueryError for groupings that do not exist."""

    part: KeptPart = "measures"

    def __init__(self, by: tuple[str, ...], against: str | None) -> None:
        self._groups = GroupedRuns(by)
        self._against = against

    def add_kept(self, text: str) -> None:
        self._groups.add(measures_from(text))

    def add(self, run: Trajectory) -> None:
        self._groups.add(measures_of(run))

    def answer(self, characters: int) -> Json:
        """Return the first groups and differences that fit. The groups with the most runs come first."""
        comparison = self._groups.comparison(self._against, most_names=MAX_NAMES)
        facts = comparison.to_json()
        lists = {name: facts.pop(name) for name in ("groups", "differences")}
        facts["by"] = [{**entry, "names": len(entry["names"])} for entry in facts["by"]]
        answer: Json = Cutter(1500, longest=300).fit(facts, None)
        is_cut = any(len(names) > MAX_NAMES for names in comparison.names)
        room = characters - 1500
        if lists["differences"]:
            room //= 2
        for name, rows in lists.items():
            answer[name] = fitting(rows, room)
            is_cut = is_cut or len(answer[name]) < len(rows)
        if is_cut:
            answer["more"] = "not all groups are shown: select fewer runs with `query`, or give a larger max_characters"
        return answer


def failures_of(reader: MatchingRunReader) -> Json:
    """Return how many runs cannot be read, and some of them with the reasons."""
    if not reader.failures:
        return {}
    shown = [{"id": identity, "error": why} for identity, why in [*reader.failures.items()][:SHOWN_FAILURES]]
    return {"unreadable_count": len(reader.failures), "unreadable": Cutter(1000).fit(shown, None)}


RUN_STATS = ServerTool(
    "run_stats",
    "Sum up runs: how many ended how, calls, tokens, cost and time in total and by model, tools with their failures, "
    "rewards. With `by`, compare groups of runs: success, cost in US dollars, tokens, seconds, calls and tool errors, "
    "with 95 % confidence intervals, and pairs by task. A query selects the runs.",
    RunStats,
    run_stats,
    seconds=30.0,
)
