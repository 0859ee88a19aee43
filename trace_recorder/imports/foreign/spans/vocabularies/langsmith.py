"""LangSmith's runs, brought to attributes by `langsmith.py` above, and the attributes that its SDK exports.

Source: https://docs.smith.langchain.com/reference/data_formats/run_data_format; its counts of tokens are LangChain's
`usage_metadata`, where `input_tokens` has the cached ones in it.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_number, as_text
from trace_recorder.imports.foreign.spans.payloads import read_exchange
from trace_recorder.imports.foreign.spans.reading import Kind, Reading, if_known
from trace_recorder.imports.foreign.spans.span import Span
from trace_recorder.imports.foreign.spans.vocabularies import openinference
from trace_recorder.imports.foreign.spans.vocabularies.openinference import FIRST_TOKEN
from trace_recorder.imports.foreign.token_places import counts_at, other_counts
from trace_recorder.values.messages import Payload, Usage

_KINDS: dict[str, Kind] = {"llm": "call", "tool": "tool"}
_INPUTS = ("langsmith.inputs", "gen_ai.prompt")
_OUTPUTS = ("langsmith.outputs", "gen_ai.completion")


def read(span: Span) -> Reading | None:
    """Read a run of LangSmith."""
    stated = as_text(span.attributes.get("langsmith.span.kind"))
    if stated is None:
        return None
    kind = _KINDS.get(stated)
    if kind is not None:
        span.take("langsmith.span.kind")
    request, answer = span.take_json(*_INPUTS), span.take_json(*_OUTPUTS)
    if kind != "call":
        return Reading(kind=kind, input=request, output=_plain(answer))
    metadata = as_dict(span.take("langsmith.metadata"))
    reading = read_exchange(request, None if as_dict(answer) == {"output": None} else answer)
    reading.usage = _usage(as_dict(metadata.pop("usage_metadata", None)) or _usage_in(answer))
    if reading.response is not None:
        reading.response.extra.pop("usage_metadata", None)
        reading.usage = reading.usage or if_known(reading.response.usage)
    reading.model = reading.model or as_text(metadata.get("ls_model_name")) or reading.response_model
    reading.provider = as_text(metadata.get("ls_provider"))
    if any(event.name == FIRST_TOKEN for event in span.events):
        reading.stream, reading.first_token = True, openinference.first_token(span)
    return reading


def _plain(said: Payload) -> Payload:
    """Return what a function gave: LangSmith puts what is no object into one."""
    return said["output"] if isinstance(said, dict) and said.keys() == {"output"} else said


def _usage_in(said: Payload) -> dict[str, Payload]:
    return as_dict(as_dict(said).get("usage_metadata"))


_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "input_token_details/cache_read",
    "cache_creation_input_tokens": "input_token_details/cache_creation",
    "reasoning_tokens": "output_token_details/reasoning",
}


def _usage(counted: dict[str, Payload]) -> Usage | None:
    extra = other_counts(counted, ("input_token_details", "output_token_details"), _COUNTS)
    return if_known(Usage(**counts_at(counted, _COUNTS), cost=as_number(counted.get("total_cost")), extra=extra))
