"""The answers about a run, as `docs/viewer-interface.md` describes them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.chat_calls import asked, call, rich_run, said, streamed
from tests.viewer.recorded import SYSTEM, TASK, gave, growing, record, used
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.dialects import anthropic_messages, google_generate, google_interactions, openai_responses
from trace_recorder.dialects.dialect import ReadResponse
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.parts import WHOLE, TextLimits, first_argument, response_json

SEARCH: Payload = {"type": "google_search_call", "id": "s"}
CODE: Payload = {"executableCode": {"language": "PYTHON", "code": "1"}}
USE: Payload = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
IMAGE: Payload = {"type": "image_generation_call", "id": "i", "result": "aQ=="}


def answers_of(tmp_path: Path, prompts: list[list[Payload]]) -> RunAnswers:
    return RunAnswers(load(record(tmp_path / "run.json", prompts)), price=lambda *_: None)


def prompts_of(answers: RunAnswers) -> list[dict[str, Payload]]:
    return [call["prompt"] for call in answers.outline()["interactions"]]


def texts_of(answers: RunAnswers, number: int) -> list[str]:
    """Return the texts of a prompt, by the message numbers in the answer for one interaction."""
    numbers = [at for first, last in answers.interaction(number)["prompt"] for at in range(first, last + 1)]
    return [message["parts"][0]["text"] for message in answers.messages(numbers)]


def test_each_message_is_sent_once(tmp_path: Path) -> None:
    """In a growing conversation, the entry of each call has only the messages that the call before did not have."""
    answers = answers_of(tmp_path, growing(3))

    assert [(one["base"], one["relation"], one["changes"], one["answers"]) for one in prompts_of(answers)] == [
        (None, "begins", [[0, 0, [[0, 1]]]], []),
        (1, "extends", [[2, 0, [[2, 3]]]], [2]),
        (2, "extends", [[4, 0, [[4, 5]]]], [4]),
    ]
    assert answers.counts["messages"] == 6


def test_a_prompt_is_what_the_model_saw(tmp_path: Path) -> None:
    """The message numbers of each prompt lead to its messages, in order, however the history was edited."""
    clock = [
        [{"role": "system", "content": f"It is {at} o'clock."}, *prompt[1:]] for at, prompt in enumerate(growing(9))
    ]
    short = [[{**one, "content": "(shortened)"} if one["role"] == "tool" else one for one in clock[-1]], [SYSTEM, TASK]]
    answers = answers_of(tmp_path, [*clock, *short])

    for number, prompt in enumerate([*clock, *short], start=1):
        assert texts_of(answers, number) == [one["content"] for one in prompt]


def test_the_kind_of_change_of_a_history_is_stated(tmp_path: Path) -> None:
    """A shortened result is called an edit, missing answers a rewrite, and a prompt that is like no other a new
    beginning.
    """
    whole = growing(3)[-1]
    shortened = [*whole[:3], gave(1, "(gone)"), *whole[4:]]
    compacted = [SYSTEM, TASK, {"role": "user", "content": "Summary: nothing works."}]
    answers = answers_of(tmp_path, [whole, shortened, compacted, [{"role": "user", "content": "A title?"}]])

    assert [(one["base"], one["relation"]) for one in prompts_of(answers)] == [
        *((None, "begins"), (1, "edits"), (2, "rewrites"), (None, "begins")),
    ]
    assert prompts_of(answers)[1]["changes"] == [[3, 1, [[6, 6]]]]


def test_a_moving_cache_mark_changes_no_message(tmp_path: Path) -> None:
    """A message with a cache mark for the provider has the same number as the same message without the mark."""
    text = {"type": "text", "text": "fix the failing test"}
    marked = {"role": "user", "content": [{**text, "cache_control": {"type": "ephemeral"}}]}
    answers = answers_of(tmp_path, [[SYSTEM, marked], [SYSTEM, TASK, used(1), gave(1)]])

    assert prompts_of(answers)[1]["changes"] == [[2, 0, [[2, 3]]]]


def test_a_side_call_does_not_interrupt_the_conversation(tmp_path: Path) -> None:
    """After a call about another subject, the next prompt is compared with the conversation's own last prompt."""
    first, second = growing(2)
    answers = answers_of(tmp_path, [first, [{"role": "user", "content": "A title?"}], second])

    assert [one["base"] for one in prompts_of(answers)] == [None, None, 1]


def test_a_side_call_of_a_program_is_marked(tmp_path: Path) -> None:
    """In a run of the proxy, a call that offers no tools is marked as a side call, also while the run is recorded."""
    title, first, second = [{"role": "user", "content": "A title?"}], *growing(2)
    tools = [{"type": "function", "function": {"name": "bash"}}]
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start(metadata={"session_from": "program"})
    call(recorder, asked(*first, tools=tools), said("try 1"))
    answers = RunAnswers(load(recorder.trajectory_path))
    call(recorder, asked(*title), said("Fix"))
    call(recorder, asked(*title), said("Fix it"))
    call(recorder, asked(*second, tools=tools), said("done"))
    answers.update(load(recorder.trajectory_path))
    recorder.finalize()

    assert [call["side_call"] for call in answers.outline()["interactions"]] == [False, True, True, False]
    assert answers.outline()["interactions"] == RunAnswers(load(recorder.trajectory_path)).outline()["interactions"]


def test_answers_are_the_same_however_a_run_is_read(tmp_path: Path) -> None:
    """A run that was updated has the same outline as one that was read at once, and `since` has only the changes."""
    path = record(tmp_path / "run.json", growing(6))
    whole = load(path)
    early = load(record(tmp_path / "early.json", growing(4)))
    answers = RunAnswers(early)
    before = answers.version
    answers.update(whole)

    assert answers.outline() == RunAnswers(whole).outline()
    changed = answers.since(before)
    assert {call["number"] for call in changed["interactions"]} >= {5, 6}
    assert answers.since(answers.version)["interactions"] == answers.since(answers.version)["steps"] == []


def test_an_update_without_changes_is_empty(tmp_path: Path) -> None:
    """After an update with the same trajectory, `since` is empty."""
    run = load(record(tmp_path / "run.json", growing(3)))
    answers = RunAnswers(run)
    answers.update(run)

    assert answers.since(1)["interactions"] == answers.since(1)["steps"] == answers.since(1)["tool_lists"] == []


def test_tool_results_are_in_the_step_of_their_call(tmp_path: Path) -> None:
    """A step has its tool calls with arguments and results, and the outline has excerpts of both."""
    answers = answers_of(tmp_path, growing(2))

    [entry] = answers.outline()["steps"][0]["tool_calls"]
    [step] = answers.steps([1])
    assert (entry["name"], entry["excerpt"], entry["result_excerpt"]) == ("bash", '{"command": "run 1"}', "output 1")
    assert entry["argument"] == "run 1"
    assert answers.outline()["interactions"][0]["tool_calls"] == [
        {"call_id": "call_1", "name": "bash", "argument": "run 1"}
    ]
    assert step["tool_calls"][0]["arguments"] == {"type": "json", "kind": None, "value": {"command": "run 1"}}
    assert step["tool_calls"][0]["result"]["parts"] == [{"type": "text", "text": "output 1"}]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"command": "pytest -x\n  tests"}, "pytest -x tests"),
        ({"command": ["bash", "-lc", "ls -la"], "workdir": "/a"}, "bash -lc ls -la"),
        ({"command": "view", "path": "/src/a.py"}, "view · /src/a.py"),
        ({"path": "tests", "verbose": True}, "tests"),
        ({"file_path": "/src/a.py", "content": "x"}, "/src/a.py"),
        ({"todos": [{"text": "a"}]}, '[{"text": "a"}]'),
        ({"limit": 3}, "3"),
        ({"text": "x" * 200_000}, "x" * 120),
        ("not JSON", "not JSON"),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_the_first_argument_distinguishes_calls_of_a_tool(arguments: Payload, shown: str | None) -> None:
    """The excerpt of a tool call is its command, path or query on one line, or its action and the next text."""
    assert first_argument(arguments) == shown


def test_a_long_text_is_cut_unless_all_of_it_is_asked_for(tmp_path: Path) -> None:
    """A text beyond the limit is cut, with its length and a mark. If a request sets no limit, the text is whole."""
    long = "x" * 5_000_000
    answers = answers_of(tmp_path, [[SYSTEM, {"role": "user", "content": long}]])

    assert answers.messages([1])[0]["parts"] == [
        {"type": "text", "text": long[:20_000], "cut": True, "characters": 5_000_000}
    ]
    assert answers.messages([1], WHOLE)[0]["parts"] == [{"type": "text", "text": long}]
    assert len(json.dumps(answers.outline())) < 10_000


def test_images_are_separate_parts(tmp_path: Path) -> None:
    """An embedded image is given with its base64 as sent, valid or not.

    An image by address is given with its address only.
    """
    content = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,!!not base64!!"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]
    answers = answers_of(tmp_path, [[{"role": "user", "content": content}]])

    assert answers.messages([0])[0]["parts"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "media_type": "image/png", "data": "!!not base64!!"},
        {"type": "image", "media_type": None, "url": "https://example.com/a.png"},
        {"type": "json", "kind": "audio", "value": content[3]},
    ]
    assert answers.messages([0], TextLimits(text=10, image=3))[0]["parts"][1] == {
        "type": "image",
        "media_type": "image/png",
        "cut": True,
        "characters": 14,
    }


def test_a_raw_request_refers_to_items(tmp_path: Path) -> None:
    """A raw request whose references are replaced by the list elements they name equals the JSON that was sent."""
    run = load(record(tmp_path / "run.json", growing(3)))
    answers = RunAnswers(run)

    raw = answers.raw(3)
    items = {item["number"]: item["value"] for item in answers.items(range(answers.counts["items"]))}
    body = dict(raw["request"]["body"])
    for name, ranges in raw["request"]["items"].items():
        body[name] = [items[at] for first, last in ranges for at in range(first, last + 1)]
    assert body == run.llm_interactions[2].raw_request
    assert (raw["method"], raw["url"]) == ("POST", "https://api.openai.com/v1/chat/completions")


def test_a_stream_has_its_events_with_their_times(tmp_path: Path) -> None:
    """The raw data of a stream is the text of each event, in order, with the time at which the event was complete."""
    wire = streamed("Hel", "lo")
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        call(recorder, asked("hi", stream=True), wire)
    stream = RunAnswers(load(tmp_path / "run.json")).raw(1)["stream"]

    assert "".join(event["text"] for event in stream["events"]) == wire.body.decode()
    assert len(stream["events"]) == 3
    assert all(one["seconds"] <= other["seconds"] for one, other in pairwise(stream["events"]))


def test_unknown_numbers_raise_an_index_error(tmp_path: Path) -> None:
    """A request for a number outside of the run, or a negative one, raises IndexError."""
    answers = answers_of(tmp_path, growing(1))

    for ask in (answers.interaction, answers.raw, lambda at: answers.steps([at]), lambda at: answers.messages([at])):
        with pytest.raises(IndexError):
            ask(-1)
        with pytest.raises(IndexError):
            ask(99)


def test_a_run_with_records_of_every_kind_has_answers(tmp_path: Path) -> None:
    """The viewer answers with JSON about manual calls, steps, sub-agents, tools, rewards and gaps."""
    rich_run(tmp_path / "run.json")
    run = load(tmp_path / "run.json")
    answers = RunAnswers(run)
    counts = answers.counts

    outline = answers.outline()
    everything = [
        *(outline, answers.messages(range(counts["messages"])), answers.items(range(counts["items"]))),
        *(answers.interactions(range(1, counts["interactions"] + 1)), answers.steps(range(1, counts["steps"] + 1))),
        [answers.raw(number) for number in range(1, counts["interactions"] + 1)],
    ]
    assert json.loads(json.dumps(everything)) == everything
    assert counts["interactions"] == len(run.llm_interactions)
    assert [step["state"] for step in outline["steps"]] == [step.state for step in run.agent_steps]
    assert outline["run"]["rewards"] == [reward.to_document() for reward in run.rewards]


def test_a_document_without_a_journal_has_no_raw_data(tmp_path: Path) -> None:
    """For a document without a journal, members that need the journal are null, and all others are unchanged."""
    path = record(tmp_path / "run.json", growing(3))
    with_journal = RunAnswers(load(path))
    path.with_suffix(".jsonl").unlink()
    without = RunAnswers(load(path))

    assert prompts_of(without) == prompts_of(with_journal)
    assert without.raw(1) == {
        **dict.fromkeys(("method", "url", "request", "response", "stream", "sending")),
        "number": 1,
    }


def test_a_prompt_that_refers_to_a_response_repeats_nothing(tmp_path: Path) -> None:
    """A request with `previous_response_id` has the call of that response as its base, and only its own messages."""
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        call(recorder, asked("hi"), said("hello", identity="resp_1"))
        call(recorder, asked("and now?", previous_response_id="resp_1"), said("bye"))
    [_, second] = prompts_of(RunAnswers(load(tmp_path / "run.json")))

    assert (second["base"], second["relation"], second["changes"]) == (1, "refers", [[0, 0, [[1, 1]]]])


@pytest.mark.parametrize(
    ("read_response", "body", "block"),
    [
        (anthropic_messages.read_response, {"content": [USE]}, USE),
        (google_generate.read_response, {"candidates": [{"content": {"parts": [CODE]}}]}, CODE),
        (google_interactions.read_response, {"steps": [SEARCH]}, SEARCH),
        (google_interactions.read_response, {"outputs": [SEARCH]}, SEARCH),
        (openai_responses.read_response, {"output": [IMAGE]}, IMAGE),
    ],
)
def test_a_block_of_another_type_is_shown_as_the_provider_sent_it(
    read_response: ReadResponse, body: Payload, block: Payload
) -> None:
    """A block that is not text, reasoning or a call is a part with its JSON, in every dialect."""
    assert response_json(read_response(body), WHOLE)["parts"] == [{"type": "json", "kind": None, "value": block}]
