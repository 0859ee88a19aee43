"""The traces of a project of Langfuse, fetched with Langfuse's own client (`pip install 'trace-recorder[langfuse]'`).

LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL have the keys and the address. The keys belong to one
project, so a project of another name is refused. The newest client lists observations only, and not traces. A trace is
therefore made of its observations, its scores, and the facts of the trace in its root observation. Source: the client's
`api.observations.get_many` (`GET /api/public/v2/observations`), which the server has from version 4 on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.langfuse.reading import run_of_langfuse_trace
from trace_recorder.formats.trace_services import FetchError, ListedIds, ListedTrace, client_module
from trace_recorder.values.messages import Payload

_KEYS = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
_PUBLIC = "https://cloud.langfuse.com"
_OPTIONS = {"max_retries": 5, "timeout_in_seconds": 60}
"""The client waits before each retry for as long as the server asks, because most plans allow few requests a minute."""
_LISTED_FIELDS = "core,basic,time"
_FIELDS = "core,basic,time,io,metadata,model,usage,trace_context"
_TRACES_A_PAGE = 1000
_OBSERVATIONS_A_PAGE = 50
"""The page is small because an answer of the server has at most 5 MB, and observations contain their prompts."""
_SCORES_A_PAGE = 100
_CUT_AT = 200
"""The server cuts values of metadata at this many characters. A value of this length is fetched again by its name."""
_NESTED = ("attributes", "resourceAttributes", "scope")


@dataclass(slots=True)
class Langfuse:
    """One project of Langfuse.

    `client` is a `langfuse.api.LangfuseAPI`. By default, a client is made with the keys in the environment.
    """

    project: str
    client: Payload = None
    format: str = "langfuse"
    settings: str = "LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL"

    @property
    def address(self) -> str:
        """The service and the project, as `service:project`."""
        return f"langfuse:{self.project}"

    def traces(self) -> Iterator[ListedTrace]:
        """Yield the traces that have a root observation, the newest first."""
        self._check_project()
        seen: set[str] = set()
        observations = self._connected().observations
        query = {"is_root_observation": True, "fields": _LISTED_FIELDS, "limit": _TRACES_A_PAGE}
        for root in self._pages(observations.get_many, query):
            identity = as_text(root.get("traceId"))
            if identity and identity not in seen:
                seen.add(identity)
                yield ListedTrace(identity, _version(root))

    def run(self, trace: ListedTrace) -> ForeignRun | None:
        """Fetch the observations and the scores of a trace."""
        query = {"trace_id": trace.identity, "fields": _FIELDS, "limit": _OBSERVATIONS_A_PAGE}
        get_many = self._connected().observations.get_many
        observations = [*self._pages(get_many, query)]
        cut_names = sorted({name for observation in observations for name in _cut_names(observation)})
        if cut_names:
            observations = [*self._pages(get_many, query | {"expand_metadata": ",".join(cut_names)})]
        if not observations:
            return None
        query = {"trace_id": trace.identity, "fields": "details", "limit": _SCORES_A_PAGE}
        scores = [*self._pages(self._connected().scores.get_many, query)]
        return run_of_langfuse_trace(_exported_trace(trace.identity, observations, scores))

    def _pages(self, get_many: Callable[..., Payload], query: Mapping[str, Payload]) -> Iterator[Members]:
        """Yield the elements of all pages, as the server sent them. Raises FetchError if the pages do not end."""
        cursor: str | None = None
        listed_ids = ListedIds(self.address)
        while True:
            page = get_many(**query, cursor=cursor, request_options=_OPTIONS)
            elements = [as_dict(json.loads(element.json())) for element in page.data]
            listed_ids.new_ids(as_text(element.get("id")) or "" for element in elements)
            yield from elements
            cursor = page.meta.cursor
            if not cursor:
                return

    def _check_project(self) -> None:
        projects = [as_dict(json.loads(project.json())) for project in self._connected().projects.get().data]
        if not any(self.project in (project.get("name"), project.get("id")) for project in projects):
            names = ", ".join(str(project.get("name")) for project in projects)
            raise FetchError(f"{self.address}: the keys in {' and '.join(_KEYS)} belong to another project: {names}.")

    def _connected(self) -> Payload:
        if self.client is None:
            self.client = _client()
        return self.client


def _client() -> Payload:
    api = client_module("langfuse.api", "langfuse")
    public, secret = (os.environ.get(name, "").strip() for name in _KEYS)
    if not public or not secret:
        raise FetchError(
            f"There are no keys for Langfuse: put them into the environment variables {' and '.join(_KEYS)}."
        )
    address = os.environ.get("LANGFUSE_BASE_URL") or os.environ.get("LANGFUSE_HOST") or _PUBLIC
    return api.LangfuseAPI(base_url=address.rstrip("/"), username=public, password=secret)


def _version(root: Members) -> str:
    """Return when a trace's root observation last changed and when it ended, or "" if the observation has not ended."""
    ended = root.get("endTime")
    if not ended:
        return ""
    return f"{root.get('updatedAt') or ''} {ended}".strip()


def _cut_names(observation: Members) -> Iterator[str]:
    """Yield the names of metadata whose values may be cut.

    A name with a comma is left out, because it cannot be requested.
    """
    for name, value in as_dict(observation.get("metadata")).items():
        if isinstance(value, str) and len(value) == _CUT_AT and "," not in name:
            yield name


def _exported_trace(identity: str, observations: list[Members], scores: list[Members]) -> Members:
    """Return a trace in the form in which Langfuse's web interface exports it."""
    root = next((observation for observation in observations if observation.get("isRootObservation")), observations[-1])
    facts = {name: root.get(name) for name in ("userId", "sessionId", "tags", "environment", "release", "version")}
    trace = {"id": identity, "name": root.get("traceName"), **facts, "scores": scores}
    exported = [
        observation
        | {
            "model": observation.get("model") or observation.get("providedModelName"),
            "metadata": _nested(as_dict(observation.get("metadata"))),
        }
        for observation in observations
    ]
    return {"trace": trace, "observations": exported}


def _nested(metadata: Members) -> Members:
    """Return metadata in which `attributes`, `resourceAttributes` and `scope` are objects.

    The server writes their members flat, as `attributes.gen_ai.system`.
    """
    nested: Members = {}
    for name, value in metadata.items():
        first, dot, rest = name.partition(".")
        if dot and first in _NESTED:
            nested.setdefault(first, {})[rest] = value
        else:
            nested[name] = value
    return nested
