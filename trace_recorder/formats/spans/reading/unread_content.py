"""Finds the attributes of calls that hold a prompt or an answer in a form that no vocabulary reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trace_recorder.formats.foreign_runs.run import TimedFact
from trace_recorder.formats.spans.reading.tree import Node
from trace_recorder.storage.redaction.text_masking import default_redactor

_PROMPTS = (
    *("gen_ai.prompt", "gen_ai.input.messages", "gen_ai.system_instructions", "gcp.vertex.agent.llm_request"),
    *("llm.input_messages", "llm.prompts", "input.value", "ai.prompt", "request_data", "events"),
    *("langfuse.observation.input", "langsmith.inputs", "mlflow.spanInputs", "atof.input", "traceloop.entity.input"),
)
_ANSWERS = (
    *("gen_ai.completion", "gen_ai.output.messages", "gcp.vertex.agent.llm_response", "llm.output_messages"),
    *("llm.completions", "output.value", "ai.response", "ai.result", "response_data"),
    *("langfuse.observation.output", "langsmith.outputs", "mlflow.spanOutputs", "atof.output"),
    "traceloop.entity.output",
)
_NO_CONTENT = ("", "{}", "[]", "null", None)
_NOT_TEXTS = ("ai.response.id", "ai.response.model", "ai.response.timestamp", "ai.response.finishReason")


def unread_content(nodes: Iterable[Node]) -> Iterator[TimedFact]:
    """Yield a gap for each prompt and each answer of a call that an attribute holds and that was not understood."""
    for node in nodes:
        reading = node.reading
        if reading.kind != "call":
            continue
        if reading.messages is None and (names := _names(node, _PROMPTS)):
            yield _missing("prompt", names, node)
        if reading.response is None and not node.span.failed and (names := _names(node, _ANSWERS)):
            yield _missing("answer", names, node)


def _names(node: Node, prefixes: tuple[str, ...]) -> list[str]:
    """Return the names of the attributes that hold content. A prefix is a whole name, or ends before a dot."""
    return [
        name
        for name, value in node.span.attributes.items()
        if value not in _NO_CONTENT
        and name not in _NOT_TEXTS
        and isinstance(value, str | list | dict)
        and any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)
    ]


def _missing(what: str, names: list[str], node: Node) -> TimedFact:
    listed = ", ".join(map(default_redactor, names[:4]))
    name = default_redactor(node.span.name) or node.span.span_id
    return TimedFact.gap(what=f"the {what} of {name}", why=f"the form of {listed} is not known", time=node.span.start)
