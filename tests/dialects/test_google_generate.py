"""Google's generateContent dialect: parts become messages and calls, chunks become the answer, and no content
is lost.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder.dialects.google_generate import join_stream, read_message, read_request, read_response
from trace_recorder.values.messages import Block, Choice, JoinedStream, LLMResponse, Message, Tool, ToolCall, Usage

DATA = Path(__file__).parent / "data"
PATHS = ("$.city", "$.city", "$.days[1]['from']", "$.days[0]", "$.sure")


def chunk(*parts: object, **members: object) -> dict:
    return {"candidates": [{"content": {"parts": [*parts], "role": "model"}, **members}]}


def sse(*chunks: object) -> str:
    return "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)


def calling(name: str, **members: object) -> dict:
    return {"functionCall": {"name": name, **members}}


def responding(name: str, response: object, **members: object) -> dict:
    return {"functionResponse": {"name": name, "response": response, **members}}


def test_a_request_is_read():
    """The system instruction comes first, tools are flat, built-in tools are named, and other members are
    parameters.
    """
    declared = {"name": "f", "description": "does f", "parameters": {"type": "OBJECT"}}
    by_schema = {"name": "g", "parametersJsonSchema": {"type": "object"}}
    body = {
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "contents": [{"parts": [{"text": "Hi"}], "role": "user"}, {"parts": [{"text": "Ho"}], "role": "model"}],
        "tools": [{"functionDeclarations": [declared, by_schema]}, {"googleSearch": {}, "codeExecution": {}}],
        "generationConfig": {"temperature": 0},
        "toolConfig": None,
    }
    reading = read_request(body)
    assert (reading.messages, reading.tools, reading.parameters, reading.model) == (
        [Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Ho")],
        [
            Tool("f", "does f", {"type": "OBJECT"}, declared),
            Tool("g", None, {"type": "object"}, by_schema),
            Tool("googleSearch", raw={"googleSearch": {}}),
            Tool("codeExecution", raw={"codeExecution": {}}),
        ],
        {"generationConfig": {"temperature": 0}, "toolConfig": None},
        None,
    )


def test_both_spellings_are_read():
    """A client's snake_case is read like camelCase."""
    body = {
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "model", "parts": [{"function_call": {"name": "f", "args": {"a": 1}}}]}],
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {}}]}],
    }
    reading = read_request(body)
    call = ToolCall("call_0", "f", {"a": 1}, call_id_made_up=True)
    assert reading.messages == [Message("system", "Be brief."), Message("assistant", tool_calls=(call,))]
    assert reading.tools == [Tool("f", None, {}, {"name": "f", "parameters_json_schema": {}})]


def test_results_without_ids_are_paired_by_name():
    """A function's response becomes a tool message that answers the call with the same name."""
    contents = [
        {"role": "model", "parts": [calling("f"), calling("g")]},
        {"role": "user", "parts": [responding("g", {"result": "two"}), responding("f", {"a": 1}), {"text": "Go on."}]},
    ]
    assert read_request({"contents": contents}).messages[1:] == [
        Message("tool", "two", call_id="call_1", name="g", extra=responding("g", {"result": "two"})),
        Message("tool", '{"a":1}', call_id="call_0", name="f", extra=responding("f", {"a": 1})),
        Message("user", "Go on."),
    ]


@pytest.mark.parametrize(
    ("response", "content", "failed"),
    [
        ({"error": "no such city"}, "no such city", True),
        ({"error": {"code": 4}}, '{"error":{"code":4}}', True),
        ({"error": "late", "attempts": 2}, '{"error":"late","attempts":2}', True),
        ({"result": "fine", "error": "a warning"}, '{"result":"fine","error":"a warning"}', False),
        ({"output": "", "error": "a warning"}, '{"output":"","error":"a warning"}', False),
        ({"rows": [], "error": None}, '{"rows":[],"error":null}', False),
    ],
)
def test_a_function_response_with_an_error_has_failed(response, content, failed):
    """The API reports failures under `error`. So does the SDK for failed functions that it calls itself."""
    [message] = read_message({"role": "user", "parts": [responding("f", response)]})
    assert (message.content, message.extra.get("is_error")) == (content, True if failed else None)


def test_thoughts_are_separated_from_the_content():
    """A thought is reasoning, and kept whole if it is signed. Media stay parts, and a call keeps its signature."""
    signed = {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"}
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}
    parts = [
        {"text": "Oh.", "thought": True},
        signed,
        {"text": "See:"},
        image,
        calling("f") | {"thoughtSignature": "s"},
    ]
    assert read_message({"role": "model", "parts": parts}) == [
        Message(
            "assistant",
            [{"type": "text", "text": "See:"}, image],
            (ToolCall("", "f", {}, extra={"thoughtSignature": "s"}),),
            reasoning="Oh.Hm.",
            extra={"parts": [signed]},
        )
    ]


@pytest.mark.parametrize("content", ["Hi", {"parts": "Hi"}, {"parts": {"text": "Hi"}}, {"parts": ["Hi"]}])
def test_a_text_in_place_of_a_content_is_read(content):
    """The short forms that clients allow are read as the text that they contain."""
    assert read_message(content) == [Message("user", "Hi")]


def test_a_response_is_read():
    """Each candidate is a choice, whose `extra` has its other members.

    The `extra` of the answer has those of its parts.
    """
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}
    first = {"content": {"parts": [{"text": "a"}, image, {"text": "b"}], "role": "model"}, "finishReason": "STOP"}
    second = {"content": {"parts": [calling("f"), image]}, "finishReason": "SAFETY", "index": 1, "avgLogprobs": -0.5}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 5, "trafficType": "ON_DEMAND"}
    body = {"candidates": [first, second], "usageMetadata": usage, "modelVersion": "gemini-x", "responseId": "r"}
    calls = (ToolCall("call_7", "f", {}, call_id_made_up=True),)
    blocks = (Block("text", "a"), Block("other", position=0), Block("text", "b"))
    called = (Block("tool_call", call_id="call_7"), Block("other", position=0))
    assert read_response({**body, "createTime": "now"}, made_up_ids=7) == LLMResponse(
        content="a\n\nb",
        finish_reason="STOP",
        usage=Usage(3, 4, reasoning_tokens=5, extra={"trafficType": "ON_DEMAND"}),
        model="gemini-x",
        id="r",
        choices=(
            Choice(0, "a\n\nb", finish_reason="STOP", interleaved=blocks),
            Choice(1, None, None, calls, "SAFETY", extra={"avgLogprobs": -0.5, "parts": [image]}, interleaved=called),
        ),
        extra={"createTime": "now", "parts": [image]},
        interleaved=blocks,
    )


def test_a_dump_of_an_sdk_s_object_is_read():
    """An answer converted from the SDK's object, with nulls and in snake_case, is read the same."""
    part = {"text": "a", "thought": None, "function_call": None, "inline_data": None}
    call = {"text": None, "function_call": {"id": "c", "name": "f", "args": {"a": 1}, "will_continue": None}}
    candidate = {"content": {"parts": [part, call], "role": "model"}, "finish_reason": "STOP", "safety_ratings": None}
    usage = {"prompt_token_count": 3, "candidates_token_count": 4, "cached_content_token_count": None}
    body = {"candidates": [candidate], "model_version": "m", "response_id": "r", "usage_metadata": usage}
    calls = (ToolCall("c", "f", {"a": 1}),)
    choice = Choice(0, "a", tool_calls=calls, finish_reason="STOP")
    assert read_response(body) == LLMResponse(
        "a",
        reasoning=None,
        tool_calls=calls,
        finish_reason="STOP",
        usage=Usage(3, 4),
        model="m",
        id="r",
        choices=(choice,),
    )


@pytest.mark.parametrize(("number", "word"), [(1, "STOP"), (2, "MAX_TOKENS"), (9, "9")])
def test_numbers_of_finish_reasons_are_read_as_words(number, word):
    """Some clients request finish reasons as numbers. A number is read as a word if all servers agree on it."""
    assert read_response(chunk({"text": "a"}, finishReason=number)).finish_reason == word


@pytest.mark.parametrize("body", [{"error": {"code": 404}}, {"promptFeedback": {"blockReason": "SAFETY"}}])
def test_an_error_or_blocked_prompt_has_no_choices(body):
    """An error and a blocked prompt are not answers. They are in `extra`."""
    assert read_response(body) == LLMResponse(extra=body)


def test_a_stream_of_every_kind_of_part_is_joined():
    """Texts of one kind are joined, other parts keep their places, and the last counts are used."""
    joined = join_stream((DATA / "google_everything.sse").read_text(encoding="utf-8"))
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 12, "totalTokenCount": 41, "thoughtsTokenCount": 20}
    assert joined == JoinedStream(
        {
            "usageMetadata": {**usage, "cachedContentTokenCount": 3},
            "modelVersion": "gemini-x",
            "responseId": "r1",
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"text": "Let me think.", "thought": True},
                            {"text": "It is "},
                            {"text": "blue.", "thoughtSignature": "c2lnMQ=="},
                            {"executableCode": {"language": "PYTHON", "code": "1"}},
                            {"text": "So."},
                            calling("paint", args={"colour": "blue"}) | {"thoughtSignature": "c2lnMg=="},
                            {"functionCall": {"id": "own", "name": "rest"}},
                        ],
                        "role": "model",
                    },
                    "index": 0,
                    "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}],
                    "finishReason": "STOP",
                    "finishMessage": "Model generated function call(s).",
                }
            ],
        },
        ended=True,
        events=5,
    )


def test_a_joined_stream_is_read_like_an_answer():
    """Content, reasoning, calls and counts of a stream are in the same members as those of an answer."""
    response = read_response(join_stream((DATA / "google_everything.sse").read_text(encoding="utf-8")).body)
    calls = (
        ToolCall("call_0", "paint", {"colour": "blue"}, call_id_made_up=True, extra={"thoughtSignature": "c2lnMg=="}),
        ToolCall("own", "rest", {}),
    )
    usage = Usage(9, 12, cache_read_input_tokens=3, reasoning_tokens=20, extra={"totalTokenCount": 41})
    assert (response.content, response.reasoning, response.tool_calls, response.usage) == (
        "It is blue.\n\nSo.",
        "Let me think.",
        calls,
        usage,
    )


def test_candidates_are_joined_by_index():
    """Chunks of several candidates are joined separately. The stream has ended when all candidates have."""
    two = {"candidates": [{"index": 1, "content": {"parts": [{"text": "B"}]}, "finishReason": "STOP"}]}
    joined = join_stream(sse(chunk({"text": "a"}, index=0), two, chunk({"text": "b"}, index=0)))
    assert ([choice.content for choice in read_response(joined.body).choices], joined.ended) == (["ab", "B"], False)


def test_log_probabilities_of_all_chunks_are_kept():
    """Each chunk has the log-probabilities of its own tokens."""
    pieces = [chunk({"text": token}, logprobsResult={"chosenCandidates": [{"token": token}]}) for token in "ab"]
    gathered = {"logprobsResult": {"chosenCandidates": [{"token": "a"}, {"token": "b"}]}}
    assert read_response(join_stream(sse(*pieces)).body).choices[0].extra == gathered


def test_an_array_is_read_as_a_stream():
    """A stream that was not requested as events is an array, which may be cut off in the middle."""
    text = json.dumps([chunk({"text": "a"}), chunk({"text": "b"}, finishReason="STOP")], indent=2)
    whole, cut = join_stream(text), join_stream(text[:-40])
    assert [(read_response(joined.body).content, joined.ended) for joined in (whole, cut)] == [
        ("ab", True),
        ("a", False),
    ]


def test_a_parsed_array_is_read_as_an_answer():
    """The parsed array of a stream gives the same reading as the stream."""
    chunks = [chunk({"text": "a"}), chunk({"text": "b"})]
    assert read_response(chunks) == read_response(join_stream(sse(*chunks)).body)


@pytest.mark.parametrize("text", ['data: {"error": {"code": 503}}\n\n', '{\n  "error": {"code": 503}\n}\n'])
def test_an_error_in_a_stream_is_the_stream_s_error(text):
    """An error ends a stream as an event, or as bare JSON after the events."""
    joined = join_stream(sse(chunk({"text": "a"})) + text)
    assert (joined.error, joined.events, read_response(joined.body).content) == ({"code": 503}, 2, "a")


def test_streamed_arguments_are_joined():
    """A call whose arguments come value by value, each with its path, is one call with all of them."""
    values = (
        {"stringValue": "New "},
        {"stringValue": "York"},
        {"numberValue": 2},
        {"nullValue": "NULL_VALUE"},
        {"boolValue": True},
    )
    pieces = [{"jsonPath": path, **value} for path, value in zip(PATHS, values, strict=True)]
    parts = [calling("f", id="c", willContinue=True)]
    parts += [{"functionCall": {"partialArgs": [piece], "willContinue": True}} for piece in pieces]
    joined = join_stream(sse(*map(chunk, parts), chunk({"functionCall": {}}), chunk(calling("g"))))
    arguments = {"city": "New York", "days": [None, {"from": 2}], "sure": True}
    calls = (ToolCall("c", "f", arguments), ToolCall("call_0", "g", {}, call_id_made_up=True))
    assert read_response(joined.body).tool_calls == calls
