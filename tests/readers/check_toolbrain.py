"""Have ToolBrain's rewards score our traces, in all three parsers' readings and with both forms of `action_output`.

needs: Python >= 3.10, pip install pydantic, and, without its torch, pip install --no-deps toolbrain==0.1.4
usage: PYTHONPATH=. python -m tests.readers.check_toolbrain DIRECTORY
"""

from __future__ import annotations

import importlib.util
import math
import sys
import types
from typing import Any

from tests.readers.contents import Contents
from tests.readers.reading import Reader, documents, finish, runs
from trace_recorder import Trajectory
from trace_recorder.formats.toolbrain.parsing import parse_code, parse_react, parse_tool_calls
from trace_recorder.formats.toolbrain.reward_functions import is_batch, reward_function, score_batch
from trace_recorder.formats.toolbrain.turns import ToolBrainTurn, to_turns


def rewards() -> Any:
    """Import `toolbrain.rewards` without its package, which imports torch. A stub replaces the package."""
    found = importlib.util.find_spec("toolbrain")
    assert found is not None
    assert found.submodule_search_locations
    stub = types.ModuleType("toolbrain")
    stub.__path__ = list(found.submodule_search_locations)
    sys.modules["toolbrain"] = stub
    return importlib.import_module("toolbrain.rewards")


REWARDS = rewards()
CORE = importlib.import_module("toolbrain.core_types")
SINGLE = (
    "reward_exact_match",
    "reward_tool_execution_success",
    "reward_step_efficiency",
    "reward_behavior_uses_search_first",
    "reward_safety_no_os_system",
    "reward_combined",
)
EXPECTED = {
    "tools": {"reward_exact_match": 1.0, "reward_tool_execution_success": 0.0, "reward_combined": 0.8},
    "own_steps": {"reward_exact_match": 0.0, "reward_tool_execution_success": 1.0, "reward_combined": 0.3},
    "thinking": {"reward_behavior_uses_search_first": 1.0},
    "empty": {"reward_exact_match": 0.0, "reward_step_efficiency": 1.0},
}
"""The known rewards of some runs. The right answer is "9 °C."."""


def has_its_form(turn: ToolBrainTurn, *, texts: bool) -> bool:
    """Return whether a turn has exactly the members of `toolbrain.core_types.Turn`, with their types."""
    parsed = turn["parsed_completion"]
    words = [turn["tool_output"], turn["formatted_conversation"], *parsed.values()]
    words += [turn["action_output"]] if texts else []
    return (
        turn.keys() == CORE.Turn.__annotations__.keys()
        and parsed.keys() == CORE.ParsedCompletion.__annotations__.keys()
        and isinstance(turn["prompt_for_model"], str)
        and isinstance(turn["model_completion"], str)
        and all(word is None or isinstance(word, str) for word in words)
    )


def read(name: str, trajectory: Trajectory) -> None:
    """Score a run."""
    for parser in (parse_tool_calls, parse_code, parse_react):
        for form in ("object", "text"):
            trace = to_turns(trajectory, parser, action_output=form)  # type: ignore[arg-type]
            assert all(has_its_form(turn, texts=form == "text") for turn in trace)
            scores = {one: getattr(REWARDS, one)(trace, gold_answer="9 °C.") for one in SINGLE}
            assert all(0.0 <= score <= 1.0 for score in scores.values()), scores
    trace = to_turns(trajectory)
    for reward, wanted in EXPECTED.get(name, {}).items():
        score = REWARDS.create_reward_function(getattr(REWARDS, reward)).get_batch_scores([trace], gold_answer="9 °C.")
        assert math.isclose(score[0], wanted), (reward, score, wanted)
    if trace and any(trace[-1]["parsed_completion"].values()):
        # ToolBrain's judge raises a TypeError for a summary of a run whose last turn is empty.
        REWARDS._format_traces_for_ranking([trace], "a question")
    REWARDS._format_traces_for_ranking([trace])


def read_exported(trace: list[ToolBrainTurn]) -> None:
    """Score the files that `export` wrote."""
    assert all(has_its_form(turn, texts=False) for turn in trace)
    assert all(0.0 <= getattr(REWARDS, one)(trace, gold_answer="9 °C.") <= 1.0 for one in SINGLE)


def rank(trajectories: list[Trajectory]) -> None:
    """Let the judge rank a batch. Without a model it gives each run the same score."""
    judge = reward_function("toolbrain.rewards:reward_llm_judge_via_ranking")
    assert is_batch(judge)
    assert score_batch(trajectories, judge, query="q", judge_model="none") == [0.5] * len(trajectories)


reader = Reader("ToolBrain: six rewards", "runs, read with three parsers", "toolbrain")
exported = Reader("ToolBrain: six rewards", "exported traces", "toolbrain")
batches = Reader("ToolBrain: batch reward", "batches of 10 runs", "toolbrain")
every = dict(runs())
for run, told in every.items():
    reader.take(run, lambda run=run, told=told: read(run, told))
for run, written in documents("toolbrain"):
    exported.take(run, lambda written=written: read_exported(written))
for begin in range(0, len(every), 10):
    some = list(every.values())[begin : begin + 10]
    batches.take(f"runs {begin} to {begin + 9}", lambda some=some: rank(some))
contents = Contents("ToolBrain: exported turns of its form", "toolbrain", "toolbrain")
contents.hold(lambda held, _: [trace for trace in held if read_exported(trace) is None])
finish(reader, exported, batches, contents)
