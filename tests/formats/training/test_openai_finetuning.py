"""OpenAI's fine-tuning rows. The types of OpenAI's SDK are in `tests/readers/check_openai.py`."""

from __future__ import annotations

from tests.formats.made import assistant, call, gave, run, use
from tests.formats.sdk_conversations import PIXEL
from trace_recorder.formats.training.openai_finetuning import to_openai_finetuning

LS = use("c1", command="ls")
BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}


def test_a_row_has_only_the_conversation_and_the_tools() -> None:
    """Arguments are JSON text, a tool result names its call, and an answer of the model has weight 1."""
    offered = {"tools_available": ["bash"], "request": {"tools": [BASH], "parameters": {"parallel_tool_calls": False}}}
    first = [{"role": "developer", "content": "s"}, "q"]
    second = [*first, assistant(None, LS), gave("c1", "ä")]

    assert to_openai_finetuning(run(call(first, None, LS, **offered), call(second, "done", **offered))) == [
        {
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "q"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
                    ],
                    "weight": 1,
                },
                {"role": "tool", "tool_call_id": "c1", "content": "ä"},
                {"role": "assistant", "content": "done", "weight": 1},
            ],
            "tools": [BASH],
            "parallel_tool_calls": False,
        }
    ]


def test_an_answer_in_an_earlier_row_has_weight_0() -> None:
    """If two rows share a beginning, the second row trains only on its new answers."""
    made = run(call(["q"], "a"), call(["q", assistant("a"), "x?"], "x"), call(["q", assistant("a"), "y?"], "y"))

    assert [[message.get("weight") for message in row["messages"]] for row in to_openai_finetuning(made)] == [
        [None, 1, None, 1],
        [None, 0, None, 1],
    ]


def test_content_that_the_format_cannot_express_is_counted() -> None:
    """The report counts thoughts, further choices, parts that are not text, tools without a schema, and failed
    calls.
    """
    choices = [{"index": 0, "content": "a"}, {"index": 1, "content": "b"}]
    audio = {"role": "user", "content": ["q", {"type": "input_audio"}]}
    offered = {"tools_available": ["web_search"], "request": {"tools": [{"type": "web_search"}]}}
    failed = call(["x"]) | {"response": {}, "error": {"type": "t", "message": "m"}}
    made = run(call([audio], "a", response={"choices": choices, "reasoning": "so"}, **offered), failed)

    [row], left_out = to_openai_finetuning.with_report(made)
    assert row["messages"][0] == {"role": "user", "content": "q"}
    assert left_out == {
        "thoughts in answers": 1,
        "further choices of an answer": 1,
        "audio in questions": 1,
        "tools without a schema": 1,
        "calls that failed, or whose answer or prompt is incomplete": 1,
    }


def test_images_are_data_uris() -> None:
    """A user's image is in the row itself, in whichever dialect it was sent."""
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    shown = {"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image", "source": source}]}

    [row] = to_openai_finetuning(run(call([shown], "a")))
    url = {"url": f"data:image/png;base64,{PIXEL}"}
    assert row["messages"][0]["content"] == [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": url}]


def test_invalid_arguments_stay_as_they_are() -> None:
    """Arguments that are not valid JSON are exported as the model's text."""
    broken = {"call_id": "c", "name": "bash", "arguments": '{"command": "l'}

    [row] = to_openai_finetuning(run(call(["q"], None, broken)))
    assert row["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"command": "l'
