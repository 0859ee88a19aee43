"""The parts of a live document that may still change: open interactions and open steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_recorder.derive.call_records import CallRecords
from trace_recorder.derive.live_document.buffer import ElementText
from trace_recorder.derive.live_document.steps import StepText
from trace_recorder.derive.tool_matching import RecordedStep, ToolStep
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.metrics import Counts
from trace_recorder.values.trajectory import Gap


@dataclass(slots=True)
class OpenInteraction:
    """An interaction that is not settled: its records, its value and its text.

    `step` is the step that is derived from it, `response` the text of the response, which both contain. `figures` is
    what it adds to the run's metrics.
    """

    call: CallRecords
    element: ElementText
    step: StepText | None = None
    one: LLMInteraction | None = None
    response: bytes | None = None
    figures: Counts = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


@dataclass(slots=True)
class OpenStep:
    """A step that is not settled and not derived from an interaction: one that the agent recorded, or a tool step."""

    step: RecordedStep | ToolStep
    text: StepText
