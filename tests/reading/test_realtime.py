"""What the model had at each response of a realtime connection, derived from the messages of both sides."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import counting
from tests.journals import journal_of, records_of
from tests.websocket_sessions import Event, Session, called, prompts, spoken, typed
from trace_recorder.reading.fold import Fold
from trace_recorder.reading.relations.prompt_relations import relations_of
from trace_recorder.storage.journal_reader import BadLine, Record, read_records
from trace_recorder.storage.stream_chunks import packed
from trace_recorder.storage.websocket_frames import marked, media_note
from trace_recorder.values.content_parts import Other, parts_of
from trace_recorder.values.message_table import NumberedMessages
from trace_recorder.values.messages import ToolCall
from trace_recorder.values.trajectory import Trajectory

TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
SESSION = {"id": "sess_1", "type": "realtime", "model": "gpt-realtime", "instructions": "Help.", "tools": [TOOL]}
CREATE = {"type": "conversation.item.create"}
HELP = ("system", "Help.")


def heard(transcript: str | None) -> tuple[str, list[Event]]:
    """Return a message of the user that the model heard."""
    part: Event = {"type": "input_audio"}
    if transcript is not None:
        part["transcript"] = transcript
    return "user", [part]


def spoke(text: str, **members: Any) -> tuple[str, list[Event]]:
    """Return a message that the model spoke."""
    return "assistant", [{"type": "text", "text": text, "modality": "audio", **members}]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Return a session that has begun."""
    begun = Session(tmp_path / "run.json")
    begun.receive({"type": "session.created", "session": SESSION})
    return begun


def relations(run: Trajectory) -> list[str]:
    return [relations_of(run).of(call).kind for call in run.llm_interactions]


def test_a_conversation_with_speech_and_a_tool_reads_as_over_http(session: Session) -> None:
    """Each prompt extends the one before it. The result of the tool is matched to its call."""
    session.create(typed("user", "Hi"))
    session.answer(spoken("item_a", "Hello!", "assistant"))
    session.receive({"type": "input_audio_buffer.committed", "item_id": "item_b", "previous_item_id": "item_a"})
    session.added(spoken("item_b", "What weather?"), after="item_a")
    session.answer(called("item_c", "call_1"), by_server=True)
    session.create({"type": "function_call_output", "call_id": "call_1", "output": "sunny"})
    session.answer(spoken("item_d", "It is sunny.", "assistant"))

    run = session.end()

    begun = [HELP, ("user", "Hi"), spoke("Hello!"), heard("What weather?"), ("assistant", None), ("tool", "sunny")]
    assert prompts(run) == [begun[:2], begun[:4], begun]
    assert relations(run) == ["begins", "extends", "extends"]
    assert [call.response.content for call in run.llm_interactions] == ["Hello!", None, "It is sunny."]
    assert [[tool.name for tool in call.tools] for call in run.llm_interactions] == [["weather"]] * 3
    asked = run.llm_interactions[2].input_messages[4].tool_calls
    assert asked == (ToolCall("call_1", "weather", {"city": "Ulm"}, extra={"id": "item_c", "status": "in_progress"}),)
    assert [[result.result for result in step.tool_results] for step in run.agent_steps] == [[], ["sunny"], []]
    assert [call.raw_request for call in run.llm_interactions] == [
        {"type": "response.create"},
        {},
        {"type": "response.create"},
    ]


def test_events_that_the_server_has_not_confirmed_are_in_the_prompt(session: Session) -> None:
    """A client sends the settings, an item and speech, and asks for an answer without waiting for the server."""
    session.send({"type": "session.update", "session": {"instructions": "Be brief.", "audio": {"input": {"a": 1}}}})
    session.send({**CREATE, "item": typed("user", "Hi")}, {"type": "input_audio_buffer.commit"})
    session.send({"type": "response.create"})
    session.receive({"type": "session.updated", "session": {**SESSION, "instructions": "Be brief."}})
    session.added({**typed("user", "Hi", id="item_a")})
    session.receive({"type": "input_audio_buffer.committed", "item_id": "item_b", "previous_item_id": "item_a"})
    session.added(spoken("item_b"), after="item_a")
    session.answer(spoken("item_c", "Hello!", "assistant"), by_server=True)
    session.answer(typed("assistant", "Still there?", id="item_d"), by_server=True)

    run = session.end()

    begun = [("system", "Be brief."), ("user", "Hi"), heard(None)]
    assert prompts(run) == [begun, [*begun, spoke("Hello!")]]
    assert run.llm_interactions[0].parameters["audio"] == {"input": {"a": 1}}


def test_a_transcript_that_comes_later_belongs_to_the_message_of_the_earlier_prompt(session: Session) -> None:
    """The model had the speech. All prompts share the message, and it has one number."""
    session.added(spoken("item_a"))
    session.answer(spoken("item_b", "Hello!", "assistant"), by_server=True)
    session.added(spoken("item_c"), after="item_b")
    session.answer(spoken("item_d", "Bye!", "assistant"), by_server=True)
    for identity, transcript in (("item_c", "Goodbye."), ("item_a", "Hi.")):
        kind = "conversation.item.input_audio_transcription.completed"
        session.receive({"type": kind, "item_id": identity, "content_index": 0, "transcript": transcript})

    run = session.end()

    assert prompts(run) == [
        [HELP, heard("Hi.")],
        [HELP, heard("Hi."), spoke("Hello!"), heard("Goodbye.")],
    ]
    first, second = (call.input_messages for call in run.llm_interactions)
    assert isinstance(first, NumberedMessages)
    assert isinstance(second, NumberedMessages)
    assert first.numbers == second.numbers[:2]


def test_a_growing_run_shows_a_transcript_when_it_comes(session: Session) -> None:
    """A reader that has read the prompt before the transcript came sees the transcript afterwards."""
    session.added(spoken("item_a"))
    session.answer(spoken("item_b", "Hello!", "assistant"), by_server=True)
    kind = "conversation.item.input_audio_transcription.completed"
    session.receive({"type": kind, "item_id": "item_a", "content_index": 0, "transcript": "Hi."})
    session.end()

    fold, seen = Fold(), []
    for record in read_records(session.path.with_suffix(".jsonl").read_bytes()):
        fold.add([record])
        seen += prompts(fold.trajectory("running"))[-1:]

    shown = [prompt for number, prompt in enumerate(seen) if prompt not in seen[:number]]
    assert shown == [[HELP, heard(None)], [HELP, heard("Hi.")]]


@pytest.mark.parametrize("is_early", [True, False])
def test_an_interrupted_answer_says_what_the_user_heard(session: Session, is_early: bool) -> None:
    """The answer keeps what the model said. Later prompts say how much of it was heard, and still extend the answer."""
    cut = {"item_id": "item_b", "content_index": 0, "audio_end_ms": 700}
    session.added(spoken("item_a", "Tell me a story."))
    if is_early:  # while the model speaks
        begun = {"id": "resp_0", "conversation_id": "conv_1", "status": "in_progress", "output": []}
        session.receive({"type": "response.created", "response": begun})
        speech = spoken("item_b", "Once upon a time", "assistant")
        session.added({**speech, "content": [], "status": "in_progress"}, kinds=("added",))
        session.send({"type": "conversation.item.truncate", **cut})
        session.receive({"type": "conversation.item.truncated", **cut})
        details = {"type": "cancelled", "reason": "turn_detected"}
        done = {**begun, "status": "cancelled", "status_details": details, "output": [speech]}
        session.receive({"type": "response.done", "response": done})
    else:
        session.answer(spoken("item_b", "Once upon a time", "assistant"), by_server=True)
        session.send({"type": "conversation.item.truncate", **cut})
        session.receive({"type": "conversation.item.truncated", **cut})
    session.added(spoken("item_c", "Stop."), after="item_b")
    session.answer(spoken("item_d", "OK.", "assistant"), by_server=True)

    run = session.end()

    first, second = run.llm_interactions
    assert (first.response.content, first.response.audio_end_ms) == ("Once upon a time", 700)
    assert first.response.finish_reason == ("turn_detected" if is_early else "completed")
    assert second.response.audio_end_ms is None
    assert prompts(run)[1] == [
        HELP,
        heard("Tell me a story."),
        spoke("Once upon a time", audio_end_ms=700),
        heard("Stop."),
    ]
    assert relations(run) == ["begins", "extends"]


def test_an_interruption_after_a_prompt_changes_later_prompts_only(session: Session) -> None:
    """A prompt that was sent before the interruption has the whole answer."""
    session.added(spoken("item_a", "Hi."))
    session.answer(spoken("item_b", "Hello there!", "assistant"), by_server=True)
    session.answer(typed("assistant", "Hm.", id="item_c"))
    session.send({"type": "conversation.item.truncate", "item_id": "item_b", "content_index": 0, "audio_end_ms": 9})
    session.answer(typed("assistant", "Well.", id="item_d"))

    run = session.end()

    assert prompts(run)[1:] == [
        [HELP, heard("Hi."), spoke("Hello there!")],
        [HELP, heard("Hi."), spoke("Hello there!", audio_end_ms=9), ("assistant", "Hm.")],
    ]
    assert [call.response.audio_end_ms for call in run.llm_interactions] == [9, None, None]


def test_items_are_inserted_deleted_and_retrieved(session: Session) -> None:
    """An item is after the item that the client or the server names, or at the root, until it is deleted."""
    session.create(typed("user", "one"))
    first = session.last_item
    session.create(typed("user", "three"))
    session.send({**CREATE, "item": typed("user", "two", id="item_two"), "previous_item_id": first})
    session.added(typed("user", "two", id="item_two"), after=first)
    session.send({**CREATE, "item": typed("user", "zero", id="item_zero"), "previous_item_id": "root"})
    session.added(typed("user", "zero", id="item_zero"), kinds=("created",))
    session.answer(typed("assistant", "four", id="item_four"))
    session.send({"type": "conversation.item.delete", "item_id": first})
    session.receive({"type": "conversation.item.deleted", "item_id": first})
    session.receive({"type": "conversation.item.retrieved", "item": typed("user", "two", id="item_two")})
    session.answer(typed("assistant", "five", id="item_five"))

    run = session.end()

    assert prompts(run) == [
        [HELP, *(("user", word) for word in ("zero", "one", "two", "three"))],
        [HELP, *(("user", word) for word in ("zero", "two", "three")), ("assistant", "four")],
    ]


def test_settings_that_the_server_has_not_confirmed_stay_after_its_greeting(tmp_path: Path) -> None:
    """A client may send its settings before the server states the session."""
    session = Session(tmp_path / "run.json")
    session.send({"type": "session.update", "session": {"instructions": "Be brief."}})
    session.receive({"type": "session.created", "session": SESSION})
    session.answer(typed("assistant", "Hello!", id="item_a"))
    session.receive({"type": "session.updated", "session": {**SESSION, "instructions": "Be quick."}})
    session.answer(typed("assistant", "Hm.", id="item_b"))

    run = session.end()

    assert prompts(run) == [[("system", "Be brief.")], [("system", "Be quick."), ("assistant", "Hello!")]]


def test_values_that_a_document_cannot_have_are_replaced(session: Session) -> None:
    """Half of a surrogate pair, and a number that is no number, stay readable."""
    item = typed("user", "half \ud83d")
    session.create(item | {"number": float("nan")})
    session.answer(typed("assistant", "Hello!", id="item_a"))

    assert prompts(session.end()) == [[HELP, ("user", "half \ufffd")]]


def test_an_image_that_was_not_recorded_is_no_image(session: Session) -> None:
    """Its part has a note in the place of the image, which no view may take for one."""
    encoded = base64.b64encode(b"\x89PNG").decode()
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{encoded}"}
    session.create({"type": "message", "role": "user", "content": [image]})
    session.answer(typed("assistant", "A picture.", id="item_b"))

    run = session.end()

    message = run.llm_interactions[0].input_messages[1]
    note = {**image, "image_url": f"data:image/png;base64,{media_note(encoded)}"}
    assert (message.content, parts_of(message)) == ([note], [Other(note)])


def test_what_the_server_refuses_is_in_no_later_prompt(session: Session) -> None:
    """An error names the event, or a later item is confirmed first. Speech that is too short is refused by its code."""
    error = {"type": "invalid_request_error", "message": "no"}
    session.send({**CREATE, "event_id": "event_1", "item": typed("user", "refused")})
    session.receive({"type": "error", "error": {**error, "event_id": "event_1"}})
    session.send({**CREATE, "item": typed("user", "also refused")}, {**CREATE, "item": typed("user", "Hi")})
    session.receive({"type": "error", "error": error})
    session.added(typed("user", "Hi", id="item_a"))
    session.send({"type": "input_audio_buffer.commit"})
    session.receive({"type": "error", "error": {**error, "code": "input_audio_buffer_commit_empty"}})
    session.send({"type": "session.update", "event_id": "event_2", "session": {"instructions": "Refused."}})
    session.receive({"type": "error", "error": {**error, "event_id": "event_2"}})
    session.answer(typed("assistant", "Hello!", id="item_b"))

    assert prompts(session.end()) == [[HELP, ("user", "Hi")]]


def test_an_out_of_band_response_has_its_own_prompt_and_changes_nothing(session: Session) -> None:
    """Its input may refer to items. Two such responses are made while the model answers in the conversation."""
    session.create(typed("user", "Hi"))
    first = str(session.last_item)
    session.send({"type": "response.create"})
    session.receive(_created("resp_a", "conv_1"))
    asks = [{"type": "item_reference", "id": first}, {"type": "item_reference", "id": "none"}, typed("user", "Polite?")]
    own = {"conversation": "none", "instructions": "Judge.", "tools": [], "metadata": {"topic": "check"}}
    session.send({"type": "response.create", "response": {**own, "input": asks}})
    session.send({"type": "response.create", "response": {"conversation": "none"}})
    session.receive(_created("resp_b", None), _created("resp_c", None))
    session.receive(_done("resp_c", None, typed("assistant", "Beside.", id="item_c")))
    session.receive(_done("resp_b", None, typed("assistant", "Yes.", id="item_b")))
    hello = typed("assistant", "Hello!", id="item_a")
    session.added(hello)
    session.receive(_done("resp_a", "conv_1", hello))
    session.answer(typed("assistant", "More.", id="item_d"))

    run = session.end()

    assert prompts(run) == [
        [HELP, ("user", "Hi")],
        [("system", "Judge."), ("user", "Hi"), ("user", "Polite?")],
        [HELP, ("user", "Hi")],
        [HELP, ("user", "Hi"), ("assistant", "Hello!")],
    ]
    assert [call.response.content for call in run.llm_interactions] == ["Hello!", "Yes.", "Beside.", "More."]
    judged = run.llm_interactions[1]
    assert (judged.tools, judged.parameters["metadata"]) == ([], {"topic": "check"})


def _created(identity: str, conversation: str | None) -> Event:
    response = {"id": identity, "conversation_id": conversation, "status": "in_progress", "output": []}
    return {"type": "response.created", "response": response}


def _done(identity: str, conversation: str | None, *output: Event) -> Event:
    response = {"id": identity, "conversation_id": conversation, "status": "completed", "output": [*output]}
    return {"type": "response.done", "response": response}


def test_a_server_without_events_of_items_is_read_too(session: Session) -> None:
    """The items of its responses are in the conversation."""
    session.send({**CREATE, "item": typed("user", "Hi")}, {"type": "response.create"})
    session.receive(_created("resp_a", "conv_1"), _done("resp_a", "conv_1", typed("assistant", "Hello!", id="item_a")))
    session.send({**CREATE, "item": typed("user", "Bye")}, {"type": "response.create"})
    session.receive(_created("resp_b", "conv_1"), _done("resp_b", "conv_1", typed("assistant", "Bye!", id="item_b")))

    assert prompts(session.end())[1] == [HELP, ("user", "Hi"), ("assistant", "Hello!"), ("user", "Bye")]


ODD: tuple[Any, ...] = (None, True, -1, 2**70, 1.5, "", "item_a", [], [None], [["x"]], {}, {"type": []}, {"id": {}})
EVENTS: tuple[tuple[str, Event], ...] = (
    ("sent", {"type": "session.update", "event_id": "event_1", "session": {"audio": {}, "tools": [TOOL]}}),
    ("received", {"type": "session.created", "session": SESSION}),
    ("sent", {**CREATE, "event_id": "event_2", "previous_item_id": "root", "item": typed("user", "Hi")}),
    (
        "received",
        {"type": "conversation.item.added", "previous_item_id": None, "item": typed("user", "Hi", id="item_a")},
    ),
    ("sent", {"type": "input_audio_buffer.commit", "event_id": "event_3"}),
    ("received", {"type": "input_audio_buffer.committed", "item_id": "item_b", "previous_item_id": "item_a"}),
    ("sent", {"type": "conversation.item.truncate", "item_id": "item_a", "content_index": 0, "audio_end_ms": 1}),
    (
        "received",
        {"type": "conversation.item.input_audio_transcription.completed", "item_id": "item_b", "transcript": ""},
    ),
    ("received", {"type": "conversation.item.retrieved", "item": called("item_c", "call_1")}),
    ("received", {"type": "conversation.item.deleted", "item_id": "item_a"}),
    ("received", {"type": "error", "error": {"event_id": "event_3", "code": "input_audio_buffer_commit_empty"}}),
)
"""An event of each type that changes a conversation."""


@pytest.mark.parametrize("number", range(len(EVENTS)), ids=[event["type"] for _, event in EVENTS])
def test_odd_members_of_events_raise_nothing(number: int) -> None:
    """Any member of an event, of its item and of its parts may be any JSON. The next prompts are JSON too."""
    _, event = EVENTS[number]
    for odd in ODD:
        for changed in _with_odd_members(event, odd):
            events = [(way, changed if other is event else other) for way, other in EVENTS]
            text = b"".join(marked(way, json.dumps(other).encode()) for way, other in events)  # type: ignore[arg-type]
            answered = {"interaction_id": "llm_1", "attempt": 0, "status": 101, "headers": {}, "complete": True}
            answer = {"status": "completed", "output": [odd, {"id": odd, "content": odd}, called("item_c", "call_1")]}
            ended = ("llm_response", {**answered, "stream": True, "assembled": answer})
            run = folded(written(frames(text), asked(1), ended, asked(2))).trajectory("unknown")
            assert (len(run.llm_interactions), run.gaps) == (2, ())
            json.dumps(run.to_document(), allow_nan=False)


def _with_odd_members(value: Any, odd: Any) -> Iterator[Any]:
    """Yield the value with one of its members replaced, at any depth."""
    for name, member in value.items() if isinstance(value, dict) else enumerate(value):
        for changed in (odd, *(_with_odd_members(member, odd) if isinstance(member, dict | list) else ())):
            copied = value.copy()
            copied[name] = changed
            yield copied


# ── journals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def talk(session: Session, turns: int) -> None:
    """Have a conversation with late transcripts, interruptions and tools."""
    kind = "conversation.item.input_audio_transcription.completed"
    for number in range(turns):
        session.added(spoken(f"user_{number}"))
        session.answer(spoken(f"said_{number}", f"Answer {number}.", "assistant"), by_server=True)
        if number % 2:
            heard_item = {"item_id": f"user_{number - 1}", "content_index": 0}
            session.receive({"type": kind, **heard_item, "transcript": f"Question {number - 1}?"})
        if number % 3 == 0:
            cut = {"item_id": f"said_{number}", "content_index": 0, "audio_end_ms": number}
            session.send({"type": "conversation.item.truncate", **cut})


def test_every_prefix_of_a_journal_folds(session: Session) -> None:
    """Each beginning of the journal has the first calls, with the prompts that were known then."""
    talk(session, 6)
    run = session.end()
    data = session.path.with_suffix(".jsonl").read_bytes()

    counts = []
    for end in range(0, len(data), 97):
        fold = Fold()
        fold.add(read_records(data[:end]))
        calls = fold.trajectory("unknown").llm_interactions
        assert all(call.input_messages[0].content == "Help." for call in calls)
        counts.append(len(calls))

    assert sorted(counts) == counts
    assert (counts[0], counts[-1]) == (0, len(run.llm_interactions))


def test_damaged_messages_cost_only_themselves(session: Session) -> None:
    """A part that cannot be unpacked leaves a gap. All other messages are read."""
    talk(session, 3)
    session.end()
    records = [(one.kind, one.data) for one in records_of(session.path)]
    parts = [data for kind, data in records if kind == "websocket_frames"]
    parts[1]["zlib"] = "AAAA"

    fold = Fold()
    fold.add(read_records(journal_of(*records)))
    run = fold.trajectory("unknown")

    assert [gap.why for gap in run.gaps] == [
        "record 7: TrajectoryFormatError: the messages of a websocket cannot be unpacked"
    ]
    begun = [HELP, heard("Question 0?"), spoke("Answer 0.")]
    assert prompts(run) == [begun[:2], begun, [*begun, spoke("Answer 1."), heard(None)]]


def test_a_missing_beginning_costs_no_prompt(session: Session) -> None:
    """The first request says what the messages before it are."""
    talk(session, 2)
    before = session.end()
    records = [(one.kind, one.data) for one in records_of(session.path)]

    fold = Fold()
    fold.add(read_records(journal_of(*[(kind, data) for kind, data in records if kind != "websocket_start"])))

    assert prompts(fold.trajectory("unknown")) == prompts(before)


def written(*records: tuple[str, Event]) -> list[Record | BadLine]:
    """Return the records of a journal that was written by hand, with a websocket in it."""
    start = {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "t", "task": "talk"}
    opened = {"connection_id": "websocket_1", "api": "openai-realtime", "provider": "openai", "url": "", "headers": {}}
    return [*read_records(journal_of(("start", start), ("websocket_start", opened), *records))]


def frames(text: bytes, **members: Any) -> tuple[str, Event]:
    part = {"connection_id": "websocket_1", "bytes": len(text), "zlib": packed(text, 6)}
    return "websocket_frames", {**part, **members}


def received(*events: Event) -> bytes:
    return b"".join(marked("received", json.dumps(event).encode()) for event in events)


def asked(number: int) -> tuple[str, Event]:
    sent = {"api": "openai-realtime", "provider": "openai", "method": "WEBSOCKET", "url": "", "headers": {}}
    of = {"interaction_id": f"llm_{number}", "attempt": 0, "connection_id": "websocket_1"}
    return "llm_request", {**of, **sent, "body": {}}


def folded(records: list[Record | BadLine]) -> Fold:
    fold = Fold()
    fold.add(records)
    assert fold.calls
    return fold


def test_a_message_that_is_in_two_records_is_read() -> None:
    """A part may end anywhere in a message, also at a newline in it."""
    item = typed("user", "Hi", id="item_a")
    event = json.dumps({"type": "conversation.item.added", "item": item}, indent=1)
    text = marked("received", event.encode()) + received({"type": "session.created", "session": SESSION})

    for cut in range(1, len(text)):
        parts = frames(text[:cut]), frames(text[cut:], continues=True)
        run = folded(written(*parts, asked(1))).trajectory("unknown")
        assert prompts(run) == [[HELP, ("user", "Hi")]], text[:cut]


def test_the_work_for_a_response_does_not_grow_with_the_conversation() -> None:
    """Ten times as many responses take ten times as many calls of our functions, with changes in the middle too."""

    def turns(number: int) -> list[Record | BadLine]:
        records = [frames(received({"type": "session.created", "session": SESSION}))]
        for turn in range(number):
            user, speech = f"user_{turn}", spoken(f"said_{turn}", f"Answer {turn}.", "assistant")
            transcript = {"type": "conversation.item.input_audio_transcription.completed", "transcript": "Well?"}
            late = {**transcript, "item_id": f"user_{turn // 2}", "content_index": 0}
            cut = {"item_id": f"said_{turn - 3}", "content_index": 0, "audio_end_ms": turn}
            added = {"type": "conversation.item.added", "item": spoken(user)}
            events = [added, {"type": "conversation.item.truncated", **cut}, late]
            response = {"id": f"resp_{turn}", "conversation_id": "conv_1", "status": "completed", "output": [speech]}
            of = {"interaction_id": f"llm_{turn}", "attempt": 0, "status": 101, "headers": {}, "complete": True}
            answered = {**of, "stream": True, "assembled": response}
            records += [frames(received(*events)), asked(turn), ("llm_response", answered)]
        return written(*records)

    def calls(records: list[Record | BadLine]) -> int:
        return counting.calls(lambda: folded(records))

    short, long = turns(100), turns(1000)
    folded(short)  # imports and caches
    assert calls(long) <= 11 * calls(short)
    run = folded(long).trajectory("unknown")
    assert [len(call.input_messages) for call in run.llm_interactions[-2:]] == [1998, 2000]


def test_items_that_a_server_never_confirms_are_not_waited_for_without_end() -> None:
    """Five times as many of them take about five times as many calls of our functions."""

    def turns(number: int) -> list[Record | BadLine]:
        records = [frames(received({"type": "session.created", "session": SESSION}))]
        for turn in range(number):
            question = {"type": "conversation.item.create", "item": typed("user", f"Question {turn}")}
            said = typed("assistant", f"Answer {turn}.", id=f"said_{turn}")
            added = {"type": "conversation.item.added", "item": said}
            records += [frames(marked("sent", json.dumps(question).encode())), asked(turn), frames(received(added))]
        return written(*records)

    def calls(number: int) -> int:
        records = turns(number)
        return counting.calls(lambda: folded(records))

    folded(turns(2))  # imports and caches
    assert calls(1000) <= 8 * calls(200)
