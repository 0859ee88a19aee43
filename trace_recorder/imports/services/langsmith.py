"""The runs of a project of LangSmith, by its own client (`pip install 'trace-recorder[langsmith]'`).

The client takes its key and address from LANGSMITH_API_KEY and LANGSMITH_ENDPOINT, and pages. Its method `list_runs` is
used, which langsmith 0.15 calls deprecated: the one that follows it needs a newer service.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from trace_recorder.imports.foreign.langsmith import runs_of
from trace_recorder.imports.foreign.run import ForeignRun
from trace_recorder.imports.services.traces import ListedTrace, client_module
from trace_recorder.values.messages import Payload


@dataclass(frozen=True, slots=True)
class LangSmith:
    """One project. `client` is a `langsmith.Client`, for another address or key than the environment's."""

    project: str
    client: Payload = None
    format: str = "langsmith"

    @property
    def address(self) -> str:
        """The service and the project."""
        return f"langsmith:{self.project}"

    def traces(self) -> Iterator[ListedTrace]:
        """Yield the traces of the project, the newest first."""
        for root in self._client().list_runs(project_name=self.project, is_root=True):
            yield ListedTrace(str(root.trace_id), root.end_time.isoformat() if root.end_time else "")

    def run(self, trace: ListedTrace) -> ForeignRun | None:
        """Fetch the runs of a trace."""
        found = self._client().list_runs(project_name=self.project, trace_id=trace.identity)
        return next(runs_of(json.loads(run.model_dump_json()) for run in found), None)

    def _client(self) -> Payload:
        return self.client or client_module("langsmith", "langsmith").Client()
