"""The traces of a project of Phoenix, fetched with Phoenix's own client (`pip install 'trace-recorder[phoenix]'`).

The client takes its address and key from PHOENIX_COLLECTOR_ENDPOINT and PHOENIX_API_KEY. The client itself fetches all
pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trace_recorder.formats.foreign_runs.run import ForeignRun
from trace_recorder.formats.phoenix.reading import runs_of_spans
from trace_recorder.formats.trace_services import ListedTrace, client_module
from trace_recorder.values.messages import Payload

_MAX_SPANS = 1_000_000
"""At most this many spans of a trace, and at most this many traces of a project, are fetched.

The client requires a limit.
"""
_NO_PARENT = "null"


@dataclass(slots=True)
class Phoenix:
    """One project of Phoenix.

    `client` is a `phoenix.client.Client`. By default, a client is made with the address and the key in the environment.
    """

    project: str
    client: Payload = None
    format: str = "phoenix"
    settings: str = "PHOENIX_API_KEY and PHOENIX_COLLECTOR_ENDPOINT"

    @property
    def address(self) -> str:
        """The service and the project, as `service:project`."""
        return f"phoenix:{self.project}"

    def traces(self) -> Iterator[ListedTrace]:
        """Yield the traces of the project, in the order in which the service lists their root spans."""
        seen: set[str] = set()
        for root in self._spans(parent_id=_NO_PARENT):
            identity = str(root["context"]["trace_id"])
            if identity not in seen:
                seen.add(identity)
                yield ListedTrace(identity, str(root.get("end_time") or ""))

    def run(self, trace: ListedTrace) -> ForeignRun | None:
        """Fetch the spans of a trace."""
        return next(runs_of_spans(iter(self._spans(trace_ids=[trace.identity]))), None)

    def _spans(self, **filters: Payload) -> list[Payload]:
        if self.client is None:
            self.client = client_module("phoenix.client", "phoenix").Client()
        get_spans = self.client.spans.get_spans
        spans: list[Payload] = get_spans(project_identifier=self.project, limit=_MAX_SPANS, timeout=60, **filters)
        return spans
