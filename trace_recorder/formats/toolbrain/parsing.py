"""Parsers split an answer of a model into thought, tool code and final answer, as in ToolBrain's `ParsedCompletion`.

Each kind of agent has a parser: `parse_tool_calls` for models that call tools, `parse_code` for models that write code,
`parse_react` for models that write `Action:` and `Action Input:`. Callers may pass any other function from an
`LLMResponse` to a `ParsedCompletion`. Text that a parser does not recognise is the final answer, because no tool acts
on it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import TypedDict

from trace_recorder.dialects.json_access import as_dict, json_value
from trace_recorder.values.messages import LLMResponse, Payload, ToolCall


class ParsedCompletion(TypedDict):
    """The parsed parts of a completion. A missing part is None."""

    thought: str | None
    tool_code: str | None
    final_answer: str | None


Parser = Callable[[LLMResponse], ParsedCompletion]

_CODE = re.compile(
    r"<code>\s*(?P<tagged>.*?)\s*(?:</code>|\Z)"
    r"|```(?:python|py)?[ \t]*\n(?P<fenced>.*?)\s*(?:```|<end_code>|\Z)"
    r"|```\w+[ \t]*\n.*?(?:```|\Z)"  # a fence in a language other than Python, which no agent runs
    r"|^[ \t]*Code:[ \t]*(?P<labelled>(?!```|<code>)\S.*?)\s*(?=^[ \t]*Final Answer:|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_FINAL = re.compile(r"^[ \t]*Final Answer:\s*(?P<answer>.*)", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_LABEL = re.compile(r"^\s*Thoughts?:\s*", re.IGNORECASE)
_NEXT = re.compile(r"^[ \t]*(?:Action|Code)\s*:.*", re.DOTALL | re.MULTILINE)
_OBSERVATION = re.compile(r"\s*Observations?:[ \t]*\n?", re.IGNORECASE)
_OBSERVED = re.compile(r"^[ \t]*Observation:.*", re.DOTALL | re.MULTILINE)
_ACTION = re.compile(
    r"^[ \t]*Action:\s*(?P<tool>[^\n\[{`]+?)\s*(?:\[(?P<inside>.*)\]\s*$"
    r"|\n\s*Action Input:[ \t]*(?P<input>.*)\Z|\Z)",
    re.DOTALL | re.MULTILINE,
)
_BLOB = re.compile(r"^[ \t]*Action:\s*(?:```(?:json)?\s*)?(?P<blob>\{.*\})\s*(?:```)?\s*\Z", re.DOTALL | re.MULTILINE)


def parse_tool_calls(response: LLMResponse) -> ParsedCompletion:
    """Parse the answer of a model that calls tools.

    The tool code is the calls, written as Python code. If there are no calls, the text is the final answer. Text next
    to calls is part of the thought. A single call of `final_answer` is the final answer.
    """
    calls = response.tool_calls
    if not calls:
        return _parsed_completion(response.reasoning, None, response.content or None)
    thought = _join_texts(response.reasoning, response.content)
    if len(calls) == 1 and calls[0].name == "final_answer":
        return _parsed_completion(thought, None, _answer(calls[0].arguments))
    return _parsed_completion(thought, "\n".join(map(code_of, calls)), None)


def parse_code(response: LLMResponse) -> ParsedCompletion:
    """Parse the answer of a code agent.

    The agent writes `Thought: …`, then code in `<code>`, in a fence, or after `Code:`, or else `Final Answer: …`. The
    thought is the text before the code. Several pieces of code are run as one. Code that consists only of
    `final_answer(…)` is the final answer. Closing tags may be missing, because a stop sequence may cut them off.
    """
    text = response.content or ""
    matches = [match for match in _CODE.finditer(text) if match.lastgroup is not None]
    if not matches:
        return _without_action(response, text)
    code = "\n\n".join(filter(None, (match[match.lastgroup or 0] for match in matches)))
    thought = _join_texts(response.reasoning, _thought_in(text[: matches[0].start()]))
    answer = _final_answer(code)
    if answer is not None:
        return _parsed_completion(thought, None, answer)
    return _parsed_completion(thought, code or None, None)


def parse_react(response: LLMResponse) -> ParsedCompletion:
    """Parse the answer of a ReAct agent.

    The agent writes `Thought:`, then `Action:` with `Action Input:`, or else `Final Answer:`. `Action: tool[input]` and
    a JSON object with `action` and `action_input` are read too. Text that a model makes up after `Observation:` is left
    out.
    """
    text = _OBSERVED.sub("", response.content or "")
    code, begin = _action(text)
    if code is None:
        return _without_action(response, text)
    return _parsed_completion(_join_texts(response.reasoning, _thought_in(text[:begin])), code, None)


def observation_of(text: str) -> str:
    """Return the tool output in a message of an agent that calls tools by text.

    Leave out the label that the agent's loop puts before the output.
    """
    label = _OBSERVATION.match(text)
    if label is None:
        return text
    return text[label.end() :]


def code_of(call: ToolCall) -> str:
    """Write a tool call as Python: `weather(city='Ulm')`."""
    return _call(call.name, call.arguments)


def _call(name: str, arguments: Payload) -> str:
    if not isinstance(arguments, dict):
        return f"{name}({arguments!r})"
    if all(key.isidentifier() for key in arguments):
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    return f"{name}(**{arguments!r})"


def _action(text: str) -> tuple[str | None, int]:
    """Return the action of a text as Python, or None, and the position of the action in the text."""
    blob = _BLOB.search(text)
    if blob is not None:
        members = as_dict(json_value(blob["blob"]))
        if isinstance(members.get("action"), str) and members["action"] != "Final Answer":
            return _call(members["action"], _read_input(members.get("action_input"))), blob.start()
        return None, 0
    match = _ACTION.search(text)
    if match is None:
        return None, 0
    arguments = match["input"]
    if arguments is None:
        arguments = match["inside"]
    if arguments is None:
        return _call(match["tool"], {}), match.start()
    return _call(match["tool"], _read_input(arguments.strip())), match.start()


def _read_input(arguments: Payload) -> Payload:
    """Return an action's input: the JSON object in its text, or else the text."""
    if not isinstance(arguments, str):
        return arguments
    value = json_value(arguments)
    if isinstance(value, dict):
        return value
    return arguments


def _without_action(response: LLMResponse, text: str) -> ParsedCompletion:
    """Parse an answer whose text has no action: the model may have called tools."""
    if response.tool_calls:
        return parse_tool_calls(response)
    return _parse_words(response, text)


def _parse_words(response: LLMResponse, text: str) -> ParsedCompletion:
    """Parse a completion without an action. The answer is the text after `Final Answer:`, or else all text."""
    blob = _BLOB.search(text)
    if blob is not None:
        members = as_dict(json_value(blob["blob"]))
        if members.get("action") == "Final Answer":
            thought = _join_texts(response.reasoning, _thought_in(text[: blob.start()]))
            return _parsed_completion(thought, None, str(members.get("action_input")))
    match = _FINAL.search(text)
    if match is None:
        return _parsed_completion(response.reasoning, None, text.strip() or None)
    return _parsed_completion(
        _join_texts(response.reasoning, _thought_in(text[: match.start()])), None, match["answer"].strip()
    )


def _thought_in(text: str) -> str | None:
    return _NEXT.sub("", _LABEL.sub("", text)).strip() or None


def _final_answer(code: str) -> str | None:
    """Return the final answer if the code consists only of a call of `final_answer`, or None."""
    try:
        [statement] = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match statement:
        case ast.Expr(ast.Call(ast.Name("final_answer"), arguments, keywords)):
            values = [*arguments, *(keyword.value for keyword in keywords)]
            if len(values) != 1:
                return None
            try:
                return str(ast.literal_eval(values[0]))
            except ValueError:
                return ast.unparse(values[0])
    return None


def _answer(arguments: Payload) -> str:
    """Return the one argument as text, or else all arguments."""
    if isinstance(arguments, dict) and len(arguments) == 1:
        [arguments] = arguments.values()
    return str(arguments)


def _join_texts(*texts: str | None) -> str | None:
    return "\n\n".join(text for text in texts if text) or None


def _parsed_completion(thought: str | None, tool_code: str | None, final_answer: str | None) -> ParsedCompletion:
    return {"thought": thought or None, "tool_code": tool_code, "final_answer": final_answer}


PARSERS: Mapping[str, Parser] = {"calls": parse_tool_calls, "code": parse_code, "react": parse_react}
"""Our parsers by name, for the command line."""
DEFAULT_PARSER = "calls"
