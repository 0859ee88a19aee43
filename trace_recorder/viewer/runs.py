"""The list of runs for the page. An answer has some rows of the list, filtered and sorted, and counts of all rows.

The time that an answer takes is bounded. All clients share one look at the files, and looks are rare if there are many
files (`followed_runs.py`). Runs are read for a third of a second at most while a client waits for an answer. The answer
says how many runs are still to be read, and when to ask again. Rows come from the table in `run_rows.py`. The order of
the rows is kept until the list changes.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex

from trace_recorder.catalog.matching import Search
from trace_recorder.catalog.query import parse_query
from trace_recorder.figures.cost import table_name
from trace_recorder.figures.groups import GroupedRuns, Grouping
from trace_recorder.viewer.followed_runs import SHARE, FollowedRuns, ServedFiles
from trace_recorder.viewer.parameters import ListRequest
from trace_recorder.viewer.parts import Json
from trace_recorder.viewer.run_groups import MAX_NAMES, KeptMeasures, groups_json
from trace_recorder.viewer.run_rows import Arrangement, RowNumbers

WORK_SECONDS = 0.3
"""`RunList` reads runs for at most this long while a client waits for a page of the list."""
ASIDE_SECONDS = 0.1
"""`_read_costs` reads calls for at most this long before an answer, if no client waits for the costs of these calls."""
POLL_SECONDS = 2.0
"""If nothing is to be read, an answer tells the client to wait at least this long before the next request."""
AGAIN_SECONDS = 0.05
"""If runs are still to be read and no other thread reads them, an answer tells the client to wait only this long."""
MAX_COSTS_AT_ONCE = 2000
"""If more runs than this have unknown costs, the costs of runs that are not on a client's screen are read slowly."""
MAX_UNREADABLE = 100
"""An answer names at most this many unreadable files."""
_MAX_SEARCHES = 32
_MAX_ARRANGEMENTS = 8
_WAIT_SECONDS = 5.0


class RunList:
    """The list of the runs in and below one directory, or of some files of it. Several threads may use the list.

    `paths` is one directory, or files of one directory. Raises ValueError for other paths. `index` is the path of the
    directory's index, if the index is not in the directory.
    """

    def __init__(self, *paths: Path, index: Path | None = None) -> None:
        self._files = ServedFiles(paths)
        self._followed = FollowedRuns(self._files, index)
        self._work_lock = threading.Lock()
        self._epoch = token_hex(4)
        self._searches: dict[str, Search] = {}
        self._arrangements: dict[tuple[ListRequest, int], Arrangement] = {}
        """The ordered rows of the last requests, by the request and the version of the list."""
        self._counts: tuple[int, Json] = (-1, {})
        self._measures: KeptMeasures | None = None
        self._comparisons: dict[tuple[ListRequest, int, tuple[Grouping, ...]], Json] = {}
        """The groups of the last requests, by the request, the version of the list and the groupings."""
        self._comparison_seconds = 0.0

    @property
    def directory(self) -> Path:
        """The directory of the runs."""
        return self._files.directory

    @property
    def file_names(self) -> Collection[str] | None:
        """The names of the served files, or None if all files of the directory are served."""
        return self._files.file_names

    def path_of(self, name: str) -> Path | None:
        """Return the path of a run, or None if it is not listed or its path now leads out of the directory."""
        if name not in self._followed:
            with self._working(_WAIT_SECONDS) as may_read:
                if may_read and self._followed.is_look_due():
                    self._followed.look()
        if name not in self._followed:
            return None
        return self._files.path_of(name)

    def relations_of(self, name: str, sources: Collection[str]) -> Json:
        """Return the ids of the related runs of the list.

        These are the run of which this run is a fork or a replay, its parent, and its own forks, replays and children.
        The runs with the trajectory ids `sources`, which gave answers to this run's calls, are related too.
        """
        with self._working() as may_read:
            if may_read and self._followed.is_look_due():
                self._followed.look()
            if may_read:
                self._read_runs(until=time.monotonic() + WORK_SECONDS)
        with self._followed.lock:
            return self._followed.rows.relations(name, sources)

    def only_name(self) -> str | None:
        """Return the id of the only run, or None if there is no run or more than one."""
        names = [*islice((name for name, _ in self._files.states()), 2)]
        return names[0] if len(names) == 1 else None

    def find(self, query: str) -> Json:
        """Return the ids of the runs that match a query, and their counts by status, model, tool and reward.

        Raises QueryError.
        """
        with self._working(None):
            search = self._search(query)
            self._read_all()
            self._read_for(search)
            names = [name for name in self._followed.names if name in search.matches]
            return {"runs": names, "counts": search.counts_json()}

    def page(self, request: ListRequest) -> Json:
        """Return rows of the list. Raises QueryError, and OSError if the directory cannot be read.

        If the request states no version, all runs that changed are read first. If the request states the version that
        the client has (`since`), only some of the changed runs are read. If the request asks for rows of a `version`,
        no run is read.
        """
        began, may_read = time.thread_time(), False
        parse_query(request.query)
        if request.since is None and request.version is None:
            with self._working(None) as may_read:
                self._read_all()
                if request.query:
                    self._read_for(self._search(request.query))
        elif request.version is None:
            with self._working() as may_read:
                if may_read:
                    began += self._work_for(request)
        with self._followed.lock:
            answer = self._answer(request)
        is_unfinished = answer["unread"] or answer["unsearched"] or self._waits_for_costs(request)
        if may_read and is_unfinished:
            pause = AGAIN_SECONDS
        else:
            pause = round(max(POLL_SECONDS, SHARE * (time.thread_time() - began)), 3)
        return {**answer, "next_seconds": pause}

    def groups(self, request: ListRequest, by: Sequence[str]) -> Json:
        """Return the comparison of groups of the runs that match a request for the list, as far as the runs are read.

        Runs are read for a bounded time. The answer says how many are still to be read, and when to ask again. The last
        complete answers are kept until the list changes. Raises QueryError.
        """
        began, groups = time.thread_time(), GroupedRuns(by)
        parse_query(request.query)
        with self._working(None):
            self._work_for(request)
            with self._followed.lock:
                version, rows = self._arrangement(request)
                unread = len(self._followed.unread) + self._followed.is_looking
            key = request.arrangement, version, groups.by
            answer = self._comparisons.pop(key, None)
            if unread or answer is None:
                answer = self._compared(groups, rows.numbers, unread)
            if not answer["unread"]:
                self._comparisons[key] = answer
            if len(self._comparisons) > _MAX_ARRANGEMENTS:
                del self._comparisons[next(iter(self._comparisons))]
        pause = AGAIN_SECONDS
        if not answer["unread"]:
            pause = round(max(POLL_SECONDS, SHARE * (time.thread_time() - began)), 3)
        return {**answer, "next_seconds": pause}

    def _compared(self, groups: GroupedRuns, numbers: RowNumbers, unread: int) -> Json:
        """Return the comparison of the runs of these rows.

        Their measures are read for as long as the last comparison took, or longer. So there are few comparisons of some
        of the runs, which cost more the more measures are known. `unread` is how many runs of the list are still to be
        read.
        """
        if self._measures is None:
            self._measures = KeptMeasures(self._followed.measures_in_index)
        with self._followed.lock:
            names, runs = self._followed.rows.names(numbers), {**self._followed.runs}
        until = time.monotonic() + max(WORK_SECONDS, self._comparison_seconds)
        unread += self._measures.read(names, runs, self._files.path_of, until)
        began = time.monotonic()
        unreadable = self._measures.fill(groups, names, runs)
        answer = groups_json(groups.comparison(most_names=MAX_NAMES))
        self._comparison_seconds = time.monotonic() - began
        return {**answer, "unread": unread, "unreadable": unreadable}

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _working(self, seconds: float | None = 0.0) -> Iterator[bool]:
        """Yield whether this thread may read. Wait at most `seconds` until a thread that is reading has finished."""
        timeout = -1 if seconds is None else seconds
        may_read = self._work_lock.acquire(timeout=timeout)
        try:
            yield may_read
        finally:
            if may_read:
                self._work_lock.release()

    def _read_all(self) -> None:
        self._followed.look()
        self._read_runs()
        self._recheck_running()

    def _work_for(self, request: ListRequest) -> float:
        """Look at the files and read runs for a client that follows the list. Return the seconds of the look."""
        began = time.thread_time()
        if request.since == "":
            is_looking = self._followed.is_look_due(POLL_SECONDS)
        else:
            is_looking = self._followed.is_look_due()
        if is_looking:
            self._followed.look(WORK_SECONDS)
        seconds = time.thread_time() - began
        until = time.monotonic() + WORK_SECONDS
        if not is_looking:
            self._followed.look_at_running()
        self._read_runs(until)
        if request.query:
            self._read_for(self._search(request.query), until)
        self._read_costs(request, until)
        self._recheck_running(until)
        return seconds

    def _read_runs(self, until: float = math.inf) -> None:
        while self._followed.unread and time.monotonic() < until:
            self._followed.read_one()

    def _recheck_running(self, until: float = math.inf) -> None:
        """Read running runs that did not change. No client waits for these runs, so they are read after all others."""
        while self._followed.rechecks and time.monotonic() < until:
            self._followed.read_one()

    def _read_for(self, search: Search, until: float = math.inf) -> None:
        """Read the runs that a search waits for."""
        followed = self._followed
        with followed.lock:
            followed.version += search.follow(followed.runs)
        while search.waiting and time.monotonic() < until:
            name = next(iter(search.waiting))
            path = self._files.path_of(name)
            counted = None
            if path is not None:
                counted = search.counted_in(path)
            with followed.lock:
                followed.version += search.take(name, counted)

    def _read_costs(self, request: ListRequest, until: float) -> None:
        """Read the calls of runs for their costs: first for the rows that were shown last, then for the newest runs."""
        if not self._waits_for_costs(request):
            until = min(until, time.monotonic() + ASIDE_SECONDS)
        while time.monotonic() < until:
            with self._followed.lock:
                rows = self._followed.rows
                name = rows.newest_without_costs(self._shown(request)) or rows.newest_without_costs()
            if name is None:
                break
            self._followed.read_costs(name)

    def _waits_for_costs(self, request: ListRequest) -> bool:
        """Return whether a client waits for costs.

        A client waits if a row on its screen has unknown costs, if costs decide the order or a filter, or if only few
        runs have unknown costs.
        """
        with self._followed.lock:
            rows = self._followed.rows
            unknown = rows.count_without_costs()
            decides = request.column == "cost" or any(term.field == "cost" for term in request.filters)
            is_shown = rows.newest_without_costs(self._shown(request)) is not None
            return unknown > 0 and (unknown <= MAX_COSTS_AT_ONCE or decides or is_shown)

    def _search(self, query: str) -> Search:
        """Return the search for a query. The last searches are kept with their results."""
        search = self._searches.get(query)
        if search is None:
            terms = parse_query(query)
            search = Search(terms, self._followed.known_to_index(terms))
        with self._followed.lock:
            self._searches.pop(query, None)
            self._searches[query] = search
            if len(self._searches) > _MAX_SEARCHES:
                del self._searches[next(iter(self._searches))]
        return search

    # ── answering, with the lock of the rows ─────────────────────────────────────────────────────────────────────

    def _answer(self, request: ListRequest) -> Json:
        followed, search = self._followed, self._searches.get(request.query)
        unsearched = 0
        if request.query and search is not None:
            unsearched = len(search.waiting)
        elif request.query:
            unsearched = len(followed.runs)
        if self._counts[0] != followed.version:
            self._counts = followed.version, followed.rows.counts()
        counts = self._counts[1]
        state = {
            "version": self._version_text(followed.version),
            "unread": len(followed.unread) + followed.is_looking,
            "unsearched": unsearched,
            "without_costs": counts["without_costs"],
        }
        if request.since == state["version"]:
            return {**state, "changed": False, "runs": []}
        version, (numbers, depths) = self._arrangement(request)
        shown = slice(request.first, request.last + 1)
        unreadable = heapq.nsmallest(MAX_UNREADABLE, followed.unreadable.items())
        return {
            **state,
            **counts,
            "version": self._version_text(version),
            "changed": True,
            "directory": str(self.directory),
            "count": len(numbers),
            "from": request.first,
            "runs": followed.rows.rows(numbers[shown], depths[shown]),
            "counts": None if search is None else search.counts_json(),
            "unreadable": [{"id": name, "error": reason} for name, (_, reason) in unreadable],
            "unreadable_count": len(followed.unreadable),
            "prices": table_name(),
        }

    def _arrangement(self, request: ListRequest) -> tuple[int, Arrangement]:
        """Return a version of the list, and the rows of the request in the order of that version.

        The version is the requested version if its rows are kept, or else the newest version.
        """
        key = request.arrangement
        kept = [version for kept_key, version in self._arrangements if kept_key == key]
        requested = (version for version in kept if request.version == self._version_text(version))
        version = next(requested, self._followed.version)
        arrangement = self._arrangements.pop((key, version), None)
        if arrangement is None:
            search = self._searches.get(request.query)
            names: Collection[str] | None = None
            if request.query and search is not None:
                names = search.matches
            elif request.query:
                names = ()
            arrangement = self._followed.rows.arranged(request, names)
        self._arrangements[key, version] = arrangement
        if len(self._arrangements) > _MAX_ARRANGEMENTS:
            del self._arrangements[next(iter(self._arrangements))]
        return version, arrangement

    def _shown(self, request: ListRequest) -> RowNumbers:
        """Return the numbers of the rows that a client was shown last."""
        kept = (rows.numbers for (key, _), rows in reversed(self._arrangements.items()) if key == request.arrangement)
        return next(kept, ())[request.first : request.last + 1]

    def _version_text(self, version: int) -> str:
        """Return a version as a text that no other server uses."""
        return f"{self._epoch}.{version}"
