"""A request that has been read already, as the source of an interaction."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_recorder.values.llm_interaction import WithoutRawData
from trace_recorder.values.messages import RequestReading, ToolResult


@dataclass(frozen=True, slots=True)
class KnownRequest(WithoutRawData):
    """The parts of a request, as its dialect's reader reads them. There is no raw data."""

    reading: RequestReading
    new_tool_results: list[ToolResult] = field(default_factory=list)

    def request(self) -> RequestReading:
        return self.reading

    def request_without_messages(self) -> RequestReading:
        return self.reading

    def has_request(self) -> bool:
        return True
