"""Trace services that cannot be installed here, as local servers with the documented HTTP interface.

Each has a few traces, lists them in pages of one or two, notes which of them was requested, and fails on demand. The
services' real clients send the requests.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests import provider
from tests.formats.test_span_lists import phoenix_spans
from tests.formats.test_trace_exports import langfuse_trace, langsmith_runs

Members = dict[str, Any]
Answer = tuple[int, Any]


class StandIn:
    """A service with traces `t0`, `t1` …; `fetched` has the ids of the requested traces.

    `refuses` is an HTTP status for every request. `fails` has the statuses of requests for single traces; 0 closes the
    connection without an answer. `delay` is called before each answer.
    """

    def __init__(self, count: int) -> None:
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.refuses: int | None = None
        self.fails: dict[str, int] = {}
        self.delay: Callable[[], object] = lambda: None
        for _ in range(count):
            self.add()

    def add(self) -> str:
        """Add a trace, and return its id."""
        self.ids.append(self.new_id(len(self.ids)))
        self.keep(self.ids[-1])
        return self.ids[-1]

    def new_id(self, number: int) -> str:
        """Return the id of a new trace."""
        return f"t{number}"

    def keep(self, identity: str) -> None:
        """Store a new trace of this id."""
        raise NotImplementedError

    def answer(self, path: str, given: Members) -> Answer:
        """Return the status and the body of an answer."""
        raise NotImplementedError

    def asked(self, identity: str) -> int | None:
        """Note that a trace was requested. Return the status with which the request must fail, or None."""
        self.fetched.append(identity)
        return self.fails.get(identity)


def page(found: list[Any], given: Members, size: int) -> tuple[list[Any], str | None]:
    """Return one page of the list, and the cursor of the next page."""
    cursor = given.get("cursor") or "0"
    at = int(cursor[0] if isinstance(cursor, list) else cursor)
    return found[at : at + size], str(at + size) if at + size < len(found) else None


@contextmanager
def serving(service: StandIn) -> Iterator[str]:
    """Run the server of a service, and yield its address."""
    with provider.serving(partial(_answer, service)) as server:
        yield server.url


def _answer(service: StandIn, request: provider.Request) -> provider.Answer:
    split = urlsplit(request.path)
    parameters = parse_qs(split.query) | (json.loads(request.body) if request.body[:1] == b"{" else {})
    service.delay()
    status, value = (service.refuses, {}) if service.refuses else service.answer(split.path, parameters)
    if status == 0:
        return provider.CLOSED
    body = value if isinstance(value, str) else json.dumps(value)
    return provider.whole(body.encode(), status, **{"retry-after-ms": "1"})


class LangfuseServer(StandIn):
    """A project of Langfuse: `GET /api/public/v2/observations` and `/v3/scores`, which have cursors.

    Metadata is flat, as the server stores it. A value is cut after 200 characters unless the request names it.
    """

    name = "demo"

    def keep(self, identity: str) -> None:
        trace = langfuse_trace()
        self.scores = trace["trace"]["scores"]
        self.observations: list[Members] = getattr(self, "observations", [])
        long = {
            "attributes.gen_ai.operation.name": "chat",
            "attributes.gen_ai.response.id": f"{identity}-{'x' * 300}",
            "scope.name": "s",
            "plan": "p" * 300,
        }
        for observation in trace["observations"]:
            members = {
                "projectId": "p",
                "isRootObservation": observation["parentObservationId"] is None,
                "metadata": long,
            }
            members |= {
                "traceId": identity,
                "id": f"{identity}-{observation['id']}",
                "providedModelName": observation.pop("model", None),
            }
            members |= {
                "parentObservationId": observation["parentObservationId"]
                and f"{identity}-{observation['parentObservationId']}"
            }
            members |= {"updatedAt": observation["endTime"], "traceName": "weather", "sessionId": "s", "tags": ["a"]}
            self.observations.append({**observation, **members})

    def answer(self, path: str, query: Members) -> Answer:
        if path.endswith("/projects"):
            organization = {"id": "o", "name": "o"}
            return 200, {"data": [{"id": "p", "name": self.name, "metadata": {}, "organization": organization}]}
        if path.endswith("/v3/scores"):
            told = {"projectId": "p", "source": "API", "environment": "default", "timestamp": "2025-10-09T09:00:00Z"}
            dates = {"createdAt": "2025-10-09T09:00:00Z", "updatedAt": "2025-10-09T09:00:00Z"}
            found = [
                {**told, **dates, "id": str(at), **one, "value": one["value"] or one["stringValue"]}
                for at, one in enumerate(self.scores)
            ]
            listed, cursor = page(found, query, 1)
            return 200, {"data": listed, "meta": {"limit": 1} | ({"cursor": cursor} if cursor else {})}
        if not path.endswith("/v2/observations"):
            return 404, {"message": "no such route"}
        return self._observations(query)

    def _observations(self, query: Members) -> Answer:
        wanted = query.get("traceId", [None])[0]
        status = wanted and self.asked(wanted)
        if status is not None:
            return status, {"message": f"about {wanted}"}
        roots = query.get("isRootObservation") == ["true"]
        matching = [
            observation
            for observation in self.observations
            if (observation["isRootObservation"] if roots else observation["traceId"] == wanted)
        ]
        listed, cursor = page(matching, query, 2)
        expanded = query.get("expandMetadata", [""])[0].split(",")
        return 200, {
            "data": [_with_metadata(one, expanded) for one in listed],
            "meta": {"cursor": cursor} if cursor else {},
        }


def _with_metadata(one: Members, expanded: list[str]) -> Members:
    metadata = {name: value if name in expanded else value[:200] for name, value in one["metadata"].items()}
    return one | {"metadata": metadata}


class LangSmithServer(StandIn):
    """A project of LangSmith: `/api/v2/traces`, from version 0.16 of the server on, or `/runs/query` before."""

    def __init__(self, count: int, version: str = "0.17.1") -> None:
        self.version = version
        self.runs: dict[str, list[Members]] = {}
        super().__init__(count)

    def new_id(self, number: int) -> str:
        return str(uuid.UUID(int=number + 1))

    def keep(self, identity: str) -> None:
        ids = {run["id"]: str(uuid.uuid4()) for run in langsmith_runs()} | {"r1": identity}
        told = [run | {"session_id": str(uuid.uuid4()), "app_path": "x"} for run in langsmith_runs()]
        for run in told:
            run |= {name: ids.get(run[name] or "") for name in ("id", "trace_id", "parent_run_id")}
        self.runs[identity] = told

    def answer(self, path: str, query: Members) -> Answer:
        if path.endswith("/info"):
            return 200, {"version": self.version}
        if path.endswith("/sessions"):
            project = {"id": str(uuid.UUID(int=7)), "tenant_id": str(uuid.uuid4()), "name": "demo"}
            is_known = query.get("name") == ["demo"]
            return 200, [project | {"start_time": "2025-10-09T00:00:00", "reference_dataset_id": None}] * is_known
        if path.endswith("/runs/query"):
            return self._before(query)
        if path.startswith("/api/v2/traces"):
            return self._traces(path, query)
        return 404, {"detail": "no such route"}

    def _before(self, query: Members) -> Answer:
        trace_id = query.get("trace")
        status = trace_id and self.asked(trace_id)
        if status is not None:
            return status, {}
        found = self.runs[trace_id] if trace_id else [runs[0] for runs in self.runs.values()]
        listed, cursor = page(found, query, 1)
        return 200, {"runs": listed, "cursors": {"next": cursor}}

    def _traces(self, path: str, query: Members) -> Answer:
        if self.version < "0.16":
            return 404, {"detail": "no such route"}
        if path.endswith("/query"):
            assert query["min_start_time"] < "2023", "the service lists one day unless it is told since when"
            listed, cursor = page([runs[0] for runs in self.runs.values()], query, 2)
            return 200, {"items": [{"root_run": _selected(one, query)} for one in listed], "next_cursor": cursor}
        trace_id = path.split("/")[-2]
        status = self.asked(trace_id)
        return (status, {}) if status is not None else (200, {"items": [_v2(one) for one in self.runs[trace_id]]})


def _v2(run: Members) -> Members:
    """Return a run in the form of the newer interface."""
    parents = [run["parent_run_id"]] if run["parent_run_id"] else []
    return {**run, "run_type": run["run_type"].upper(), "parent_run_id": None, "parent_run_ids": parents}


def _selected(run: Members, given: Members) -> Members:
    return {name: value for name, value in run.items() if name.upper() in given["selects"]}


class PhoenixServer(StandIn):
    """A project of Phoenix, whose lists have two spans on each page."""

    def keep(self, identity: str) -> None:
        self.spans: list[Members] = getattr(self, "spans", [])
        self.spans += [span | {"context": span["context"] | {"trace_id": identity}} for span in phoenix_spans()]

    def answer(self, path: str, query: Members) -> Answer:
        if not path.endswith("/spans"):
            return 200, "99.0.0"  # the client asks for the version of the server
        if "/demo/" not in path:
            return 404, "no such project"
        traces, roots = query.get("trace_id", []), "parent_id" in query
        status = self.asked(traces[0]) if traces else None
        if status is not None:
            return status, {}
        wanted = [
            span
            for span in self.spans
            if (not traces or span["context"]["trace_id"] in traces) and not (roots and span["parent_id"])
        ]
        listed, cursor = page(wanted, query, 2)
        return 200, {"data": listed, "next_cursor": cursor}
