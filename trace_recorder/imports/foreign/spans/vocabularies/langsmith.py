"""LangSmith's runs, brought to attributes by `langsmith.py` above, and the attributes that its SDK exports.

Source: https://docs.smith.langchain.com/reference/data_formats/run_data_format; its counts of tokens are LangChain's
`usage_metadata`, where `input_tokens` has the cached ones in it.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_int, as_number, as_text
from trace_recorder.imports.foreign.spans.payloads import read_input, read_output
from trace_recorder.imports.foreign.spans.reading import Kind, Reading
from trace_recorder.imports.foreign.spans.span import Span
from trace_recorder.imports.foreign.spans.vocabularies import openinference
from trace_recorder.imports.foreign.spans.vocabularies.openinference import FIRST_TOKEN
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
    given, said = span.take_json(*_INPUTS), span.take_json(*_OUTPUTS)
    if kind != "call":
        return Reading(kind=kind, input=given, output=_plain(said))
    about = as_dict(span.take("langsmith.metadata"))
    found = read_input(given)
    if found.messages is None:
        found.input = given
    answered = None if as_dict(said) == {"output": None} else said
    answer = read_output(answered, found.messages or ())
    found.kind, found.response = kind, answer
    found.usage = _usage(as_dict(about.pop("usage_metadata", None)) or _usage_in(said))
    if answer is not None:
        answer.extra.pop("usage_metadata", None)
        found.finish_reason, found.response_id, found.response_model = answer.finish_reason, answer.id, answer.model
        found.usage = found.usage or (answer.usage if answer.usage.is_known else None)
    found.model = found.model or as_text(about.get("ls_model_name")) or found.response_model
    found.provider = as_text(about.get("ls_provider"))
    if any(event.name == FIRST_TOKEN for event in span.events):
        found.stream, found.first_token = True, openinference.first_token(span)
    return found


def _plain(said: Payload) -> Payload:
    """Return what a function gave: LangSmith puts what is no object into one."""
    return said["output"] if isinstance(said, dict) and said.keys() == {"output"} else said


def _usage_in(said: Payload) -> dict[str, Payload]:
    return as_dict(as_dict(said).get("usage_metadata"))


def _usage(counted: dict[str, Payload]) -> Usage | None:
    of_input, of_output = as_dict(counted.get("input_token_details")), as_dict(counted.get("output_token_details"))
    read_counts = {"cache_read", "cache_creation", "reasoning"}
    left = {name: one for name, one in {**of_input, **of_output}.items() if name not in read_counts and one}
    found = Usage(
        input_tokens=as_int(counted.get("input_tokens")),
        output_tokens=as_int(counted.get("output_tokens")),
        cache_read_input_tokens=as_int(of_input.get("cache_read")),
        cache_creation_input_tokens=as_int(of_input.get("cache_creation")),
        reasoning_tokens=as_int(of_output.get("reasoning")),
        cost=as_number(counted.get("total_cost")),
        extra=left,
    )
    return found if found.is_known else None
