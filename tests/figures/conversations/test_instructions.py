"""Instructions that apply to one request only: in a chain of requests the model gets only the newest, as the first
message.

OpenAI's Responses and Google's interactions have such requests, which may name the request that they continue.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.written import Writing
from tests.figures.conversations.instructed_responses import NEW, SAME, responses
from trace_recorder import Trajectory, load
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.values.messages import Payload
from trace_recorder.views import (
    to_atif_files,
    to_hierarchy,
    to_invariant,
    to_openai_finetuning,
    to_traces,
    to_trl,
    to_turns,
)

WHOLE = ["developer", "user", "assistant", "tool", "assistant", "user", "assistant"]


def interactions(path: Path, instructions: list[str]) -> Path:
    """Send three requests to Google, each of which names the interaction before it."""
    writing = Writing(path.with_suffix(".jsonl"))
    result = {"type": "function_result", "call_id": "call_1", "name": "weather", "result": "7"}
    inputs: list[Payload] = ["How warm is Ulm?", [result], "And Rome?"]
    outputs: list[Payload] = [
        {"type": "function_call", "id": "call_1", "name": "weather", "arguments": {"city": "Ulm"}},
        {"type": "model_output", "content": [{"type": "text", "text": "7 degrees."}]},
        {"type": "model_output", "content": [{"type": "text", "text": "31."}]},
    ]
    for number, (asked, instructed) in enumerate(zip(inputs, instructions, strict=True)):
        body = {"model": "g", "system_instruction": instructed, "input": asked}
        body |= {"previous_interaction_id": f"int_{number - 1}"} if number else {}
        where = {"method": "POST", "url": "https://x/v1/interactions", "headers": {}, "provider": "google"}
        about = {"interaction_id": f"llm_{number}", "attempt": 0, "api": "google-interactions"}
        writing.add_body("llm_request", body, **about, **where)
        answer = {"id": f"int_{number}", "model": "g", "status": "completed", "steps": [outputs[number]]}
        writing.response(number, body=answer)
    writing.journal.close()
    return writing.path


def loaded(tmp_path: Path, instructions: list[str]) -> Trajectory:
    return load(responses(tmp_path / "run.json", instructions))


def roles(messages: list[Payload]) -> list[str]:
    return [message["role"] for message in messages]


@pytest.mark.parametrize("instructions", [SAME, NEW], ids=["same", "new"])
def test_the_model_gets_the_newest_instructions_once_and_first(tmp_path: Path, instructions: list[str]) -> None:
    """A journal and a document without a journal give the same prompts, in both dialects."""
    path = responses(tmp_path / "run.json", instructions)
    (tmp_path / "alone").mkdir()
    alone = tmp_path / "alone" / "run.json"
    alone.write_bytes(path.read_bytes())

    for made in (load(path), load(alone)):
        seen = [[(message.role, message.content) for message in turn.messages()] for turn in turns_of(made)]
        assert [one[0] for one in seen] == [("system", text) for text in instructions]
        assert [[role for role, _ in one[1:]] for one in seen] == [WHOLE[:2], WHOLE[:4], WHOLE[:6]]
    seen = [
        [(message.role, message.content) for message in turn.messages()]
        for turn in turns_of(load(interactions(tmp_path / "google.json", instructions)))
    ]
    assert [one[0] for one in seen] == [("system", text) for text in instructions]
    assert [[role for role, _ in one[1:]] for one in seen] == [WHOLE[1:2], WHOLE[1:4], WHOLE[1:6]]


def test_repeated_instructions_are_in_every_view_once(tmp_path: Path) -> None:
    """The instructions are the first message, and never between a call and its result."""
    made = loaded(tmp_path, SAME)
    whole = ["system", *("system" if role == "developer" else role for role in WHOLE)]
    [document] = [document for _, document in to_atif_files(made, "run.json")]
    [row], [trained] = to_trl(made), to_openai_finetuning(made)
    [session] = to_traces(made)

    assert roles(to_invariant(made)) == whole
    assert roles(to_hierarchy(made)["steps"][-1]["messages"]) == whole
    assert roles(to_hierarchy(made, "message")["steps"][-1]["messages"]) == whole
    assert roles(row["messages"]) == whole
    assert roles(trained["messages"]) == whole
    assert [step["source"] for step in document["steps"]] == [
        *["system"] * 2,
        "user",
        "agent",
        "agent",
        "user",
        "agent",
    ]
    told = [line["message"]["role"] for line in session if line["type"] == "message"]
    assert told == ["toolResult" if role == "tool" else role for role in whole]
    assert [turn["prompt_for_model"].count("Be brief.") for turn in to_turns(made)] == [1, 1, 1]


def test_new_instructions_replace_the_old_ones(tmp_path: Path) -> None:
    """Answers under other instructions are context in a row, because a row of their own trains on them."""
    made = loaded(tmp_path, NEW)
    documents = [document for _, document in to_atif_files(made, "run.json")]
    rows = [[message["content"] for message in row["messages"]] for row in to_openai_finetuning(made)]
    new = [[bool(message.get("weight")) for message in row["messages"]] for row in to_openai_finetuning(made)]
    steps = to_hierarchy(made)["steps"]

    assert [row[0] for row in rows] == NEW
    assert [[text for text in row if text in NEW] for row in rows] == [[one] for one in NEW]
    assert [sum(one) for one in new] == [1, 1, 1]
    assert [one[-1] for one in new] == [True, True, True]
    assert [document["steps"][0]["message"] for document in documents] == NEW
    assert [[message["content"] for message in step["messages"] if message["content"] in NEW] for step in steps] == [
        ["Be kind."],
        ["Be quick."],
    ]
    assert roles(steps[-1]["messages"]) == ["system", *("system" if role == "developer" else role for role in WHOLE)]
    assert [one["content"] for one in to_invariant(made)] == [
        *("Be brief.", "Metric.", "How warm is Ulm?", None, "7", "Be kind.", "7 degrees.", "Be quick.", "And Rome?"),
        "31.",
    ]
    texts = [json.dumps(turn) for turn in to_turns(made)]
    assert [[one for one in NEW if one in text] for text in texts] == [[one] for one in NEW]
