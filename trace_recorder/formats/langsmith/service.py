"""The runs of a project of LangSmith, fetched with LangSmith's own client (`pip install 'trace-recorder[langsmith]'`).

The client takes its key and address from LANGSMITH_API_KEY and LANGSMITH_ENDPOINT. The client's resource `traces` lists
traces page by page, and the runs of a trace. Servers before 0.16 do not have this resource. For such a server,
`list_runs` is used, although the client marks it as deprecated.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.langsmith.reading import runs_of
from trace_recorder.formats.trace_services import FetchError, ListedTrace, client_module
from trace_recorder.values.messages import Payload

_BEGINNING = datetime(2022, 1, 1, tzinfo=UTC)
"""A time before the service existed. Without a start time, the service lists only the last 24 hours."""
_TRACES_A_PAGE = 100
_LISTED = ["ID", "TRACE_ID", "END_TIME", "FEEDBACK_STATS"]
_SELECTED = [
    *("ID", "TRACE_ID", "PARENT_RUN_IDS", "DOTTED_ORDER", "NAME", "RUN_TYPE", "START_TIME", "END_TIME", "STATUS"),
    *("ERROR", "EXTRA", "METADATA", "EVENTS", "INPUTS", "OUTPUTS", "TAGS", "FEEDBACK_STATS"),
]
_FIRST_VERSION = (0, 16)
"""The first version of the server that has traces as a resource."""
_PUBLIC = "api.smith.langchain.com"
_NO_KEY = "There is no key for LangSmith: put it into the environment variable LANGSMITH_API_KEY."


@dataclass(slots=True)
class LangSmith:
    """One project of LangSmith.

    `client` is a `langsmith.Client`. By default, a client is made with the address and the key in the environment.
    """

    project: str
    client: Payload = None
    format: str = "langsmith"
    settings: str = "LANGSMITH_API_KEY and LANGSMITH_ENDPOINT"
    _project_id: str = ""
    _resource: Payload = None
    """The client's resource `traces`, or None if the server does not have this resource."""

    @property
    def address(self) -> str:
        """The service and the project, as `service:project`."""
        return f"langsmith:{self.project}"

    def traces(self) -> Iterator[ListedTrace]:
        """Yield the traces of the project, the newest first."""
        client = self._connected()
        self._project_id = str(client.read_project(project_name=self.project).id)
        self._resource = None
        if _is_old(client):
            yield from (
                ListedTrace(root["trace_id"], _version(root)) for root in self._runs_of_old_server(is_root=True)
            )
            return
        self._resource = _newer_client(client).traces
        roots = self._resource.query(
            project_id=self._project_id, min_start_time=_BEGINNING, page_size=_TRACES_A_PAGE, selects=_LISTED
        )
        for root in (_members(trace.root_run) for trace in roots):
            yield ListedTrace(as_text(root.get("trace_id")) or root["id"], _version(root))

    def run(self, trace: ListedTrace) -> ForeignRun | None:
        """Fetch the runs of a trace."""
        if self._resource is None:
            return next(runs_of(self._runs_of_old_server(trace_id=trace.identity)), None)
        listed = self._resource.list_runs(trace.identity, project_id=self._project_id, selects=_SELECTED)
        return next(runs_of(_exported_run(_members(run)) for run in listed.items or ()), None)

    def _runs_of_old_server(self, **filters: Payload) -> Iterator[Members]:
        """Yield LangSmith's runs from a server without the resource `traces`."""
        with warnings.catch_warnings(action="ignore"):  # the client warns that `list_runs` is deprecated
            runs = self._connected().list_runs(project_id=self._project_id, **filters)
        yield from (as_dict(json.loads(run.model_dump_json())) for run in runs)

    def _connected(self) -> Payload:
        if self.client is None:
            # A client that traces has a thread, which asks the service by itself, and does so without a key.
            client = client_module("langsmith", "langsmith").Client(auto_batch_tracing=False)
            if not client.api_key and _PUBLIC in str(client.api_url):
                raise FetchError(_NO_KEY)
            self.client = client
        return self.client


def _is_old(client: Payload) -> bool:
    """Return whether the server's version is older than the first version with the resource `traces`."""
    version = re.match(r"(\d+)\.(\d+)", str(client.info.version or ""))
    return version is not None and (int(version[1]), int(version[2])) < _FIRST_VERSION


def _newer_client(client: Payload) -> Payload:
    """Return the newer, synchronous client of the same package, for the same server and key."""
    address = re.sub(r"(/api/v1|/api)?/?$", "", str(client.api_url))
    workspace = None
    if client.workspace_id:
        workspace = str(client.workspace_id)
    return client_module("langsmith", "langsmith").Langsmith(
        api_key=client.api_key, base_url=address, tenant_id=workspace
    )


def _members(run: Payload) -> Members:
    """Return a run as the server sent it, or {} for None."""
    if run is None:
        return {}
    return as_dict(json.loads(run.to_json()))


def _version(root: Members) -> str:
    """Return the time of a trace's end and the counts of its feedback, or "" if the trace has not ended."""
    ended, feedback = as_text(root.get("end_time")), as_dict(root.get("feedback_stats"))
    if not ended:
        return ""
    counts = " ".join(f"{name}={as_dict(stats).get('n')}" for name, stats in sorted(feedback.items()))
    return f"{ended} {counts}".rstrip()


def _exported_run(listed: Members) -> Members:
    """Return a run with the members that LangSmith's exports have."""
    parents, extra = as_list(listed.get("parent_run_ids")), as_dict(listed.get("extra"))
    metadata = {**as_dict(listed.get("metadata")), **as_dict(extra.get("metadata"))}
    kind = as_text(listed.get("run_type")) or "chain"
    return {
        **listed,
        "run_type": kind.lower(),
        "parent_run_id": next(reversed(parents), None),
        "extra": {**extra, "metadata": metadata},
    }
