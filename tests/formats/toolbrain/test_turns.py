"""ToolBrain's view: the turns of runs of every shape."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from trace_recorder import Trajectory
from trace_recorder.formats.toolbrain.parsing import ParsedCompletion, parse_code, parse_react
from trace_recorder.formats.toolbrain.turns import ToolBrainTurn, format_turns, to_turns
from trace_recorder.values.messages import LLMResponse

Trajectories = Mapping[str, Trajectory]
QUESTION = "<|SYSTEM|>You answer in one sentence.\n<|USER|>"


def test_a_turn_has_prompt_answer_and_result(trajectories: Trajectories) -> None:
    """A turn has the tool's text as the model got it, and the object that the agent recorded."""
    [first, last] = to_turns(trajectories["own_steps"])

    assert first["prompt_for_model"].endswith(f"{QUESTION}Is it warmer in Ulm or in Rome?\n<|ASSISTANT|>")
    assert {
        name: first[name] for name in ("model_completion", "parsed_completion", "tool_output", "action_output")
    } == {  # type: ignore[literal-required]
        "model_completion": '<|TOOL_CALL|>{"name": "weather", "arguments": {"city": "Ulm"}}',
        "parsed_completion": {"thought": None, "tool_code": "weather(city='Ulm')", "final_answer": None},
        "tool_output": "7 °C …",
        "action_output": {"celsius": 7, "wind": [1, 2]},
    }
    assert first["formatted_conversation"] == last["prompt_for_model"].removesuffix("<|ASSISTANT|>")
    assert last["formatted_conversation"] == last["prompt_for_model"] + "Ulm has 7 °C.\n"


def test_the_object_may_be_exported_as_text(trajectories: Trajectories) -> None:
    """In toolbrain's own type, `action_output` is a text."""
    [first, last] = to_turns(trajectories["own_steps"], action_output="text")

    assert (first["action_output"], last["action_output"]) == ('{"celsius": 7, "wind": [1, 2]}', None)


def test_parallel_tools_are_one_turn(trajectories: Trajectories) -> None:
    """The calls are lines of the code, and the results lines of the output. No object is made from a text."""
    [first, *_] = to_turns(trajectories["tools"])

    assert first["parsed_completion"]["tool_code"] == "weather(city='Ulm')\nweather(city='Rome')"
    assert first["tool_output"] == '{"celsius": 7}\nError: no such city'
    assert first["action_output"] is None


@pytest.mark.parametrize("run", ["gemini", "local", "responses", "thinking", "images"])
def test_every_dialect_gives_turns(trajectories: Trajectories, run: str) -> None:
    """The first turn of a run in each dialect has code and its result, and the last turn the answer."""
    first, last = to_turns(trajectories[run])

    assert first["parsed_completion"]["tool_code"]
    assert first["tool_output"]
    assert last["parsed_completion"]["final_answer"] == last["model_completion"]


def test_a_code_agent_s_observation_is_the_tool_output(trajectories: Trajectories) -> None:
    """The output of the code, in the user's next message, is the tool's output."""
    [first, last] = to_turns(trajectories["code_agent"], parse_code)

    assert first["tool_output"] == "Execution logs:\n12\nLast output from code snippet:\nNone"
    assert first["model_completion"] == "Thought: I count.\n<code>\nprint(len(open('a').read()))\n</code>"
    assert (last["parsed_completion"]["final_answer"], last["tool_output"]) == ("12", None)


def test_a_react_agent_s_observation_is_the_tool_output(trajectories: Trajectories) -> None:
    """The observation, in the user's next message, is the output of the action."""
    assert [turn["tool_output"] for turn in to_turns(trajectories["react"], parse_react)] == ["12", None]


def test_a_function_of_the_user_may_parse(trajectories: Trajectories) -> None:
    """Any function from a response to the three members may be the parser."""

    def shout(response: LLMResponse) -> ParsedCompletion:
        return {"thought": None, "tool_code": None, "final_answer": (response.content or "").upper()}

    answers = [turn["parsed_completion"]["final_answer"] for turn in to_turns(trajectories["react"], shout)]
    assert answers[1] == "THOUGHT: I NOW KNOW THE FINAL ANSWER\nFINAL ANSWER: 12"


def test_a_prompt_of_a_rewritten_history_is_the_sent_prompt(trajectories: Trajectories) -> None:
    """After a compaction the prompt is the summary, and not the replaced history."""
    turns = to_turns(trajectories["compacted"])

    assert turns[2]["prompt_for_model"].endswith(f"{QUESTION}Summary: Ulm has 7 °C. Go on.\n<|ASSISTANT|>")
    assert [turn["tool_output"] for turn in turns] == ["7", None, "31", None]


def test_turns_may_be_those_of_one_agent(trajectories: Trajectories) -> None:
    """The trace of one agent has no turns of another agent."""
    assert [turn["tool_output"] for turn in to_turns(trajectories["sub_agents"], agent="planner")] == [
        "It has a minster.",
        None,
    ]


@pytest.mark.parametrize(
    ("run", "turns"),
    [
        ("empty", 0),
        ("failed", 0),
        ("in_flight", 0),
        ("damaged", 1),
        ("interrupted", 1),
        ("streamed", 2),
        ("captured", 3),
    ],
)
def test_only_answers_of_the_model_are_turns(trajectories: Trajectories, run: str, turns: int) -> None:
    """A call that failed, has no answer yet, or has a damaged request is not a turn."""
    assert len(to_turns(trajectories[run])) == turns


def test_steps_without_calls_are_turns(trajectories: Trajectories) -> None:
    """If no call was recorded, the steps are the turns. A tool's failure is its output."""
    [turn] = to_turns(trajectories["steps_alone"])

    assert (turn["parsed_completion"]["thought"], turn["tool_output"], turn["action_output"]) == (
        "I look.",
        "denied",
        "denied",
    )


def test_a_document_gives_the_same_turns_as_its_journal(trajectories: Trajectories) -> None:
    """All content of a turn is in the document too."""
    assert to_turns(trajectories["document_only"]) == to_turns(trajectories["tools"])


def test_the_prompt_has_everything_that_the_model_got(trajectories: Trajectories) -> None:
    """The plain form has thoughts that were sent back, images, and failures of tools."""
    prompt = to_turns(trajectories["thinking"])[1]["prompt_for_model"]

    assert "<|THINKING|>A red pixel.\n<|SAID|>I search.\n<|TOOL_CALL|>" in prompt
    assert "<|TOOL toolu_2 failed|>no GPS\n" in prompt
    assert '{"type": "image_url", "image_url": {"url": "data:image/png;base64,' in prompt


def _turn(**members: object) -> ToolBrainTurn:
    parsed = {"thought": None, "tool_code": None, "final_answer": "12"}
    whole = {"prompt_for_model": "p", "model_completion": "c", "parsed_completion": parsed, "tool_output": None}
    return {**whole, "action_output": None, "formatted_conversation": None, **members}  # type: ignore[typeddict-item]


CODE = {"thought": None, "tool_code": "f()", "final_answer": None}


@pytest.mark.parametrize(
    ("turn", "warnings"),
    [
        (_turn(), []),
        (_turn(parsed_completion=CODE), ["tool code without output"]),
        (_turn(parsed_completion=CODE, action_output=0), []),
        (_turn(parsed_completion=CODE, tool_output="An Error"), ["the tool's output mentions an error"]),
        (_turn(model_completion=" "), ["the model's completion is empty"]),
        (_turn(parsed_completion=dict.fromkeys(CODE)), ["nothing could be parsed from the completion"]),
    ],
)
def test_the_walk_has_warnings(turn: ToolBrainTurn, warnings: list[str]) -> None:
    """The walk warns of code without output, errors, and empty answers. An output of 0 is an output."""
    lines = list(format_turns([turn]))

    assert [line.removeprefix("WARNING: ") for line in lines if line.startswith("WARNING")] == warnings


def test_the_walk_shows_a_turn_line_by_line() -> None:
    """Each member of a turn is one line, cut to the width."""
    turn = _turn(prompt_for_model="a\nb" * 50, parsed_completion=CODE, action_output={"x": 1})

    assert list(format_turns([turn], width=12)) == [
        "Trace of 1 turn",
        "=== Turn 1 ===",
        "Model saw: ...a ba ba b",
        "Model said: c",
        "Tool code: f()",
        'Tool result: {"x": 1}',
    ]


def test_the_walk_of_an_empty_trace_is_a_warning() -> None:
    """An empty trace is worth a warning."""
    assert list(format_turns([])) == ["WARNING: the trace is empty"]
