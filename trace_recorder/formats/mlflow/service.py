"""The traces of an experiment of MLflow, fetched with MLflow's own client (`pip install 'trace-recorder[mlflow]'`).

The client takes its address from MLFLOW_TRACKING_URI, which names a server or a database, and its key from
MLFLOW_TRACKING_TOKEN. Traces are listed without their spans but with their assessments. So a later assessment changes
the `version` of the trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.mlflow.reading import run_of_mlflow_trace
from trace_recorder.formats.trace_services import FetchError, ListedIds, ListedTrace, client_module
from trace_recorder.values.messages import Payload

_TRACES_A_PAGE = 100


@dataclass(slots=True)
class MLflow:
    """One experiment of MLflow, by its name or its id.

    `client` is an `mlflow.MlflowClient`. By default, a client is made with the address in the environment.
    """

    project: str
    client: Payload = None
    format: str = "mlflow"
    settings: str = "MLFLOW_TRACKING_URI and MLFLOW_TRACKING_TOKEN"

    @property
    def address(self) -> str:
        """The service and the experiment, as `service:experiment`."""
        return f"mlflow:{self.project}"

    def traces(self) -> Iterator[ListedTrace]:
        """Yield the traces of the experiment, the newest first."""
        client, location, token = self._connected(), self._experiment(), None
        # The server finds a page by counting traces. If a trace is added meanwhile, the next page repeats a trace.
        listed_ids = ListedIds(self.address)
        while True:
            page = client.search_traces(
                locations=[location], max_results=_TRACES_A_PAGE, page_token=token, include_spans=False
            )
            infos = {info["trace_id"]: info for info in (trace.info.to_dict() for trace in page)}
            for identity in listed_ids.new_ids(infos):
                yield ListedTrace(identity, _version(infos[identity]))
            token = page.token
            if not token:
                return

    def run(self, trace: ListedTrace) -> ForeignRun | None:
        """Fetch a trace with its spans."""
        document = json.loads(self._connected().get_trace(trace.identity, display=False).to_json())
        if not document["data"]["spans"]:
            return None
        return run_of_mlflow_trace(document)

    def _experiment(self) -> str:
        experiment = self._connected().get_experiment_by_name(self.project)
        if experiment is None and self.project.isdigit():
            experiment = self._connected().get_experiment(self.project)
        if experiment is None:
            raise FetchError(f"{self.address}: there is no experiment of this name. Check {self.settings}.")
        return str(experiment.experiment_id)

    def _connected(self) -> Payload:
        if self.client is None:
            self.client = client_module("mlflow", "mlflow").MlflowClient()
        return self.client


def _version(info: Members) -> str:
    """Return a hash of a listed trace, or "" if the trace has not ended."""
    if info.get("state") not in ("OK", "ERROR"):
        return ""
    return blake2b(json.dumps(info, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()
