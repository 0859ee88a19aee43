"""The tier "none": no text of a run is left, equal texts have equal digests, and every figure is the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contents.recording import names, record
from tests.formats.files import PRODUCED, produced_files
from tests.formats.imported import import_file
from tests.processes import ROOT
from tests.storage.content_tiers.texts import figures_of, found_in, reload, texts_of_journal
from tests.websocket_sessions import Session, called, spoken, typed
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.reading.validate import validate
from trace_recorder.storage.content_tiers.structure import Structure
from trace_recorder.storage.content_tiers.text_digests import TextDigests, new_key
from trace_recorder.storage.content_tiers.textless_journal import TextlessJournal
from trace_recorder.storage.journal_lines import encode_lines
from trace_recorder.values.messages import Payload

FROZEN = sorted((ROOT / "tests" / "data" / "frozen" / "journals").glob("*.jsonl"))
GENERATED = [name for name in names() if not name.startswith("sub_agents")]
FOREIGN = [path for path in produced_files() if path.stat().st_size < 100_000]
ROUNDED = {"aider"}
"""Formats whose counts are texts, such as "2.5k"."""


def _check(journal: Path, tmp_path: Path) -> None:
    textless = tmp_path / "textless.jsonl"
    run = reload(TextlessJournal(journal, new_key()).lines(), textless)
    assert found_in(texts_of_journal(journal), [textless]) == []
    assert figures_of(run) == figures_of(load(journal))


@pytest.mark.parametrize("name", GENERATED)
def test_a_recorded_run_has_its_figures_and_no_text(name: str, tmp_path: Path) -> None:
    """In every dialect, whole and streamed, with tools, thoughts, images and failures."""
    journal = record(name, tmp_path).with_suffix(".jsonl")
    _check(journal, tmp_path)


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
def test_every_member_of_every_kind_loses_its_texts(path: Path, tmp_path: Path) -> None:
    """The frozen files have every kind of record, and the result is a valid journal."""
    _check(path, tmp_path)
    assert [finding for finding in validate(tmp_path / "textless.jsonl").findings if finding.severity == "error"] == []


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.relative_to(PRODUCED).as_posix())
def test_an_imported_run_has_its_figures_and_no_text(path: Path, tmp_path: Path) -> None:
    """Of every format that is imported."""
    for imported in import_file(Source(path), tmp_path / "runs"):
        journal = imported.path.with_suffix(".jsonl")
        textless = tmp_path / "textless.jsonl"
        run = reload(TextlessJournal(journal, new_key()).lines(), textless)
        assert found_in(texts_of_journal(journal), [textless]) == []
        if path.relative_to(PRODUCED).parts[0] not in ROUNDED:
            assert figures_of(run) == figures_of(load(journal))


def test_equal_texts_have_equal_digests_and_other_keys_give_others() -> None:
    """White space at the ends, and the tags of thoughts, stay."""
    digests, others = TextDigests(new_key()), TextDigests(new_key())
    text = digests.of_text("My secret")
    assert digests.of_text("  My secret\n") == f"  {text}\n"
    assert digests.of_text("<think>My secret</think>My secret") == f"<think>{text}</think>{text}"
    assert digests.of_text("Another") != text
    assert others.of_text("My secret") != text
    assert digests.of_text(" \n") == " \n"


def test_arguments_have_one_digest_in_each_form() -> None:
    """As an object, as its JSON in any order, and with a large string that the journal stores as an item."""
    digests = TextDigests(new_key())
    large = "x" * 20_000
    digests.remember_large(3, large)
    arguments = {"path": "a.py", "text": large}
    digest = digests.of_arguments(arguments)
    assert json.loads(digests.of_arguments(json.dumps(dict(reversed(arguments.items()))))) == digest
    assert digests.of_arguments({"path": "a.py", "text": "@string:3"}, {"@string:3": 3}) == digest
    assert digests.of_arguments({}) == {}
    assert digests.of_arguments("{}") == "{}"


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "customer_acme": "planted"},
        {"messages": [{"role": "user", "name": "planted", "content": [{"type": "text", "text": "planted"}]}]},
        {"messages": [{"role": "moderator", "name": "planted", "content": ""}]},
        {"messages": [{"role": "tool", "content": [{"type": "planted", "id": "planted"}]}]},
        {"tools": [{"name": "t", "description": "planted", "input_schema": {"properties": {"planted": {}}}}]},
        {"content": [{"type": "tool_use", "id": "1", "name": "t", "input": {"planted": "planted"}}]},
        {"content": [{"type": "tool_use", "id": "1", "name": "t", "input": [{"type": "planted"}]}]},
        {"output": [{"type": "function_call_output", "call_id": "1", "output": [{"planted": 1}]}]},
        {"choices": [{"message": {"role": "planted person", "tool_calls": [{"function": {"arguments": "planted"}}]}}]},
        {"contents": [{"parts": [{"functionResponse": {"name": "t", "response": {"planted": "planted"}}}]}]},
        {"metadata": {"planted": "planted", "user_id": "planted", "id": "planted"}},
        {"usage": {"planted_tokens": 5, "input_tokens": 5, "service_tier": "planted text"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "planted"}}},
        {"error": {"type": "overloaded", "message": "planted", "metadata": {"raw": "planted"}}},
        {"documents": [{"id": "planted", "text": "planted", "type": "planted one"}]},
        {"output": [{"type": "computer_call", "call_id": "1", "action": {"type": "type", "text": "planted"}}]},
        {"id": "planted words", "object": "planted words", "model": "planted four or five words"},
        {"input": ["planted", "planted"], "user": "planted", "stop": ["planted"], "logit_bias": {"planted": 1}},
        {"planted": [{"role": "planted", "type": "message", "id": "planted"}]},
        {"prompt_token_ids": [1, 2], "logprobs": {"content": [{"token": "planted", "bytes": [1]}]}},
    ],
    ids=",".join,
)
def test_what_is_not_known_to_be_structure_is_a_text(body: Payload) -> None:
    """The names of unknown members are texts too, and so is everything in arguments, results and schemas."""
    structure = json.dumps(Structure(TextDigests(new_key())).body(body))
    assert "planted" not in structure


@pytest.mark.parametrize("kind", ["annotation", "tool_result", "later_kind", "llm_response", "item", "start"])
def test_unknown_members_and_kinds_lose_their_texts(kind: str, tmp_path: Path) -> None:
    """Also members that another kind of record has without a text."""
    data: dict[str, Payload] = {"planted": "planted", "zlib": "planted", "content": "planted", "chunk_times": "planted"}
    data |= {"n": 0, "value": {"type": "message", "role": "user", "name": "planted"}, "status": "planted word"}
    journal = tmp_path / "run.jsonl"
    start = json.dumps(
        {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "planted", "task": "planted"}
    )
    journal.write_bytes(b"".join(encode_lines([("start", start), (kind, json.dumps(data))], 1, "")) + b"planted\n")
    textless = TextlessJournal(journal, new_key())
    text = b"".join(textless.lines()).decode()
    assert "planted" not in text
    assert (text.count("\n"), textless.damaged) == (2, 1)


def test_the_pieces_of_a_stream_have_no_digests(tmp_path: Path) -> None:
    """Thousands of digests of a few letters would be a cipher. The assembled answer has one digest."""
    journal = record("tools.openai-chat.streamed", tmp_path).with_suffix(".jsonl")
    run = reload(TextlessJournal(journal, new_key()).lines(), tmp_path / "textless.jsonl")
    original = load(journal)
    for call, before in zip(run.llm_interactions, original.llm_interactions, strict=True):
        assert "[text:" not in str(call.raw_stream)
        assert len(call.raw_chunks or ()) == len(before.raw_chunks or ())
        assert [at for at, _ in call.raw_chunks or ()] == [at for at, _ in before.raw_chunks or ()]


def test_a_conversation_over_a_websocket_keeps_its_prompts(tmp_path: Path) -> None:
    """The messages outside of responses say what the model had. Their texts have digests, and their order stays."""
    session = Session(tmp_path / "run.json")
    session.send({"type": "session.update", "session": {"instructions": "Be brief about secrets."}})
    session.create(typed("user", "What did I hide?"))
    session.answer(called("item_9", "call_1"))
    session.create({"type": "function_call_output", "call_id": "call_1", "output": "a golden spoon"})
    beside = {"type": "response.create", "response": {"conversation": "none"}}
    session.answer(typed("assistant", "Beside the talk", id="item_10"), ask=beside, conversation_id=None)
    said = spoken("item_11", "You hid a golden spoon.", "assistant")
    session.answer(said, status="cancelled", status_details={"type": "cancelled", "reason": "turn_detected"})
    session.send({"type": "conversation.item.truncate", "item_id": "item_11", "content_index": 0, "audio_end_ms": 700})
    session.added(spoken("item_12"))
    transcript = {"item_id": "item_12", "content_index": 0, "transcript": "And the golden fork?"}
    session.receive({"type": "conversation.item.input_audio_transcription.completed", **transcript})
    session.send({"type": "conversation.item.delete", "item_id": "item_9"})
    session.answer(spoken("item_13", "No golden fork.", "assistant"))
    before = session.end()
    run = reload(TextlessJournal(tmp_path / "run.jsonl", new_key()).lines(), tmp_path / "textless.jsonl")
    roles = [[message.role for message in call.input_messages] for call in run.llm_interactions]
    assert roles == [[message.role for message in call.input_messages] for call in before.llm_interactions]
    heard = [(call.response.finish_reason, call.response.audio_end_ms) for call in run.llm_interactions]
    assert heard == [("completed", None), ("completed", None), ("turn_detected", 700), ("completed", None)]
    [part] = run.llm_interactions[-1].input_messages[-1].content
    assert part["transcript"].startswith("[text:")
    _check(tmp_path / "run.jsonl", tmp_path)


def test_a_large_string_has_the_digest_that_it_has_elsewhere(tmp_path: Path) -> None:
    """The journal stores it once, and the answer before it has it whole: the call still continues that call."""
    written = {"path": "a.py", "text": "line\n" * 5_000}
    call = {"call_id": "c1", "name": "write", "arguments": written}
    question: dict[str, Payload] = {"role": "user", "content": "Write."}
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        recorder.record_llm_interaction([question], {"content": None, "tool_calls": [call]}, "p", "m")
        history = [question, {"role": "assistant", "content": None, "tool_calls": [call]}]
        history.append({"role": "tool", "call_id": "c1", "content": "ok"})
        recorder.record_llm_interaction(history, {"content": "Done."}, "p", "m")
    _check(tmp_path / "run.jsonl", tmp_path)


@pytest.mark.parametrize("member", ["metadata", "forked_at"])
def test_the_id_of_a_run_may_be_the_name_of_a_file(member: str, tmp_path: Path) -> None:
    """In each record that refers to another run. An id that was made at random is kept."""
    made = "0a16c64f7c384726941e45b91ad7c0ab"
    journal = tmp_path / "run.jsonl"
    texts = []
    for run in ("merger-with-acme", made):
        origin: Payload = {"trajectory_id": run, "interaction_id": "llm_1"}
        if member == "metadata":
            origin = {"forked_from": origin}
        start = {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": made, "task": None, member: origin}
        journal.write_bytes(b"".join(encode_lines([("start", json.dumps(start))], 1, "")))
        texts.append(b"".join(TextlessJournal(journal, new_key()).lines()).decode())
    assert [("acme" in text, text.count(made)) for text in texts] == [(False, 1), (False, 2)]


STREAMED = [name for name in GENERATED if name.startswith("tools.") and name.endswith(".streamed")]


@pytest.mark.parametrize("name", STREAMED)
def test_a_hidden_identifier_is_in_no_event(name: str, tmp_path: Path) -> None:
    """The name of a tool, which a person hides in the review, is hidden in the events of a stream too."""
    journal = record(name, tmp_path).with_suffix(".jsonl")
    tools = {tool.name for call in load(journal).llm_interactions for tool in call.response.tool_calls}
    run = reload(TextlessJournal(journal, new_key(), tools).lines(), tmp_path / "textless.jsonl")
    assert tools
    assert found_in(map(str, tools), [tmp_path / "textless.jsonl"]) == []
    assert sum(len(call.response.tool_calls) for call in run.llm_interactions) > 0
