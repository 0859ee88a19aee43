"""The demo's provider, agent and policy, called by the real SDKs over HTTP on this machine."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import ExitStack

import anthropic
import httpx
import ollama
import openai
import pytest
from google.genai import errors, types

from examples.demo.__main__ import main
from examples.demo.killed import run_and_kill
from examples.demo.local_provider import LocalProvider
from examples.demo.loops import anthropic_messages, google_genai, ollama_chat, openai_chat, openai_responses
from examples.demo.runs import LOOPS, Job, Outcome, run
from trace_recorder import load

FIRST_TEXT = "I will look at what is there."
FIRST_REASONING = "I know nothing of this project yet; its files come first."
FIRST_CALL = ("list_files", {"directory": "."})
MENDED = Outcome("All tests pass. I mended basket.py and discount.py.", success=True)
CALLS_OF_A_RUN = 9


@pytest.fixture
def provider():
    with LocalProvider() as running:
        yield running


@pytest.fixture
def connect(provider):
    with ExitStack() as stack:
        yield lambda loop: stack.enter_context(loop.connect(provider.url, "k"))


@pytest.mark.parametrize("form", ["sync", "async", "streaming"])
@pytest.mark.parametrize("sdk", LOOPS)
def test_the_agent_repairs_the_project_through_every_sdk(provider, sdk, form):
    """With each SDK and form of request, the agent finds both mistakes in nine calls."""
    assert run(Job(sdk, form, "local-model", provider.url, key="k", thinking=True)) == MENDED
    assert provider.hits == CALLS_OF_A_RUN


def test_the_agent_uses_the_wrapped_client(provider):
    """The demo's agent calls the client that it is given: with retries turned off, it stops at the provider's 429."""
    provider.refuse_at(1)
    with pytest.raises(openai.RateLimitError) as refused:
        run(Job("openai", "sync", "m", provider.url, key="k"), wrap=lambda client: client.with_options(max_retries=0))

    assert (provider.hits, refused.value.response.headers["Retry-After"]) == (1, "1")


def test_a_killed_run_leaves_its_calls(provider, tmp_path):
    """After SIGKILL, four calls are complete in the files, and the received part of the fifth."""
    trajectory = load(run_and_kill(provider, tmp_path))

    complete = [interaction.complete for interaction in trajectory.llm_interactions]
    assert (trajectory.status, complete) == ("interrupted", [True] * 4 + [False])
    assert trajectory.llm_interactions[-1].response.content == "That should "


def test_a_missing_key_is_named(monkeypatch, capsys):
    """The error for a missing key of a real provider names the variable to set."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(SystemExit, match="2"):
        main(["--provider", "anthropic", "--model", "m"])

    assert "set ANTHROPIC_API_KEY in the environment" in capsys.readouterr().err


ASKED = [{"role": "user", "content": "mend it"}]
CHAT = {"model": "m", "tools": openai_chat.TOOLS, "messages": ASKED}
RESPONSES = {"model": "m", "tools": openai_responses.TOOLS, "input": ASKED, **openai_responses.THINKING}
OLLAMA = {"model": "m", "tools": ollama_chat.TOOLS, "messages": ASKED, "think": True}
THOUGHTS = types.ThinkingConfig(include_thoughts=True)
CONFIG = types.GenerateContentConfig(tools=[google_genai.TOOL], thinking_config=THOUGHTS)
GENERATE = {"model": "m", "contents": "mend it", "config": CONFIG}
SIGNED = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "system": anthropic_messages.SYSTEM_BLOCKS}
MESSAGES = {"model": "m", "max_tokens": 2048, "tools": anthropic_messages.TOOLS, "messages": ASKED, **SIGNED}


def test_openai_chat_gives_a_whole_answer(connect):
    """A chat completion has the text, the call with its arguments as JSON text, and usage."""
    completion = connect(openai_chat).chat.completions.create(**CHAT)

    [choice] = completion.choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", FIRST_TEXT)
    assert (call.function.name, json.loads(call.function.arguments)) == FIRST_CALL
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


def test_openai_chat_streams_deltas(connect):
    """A streamed completion splits text and arguments, and ends with usage in a chunk without choices."""
    stream = connect(openai_chat).chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)

    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    texts = [delta.content for delta in deltas if delta.content]
    functions = [call.function for delta in deltas for call in delta.tool_calls or ()]
    assert (len(texts) > 1, "".join(texts)) == (True, FIRST_TEXT)
    assert (functions[0].name, len(functions) > 2) == ("list_files", True)
    assert json.loads("".join(function.arguments for function in functions)) == FIRST_CALL[1]
    assert (chunks[-1].choices, chunks[-1].usage.prompt_tokens > 0) == ([], True)
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)


def assert_first_response(response):
    reasoning, message, call = response.output
    assert (reasoning.summary[0].text, bool(reasoning.encrypted_content)) == (FIRST_REASONING, True)
    assert message.content[0].text == response.output_text == FIRST_TEXT
    assert (call.name, json.loads(call.arguments)) == FIRST_CALL
    assert response.usage.output_tokens_details.reasoning_tokens > 0
    assert response.status == "completed"


def test_openai_responses_gives_a_whole_answer(connect):
    """A response has a reasoning item, a message and a function call."""
    assert_first_response(connect(openai_responses).responses.create(**RESPONSES))


def test_openai_responses_streams_events(connect):
    """The SDK's stream helper builds the same response from events whose numbers are consecutive."""
    with connect(openai_responses).responses.stream(**RESPONSES) as stream:
        events = list(stream)
        assert_first_response(stream.get_final_response())

    kinds = [event.type for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    several = ("reasoning_summary_text", "output_text", "function_call_arguments")
    assert min(kinds.count(f"response.{part}.delta") for part in several) > 1


def assert_first_message(message):
    thinking, text, call = message.content
    assert (thinking.thinking, bool(thinking.signature), text.text) == (FIRST_REASONING, True, FIRST_TEXT)
    assert (call.name, call.input) == FIRST_CALL
    assert message.stop_reason == "tool_use"
    assert (message.usage.cache_creation_input_tokens > 0, message.usage.cache_read_input_tokens) == (True, 0)


def test_anthropic_gives_a_whole_answer(connect):
    """A message has signed thinking, text and a tool use. The system prompt is written to the cache."""
    assert_first_message(connect(anthropic_messages).messages.create(**MESSAGES))


def test_anthropic_streams_blocks(connect):
    """The SDK's stream helper builds the same message from several deltas each of thinking, text and arguments."""
    with connect(anthropic_messages).messages.stream(**MESSAGES) as stream:
        events = list(stream)
        assert_first_message(stream.get_final_message())

    deltas = [event.delta.type for event in events if event.type == "content_block_delta"]
    assert deltas.count("signature_delta") == 1
    assert min(deltas.count(several) for several in ("thinking_delta", "text_delta", "input_json_delta")) > 1
    assert [event.usage.output_tokens > 1 for event in events if event.type == "message_delta"] == [True]


def assert_first_parts(parts):
    thoughts = "".join(part.text for part in parts if part.thought)
    texts = "".join(part.text for part in parts if part.text and not part.thought)
    [called] = [part for part in parts if part.function_call]
    assert (thoughts, texts, bool(called.thought_signature)) == (FIRST_REASONING, FIRST_TEXT, True)
    assert (called.function_call.name, called.function_call.args) == FIRST_CALL


def test_gemini_gives_a_whole_answer(connect):
    """A response has a thought, text and a signed function call without an id."""
    response = connect(google_genai).models.generate_content(**GENERATE)

    assert_first_parts(response.candidates[0].content.parts)
    assert [call.id for call in response.function_calls] == [None]
    assert response.candidates[0].finish_reason == types.FinishReason.STOP
    assert response.usage_metadata.thoughts_token_count > 0


def test_gemini_streams_chunks(connect):
    """The chunks together have the same parts. Each has the usage so far, and the last has the finish reason."""
    chunks = list(connect(google_genai).models.generate_content_stream(**GENERATE))

    assert_first_parts([part for chunk in chunks for part in chunk.candidates[0].content.parts])
    assert [chunk.usage_metadata is not None for chunk in chunks] == [True] * len(chunks)
    reasons = [chunk.candidates[0].finish_reason for chunk in chunks]
    assert (reasons[-1], set(reasons[:-1])) == (types.FinishReason.STOP, {None})


def assert_first_messages(messages):
    [call] = [call for message in messages for call in message.tool_calls or ()]
    assert "".join(message.thinking or "" for message in messages) == FIRST_REASONING
    assert "".join(message.content or "" for message in messages) == FIRST_TEXT
    assert (call.function.name, call.function.arguments) == FIRST_CALL


def test_ollama_gives_a_whole_answer(connect):
    """A chat response has thinking, text, a call and the counts."""
    response = connect(ollama_chat).chat(**OLLAMA)

    assert_first_messages([response.message])
    assert (response.done, response.eval_count > 0, response.prompt_eval_count > 0) == (True, True, True)


def test_ollama_streams_lines(connect):
    """The lines together have the same message. Only the last line is done and has the counts."""
    lines = list(connect(ollama_chat).chat(**OLLAMA, stream=True))

    assert_first_messages([line.message for line in lines])
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    assert [line.eval_count is not None for line in lines] == [line.done for line in lines]


STREAMS = {
    openai_chat: lambda client: client.chat.completions.create(**CHAT, stream=True),
    openai_responses: lambda client: client.responses.create(**RESPONSES, stream=True),
    anthropic_messages: lambda client: client.messages.create(**MESSAGES, stream=True),
    google_genai: lambda client: client.aio.models.generate_content_stream(**GENERATE),
    ollama_chat: lambda client: client.chat(**OLLAMA, stream=True),
}


@pytest.mark.parametrize("loop", STREAMS, ids=lambda loop: loop.__name__.rpartition(".")[2])
def test_async_clients_read_the_streams_to_their_end(provider, loop):
    """Each async client gets a stream in many pieces."""

    async def gather():
        async with loop.connect_async(provider.url, "k") as client:
            return [piece async for piece in await STREAMS[loop](client)]

    assert len(asyncio.run(gather())) > 5


UNKNOWN = [
    ("/v1/embeddings", {}, {"error": {"message", "type", "param", "code"}}),
    ("/v1/messages/count_tokens", {}, {"type": None, "error": {"type", "message"}, "request_id": None}),
    ("/v1/files", {"anthropic-version": "1"}, {"type": None, "error": {"type", "message"}, "request_id": None}),
    ("/v1beta/models/m:embedContent", {}, {"error": {"code", "message", "status"}}),
    ("/api/embed", {}, {"error": None}),
]


@pytest.mark.parametrize(("path", "headers", "shape"), UNKNOWN)
def test_an_unknown_path_is_a_404_in_the_form_of_its_dialect(provider, path, headers, shape):
    """Each dialect has its own form of the error."""
    response = httpx.post(provider.url + path, headers=headers, json={})

    body = {name: set(value) if isinstance(value, dict) else None for name, value in response.json().items()}
    assert (response.status_code, body) == (404, shape)


MISSING = [
    (openai_chat, openai.NotFoundError, lambda client: client.embeddings.create(model="m", input="x")),
    (anthropic_messages, anthropic.NotFoundError, lambda client: client.models.list()),
    (google_genai, errors.ClientError, lambda client: client.models.get(model="m")),
    (ollama_chat, ollama.ResponseError, lambda client: client.embed(model="m", input="x")),
]


@pytest.mark.parametrize(("loop", "error", "ask"), MISSING)
def test_the_sdks_read_an_unknown_path_as_not_found(connect, loop, error, ask):
    """Each SDK raises its own error for the 404, with the message of the dialect."""
    with pytest.raises(error, match=r"(?i)not.found|Invalid URL"):
        ask(connect(loop))


@pytest.mark.parametrize("sdk", ["openai", "openai-responses", "anthropic"])
def test_a_request_that_is_refused_once_is_retried_by_the_sdk(provider, sdk):
    """After a 429 with Retry-After, the SDK sends the request again, and the run is otherwise the same."""
    provider.refuse_at(3)

    assert run(Job(sdk, "sync", "local-model", provider.url, key="k")) == MENDED
    assert provider.hits == CALLS_OF_A_RUN + 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_stalled_answer_continues_when_released(provider, stream):
    """A stalled request gets the first half of its answer, and the rest when it is released."""
    provider.stall_at(1)
    body = {"model": "m", "messages": [], "stream": stream}
    with httpx.stream("POST", f"{provider.url}/v1/chat/completions", json=body) as response:
        chunks = response.iter_raw()
        first = next(chunks)
        assert provider.wait_until_stalled(60)
        provider.release()
        whole = first + b"".join(chunks)

    assert whole.endswith(b"data: [DONE]\n\n" if stream else b"}")
    assert 0 < len(first) < len(whole)


def test_closing_the_provider_ends_idle_connections():
    """Closing the provider ends all its threads, even if a client keeps its connection."""
    before = {*threading.enumerate()}
    provider = LocalProvider()
    with httpx.Client(base_url=provider.url) as client:
        client.get("/v1/models")
        provider.close()
        assert {*threading.enumerate()} <= before
        with pytest.raises(httpx.ConnectError):
            client.get("/v1/models")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"])
def test_an_unreadable_body_is_a_bad_request(provider, path):
    """An unreadable body gets status 400, and the next request on the same connection is answered."""
    with httpx.Client(base_url=provider.url) as client:
        assert [client.post(path, content=b"{").status_code for _ in range(2)] == [400, 400]
        assert client.post(path, json=[]).status_code == 400


def test_changed_thinking_is_refused(connect):
    """A thinking block that is sent back changed is refused, as by the real provider."""
    client = connect(anthropic_messages)
    blocks = [block.model_dump() for block in client.messages.create(**MESSAGES).content]
    blocks[0]["thinking"] += " Not."
    result = {"type": "tool_result", "tool_use_id": blocks[-1]["id"], "content": "README.md"}
    messages = [*ASKED, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]

    with pytest.raises(anthropic.BadRequestError, match="signature"):
        client.messages.create(**MESSAGES | {"messages": messages})


def test_a_call_without_its_result_is_refused(connect):
    """A tool call without a result is refused, as by the real provider."""
    client = connect(openai_chat)
    message = client.chat.completions.create(**CHAT).choices[0].message

    with pytest.raises(openai.BadRequestError, match="tool_call_ids"):
        client.chat.completions.create(**CHAT | {"messages": [*ASKED, message]})
