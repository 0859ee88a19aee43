"""Sends runs to Langfuse: spans to its OTLP endpoint, and rewards as scores by Langfuse's own client.

The keys are the environment's LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY. No message contains them.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from trace_recorder.errors import MissingExtraError, PushError
from trace_recorder.exporters.delivery import Delivery
from trace_recorder.exporters.http_session import endpoint_of
from trace_recorder.exporters.otlp import OtlpSender, OtlpTarget
from trace_recorder.formats.spans.writing.span import SpanIds
from trace_recorder.formats.spans.writing.tree import SpanTree
from trace_recorder.guard import ignore_failures
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

_PATH = "/api/public/otel/v1/traces"
_PUBLIC = "https://cloud.langfuse.com"


@dataclass(frozen=True, slots=True)
class LangfuseTarget(OtlpTarget):
    """A project of Langfuse. The user's keys decide which project it is."""

    host: str = _PUBLIC

    def send_run(self, path: Path, trajectory: Trajectory, sender: OtlpSender, *, resume: bool = False) -> Delivery:
        """Send a run, and then its rewards as scores.

        If `resume` is True, send only spans that were not delivered yet. A score that was delivered is never sent
        again.
        """
        delivery = OtlpTarget.send_run(self, path, trajectory, sender, resume=resume)
        delivered = self.delivered(path)
        delivered.read()
        scores = [score for score in _scores(trajectory, with_texts=self.content) if score["id"] not in delivered.ids]
        if delivery.missing or not scores:
            return Delivery(delivery.sent, delivery.missing, len(scores))
        accepted = False
        with ignore_failures:
            accepted = self._send_scores(scores)
        if not accepted:
            return Delivery(delivery.sent, missing_scores=len(scores))
        delivered.add(score["id"] for score in scores)
        return Delivery(delivery.sent)

    def _send_scores(self, scores: list[dict[str, Payload]]) -> bool:
        public, secret = _keys()
        api = _client_module().LangfuseAPI(base_url=self.host, username=public, password=secret)
        types = import_module("langfuse.api.scores")
        answer: Any = api.scores.create(request=[types.CreateScoreRequest(**score) for score in scores])
        return not getattr(answer, "errors", None)


def langfuse(host: str | None = None, *, content: bool = True) -> LangfuseTarget:
    """Return an exporter to Langfuse.

    The default host is the environment's LANGFUSE_HOST or LANGFUSE_BASE_URL, or otherwise Langfuse's public service.
    Raises MissingExtraError if Langfuse's client is not installed, PushError if there are no keys, and ValueError if
    the host is not an address.
    """
    address = host or os.environ.get("LANGFUSE_HOST") or os.environ.get("LANGFUSE_BASE_URL") or _PUBLIC
    _client_module()
    keys = base64.b64encode(":".join(_keys()).encode()).decode()
    headers = {"Authorization": f"Basic {keys}", "x-langfuse-ingestion-version": "4"}
    endpoint = endpoint_of(address.rstrip("/") + _PATH)
    target = LangfuseTarget(endpoint, headers, "langfuse", content, host=address.rstrip("/"))
    target.sender().close()  # raises at once if an extra is missing
    return target


def _client_module() -> Any:
    try:
        return import_module("langfuse.api")
    except ImportError as error:
        raise MissingExtraError(
            "Scores are sent by Langfuse's client, which is not installed: pip install 'trace-recorder[langfuse]'"
        ) from error


def _keys() -> tuple[str, str]:
    names = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
    public, secret = (os.environ.get(name, "").strip() for name in names)
    if not public or not secret:
        raise PushError(
            f"There are no keys for Langfuse: put them into the environment variables {' and '.join(names)}."
        )
    return public, secret


def _scores(trajectory: Trajectory, *, with_texts: bool) -> Iterator[dict[str, Payload]]:
    """Yield each reward with a numeric value as a score of its step, or of the trace if the reward names no step."""
    ids, tree = SpanIds.of(trajectory), SpanTree.of(trajectory)
    steps = {step.step_number: tree.step_span(step) for step in tree.steps}
    for number, reward in enumerate(trajectory.rewards):
        if isinstance(reward.value, int | float):
            observation = None
            if reward.step_number is not None:
                observation = steps.get(reward.step_number)
            yield {
                "id": ids.span_id("score", str(number), str(reward.name)),
                "trace_id": ids.trace_id,
                "observation_id": observation,
                "name": str(reward.name),
                "value": float(reward.value),
                "comment": reward.explanation if with_texts else None,
            }
