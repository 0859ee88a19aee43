"""The fold: a journal's records become a trajectory, whichever records are missing or damaged."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.chat_calls import Answer, asked, call, rich_run, said, streamed
from tests.journals import RawRecord, folded, journal_of, line, records_of
from tests.json_strategies import json_values
from trace_recorder import TrajectoryRecorder
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

START = ("start", {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "t", "task": "x"})


@cache
def rich() -> tuple[RawRecord, ...]:
    """Return the records of a run that has a record of every kind."""
    with TemporaryDirectory() as directory:
        return tuple(records_of(rich_run(Path(directory) / "run.json")))


def journal_with(records: list[tuple[str, Payload]]) -> bytes:
    return journal_of(*records)


def pairs() -> list[tuple[str, Payload]]:
    return [(one.kind, one.data) for one in rich()]


def whole(trajectory: Trajectory) -> Payload:
    """Return all values of a trajectory, expanded."""
    parts = [
        (call.raw_request, call.raw_response, call.raw_stream, call.input_messages)
        for call in trajectory.llm_interactions
    ]
    documents = [trajectory.to_document(), trajectory.to_document("delta")]
    return json.dumps(documents, ensure_ascii=False, allow_nan=False).encode(), parts


def identities(trajectory: Trajectory) -> list[str]:
    return [call.interaction_id for call in trajectory.llm_interactions]


def test_every_kind_of_record_is_folded() -> None:
    """Each record is in its place in the trajectory."""
    trajectory = folded(journal_of(*pairs()))

    assert {one.kind for one in rich()} == {
        *("start", "item", "llm_request", "llm_stream", "llm_response", "llm_error", "llm_interaction"),
        *("agent_step", "annotation", "reward", "gap", "finalize"),
    }
    assert (trajectory.task, trajectory.max_steps, trajectory.metadata) == ("mend it", 5, {"seed": 7})
    assert (trajectory.status, trajectory.success, trajectory.final_result) == ("completed", True, "mended")
    assert [(reward.name, reward.value, reward.step_number) for reward in trajectory.rewards] == [("tests", 0.5, 1)]
    assert (trajectory.annotations, [gap.what for gap in trajectory.gaps]) == (
        {"label": {"good": True}},
        ["read the clock"],
    )
    assert [(step.step_number, step.state, step.extra) for step in trajectory.agent_steps] == [
        (1, "completed", {"lakeview_summary": "it went well"}),
        (2, "error", {}),
    ]
    assert [
        (
            call.interaction_id,
            call.response and call.response.content,
            call.error and call.error.type,
            len(call.attempts),
        )
        for call in trajectory.llm_interactions
    ] == [
        ("llm_1", None, None, 1),
        ("llm_2", "Wörld", None, 1),
        ("llm_3", None, "rate_limit", 1),
        ("llm_4", None, "http_error", 2),
        ("llm_5", "yes", None, 0),
    ]


def test_every_prefix_gives_the_beginning_of_the_run() -> None:
    """After each record, the interactions, steps, rewards and gaps are the first ones of the whole run."""
    full = folded(journal_of(*pairs()))
    for length in range(len(pairs()) + 1):
        part = folded(journal_of(*pairs()[:length]))
        whole(part)
        assert identities(part) == identities(full)[: len(part.llm_interactions)], length
        assert list(part.rewards) == list(full.rewards)[: len(part.rewards)], length
        assert list(part.gaps) == list(full.gaps)[: len(part.gaps)], length


@given(st.sets(st.integers(0, 30)))
def test_any_records_may_be_missing(lost: set[int]) -> None:
    """Any subset of a journal's lines folds, and the remaining records of each call stay with that call."""
    left = [pair for number, pair in enumerate(pairs()) if number not in lost]

    trajectory = folded(journal_of(*left))

    whole(trajectory)
    assert set(identities(trajectory)) <= {"llm_1", "llm_2", "llm_3", "llm_4", "llm_5"}


def test_a_damaged_line_affects_only_the_calls_that_use_it(tmp_path: Path) -> None:
    """Whichever line of calls with shared messages is lost, every call that does not need the line is unchanged."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    for messages in (["a", "b"], ["b", "c"], ["c"], ["x" * 5000, "a"]):
        call(
            recorder,
            asked(*messages, tools=[{"name": messages[0]}]),
            said("-".join(messages), identity="-".join(messages)),
        )
    recorder.finalize()
    records = records_of(recorder.trajectory_path)
    full = {
        interaction.interaction_id: interaction
        for interaction in folded(journal_of(*[(record.kind, record.data) for record in records])).llm_interactions
    }
    before = {identity: (interaction.raw_request, interaction.raw_response) for identity, interaction in full.items()}

    for lost in records:
        trajectory = folded(
            b"".join(b"#\n" if record is lost else line(record.seq, record.kind, record.data) for record in records)
        )
        needing = needed_by(lost, before)
        after = {call.interaction_id: (call.raw_request, call.raw_response) for call in trajectory.llm_interactions}
        assert {identity for identity in before if after.get(identity) != before[identity]} == needing, lost
        unreadable = {
            gap.what.removeprefix("the request of ") for gap in trajectory.gaps if gap.what.startswith("the req")
        }
        assert unreadable == (set() if lost.kind == "llm_response" else needing), lost


def needed_by(lost: RawRecord, calls: dict[str, Payload]) -> set[str]:
    """Return the calls that need a record: its own call, or the calls whose requests have the item's value."""
    if lost.kind == "item":
        value = lost.data["value"]
        spelled = json.dumps("x" * 5000 if "@string" in str(value) else value)
        return {identity for identity, (request, _) in calls.items() if spelled in json.dumps(request)}
    return {lost.data["interaction_id"]} if "interaction_id" in lost.data else set()


def test_unknown_kinds_of_records_are_skipped() -> None:
    """Records of a later version have no effect, at any place and with any content."""
    strange = [("from_the_future", {"interaction_id": "llm_1", "n": 0}), ("", {}), ("Start", {"task": "y"})]
    between = [one for pair in pairs() for one in (*strange, pair)]

    assert whole(folded(journal_of(*between)))[1] == whole(folded(journal_of(*pairs())))[1]
    assert folded(journal_of(*between)).gaps == folded(journal_of(*pairs())).gaps


@given(st.integers(0, 30), st.data())
def test_a_missing_or_wrong_member_affects_only_its_record(number: int, data: st.DataObject) -> None:
    """The journal folds with any value in one member of a record, and the other calls are unchanged."""
    number %= len(pairs())
    kind, members = pairs()[number]
    name = data.draw(st.sampled_from(sorted(members)))
    value = data.draw(st.just(...) | json_values)
    changed = {key: one for key, one in (members | {name: value}).items() if one is not ...}

    trajectory = folded(journal_of(*pairs()[:number], (kind, changed), *pairs()[number + 1 :]))

    whole(trajectory)
    touched = {members.get("interaction_id"), changed.get("interaction_id") if isinstance(value, str) else None}
    if kind != "item":
        before = {call.interaction_id: call.raw_request for call in folded(journal_of(*pairs())).llm_interactions}
        after = {call.interaction_id: call.raw_request for call in trajectory.llm_interactions}
        assert {one for one in before if after.get(one) != before[one]} <= touched


def change(kind: str, nth: int = 0, **members: Payload) -> bytes:
    """Return the run of `rich` with changed members in the nth record of a kind."""
    number = [at for at, one in enumerate(rich()) if one.kind == kind][nth]
    return journal_of(*[(one, data | (members if at == number else {})) for at, (one, data) in enumerate(pairs())])


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("agent_step", {"step_number": {"__type__": "numpy.int64", "repr": "1"}}),
        ("agent_step", {"step_number": [1]}),
        ("agent_step", {"items": None}),
        ("llm_stream", {"zlib": "no zlib"}),
        ("llm_stream", {"zlib": "eJwDAAAAAAE="}),
        ("llm_stream", {"zlib": None}),
        ("llm_stream", {"attempt": [1]}),
        ("llm_request", {"attempt": "first"}),
        ("llm_request", {"items": {"messages": 7}}),
        ("llm_request", {"items": {"messages": [[0, "x"]]}}),
        ("llm_request", {"items": {"messages": {"base": 99, "ranges": []}}}),
        ("llm_request", {"items": [], "body": 5}),
        ("llm_request", {"api": ["openai-chat"]}),
        ("llm_response", {"status": "200"}),
        ("llm_response", {"body": [1]}),
        ("llm_response", {"headers": "none"}),
        ("llm_response", {"duration_seconds": "long"}),
        ("llm_response", {"error": "none"}),
        ("llm_error", {"type": None, "message": None}),
        ("llm_interaction", {"error": "no"}),
        ("llm_interaction", {"response": {"id": [1], "content": "x"}}),
        ("item", {"n": [0]}),
        ("item", {"strings": 5}),
        ("reward", {"weight": "heavy", "unknown": 1}),
        ("annotation", {"lakeview_step": [1]}),
        ("finalize", {"error": "no"}),
        ("finalize", {"error": {"type": "x"}}),
        ("start", {"metadata": 5, "task": [1]}),
        ("gap", {"what": None, "time": 5}),
    ],
)
def test_a_senseless_record_does_not_prevent_the_fold(kind: str, members: dict[str, Payload]) -> None:
    """The run folds, its last record counts, and every other call has its messages."""
    trajectory = folded(change(kind, **members))

    whole(trajectory)
    own = rich()[[one.kind for one in rich()].index(kind)].data.get("interaction_id")
    before = {call.interaction_id: call.raw_response for call in folded(journal_of(*pairs())).llm_interactions}
    after = {call.interaction_id: call.raw_response for call in trajectory.llm_interactions}
    assert (trajectory.status, {one for one in before if after.get(one) != before[one]} - {own}) == ("completed", set())


def test_a_kind_that_is_not_text_is_unknown() -> None:
    """A complete line whose envelope makes no sense is skipped alone."""
    head = b'{"seq":1,"time":5,"kind":["start"],"data":{}'
    odd = b'%s,"crc":"%08x"}\n' % (head, zlib.crc32(head))

    assert identities(folded(odd + journal_of(*pairs()))) == ["llm_1", "llm_2", "llm_3", "llm_4", "llm_5"]


@pytest.mark.parametrize(
    ("end", "given_status", "expected"),
    [
        ({"status": "completed", "success": None}, "running", ("completed", None, None)),
        (
            {"status": "failed", "success": False, "error": {"type": "E", "message": "m"}},
            "running",
            ("failed", False, "E"),
        ),
        ({"status": "interrupted"}, "running", ("interrupted", None, None)),
        (None, "running", ("running", None, None)),
        (None, "unknown", ("unknown", None, None)),
    ],
)
def test_the_status_is_that_of_the_last_record_or_the_caller_s(
    end: Payload, given_status: str, expected: tuple[object, ...]
) -> None:
    """If a run has an end, the end states the status. Otherwise the caller, who sees the lock, states it."""
    trajectory = folded(journal_of(START, *([("finalize", end)] if end else [])), given_status)  # type: ignore[arg-type]

    assert (trajectory.status, trajectory.success, trajectory.error and trajectory.error.type) == expected


def test_a_call_that_was_captured_and_recorded_by_hand_is_one_call(tmp_path: Path) -> None:
    """If a call recorded by hand has the id of a captured response, only the captured call is kept."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    call(recorder, asked("hello"), said("hi", identity="chat-7"))
    recorder.record_llm_interaction(asked("hello")["messages"], {"content": "hi", "id": "chat-7"}, "openai", "m")
    recorder.record_llm_interaction(asked("hello")["messages"], {"content": "ho", "id": "chat-8"}, "openai", "m")
    recorder.finalize()

    trajectory = folded(recorder.trajectory_path.with_suffix(".jsonl").read_bytes())

    assert [(call.api, call.response and call.response.content) for call in trajectory.llm_interactions] == [
        ("openai-chat", "hi"),
        (None, "ho"),
    ]


def test_an_incomplete_stream_gives_the_received_text() -> None:
    """If a process was killed in the middle of a stream, the call has the text so far, and is incomplete."""
    until = next(number for number, one in enumerate(rich()) if one.kind == "llm_stream")
    trajectory = folded(journal_of(*pairs()[: until + 1]))

    one = trajectory.llm_interactions[-1]
    assert (one.response and one.response.content, one.complete, one.stream, trajectory.agent_steps[-1].state) == (
        *("Wörld", False, True, "thinking"),
    )


@example('{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}', b'{"id":"x","choices":[]}')
@example('{"model":"m","messages":[{"role":"user","content":"x"}],"seed":1e999}', b'{"id":"x","choices":[],"n":1e999}')
@example(
    '{"messages":[5,null,{"content":[[]]},{"role":[]}],"tools":{"a":1},"stream":"yes"}',
    b'{"choices":[null,{"message":[]}],"usage":[]}',
)
@given(
    st.sampled_from(
        ["", "x", "[]", "5", "null", '{"messages":5}', '{"messages":[[]]}', '{"model":{}}', '{"stream":true}']
    ),
    st.sampled_from(
        [
            b"",
            b"x",
            b"\xff",
            b"[]",
            b"null",
            b"5",
            b'"x"',
            b"{}",
            b'{"choices":5}',
            b'{"error":[1]}',
            b'{"choices":[5]}',
        ]
    ),
)
def test_any_traffic_folds_and_gives_a_document(tmp_path: Path, sent: str, came: bytes) -> None:
    """A request and a response without a known form are kept raw, and every reader can read the document."""
    recorder = TrajectoryRecorder(directory=tmp_path)
    recorder.start()
    for answer in (Answer(came), Answer(came, media="text/event-stream"), Answer(came, status=500)):
        call(recorder, sent, answer)
    recorder.finalize(success=True)

    trajectory = folded(recorder.trajectory_path.with_suffix(".jsonl").read_bytes())

    document = json.loads(recorder.trajectory_path.read_bytes(), parse_constant=_refuse)
    assert [(call["interaction_id"], call["attempts"][0]["status"]) for call in document["llm_interactions"]] == [
        *(("llm_1", 200), ("llm_2", 200), ("llm_3", 500)),
    ]
    assert (document["status"], trajectory.gaps) == ("completed", ())


def _refuse(name: str) -> Callable[[], None]:
    raise AssertionError(f"{name} is not JSON")


def test_a_stream_cut_within_a_character_gives_a_document() -> None:
    """A delta that ends with half of a surrogate pair, as some servers send it, can be written as UTF-8."""
    event = 'data: {"id":"s","choices":[{"index":0,"delta":{"content":"so \\ud83d"}}]}\n\n'
    packed = base64.b64encode(zlib.compress(event.encode())).decode()
    until = next(number for number, one in enumerate(rich()) if one.kind == "llm_stream")
    kind, data = pairs()[until]

    trajectory = folded(journal_of(*pairs()[:until], (kind, data | {"zlib": packed})))

    [document] = [call for call in trajectory.to_document()["llm_interactions"] if call["interaction_id"] == "llm_2"]
    assert json.dumps(document, ensure_ascii=False).encode()[:2] == b'{"'


def test_interleaved_streams_stay_separate(tmp_path: Path) -> None:
    """Records of two calls that run at once belong to their own call."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    call(recorder, asked("a", stream=True), streamed("one"))
    call(recorder, asked("b", stream=True), streamed("two"))
    recorder.finalize()
    records = [(record.kind, record.data) for record in records_of(recorder.trajectory_path)]
    items = [pair for pair in records if pair[0] == "item"]
    first, second = (
        [pair for pair in records if pair[1].get("interaction_id") == f"llm_{number}"] for number in (1, 2)
    )

    mixed = [one for both in zip(first, second, strict=True) for one in reversed(both)]

    assert [
        (call.interaction_id, call.response and call.response.content)
        for call in folded(journal_of(START, *items, *mixed)).llm_interactions
    ] == [("llm_2", "two"), ("llm_1", "one")]
