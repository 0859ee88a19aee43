"""Scripts in OpenAI's dialects: chat completions and responses."""

from __future__ import annotations

import json
from typing import Any

from tests.contents.script import Answer, Asked, Call, Talk
from tests.contents.talk_parts import NAMES, SCHEMA, Body, before, calls_before, event, halves, ids, text64


def chat_call(identity: str, call: Call) -> Body:
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": identity, "type": "function", "function": function}


def chat_request(talk: Talk, number: int) -> Body:
    messages: list[Body] = [{"role": "system", "content": talk.system}]
    for part, key in before(talk, number):
        if isinstance(part, Asked):
            url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text64(part.image or b'')}"}}
            content: Any = [{"type": "text", "text": part.text}, url] if part.image else part.text
            messages.append({"role": "user", "content": content})
        elif isinstance(part, Answer):
            messages.append(chat_message(talk, key, part))
        else:
            for (identity, _), result in zip(calls_before(talk, key), part, strict=True):
                messages.append({"role": "tool", "tool_call_id": identity, "content": result.text})
    function = [{"name": name, "description": name, "parameters": SCHEMA} for name in NAMES]
    return {"model": "m", "messages": messages, "tools": [{"type": "function", "function": one} for one in function]}


def chat_message(talk: Talk, key: str, answer: Answer) -> Body:
    calls = [chat_call(*one) for one in zip(ids(talk, key, answer), answer.calls, strict=True)]
    thought = {"reasoning_content": answer.thought} if answer.thought else {}
    return {"role": "assistant", "content": answer.text or None, **thought, **({"tool_calls": calls} if calls else {})}


def chat_usage(answer: Answer) -> Body:
    tokens = answer.tokens
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.prompt + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.thought},
    }


def chat_answer(talk: Talk, key: str, answer: Answer) -> Body:
    choice = {"index": 0, "message": chat_message(talk, key, answer), "finish_reason": _finish(answer)}
    usage = {"usage": chat_usage(answer)}
    return {
        "id": f"chatcmpl-{talk.agent}{key}",
        "object": "chat.completion",
        "model": "m-1",
        "choices": [choice],
        **usage,
    }


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def chat_stream(talk: Talk, key: str, answer: Answer) -> list[bytes]:
    head = {"id": f"chatcmpl-{talk.agent}{key}", "object": "chat.completion.chunk", "model": "m-1"}
    deltas: list[Body] = [{"role": "assistant"}]
    deltas += [{"reasoning_content": part} for part in halves(answer.thought)]
    deltas += [{"content": part} for part in halves(answer.text)]
    for number, (identity, call) in enumerate(zip(ids(talk, key, answer), answer.calls, strict=True)):
        whole = chat_call(identity, call)
        arguments = halves(whole["function"]["arguments"])
        deltas.append({"tool_calls": [{"index": number, **whole, "function": {"name": call.name, "arguments": ""}}]})
        deltas += [{"tool_calls": [{"index": number, "function": {"arguments": part}}]} for part in arguments]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]})
    chunks.append({**head, "choices": [], "usage": chat_usage(answer)})
    return [*map(event, chunks), b"data: [DONE]\n\n"]


def responses_request(talk: Talk, number: int) -> Body:
    items: list[Body] = []
    for part, key in before(talk, number):
        if isinstance(part, Asked):
            url = {"type": "input_image", "image_url": f"data:image/png;base64,{text64(part.image or b'')}"}
            content = [{"type": "input_text", "text": part.text}, *([url] if part.image else [])]
            items.append({"role": "user", "content": content})
        elif isinstance(part, Answer):
            items += responses_output(talk, key, part)
        else:
            for (identity, _), result in zip(calls_before(talk, key), part, strict=True):
                items.append({"type": "function_call_output", "call_id": identity, "output": result.text})
    tools = [{"type": "function", "name": name, "description": name, "parameters": SCHEMA} for name in NAMES]
    return {"model": "m", "instructions": talk.system, "input": items, "tools": tools}


def responses_output(talk: Talk, key: str, answer: Answer) -> list[Body]:
    place = f"{talk.agent}{key}"
    output: list[Body] = []
    if answer.thought:
        summary = [{"type": "summary_text", "text": answer.thought}]
        output.append({"type": "reasoning", "id": f"rs_{place}", "summary": summary})
    if answer.text:
        said = {"type": "output_text", "text": answer.text, "annotations": []}
        message = {"type": "message", "id": f"msg_{place}", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [said]})
    for identity, call in zip(ids(talk, key, answer), answer.calls, strict=True):
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        called = {"type": "function_call", "id": f"fc_{identity}", "call_id": identity, "status": "completed"}
        output.append({**called, "name": call.name, "arguments": arguments})
    return output


def responses_answer(talk: Talk, key: str, answer: Answer) -> Body:
    tokens = answer.tokens
    usage = {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.thought},
        "total_tokens": tokens.prompt + tokens.output,
    }
    head = {"id": f"resp_{talk.agent}{key}", "object": "response", "status": "completed", "model": "m-1", "error": None}
    return {**head, "output": responses_output(talk, key, answer), "usage": usage}


def responses_stream(talk: Talk, key: str, answer: Answer) -> list[bytes]:
    whole = responses_answer(talk, key, answer)
    events: list[Body] = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}]
    for number, item in enumerate(whole["output"]):
        events.append({"type": "response.output_item.added", "output_index": number, "item": _unsaid(item)})
        events += _deltas(item, number)
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return [event({**one, "sequence_number": at}, one["type"]) for at, one in enumerate(events)]


def _unsaid(item: Body) -> Body:
    begun = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}
    return {**item, **begun[item["type"]]}


def _deltas(item: Body, number: int) -> list[Body]:
    place = {"item_id": item["id"], "output_index": number}
    if item["type"] == "message":
        kind, text, more = "output_text", item["content"][0]["text"], {"content_index": 0}
    elif item["type"] == "reasoning":
        kind, text, more = "reasoning_summary_text", item["summary"][0]["text"], {"summary_index": 0}
    else:
        kind, text, more = "function_call_arguments", item["arguments"], {}
    return [{"type": f"response.{kind}.delta", **place, **more, "delta": part} for part in halves(text)]
