"""SGLang's own dialect (/generate): a text or ids in, a text and ids out.

`text` is the user's message; `input_ids` stay a parameter. An answer has `text`, `output_ids` and `meta_info`. Several
prompts, or `n` in `sampling_params`, have a list of such answers. Each event of a stream has the whole answer so far,
unless the server was started to stream only what is new. The count of tokens in `meta_info` says which of both it is.
Source: SGLang 0.5.23, `sglang/srt/managers/tokenizer_manager.py`. `figures/sampled_tokens.py` has the ids of a call.
"""

from __future__ import annotations

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.deltas import append_text, finish_texts
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_dict, as_elements, as_int, as_list, as_text, json_value
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import (
    Choice,
    JoinedStream,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Usage,
)
from trace_recorder.values.token_counts import WHOLE

_GROWING = ("output_token_logprobs", "output_top_logprobs")


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    texts = as_elements(as_dict(body).get("text"))
    messages: list[Message] = []
    if texts and all(isinstance(text, str) for text in texts):
        members.take("text")
        messages = [Message("user", text) for text in texts]
    parameters = members.all()
    return RequestReading(messages, [], parameters, as_text(parameters.get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 - it has no tool calls
    """Read a response's JSON."""
    answers = [as_dict(answer) for answer in as_elements(body)]
    if not any("meta_info" in answer for answer in answers):
        return openai_chat.read_response(body)
    choices = []
    for number, answer in enumerate(answers):
        members, reason = Members(answer), as_dict(answer.get("meta_info")).get("finish_reason")
        content, finish_reason = members.text("text"), as_text(as_dict(reason).get("type")) or as_text(reason)
        choices.append(Choice(number, content, finish_reason=finish_reason, extra=members.rest()))
    return LLMResponse(
        content=choices[0].content,
        finish_reason=choices[0].finish_reason,
        usage=_usage([as_dict(answer.get("meta_info")) for answer in answers]),
        choices=tuple(choices),
    )


def _usage(infos: list[dict[str, Payload]]) -> Usage:
    """Return the counts of a call. Its answers have the same prompt."""
    sampled = [as_int(info.get("completion_tokens")) for info in infos]
    return Usage(
        as_int(infos[0].get("prompt_tokens")),
        sum(count for count in sampled if count is not None),
        cache_read_input_tokens=as_int(infos[0].get("cached_tokens")),
    )


def join_stream(text: str) -> JoinedStream:
    """Join the text of a stream, which may be cut off anywhere. With several answers, each event has an `index`."""
    answers: dict[int, dict[str, Payload]] = {}
    number, is_done, error = 0, False, None
    for number, (_, data) in enumerate(events(text), start=1):  # noqa: B007 read after the loop
        is_done = is_done or data.strip() == "[DONE]"
        event = as_dict(json_value(data))
        error = event.get("error") or error
        if "meta_info" in event:
            index = as_int(event.get("index")) or 0
            answers[index] = _grown(answers.get(index, {}), event)
    if number == 0:
        return unstreamed(text)
    body: Payload = [finish_texts(answers[index]) for index in sorted(answers)]
    reasons = [as_dict(answer.get("meta_info")).get("finish_reason") for answer in answers.values()]
    is_done = is_done or (bool(reasons) and None not in reasons)
    if len(body) == 1:
        body = body[0]
    elif error is not None or not body:
        body = {"answers": body}
    if error is not None:
        body = {**body, "error": error}
    return JoinedStream(body, ended=is_done, events=number, error=error)


def _grown(answer: dict[str, Payload], event: dict[str, Payload]) -> dict[str, Payload]:
    """Return an answer after one more event, which has the whole answer or only what is new. `answer` is changed."""
    meta, before = as_dict(event.get("meta_info")), as_dict(answer.get("meta_info"))
    if not answer or len(as_list(event.get("output_ids"))) == as_int(meta.get("completion_tokens")):
        return event
    scores = {name: _longer(before.get(name), meta[name]) for name in _GROWING if name in meta}
    return {
        **event,
        "text": append_text(answer.get("text"), as_text(event.get("text")) or ""),
        "output_ids": _longer(answer.get("output_ids"), event.get("output_ids")),
        "meta_info": {**meta, **scores},
    }


def _longer(seen: Payload, more: Payload) -> list[Payload]:
    """Append to a list in place, so that a long stream is not copied with each event."""
    elements = as_list(seen)
    elements += as_list(more)
    return elements


DIALECT = Dialect(
    name="sglang-generate",
    addresses={r"^/generate/?$": "sglang"},
    sdks=(),
    headers={},
    operation="text_completion",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=openai_chat.not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
