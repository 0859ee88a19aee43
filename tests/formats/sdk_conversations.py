"""Runs through the real SDKs with a local server: one function for each dialect, each a conversation with tools.

Each function writes its run to a directory, and returns the path of its document. The server's answers are written out
here, so that a test knows every word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.data.written import called, said
from tests.provider import Answer, chat_chunk, plain, serving, stream
from tests.versions.answers import response_of
from trace_recorder import TrajectoryRecorder

Payload = Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SYSTEM = {"role": "system", "content": "You answer in one sentence."}
QUESTION = {"role": "user", "content": "Is it warmer in Ulm or in Rome?"}
WEATHER_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city.", "parameters": WEATHER_SCHEMA},
}
ULM, ROME = called("call_1", "weather", city="Ulm"), called("call_2", "weather", city="Rome")
LATER = plain({"error": {"type": "rate_limit", "message": "later"}}, 429, **{"retry-after-ms": "1"})


def openai_client(url: str, recorder: TrajectoryRecorder) -> Any:
    """Return the newest OpenAI client, recorded."""
    from openai import OpenAI

    return recorder.wrap(OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=2))


def spoken(content: str | None, *calls: Payload, thought: str | None = None, number: int = 1) -> dict[str, Payload]:
    """Return a chat completion with usage. Its thoughts are next to the content, as DeepSeek and vLLM send them."""
    usage = {"prompt_tokens": 10 * number, "completion_tokens": 5, "total_tokens": 10 * number + 5}
    body = said(content, *calls, usage=usage) | {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1}
    if thought:
        body["choices"][0]["message"]["reasoning_content"] = thought
    return body


def answered(call_id: str, content: Payload) -> dict[str, Payload]:
    """Return a tool result as a chat request has it."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tools(directory: Path) -> Path:
    """Record OpenAI chat: parallel tools, one of which fails, thoughts, a retried call, and a second question."""
    path = directory / "tools.json"
    asking = {"role": "assistant", "content": "I look.", "reasoning_content": "Two cities.", "tool_calls": [ULM, ROME]}
    results = [answered("call_1", '{"celsius": 7}'), answered("call_2", "Error: no such city")]
    first = [SYSTEM, QUESTION, asking, *results]
    second = [*first, {"role": "assistant", "content": "Ulm has 7 °C."}, {"role": "user", "content": "And in Bonn?"}]
    bonn = called("call_3", "weather", city="Bonn")
    third = [*second, {"role": "assistant", "content": None, "tool_calls": [bonn]}, answered("call_3", "9")]
    answers = [
        plain(spoken("I look.", ULM, ROME, thought="Two cities.", number=1)),
        LATER,
        plain(spoken("Ulm has 7 °C.", thought="One is enough.", number=2)),
        plain(spoken(None, bonn, number=3)),
        plain(spoken("9 °C.", number=4)),
    ]
    with serving(*answers) as server, TrajectoryRecorder(path, task="compare", metadata={"seed": 7}) as recorder:
        with openai_client(server.url, recorder) as client:
            for messages in ([SYSTEM, QUESTION], first, second, third):
                client.chat.completions.create(model="gpt-4o", messages=messages, tools=[WEATHER], temperature=0)
        recorder.reward("correct", 1.0, weight=2.0, explanation="both were right")
        recorder.reward("short", 0.5, step_number=1)
        recorder.annotate("judge", {"score": 3})
        recorder.finalize(success=True, final_result="9 °C.")
    return path


def thinking(directory: Path) -> Path:
    """Record Anthropic: an image, signed thoughts, and two tools at once, one of which fails."""
    from anthropic import Anthropic

    path = directory / "thinking.json"
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    look = {"role": "user", "content": [{"type": "text", "text": "Where is it?"}, {"type": "image", "source": source}]}
    uses = [
        {"type": "thinking", "thinking": "A red pixel.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "I search."},
        {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"q": "pixel"}},
        {"type": "tool_use", "id": "toolu_2", "name": "locate", "input": {}},
    ]
    found = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "in Rome"}]},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no GPS", "is_error": True},
    ]
    told = [look, {"role": "assistant", "content": uses}, {"role": "user", "content": found}]
    offered = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("search", "locate")]
    limits: dict[str, Any] = {"model": "claude-x", "max_tokens": 2048, "system": "Be brief.", "tools": offered}
    with serving(plain(_message(uses, "tool_use")), plain(_message([{"type": "text", "text": "Rome."}]))) as server:
        with TrajectoryRecorder(path, task="locate") as recorder:
            with recorder.wrap(Anthropic(api_key="k", base_url=server.url)) as client:
                client.messages.create(messages=[look], thinking={"type": "enabled", "budget_tokens": 1024}, **limits)
                client.messages.create(messages=told, thinking={"type": "enabled", "budget_tokens": 1024}, **limits)
    return path


def _message(content: list[Payload], stop: str = "end_turn") -> dict[str, Payload]:
    usage = {"input_tokens": 30, "output_tokens": 9, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 0}
    return {
        "id": f"msg_{len(content)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-x-1",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def gemini(directory: Path) -> Path:
    """Record Google: one function called twice at once, without ids, and a thought with its signature."""
    from google import genai
    from google.genai import types

    path = directory / "gemini.json"
    calls = [{"functionCall": {"name": "weather", "args": {"city": city}}} for city in ("Ulm", "Rome")]
    thought = {"text": "Ask twice.", "thought": True}
    called_twice = _generated(thought, {**calls[0], "thoughtSignature": "c2ln"}, calls[1])
    function = types.FunctionDeclaration(
        name="weather", description="The weather.", parameters_json_schema=WEATHER_SCHEMA
    )
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        tools=[types.Tool(function_declarations=[function])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    with serving(plain(called_twice), plain(_generated({"text": "Rome."}))) as server:
        with TrajectoryRecorder(path, task="compare") as recorder:
            client = recorder.wrap(genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.url)))
            ask = types.Content(role="user", parts=[types.Part(text="Where is it warm?")])
            answer = client.models.generate_content(model="gemini-x", contents=[ask], config=config)
            parts = [types.Part.from_function_response(name="weather", response={"celsius": n}) for n in (7, 31)]
            told = [ask, answer.candidates[0].content, types.Content(role="user", parts=parts)]
            client.models.generate_content(model="gemini-x", contents=told, config=config)
            client.close()
    return path


def _generated(*parts: Payload) -> dict[str, Payload]:
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 4, "thoughtsTokenCount": 2, "totalTokenCount": 18}
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", "index": 0}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "gemini-x-001",
        "responseId": f"r{len(parts)}",
    }


def local(directory: Path) -> Path:
    """Record Ollama: a model that thinks and calls a tool, in Ollama's own dialect, whose calls have no ids."""
    from ollama import Client

    path = directory / "local.json"
    call = {"function": {"name": "weather", "arguments": {"city": "Ulm"}}}
    asking = {"role": "assistant", "content": "", "thinking": "Look it up.", "tool_calls": [call]}
    told = [QUESTION, asking, {"role": "tool", "tool_name": "weather", "content": "7"}]
    with serving(plain(_chatted(asking)), plain(_chatted({"role": "assistant", "content": "7 °C."}))) as server:
        with TrajectoryRecorder(path, task="look") as recorder:
            with recorder.wrap(Client(host=server.url)) as client:
                client.chat(model="qwen3", messages=[QUESTION], tools=[WEATHER], think=True)
                client.chat(model="qwen3", messages=told, tools=[WEATHER], think=True)
    return path


def _chatted(message: Payload) -> dict[str, Payload]:
    counts = {"prompt_eval_count": 20, "eval_count": 6, "total_duration": 9, "eval_duration": 5}
    about = {"model": "qwen3", "created_at": "2025-01-01T00:00:00Z", "done": True, "done_reason": "stop"}
    return {**about, "message": message, **counts}


def responses(directory: Path) -> Path:
    """Record OpenAI's Responses API: reasoning and a function call as items, then the answer."""
    path = directory / "responses.json"
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "status": "completed"}
    call |= {"arguments": '{"city": "Ulm"}'}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Ask."}]}
    asking = response_of("") | {"output": [reasoning, call], "usage": _COUNTED}
    told = [QUESTION, reasoning, call, {"type": "function_call_output", "call_id": "call_1", "output": "7"}]
    with serving(plain(asking), plain(response_of("7 °C.") | {"usage": _COUNTED})) as server:
        with TrajectoryRecorder(path, task="look") as recorder, openai_client(server.url, recorder) as client:
            tool: Any = {"type": "function", "name": "weather", "parameters": WEATHER_SCHEMA, "strict": False}
            for items in ([QUESTION], told):
                client.responses.create(model="o4", input=items, tools=[tool], instructions="Be brief.")
    return path


_COUNTED = {
    "input_tokens": 8,
    "input_tokens_details": {"cached_tokens": 2},
    "output_tokens": 3,
    "total_tokens": 11,
    "output_tokens_details": {"reasoning_tokens": 1},
}


def streamed(directory: Path) -> Path:
    """Record a complete stream, and a stream that the caller closed after its first words."""
    path = directory / "streamed.json"
    whole: Answer = stream(chat_chunk("Grü"), chat_chunk("ße"), chat_chunk(None, "stop"), b"data: [DONE]\n\n")
    with serving(whole) as server, TrajectoryRecorder(path, task="stream") as recorder:
        with openai_client(server.url, recorder) as client:
            list(client.chat.completions.create(model="gpt-4o", messages=[QUESTION], stream=True))
            with client.chat.completions.create(model="gpt-4o", messages=[QUESTION], stream=True) as events:
                next(iter(events))
    return path


def failed(directory: Path) -> Path:
    """Record a run whose calls all fail, and whose agent fails with them."""
    from openai import OpenAIError

    path = directory / "failed.json"
    refused = plain({"error": {"type": "invalid_request_error", "message": "too long"}}, 400)
    try:
        with serving(refused) as server, TrajectoryRecorder(path, task="fail") as recorder:
            with openai_client(server.url, recorder) as client:
                client.chat.completions.create(model="gpt-4o", messages=[SYSTEM, QUESTION])
    except OpenAIError:
        return path
    raise AssertionError("the provider's own exception passes")


def images(directory: Path) -> Path:
    """Record OpenAI chat: an image as data, an image as a URL, and a tool result of several parts."""
    path = directory / "images.json"
    parts = [
        {"type": "text", "text": "The same?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]
    shown = {"role": "user", "content": parts}
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    told = [shown, {"role": "assistant", "content": None, "tool_calls": [ULM]}, answered("call_1", texts)]
    with serving(plain(spoken(None, ULM)), plain(spoken("Yes.", number=2))) as server:
        with TrajectoryRecorder(path, task="compare") as recorder, openai_client(server.url, recorder) as client:
            for messages in ([shown], told):
                client.chat.completions.create(model="gpt-4o", messages=messages, tools=[WEATHER])
    return path
