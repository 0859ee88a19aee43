"""ATIF: the step of each event. `tests/readers/check_atif.py` runs Harbor's and Phoenix's readers."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.formats.made import Payload, assistant, call, gave, run, system, use
from tests.formats.sdk_conversations import PIXEL
from trace_recorder import Trajectory
from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.formats.atif.writing import to_atif, to_atif_files
from trace_recorder.reading.relations.prompt_relations import turns_of

SOUND = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVE").decode()
_FILE = f"images/{hashlib.sha256(base64.b64decode(SOUND)).hexdigest()[:20]}.wav"
_WRITTEN = {"media_type": "audio/wav", "path": _FILE}
_WRITTEN_TIMED = _WRITTEN | {"duration_sec": 1.5}
_ON_THE_WEB = {"media_type": "audio/mpeg", "path": "https://example.org/a.mp3"}
A, B = use("a", "weather", city="Ulm"), use("b", "weather", city="Rome")


def steps(document: Payload) -> list[Payload]:
    """Return the steps without their times, and without members that the format does not have."""
    return [
        {name: value for name, value in step.items() if name not in {"timestamp", "extra"}}
        for step in document["steps"]
    ]


def test_results_of_parallel_tools_are_in_the_step_of_their_calls() -> None:
    """Each result has the id of its call, and is in the call's step, whatever was recorded in between."""
    second = [system("s"), "q", assistant("I look.", A, B), gave("b", "31"), gave("a", "7")]
    document = to_atif(run(call([system("s"), "q"], "I look.", A, B), call(second, "Rome.")))

    calls = [
        {"tool_call_id": "a", "function_name": "weather", "arguments": {"city": "Ulm"}},
        {"tool_call_id": "b", "function_name": "weather", "arguments": {"city": "Rome"}},
    ]
    results = [{"source_call_id": "b", "content": "31"}, {"source_call_id": "a", "content": "7"}]
    agent = {"source": "agent", "model_name": "m-1", "llm_call_count": 1}
    assert steps(document) == [
        {"step_id": 1, "source": "system", "message": "s"},
        {"step_id": 2, "source": "user", "message": "q"},
        {"step_id": 3, **agent, "message": "I look.", "tool_calls": calls, "observation": {"results": results}},
        {"step_id": 4, **agent, "message": "Rome."},
    ]
    assert document["final_metrics"] == {"total_steps": 4}


def test_a_failed_call_is_a_step_with_its_error() -> None:
    """The step's message is empty, and never null."""
    error = {"type": "rate_limit", "message": "later", "status": 429}
    document = to_atif(run(call(["q"]) | {"response": {}, "error": error}))

    assert document["steps"][1]["message"] == ""
    assert document["steps"][1]["extra"]["error"] == error


@pytest.mark.parametrize(
    ("api", "usage", "prompt", "completion"),
    [
        ("openai-chat", {"input_tokens": 30, "output_tokens": 9, "cache_read_input_tokens": 20}, 30, 9),
        (
            "anthropic-messages",
            {"input_tokens": 30, "output_tokens": 9, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5},
            55,
            9,
        ),
        (
            "google-generate",
            {"input_tokens": 30, "output_tokens": 9, "cache_read_input_tokens": 20, "reasoning_tokens": 4},
            30,
            13,
        ),
    ],
)
def test_tokens_are_counted_in_one_way(api: str, usage: Payload, prompt: int, completion: int) -> None:
    """The prompt's count includes cached tokens, and the completion's includes reasoning tokens, in every dialect."""
    document = to_atif(run(call(["q"], "a", api=api, response={"usage": {**usage, "cost": 0.25}})))

    counted = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": 20, "cost_usd": 0.25}
    metrics = document["steps"][1]["metrics"]
    assert {name: metrics[name] for name in counted} == counted
    assert metrics["extra"]["usage"] == {**usage, "cost": 0.25}
    totals = {f"total_{name}": value for name, value in counted.items()}
    assert document["final_metrics"] == {**totals, "total_steps": 2}


def test_unknown_counts_are_absent() -> None:
    """If a provider states no usage, the step has no metrics instead of zeros."""
    document = to_atif(run(call(["q"], "a")))

    assert "metrics" not in document["steps"][1]


def test_token_ids_and_log_probabilities_are_in_the_metrics() -> None:
    """A step has the token ids and log-probabilities that the server gave."""
    logprobs = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.5}]}
    choices = [{"index": 0, "content": "ab", "extra": {"token_ids": [7, 8], "logprobs": logprobs}}]
    response = {"choices": choices, "extra": {"prompt_token_ids": [1, 2, 3]}}
    document = to_atif(run(call(["q"], "ab", response=response)))

    assert document["steps"][1]["metrics"] == {
        "prompt_token_ids": [1, 2, 3],
        "completion_token_ids": [7, 8],
        "logprobs": [-0.5, -1.5],
    }


def test_arguments_that_are_not_an_object_are_wrapped() -> None:
    """The model's text of the arguments is kept under the name `input`."""
    broken = {"call_id": "a", "name": "bash", "arguments": '{"command": "l'}
    document = to_atif(run(call(["q"], None, broken)))

    assert document["steps"][1]["tool_calls"][0]["arguments"] == {"input": '{"command": "l'}


def test_images_are_files_beside_the_document(tmp_path: Path) -> None:
    """Each distinct image is written to one file. An image on the web keeps its URL."""
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    anthropic = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    google = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    web = {"type": "image_url", "image_url": {"url": "https://example.org/a.jpg?x=1"}}
    shown = {"role": "user", "content": [{"type": "text", "text": "See"}, url, anthropic, google, web]}
    document = to_atif(run(call([shown], "a")), tmp_path / "images")

    [file] = (tmp_path / "images").iterdir()
    image = {"type": "image", "source": {"media_type": "image/png", "path": f"images/{file.name}"}}
    other = {"type": "image", "source": {"media_type": "image/jpeg", "path": "https://example.org/a.jpg?x=1"}}
    assert document["steps"][0]["message"] == [{"type": "text", "text": "See"}, image, image, image, other]
    assert file.read_bytes() == base64.b64decode(PIXEL)


def test_images_without_a_directory_are_counted() -> None:
    """If no directory for images is given, the view writes no image, and counts the images in its report."""
    shown = {"role": "user", "content": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]}
    document, left_out = to_atif.with_report(run(call([shown], "a")))

    assert document["steps"][0]["message"] == "[image: image/png]"
    assert left_out == {"images, for which no directory was given": 1}


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ({"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}, _WRITTEN),
        ({"inlineData": {"mimeType": "audio/x-wav;rate=16000", "data": SOUND}}, _WRITTEN),
        ({"type": "audio", "source": {"media_type": "audio/wav", "data": SOUND, "duration_sec": 1.5}}, _WRITTEN_TIMED),
        ({"type": "audio_url", "audio_url": {"url": f"data:audio/wave;base64,{SOUND}"}}, _WRITTEN),
        ({"type": "audio_url", "audio_url": {"url": "https://example.org/a.mp3"}}, _ON_THE_WEB),
        ({"fileData": {"mimeType": "audio/mp3", "fileUri": "https://example.org/a.mp3"}}, _ON_THE_WEB),
    ],
)
def test_sounds_are_files_and_need_version_1_8(part: dict[str, Any], source: dict[str, Any], tmp_path: Path) -> None:
    document = to_atif(run(call([{"role": "user", "content": [part]}], "a")), tmp_path / "images")

    assert document["steps"][0]["message"] == [{"type": "audio", "source": source}]
    assert document["schema_version"] == "ATIF-v1.8"
    if source["path"].startswith("images/"):
        assert (tmp_path / source["path"]).read_bytes() == base64.b64decode(SOUND)


def test_a_document_whose_sub_agent_got_a_sound_is_of_version_1_8(tmp_path: Path) -> None:
    heard = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}]}
    trajectory = run(call(["q"], "a"), call([heard], "b", agent="ear"))
    document = to_atif(trajectory, tmp_path / "images")

    assert document["schema_version"] == "ATIF-v1.8"
    assert to_atif(run(call(["q"], "a")))["schema_version"] == "ATIF-v1.7"


@pytest.mark.parametrize(
    ("format_name", "directory", "why"),
    [("wav", None, "sounds, for which no directory was given"), ("pcm16", "images", None)],
)
def test_sounds_without_a_directory_or_of_an_unknown_type_are_texts(
    format_name: str, directory: str | None, why: str | None, tmp_path: Path
) -> None:
    part = {"type": "input_audio", "input_audio": {"data": SOUND, "format": format_name}}
    trajectory = run(call([{"role": "user", "content": [part]}], "a"))
    document, left_out = to_atif.with_report(trajectory, directory and tmp_path / directory)

    assert document["steps"][0]["message"].startswith("[audio: ")
    assert document["schema_version"] == "ATIF-v1.7"
    assert left_out == ({why: 1} if why else {})


def test_a_part_of_an_unknown_kind_is_written_as_json() -> None:
    """A part that is not a text, an image or a sound becomes JSON.

    Only its long strings are left out, and counted.
    """
    video = {"type": "video_url", "video_url": {"data": "x" * 3000, "format": "mp4"}}
    document, left_out = to_atif.with_report(run(call([{"role": "user", "content": [video]}], "a")))

    told = json.loads(document["steps"][0]["message"])
    assert (told["type"], told["video_url"]["format"]) == ("video_url", "mp4")
    assert left_out["long strings in parts that are neither text nor image"] == 1


def test_a_rewritten_history_is_a_document_of_its_own() -> None:
    """The second document is linked from the first.

    Earlier messages are copied context without metrics.
    """
    made = run(call([system("s"), "q"], "a"), call([system("s"), "summary"], "b"))
    documents = dict(to_atif_files(made, "run.json"))

    assert [(name, one.get("continued_trajectory_ref")) for name, one in documents.items()] == [
        ("run.json", "run.cont-1.json"),
        ("run.cont-1.json", None),
    ]
    assert [(step["message"], step.get("is_copied_context")) for step in documents["run.cont-1.json"]["steps"]] == [
        ("s", True),
        ("summary", None),
        ("b", None),
    ]
    assert [value["trajectory_id"] for value in documents.values()] == ["t1", "t1/1"]
    assert {value["session_id"] for value in documents.values()} == {"t1"}


def test_one_document_may_hold_a_rewritten_history() -> None:
    """With this option, steps after a rewrite follow the earlier steps in one document, with continuous numbers."""
    made = run(call([system("s"), "q"], "a"), call([system("s"), "summary"], "b"))
    document = to_atif(made)

    assert [step["message"] for step in document["steps"]] == ["s", "q", "a", "s", "summary", "b"]
    assert [step["step_id"] for step in document["steps"]] == [1, 2, 3, 4, 5, 6]


def test_a_sub_agent_is_embedded_and_named_in_its_call(trajectories: Mapping[str, Trajectory]) -> None:
    """The result of the call for which the sub-agent ran refers to the embedded trajectory."""
    document = to_atif(trajectories["sub_agents"])

    [sub] = document["subagent_trajectories"]
    [result] = document["steps"][2]["observation"]["results"]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": sub["trajectory_id"]}]
    assert (document["agent"]["name"], sub["agent"]["name"]) == ("planner", "researcher")
    assert [step["message"] for step in sub["steps"]] == ["Research Ulm.", "", "It has a minster."]


def test_values_that_the_agent_recorded_of_its_steps_are_exported(trajectories: Mapping[str, Trajectory]) -> None:
    """The object that a tool returned is next to the text that the model got."""
    document = to_atif(trajectories["own_steps"])

    [result] = document["steps"][2]["observation"]["results"]
    assert result["content"] == "7 °C …"
    assert result["extra"] == {"success": True, "result": {"celsius": 7, "wind": [1, 2]}}
    assert document["steps"][2]["extra"]["agent_steps"][0]["state"] == "calling_tool"


def test_steps_without_calls_are_a_trajectory(trajectories: Mapping[str, Trajectory]) -> None:
    """The steps of an agent that records no calls are exported, with the results of its tools."""
    document = to_atif(trajectories["steps_alone"])

    assert [(step["source"], step["message"]) for step in document["steps"]] == [
        ("system", "You answer in one sentence."),
        ("user", "Is it warmer in Ulm or in Rome?"),
        ("agent", "I look."),
        ("agent", ""),
    ]
    assert document["steps"][2]["observation"]["results"][0]["extra"]["success"] is False


def test_an_empty_run_is_exported_as_its_task(trajectories: Mapping[str, Trajectory]) -> None:
    """ATIF needs a step, and the task becomes that step. Without a task, the view raises an error."""
    assert [step["message"] for step in to_atif(trajectories["empty"])["steps"]] == ["nothing"]
    with pytest.raises(EmptyTrajectoryError, match="no turns, no tools and no task"):
        to_atif(run(task=None))


def test_no_run_loses_an_answer_or_a_result(trajectories: Mapping[str, Trajectory], tmp_path: Path) -> None:
    """Every answer, tool call and result of every run is in its document once."""
    for name, trajectory in trajectories.items():
        document = to_atif(trajectory, tmp_path / "images")
        every = [document, *document.get("subagent_trajectories", ())]
        own = [step for one in every for step in one["steps"] if not step.get("is_copied_context")]
        called = sorted(one["tool_call_id"] for step in own for one in step.get("tool_calls", ()))
        answers = [turn.answer() for turn in turns_of(trajectory) if turn.answered]
        assert (name, called) == (name, sorted(one.call_id for answer in answers for one in answer.tool_calls))
        said = sorted(step["message"] for step in own if step["source"] == "agent" and step["message"])
        assert (name, said) == (name, sorted(str(answer.content) for answer in answers if answer.content))
        results = [one for step in own for one in step.get("observation", {"results": ()})["results"]]
        told = sum(len(step.tool_results) for step in trajectory.agent_steps)
        assert (name, len([result for result in results if "content" in result]) >= told) == (name, True)
