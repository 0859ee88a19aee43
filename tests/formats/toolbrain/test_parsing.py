"""Parsers: how they read models' texts in the formats of common agents."""

from __future__ import annotations

import pytest

from trace_recorder.formats.toolbrain.parsing import code_of, parse_code, parse_react, parse_tool_calls
from trace_recorder.values.messages import LLMResponse, ToolCall

WEATHER = ToolCall("c1", "weather", {"city": "Ulm", "days": None})
TOOLS = [
    # (reasoning, content, calls, thought, tool code, final answer)
    (None, "9 °C.", (), None, None, "9 °C."),
    ("Ask.", "9 °C.", (), "Ask.", None, "9 °C."),
    (None, None, (WEATHER,), None, "weather(city='Ulm', days=None)", None),
    ("Ask.", "I look.", (WEATHER, WEATHER), "Ask.\n\nI look.", "\n".join(["weather(city='Ulm', days=None)"] * 2), None),
    (None, "", (), None, None, None),
    (None, None, (ToolCall("c1", "final_answer", {"answer": 12}),), None, None, "12"),
    (None, None, (ToolCall("c1", "final_answer", {}),), None, None, "{}"),
]
CODE = [
    ("Thought: I add.\n<code>\nadd(5, 7)\n</code>", "I add.", "add(5, 7)", None),
    ("Thought: cut off\n<code>\nadd(5, 7)", "cut off", "add(5, 7)", None),
    ("Thoughts: I add.\nCode:\n```py\nadd(5, 7)\n```<end_code>", "I add.", "add(5, 7)", None),
    ("I add.\n```python\nadd(5, 7)\n```", "I add.", "add(5, 7)", None),
    (
        "I add.\n\nAction: python_code\nCode: import math\nprint(1)\n\nFinal Answer: wait",
        "I add.",
        "import math\nprint(1)",
        None,
    ),
    ("Thought: done\n<code>\nfinal_answer('12')\n</code>", "done", None, "12"),
    ("Thought: done\n<code>\nfinal_answer(answer=x + 1)\n</code>", "done", None, "x + 1"),
    ("Thought: both\n<code>\nx = 1\nfinal_answer(x)\n</code>", "both", "x = 1\nfinal_answer(x)", None),
    ("Thought: done\nFinal Answer: The root is 12.", "done", None, "The root is 12."),
    ("The root is 12.", None, None, "The root is 12."),
    ("<code>\n</code>", None, None, None),
    ("<code>\nthis is no python(\n</code>", None, "this is no python(", None),
    ("", None, None, None),
    ("I add.\nCode: ```py\nadd(5, 7)\n```", "I add.", "add(5, 7)", None),
    ("I add.\nCode:\n<code>\nadd(5, 7)\n</code>", "I add.", "add(5, 7)", None),
    ("I add.\n<code>\na = 5\n</code>\nand\n<code>\nadd(a, 7)\n</code>", "I add.", "a = 5\n\nadd(a, 7)", None),
    ("I add.\n```py\na = 5\n```\nand\n```py\nadd(a, 7)\n```", "I add.", "a = 5\n\nadd(a, 7)", None),
    (
        'It was\n```json\n{"a": 5}\n```\nI add.\n```py\nadd(5)\n```',
        'It was\n```json\n{"a": 5}\n```\nI add.',
        "add(5)",
        None,
    ),
    ('It is\n```json\n{"a": 5}\n```\nFinal Answer: 5', 'It is\n```json\n{"a": 5}\n```', None, "5"),
]
REACT = [
    ('Thought: I count.\nAction: wc\nAction Input: {"path": "a"}', "I count.", "wc(path='a')", None),
    ("Thought: I look.\nAction: search\nAction Input: Ulm minster", "I look.", "search('Ulm minster')", None),
    ("Thought: I look.\nAction: search[Ulm minster]", "I look.", "search('Ulm minster')", None),
    ("Thought: time\nAction: clock", "time", "clock()", None),
    ('Think.\nAction:\n```json\n{"action": "wc", "action_input": {"path": "a"}}\n```', "Think.", "wc(path='a')", None),
    ('Action: {"action": "Final Answer", "action_input": "12"}', None, None, "12"),
    ("Thought: I count.\nAction: wc\nAction Input: a\nObservation: 12\nThought: made up", "I count.", "wc('a')", None),
    ("Thought: I now know the final answer\nFinal Answer: 12", "I now know the final answer", None, "12"),
    ('Action: f\nAction Input: {"a-b": 1}', None, "f(**{'a-b': 1})", None),
    ("Nothing of the kind", None, None, "Nothing of the kind"),
]


@pytest.mark.parametrize(("reasoning", "content", "calls", "thought", "code", "answer"), TOOLS)
def test_calls_of_tools_are_read_as_python(
    reasoning: str | None,
    content: str | None,
    calls: tuple[ToolCall, ...],
    thought: str | None,
    code: str | None,
    answer: str | None,
) -> None:
    """Calls are the code, in Python. Words next to calls are the thought, and words without calls are the answer."""
    parsed = parse_tool_calls(LLMResponse(content, reasoning=reasoning, tool_calls=calls))

    assert parsed == {"thought": thought, "tool_code": code, "final_answer": answer}


@pytest.mark.parametrize(("text", "thought", "code", "answer"), CODE)
def test_code_of_agents_is_found(text: str, thought: str | None, code: str | None, answer: str | None) -> None:
    """Code is found in tags, in fences and after its label. Code that only gives an answer is the answer."""
    assert parse_code(LLMResponse(text)) == {"thought": thought, "tool_code": code, "final_answer": answer}


@pytest.mark.parametrize(("text", "thought", "code", "answer"), REACT)
def test_written_actions_are_found(text: str, thought: str | None, code: str | None, answer: str | None) -> None:
    """An action with its input is the code, in any spelling. Text that the model invents after `Observation:`
    is not.
    """
    assert parse_react(LLMResponse(text)) == {"thought": thought, "tool_code": code, "final_answer": answer}


@pytest.mark.parametrize("parser", [parse_code, parse_react])
def test_text_parsers_read_tool_calls_too(parser: object) -> None:
    """A model may call tools although its agent expects text."""
    response = LLMResponse("Hm.", reasoning="Ask.", tool_calls=(WEATHER,))

    assert parser(response) == parse_tool_calls(response)  # type: ignore[operator]


def test_both_kinds_of_thoughts_are_kept() -> None:
    """If a reasoning model also writes `Thought:`, its reasoning comes first, then that text."""
    parsed = parse_code(LLMResponse("Thought: add\n<code>\nadd()\n</code>", reasoning="Long thoughts."))

    assert parsed["thought"] == "Long thoughts.\n\nadd"


@pytest.mark.parametrize(
    ("given", "text"), [({}, "f()"), ("raw", "f('raw')"), ({"a b": 1}, "f(**{'a b': 1})"), ([1], "f([1])")]
)
def test_any_arguments_become_python(given: object, text: str) -> None:
    """Arguments that are not an object, or have names that are invalid in Python, are written as valid Python."""
    assert code_of(ToolCall("c", "f", given)) == text


@pytest.mark.parametrize("parser", [parse_code, parse_react])
@pytest.mark.parametrize(
    "text", ["Thought:" * 5000, "```py\n" * 5000, "Action: a\n" * 5000, "[" * 20_000, "<code>" * 5000 + "(" * 5000]
)
def test_any_text_is_parsed(parser: object, text: str) -> None:
    """Any text of a model is parsed, in time that grows linearly."""
    assert parser(LLMResponse(text)).keys() == {"thought", "tool_code", "final_answer"}  # type: ignore[operator]
