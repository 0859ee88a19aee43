"""Google's Interactions dialect: steps become messages and calls, events become the interaction, and no content is
lost.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trace_recorder.dialects.google_interactions import join_stream, read_message, read_request, read_response
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, Tool, ToolCall, Usage

DATA = Path(__file__).parent / "data"
EVENTS = ("step.start", "step.delta", "content.start", "content.delta", "interaction.created", "interaction.completed")
THOUGHT = {"type": "thought", "summary": [{"type": "text", "text": "Hm."}], "signature": "c2ln"}
CALL = {"type": "function_call", "id": "f1", "name": "f", "arguments": {"a": 1}}


def text(said: str) -> dict:
    return {"type": "text", "text": said}


def sse(*events: dict) -> str:
    return "".join(f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def event(kind: str, index: int, **members: object) -> dict:
    return {"event_type": kind, "index": index, **members}


def test_a_text_is_the_user_s_message():
    """A plain input is a user message after the system's. Tools are flat, and other members are parameters."""
    declared = {"type": "function", "name": "f", "description": "does f", "parameters": {"type": "object"}}
    body = {"model": "gemini-x", "input": "Hi", "system_instruction": "Be brief.", "tools": [declared], "stream": None}
    reading = read_request({**body, "tools": [declared, {"type": "google_search"}]})
    assert (reading.messages, reading.tools, reading.parameters, reading.model) == (
        [Message("system", "Be brief."), Message("user", "Hi")],
        [
            Tool("f", "does f", {"type": "object"}, declared),
            Tool("google_search", raw={"type": "google_search"}),
        ],
        {"model": "gemini-x", "stream": None},
        "gemini-x",
    )


def test_contents_are_one_message():
    """A list of contents is one message of the user, whose parts are the texts and media."""
    contents = [text("See:"), {"type": "image", "data": "iVBO", "mime_type": "image/png"}]
    assert read_request({"input": contents}).messages == [Message("user", contents)]


def test_consecutive_steps_of_one_side_are_one_message():
    """A turn of the model is one message, and each result of a function is one message."""
    search = {"type": "google_search_call", "id": "s", "arguments": {"queries": ["a"]}}
    steps = [
        {"type": "user_input", "content": [text("Hi")]},
        *(THOUGHT, search, {"type": "model_output", "content": [text("Well.")]}, CALL),
        {"type": "function_result", "call_id": "f1", "name": "f", "result": {"b": 2}, "is_error": True},
        {"type": "function_result", "call_id": "f2", "result": [text("ok")]},
        text("Go on."),
    ]
    assert read_request({"input": steps}).messages == [
        Message("user", "Hi"),
        Message(
            "assistant",
            [search, text("Well.")],
            (ToolCall("f1", "f", {"a": 1}),),
            reasoning="Hm.",
            extra={"steps": [THOUGHT]},
        ),
        Message("tool", '{"b":2}', call_id="f1", name="f", extra={"is_error": True}),
        Message("tool", "ok", call_id="f2"),
        Message("user", "Go on."),
    ]


@pytest.mark.parametrize(
    ("element", "messages"),
    [
        ({"role": "model", "content": "Ho"}, [Message("assistant", "Ho")]),
        (
            {"role": "model", "content": [text("Ho"), CALL]},
            [Message("assistant", "Ho", (ToolCall("f1", "f", {"a": 1}),))],
        ),
        ({"role": "user", "content": [{"type": "function_result", "result": "42"}]}, [Message("tool", "42")]),
        ({"type": "model_output", "error": {"code": 3}}, [Message("assistant", extra={"error": {"code": 3}})]),
        ("Hi", [Message("user", "Hi")]),
        (None, []),
    ],
)
def test_single_elements_are_read_completely(element, messages):
    """A turn with a role, from the API's first form, and a step with more than its contents are read completely."""
    assert read_message(element) == messages


def test_a_response_is_read():
    """Texts of the outputs are the content. Steps with other members are kept in `extra`."""
    steps = [THOUGHT, {"type": "model_output", "content": [text("It is "), text("blue.")]}, CALL]
    usage = {"total_input_tokens": 3, "total_output_tokens": 4, "total_cached_tokens": 0, "total_tokens": 7}
    body = {"id": "v1", "status": "requires_action", "steps": steps, "usage": usage, "model": "gemini-x", "object": "o"}
    calls = (ToolCall("f1", "f", {"a": 1}),)
    assert read_response(body) == LLMResponse(
        content="It is blue.",
        reasoning="Hm.",
        tool_calls=calls,
        finish_reason="requires_action",
        usage=Usage(3, 4, cache_read_input_tokens=0, extra={"total_tokens": 7}),
        model="gemini-x",
        id="v1",
        choices=(Choice(0, "It is blue.", "Hm.", calls, "requires_action"),),
        extra={"object": "o", "steps": [THOUGHT]},
    )


def test_the_input_is_not_part_of_the_answer():
    """If an interaction contains its input, the answer begins after the input."""
    steps = [{"type": "user_input", "content": [text("Hi")]}, {"type": "model_output", "content": [text("Ho")]}]
    response = read_response({"status": "completed", "steps": steps})
    assert (response.content, response.extra) == ("Ho", {"steps": steps[:1]})


def test_outputs_of_the_first_form_are_read():
    """The flat list of contents of the API's first form is read like steps."""
    response = read_response({"status": "completed", "outputs": [THOUGHT, text("Ho"), CALL]})
    assert (response.content, response.reasoning, response.tool_calls, response.extra) == (
        "Ho",
        "Hm.",
        (ToolCall("f1", "f", {"a": 1}),),
        {"outputs": [THOUGHT]},
    )


@pytest.mark.parametrize("body", [{"status": "in_progress"}, {"error": {"message": "no"}}])
def test_an_unfinished_interaction_or_error_has_no_choices(body):
    """A running interaction and an error are not answers. They are in `extra`."""
    assert read_response(body) == LLMResponse(extra=body)


def test_a_stream_of_every_kind_of_event_is_joined():
    """Summaries, signatures, texts, media, annotations and arguments are joined in their steps."""
    joined = join_stream((DATA / "google_interactions.sse").read_text(encoding="utf-8"))
    annotations = [{"type": "url_citation", "url": "https://sky.example"}]
    counts = {"total_input_tokens": 11, "total_cached_tokens": 0, "total_output_tokens": 14}
    assert joined == JoinedStream(
        {
            "usage": {"total_tokens": 45, **counts, "total_thought_tokens": 20},
            "id": "v1_a",
            "status": "requires_action",
            "object": "interaction",
            "model": "gemini-x",
            "steps": [
                {"type": "thought", "summary": [text("Hm. "), text("Yes.")], "signature": "c2ln"},
                {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["sky"]}, "signature": "czE="},
                {
                    "type": "model_output",
                    "content": [
                        {"type": "text", "text": "It is blue.", "annotations": annotations},
                        {"type": "image", "data": "iVBO", "mime_type": "image/png"},
                    ],
                },
                {"type": "function_call", "id": "f1", "name": "paint", "arguments": {"colour": "blue"}},
            ],
        },
        ended=True,
        events=20,
    )


def test_an_incomplete_stream_has_the_received_part():
    """Arguments that were cut off stay text, the counts are the last received ones, and there is no finish reason."""
    whole = (DATA / "google_interactions.sse").read_text(encoding="utf-8")
    joined = join_stream(whole[: whole.index("event: interaction.completed") - 100])
    response = read_response(joined.body)
    assert (joined.ended, response.content, response.tool_calls, response.finish_reason, response.usage) == (
        False,
        "It is blue.",
        (ToolCall("f1", "paint", '{"colour": '),),
        None,
        Usage(11, reasoning_tokens=1),
    )


def test_a_stream_of_the_first_form_is_joined():
    """Contents without steps, each with a start and deltas, become the outputs."""
    events = [
        event("content.start", 0, content={"type": "text", "text": ""}),
        event("content.delta", 0, delta=text("It is ")),
        event("content.delta", 0, delta=text("blue.")),
    ]
    assert join_stream(sse(*events)).body == {"outputs": [text("It is blue.")]}


def test_a_delta_without_its_start_begins_an_output():
    """If a stream is joined from its middle, the deltas without a start are read too."""
    joined = join_stream(sse(event("step.delta", 3, delta=text("blue."))))
    assert joined.body == {"steps": [{"type": "model_output", "content": [text("blue.")]}]}


def test_steps_in_the_last_event_are_used():
    """If the last event has all steps, these replace the joined steps."""
    steps = [{"type": "model_output", "content": [text("whole")]}]
    last = {"event_type": "interaction.completed", "interaction": {"steps": steps}}
    assert join_stream(sse(event("step.delta", 0, delta=text("who")), last)).body == {"steps": steps}


def test_an_error_in_a_stream_is_the_stream_s_error():
    """The text before an error event is kept beside the error."""
    failed = {"event_type": "error", "error": {"code": "x", "message": "no"}}
    joined = join_stream(sse(event("step.delta", 0, delta=text("He")), failed))
    assert (joined.error, joined.ended, read_response(joined.body).content) == (failed["error"], False, "He")


def test_a_step_that_the_values_cannot_express_is_kept():
    """A cited text keeps its step, beside the text. Plain texts, thoughts and calls keep no step."""
    cited = {"type": "text", "text": "It is blue.", "annotations": [{"type": "url_citation", "url": "https://sky"}]}
    steps = [
        {"type": "thought", "summary": [{"type": "text", "text": "The sky."}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Yes. "}]},
        {"type": "model_output", "content": [cited]},
        {"type": "function_call", "id": "c1", "name": "look", "arguments": {}},
    ]

    response = read_response({"steps": steps})

    assert (response.content, response.reasoning, response.extra) == (
        "Yes. It is blue.",
        "The sky.",
        {"steps": [steps[2]]},
    )


def test_other_blocks_have_their_position_in_extra():
    """Positions count the kept steps, including those of the input. A step of plain text is not kept."""
    image = [{"type": "image", "data": "aQ=="}]
    steps = [
        {"type": "user_input", "content": image},
        {"type": "model_output", "content": image},
        {"type": "model_output", "content": [text("Yes.")]},
        {"type": "google_search_call", "id": "s"},
    ]

    response = read_response({"steps": steps})

    assert response.extra["steps"] == [steps[0], steps[1], steps[3]]
    assert [(block.type, block.text, block.position) for block in response.interleaved] == [
        ("other", None, 1),
        ("text", "Yes.", None),
        ("other", None, 2),
    ]
