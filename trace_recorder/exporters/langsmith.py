"""Sends runs to LangSmith by LangSmith's own client.

In LangSmith, a span is called a run. A call becomes an LLM run, a tool's execution becomes a tool run, and other spans
become chains. Rewards become feedback.

The key is the environment's LANGSMITH_API_KEY. No message contains it. The client does not report failed requests, so a
hook of its session reads the status of each answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

from trace_recorder.errors import MissingExtraError, PushError
from trace_recorder.exporters.delivery import Delivered, Delivery, deliver
from trace_recorder.exporters.http_session import endpoint_of, session, shown_address
from trace_recorder.formats.spans.attribute_names import langfuse, own
from trace_recorder.formats.spans.writing.span import Span, iso
from trace_recorder.formats.spans.writing.span_maker import SpanMaker
from trace_recorder.formats.spans.writing.spans import plan_spans
from trace_recorder.guard import ignore_failures
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.trajectory import Reward, Trajectory

_PUBLIC = "https://api.smith.langchain.com"
_RUN_TYPES = {"generation": "llm", "tool": "tool", "embedding": "embedding"}


@dataclass(slots=True)
class LangSmithSender:
    """A sender of spans through LangSmith's client. `places` maps a span's id to its start time and its parent's id."""

    client: Any
    project: str
    places: Mapping[str, tuple[int, str | None]] = field(default_factory=dict)
    _statuses: list[int] = field(default_factory=list)
    _project_id: str = ""

    @classmethod
    def to(cls, endpoint: str, key: str, project: str) -> LangSmithSender:
        """Return a sender with a new client. Raises MissingExtraError if LangSmith's client is not installed."""
        try:
            module = import_module("langsmith")
        except ImportError as error:
            raise MissingExtraError(
                "Runs are sent by LangSmith's client, which is not installed: pip install 'trace-recorder[langsmith]'"
            ) from error
        requests_session = session()
        client = module.Client(
            endpoint, api_key=key, session=requests_session, auto_batch_tracing=False, omit_traced_runtime_info=True
        )
        sender = cls(client, project)
        requests_session.hooks["response"].append(sender._note_answer)
        return sender

    def _note_answer(self, answer: Any, *_: object, **__: object) -> None:
        if answer.request.method == "POST":
            self._statuses.append(answer.status_code)

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans as LangSmith's runs in one request. Return whether the server accepted them."""
        self._statuses.clear()
        self.client.batch_ingest_runs(create=[self._run(span) for span in spans])
        return bool(self._statuses) and self._statuses[-1] < 300

    def project_id(self) -> str:
        """Return the id of the project, to which feedback refers. The project exists as soon as it has a run."""
        if not self._project_id:
            self._project_id = str(self.client.read_project(project_name=self.project).id)
        return self._project_id

    def close(self) -> None:
        """Close the client's session."""
        self.client.session.close()

    def _run(self, span: Span) -> dict[str, Payload]:
        attributes, identity = span.attributes, run_id(span.trace_id, span.span_id, span.parent_id, self.places)
        of_parent = error = None
        if span.parent_id is not None and span.parent_id in self.places:
            of_parent = run_id(span.trace_id, span.parent_id, self.places[span.parent_id][1], self.places)
        if span.error is not None:
            error = span.error or "error"
        metadata = {name: value for name, value in attributes.items() if name.startswith("trace_recorder.")}
        metadata |= without_none(ls_model_name=attributes.get(langfuse.MODEL), session_id=attributes.get(own.SESSION))
        return {
            "id": identity,
            "trace_id": str(UUID(span.trace_id)),
            **without_none(parent_run_id=of_parent),
            "dotted_order": self._dotted_order(span),
            "session_name": self.project,
            "name": span.name,
            "run_type": _RUN_TYPES.get(str(attributes.get(langfuse.TYPE)), "chain"),
            "start_time": iso(span.start),
            "end_time": iso(span.end),
            "inputs": _inputs(attributes),
            "outputs": _outputs(attributes),
            "extra": {
                "metadata": metadata,
                "invocation_params": _json_value(attributes.get(langfuse.PARAMETERS)) or {},
            },
            **without_none(error=error),
        }

    def _dotted_order(self, span: Span) -> str:
        """Return LangSmith's path from the root span to this span: the start time and the run id of each span."""
        levels: list[str] = []
        span_id, start, parent = span.span_id, span.start, span.parent_id
        while len(levels) < 100:
            time = iso(start).replace("-", "").replace(":", "").replace(".", "").partition("+")[0]
            levels.append(f"{time}Z{run_id(span.trace_id, span_id, parent, self.places)}")
            if parent is None or parent not in self.places:
                break
            span_id, (start, parent) = parent, self.places[parent]
        return ".".join(reversed(levels))


def run_id(trace_id: str, span_id: str, parent: str | None, places: Mapping[str, tuple[int, str | None]]) -> str:
    """Return LangSmith's run id of a span. For the root span, this is the id of the trace."""
    if parent is None or parent not in places:
        return str(UUID(trace_id))
    return _made_id(f"{trace_id}{span_id}")


def _made_id(text: str) -> str:
    return str(UUID(bytes=blake2b(text.encode(), digest_size=16).digest()))


@dataclass(frozen=True, slots=True)
class LangSmithTarget:
    """A project of LangSmith."""

    endpoint: str
    project: str
    key: str = field(repr=False)
    content: bool = True

    @property
    def name(self) -> str:
        """The name of this target in messages."""
        return f"{shown_address(self.endpoint)} {self.project}"

    def sender(self) -> LangSmithSender:
        """Return a new sender. Raises MissingExtraError."""
        return LangSmithSender.to(self.endpoint, self.key, self.project)

    def delivered(self, run: Path) -> Delivered:
        """Return a `Delivered` for a run and this project. Its ids are not read yet."""
        return Delivered(run, f"langsmith {self.name} {'content' if self.content else 'no content'}")

    def send_run(
        self, path: Path, trajectory: Trajectory, sender: LangSmithSender, *, resume: bool = False
    ) -> Delivery:
        """Send a loaded run, and then its rewards.

        If `resume` is True, send only spans and rewards that were not delivered yet. Raises OSError if the file of
        delivered ids cannot be read or written.
        """
        delivered = self.delivered(path)
        if resume:
            delivered.read()
        bare = [span.make() for span in plan_spans(trajectory, SpanMaker.of("langfuse", content=False))]
        known = {span.span_id for span in bare}
        places: dict[str, tuple[int, str | None]] = {span.span_id: (span.start, None) for span in bare}
        places |= {span.span_id: (span.start, span.parent_id) for span in bare if span.parent_id in known}
        sender.places = places
        planned = plan_spans(trajectory, SpanMaker.of("langfuse", content=self.content))
        is_over = trajectory.status != "running"
        delivery = deliver([span for span in planned if span.is_final or is_over], delivered, sender.send)
        if delivery.missing:
            return delivery
        return self._send_rewards(trajectory, sender, delivered, delivery)

    def _send_rewards(
        self, trajectory: Trajectory, sender: LangSmithSender, delivered: Delivered, delivery: Delivery
    ) -> Delivery:
        """Send the rewards that were not delivered yet as feedback, each in its own request. Raises OSError."""
        trace_id = SpanMaker.of("langfuse", content=False).for_run(trajectory).ids.trace_id
        missing = 0
        for number, reward in enumerate(trajectory.rewards):
            identity = _made_id(f"{trace_id}/{number}/{reward.name}")
            if identity in delivered.ids or not isinstance(reward.value, int | float):
                continue
            accepted = False
            with ignore_failures:
                accepted = self._send_reward(sender, reward, trace_id, identity)
            if accepted:
                delivered.add([identity])
            missing += not accepted
        return Delivery(delivery.sent, missing_scores=missing)

    def _send_reward(self, sender: LangSmithSender, reward: Reward, trace_id: str, identity: str) -> bool:
        sender.client.create_feedback(
            run_id=str(UUID(trace_id)),
            key=str(reward.name),
            score=float(reward.value),
            comment=reward.explanation if self.content else None,
            trace_id=str(UUID(trace_id)),
            session_id=sender.project_id(),
            feedback_id=identity,
            stop_after_attempt=2,
        )
        return True


def langsmith(endpoint: str | None = None, *, project: str | None = None, content: bool = True) -> LangSmithTarget:
    """Return an exporter to a project of LangSmith.

    The defaults are the environment's LANGSMITH_ENDPOINT and LANGSMITH_PROJECT, or otherwise LangSmith's public service
    and its project "default". Raises MissingExtraError if LangSmith's client is not installed, PushError if there is no
    key, and ValueError if the endpoint is not an address.
    """
    key = os.environ.get("LANGSMITH_API_KEY", "").strip()
    if not key:
        raise PushError("There is no key for LangSmith: put it into the environment variable LANGSMITH_API_KEY.")
    address = endpoint or os.environ.get("LANGSMITH_ENDPOINT") or _PUBLIC
    endpoint_of(address)  # raises ValueError if it is not an address
    target = LangSmithTarget(
        address.rstrip("/"), project or os.environ.get("LANGSMITH_PROJECT") or "default", key, content
    )
    target.sender().close()
    return target


def _json_value(value: Payload) -> Payload:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value


def _inputs(attributes: Mapping[str, Payload]) -> dict[str, Payload]:
    value = _json_value(attributes.get(langfuse.INPUT))
    if isinstance(value, list):
        tools = _json_value(attributes.get(langfuse.TOOLS))
        return {"messages": value, **without_none(tools=tools)}
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    return {"input": value}


def _outputs(attributes: Mapping[str, Payload]) -> dict[str, Payload]:
    value, usage = _json_value(attributes.get(langfuse.OUTPUT)), _json_value(attributes.get(langfuse.USAGE))
    outputs: dict[str, Payload] = {}
    if value is not None and attributes.get(langfuse.TYPE) == "generation":
        outputs["messages"] = [value]
    elif isinstance(value, dict):
        outputs |= value
    elif value is not None:
        outputs["output"] = value
    if isinstance(usage, dict):
        outputs["usage_metadata"] = _usage(usage)
    return outputs


def _usage(usage: Mapping[str, int]) -> dict[str, Payload]:
    """Return LangSmith's token counts: the input includes cached tokens, and the output includes reasoning tokens."""
    cache_read, cache_write = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    reasoning = usage.get("output_reasoning_tokens")
    return {
        "input_tokens": usage.get("input", 0) + (cache_read or 0) + (cache_write or 0),
        "output_tokens": usage.get("output", 0) + (reasoning or 0),
        "total_tokens": usage.get("total", 0),
        "input_token_details": without_none(cache_read=cache_read, cache_creation=cache_write),
        "output_token_details": without_none(reasoning=reasoning),
    }
