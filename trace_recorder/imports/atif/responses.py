"""Reading the answer of one agent step in an ATIF document: what the model said, its usage, or an error."""

from __future__ import annotations

from collections.abc import Mapping

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import Choice, LLMResponse, Message, Payload, Usage, without_none


def read_response(
    step: Mapping[str, Payload], message: Message, extra: Mapping[str, Payload], kept: Mapping[str, Payload]
) -> LLMResponse:
    """Read the answer of an agent step. `extra` is what our view wrote, `kept` what the values have no place for."""
    metrics = step.get("metrics") or as_dict(as_dict(extra.get("replayed_from")).get("metrics"))
    ids = without_none(token_ids=metrics.get("completion_token_ids"), logprobs=_logprobs(metrics.get("logprobs")))
    prompt = without_none(prompt_token_ids=metrics.get("prompt_token_ids"))
    content = _content(message)
    besides = {**(extra.get("choice_extra") or {}), **ids}
    choice = Choice(0, content, message.reasoning, message.tool_calls, extra.get("finish_reason"), extra=besides)
    return LLMResponse(
        content,
        reasoning=message.reasoning,
        tool_calls=message.tool_calls,
        finish_reason=extra.get("finish_reason"),
        usage=_usage(metrics),
        model=step.get("model_name"),
        id=extra.get("response_id"),
        choices=(choice, *(_choice(one) for one in extra.get("other_choices") or ())),
        extra={**(extra.get("response_extra") or {}), **prompt, **kept},
    )


def _content(said: Message) -> str | None:
    """Return the texts of a message as one; None if it has none."""
    parts = said.content if isinstance(said.content, list) else []
    text = "".join(part.get("text") or "" for part in parts) if parts else said.content
    return text if isinstance(text, str) else None


def _choice(document: Mapping[str, Payload]) -> Choice:
    calls = tuple(manual.read_tool_call(call) for call in document.get("tool_calls") or ())
    return Choice(**{**document, "tool_calls": calls})


def _logprobs(logprobs: list[float] | None) -> Payload:
    return None if logprobs is None else {"content": [{"logprob": logprob} for logprob in logprobs]}


def _usage(metrics: Mapping[str, Payload]) -> Usage:
    """Return the usage as the provider stated it, if our view kept it, else ATIF's own counts."""
    stated = (metrics.get("extra") or {}).get("usage")
    if isinstance(stated, dict):
        return Usage(**stated)
    counts = without_none(
        input_tokens=metrics.get("prompt_tokens"),
        output_tokens=metrics.get("completion_tokens"),
        cache_read_input_tokens=metrics.get("cached_tokens"),
        cost=metrics.get("cost_usd"),
    )
    return Usage(**counts)


def error_of(error: Payload) -> ErrorInfo | None:
    """Read an error as our view wrote it; return None for anything else."""
    if not isinstance(error, dict):
        return None
    return ErrorInfo(str(error.get("type") or "error"), str(error.get("message") or ""), error.get("status"))
