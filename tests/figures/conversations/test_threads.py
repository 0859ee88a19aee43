"""Anthropic's threads: the server keeps the conversation, and each request has only the new messages."""

from __future__ import annotations

from pathlib import Path

from anthropic import Anthropic, beta_tool

from tests.provider import MESSAGE, plain, serving
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.formats.training.openai_finetuning import to_openai_finetuning
from trace_recorder.reading.relations.prompt_relations import turns_of

USE = {"type": "tool_use", "id": "toolu_1", "name": "add_one", "input": {"number": 1}}
ANSWERS = (
    MESSAGE | {"content": [USE], "stop_reason": "tool_use"},
    MESSAGE | {"id": "msg_2", "content": [{"type": "text", "text": "It is 2."}]},
)


@beta_tool
def add_one(number: int) -> str:
    """Add one."""
    return str(number + 1)


def recorded(path: Path) -> Trajectory:
    """Record a run of the SDK's tool runner, which keeps its conversation in a thread."""
    with serving(*map(plain, ANSWERS)) as server, TrajectoryRecorder(path) as recorder:
        with recorder.wrap(Anthropic(api_key="k", base_url=server.url)) as client:
            asked = {"role": "user", "content": "What is 1 + 1?"}
            client.beta.messages.tool_runner(
                model="claude", max_tokens=9, system="Be brief.", messages=[asked], tools=[add_one]
            ).until_done()
        assert server.bodies()[1]["thread"] == {"type": "continue", "previous_message_id": "msg_1"}
    return load(path)


def test_a_request_continues_the_thread_that_it_names(tmp_path: Path) -> None:
    """The prompt is the whole conversation, although only the result of the tool was sent."""
    first, second = turns_of(recorded(tmp_path / "run.json"))

    assert (second.relation, second.previous, second.exact) == ("refers", first, True)
    assert [(message.role, message.content) for message in second.messages()] == [
        ("system", "Be brief."),
        ("user", "What is 1 + 1?"),
        ("assistant", None),
        ("tool", "2"),
    ]


def test_training_data_has_the_conversation_of_a_thread(tmp_path: Path) -> None:
    """The question, the tool call, its result and the answer are in one row."""
    [row] = to_openai_finetuning(recorded(tmp_path / "run.json"))

    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert [tool["function"]["name"] for tool in row["tools"]] == ["add_one"]
