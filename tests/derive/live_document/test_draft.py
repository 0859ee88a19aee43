"""The draft: whatever a run does, in whichever order, the live document is what the whole journal folds to."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.counting import kept_by, watch
from tests.run_fixtures import Answer, Payload, Wire, asked, call, journal_of, said
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.derive import requests as reading
from trace_recorder.derive.document import expanded
from trace_recorder.derive.live_document import draft
from trace_recorder.derive.live_document import writer as snapshot
from trace_recorder.recording.run import Run
from trace_recorder.storage import atomic_write as replacing
from trace_recorder.storage.items import disk_backed as filed
from trace_recorder.values.trajectory import History

TEXTS = st.sampled_from(["a", "b", "wö" * 300, ""])
LISTS_FILES = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed by /proc")
REFUSAL = Answer(b'{"error":{"type":"rate_limit","message":"slow"}}', status=429)


class Agent:
    """Several conversations on one recorder: each goes on, is cut, slides or is asked again."""

    def __init__(self, recorder: TrajectoryRecorder) -> None:
        self.recorder = recorder
        self.talks: list[list[Payload]] = [[{"role": "system", "content": f"talk {at}"}] for at in range(3)]
        self.open: list[tuple[int, str]] = []
        self.answers = 0

    def go_on(self, at: int, text: str, tool: bool, api: bool) -> None:
        talk = self.talks[at]
        talk.append({"role": "user", "content": text})
        self.answers += 1
        calls = [(f"c{self.answers}", "bash", '{"a": 1}')] if tool else []
        parameters: Payload = {"temperature": 0.5} if api else {}
        call(self.recorder, asked(*talk, **parameters), said(text, identity=f"r{self.answers}", calls=calls))
        if tool:
            self.open.append((at, calls[0][0]))
            asking = {"id": calls[0][0], "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            talk.append({"role": "assistant", "tool_calls": [asking]})
        else:
            talk.append({"role": "assistant", "content": text})

    def answer(self, which: int, text: str) -> None:
        if self.open:
            at, identity = self.open.pop(which % len(self.open))
            self.talks[at].append({"role": "tool", "tool_call_id": identity, "content": text})

    def slide(self, at: int, count: int) -> None:
        del self.talks[at][1 : 1 + count]

    def rewrite(self, at: int, text: str) -> None:
        self.talks[at][-1] = {"role": "user", "content": text}

    def fail(self, at: int, again: bool) -> None:
        call(self.recorder, asked(*self.talks[at], "more"), REFUSAL)
        if again:
            call(self.recorder, asked(*self.talks[at], "more"), said("at last", identity=f"f{self.answers}"))

    def break_down(self, at: int, _: bool) -> None:
        with pytest.raises(httpx.ConnectError):
            call(self.recorder, asked(*self.talks[at]), httpx.ConnectError("nobody"))

    def by_hand(self, number: int, text: str) -> None:
        response = {"content": text, "id": f"r{number}"}
        self.recorder.record_llm_interaction(asked(text)["messages"], response, "p", "m")

    def step(self, number: int, text: str) -> None:
        self.recorder.record_agent_step(number, "thinking", asked(text)["messages"])

    def use(self, number: int, asked_for: bool) -> None:
        """A tool that an open call has asked for, or none."""
        stated = self.open[number % len(self.open)][1] if asked_for and self.open else None
        with self.recorder.tool_call("bash", {"n": number}, stated) as running:
            running.result = number

    def summarise(self, number: int, text: str) -> None:
        self.recorder.update_lakeview(number, text)

    def annotate(self, number: int, text: str) -> None:
        self.recorder.annotate(str(number), text)


TALK = st.integers(0, 2)
SMALL = st.integers(1, 4)
ACTIONS = st.one_of(
    st.tuples(st.just("go_on"), TALK, TEXTS, st.booleans(), st.booleans()),
    st.tuples(st.just("go_on"), TALK, TEXTS, st.booleans(), st.just(False)),
    st.tuples(st.just("answer"), SMALL, TEXTS),
    st.tuples(st.just("slide"), TALK, SMALL),
    st.tuples(st.just("rewrite"), TALK, TEXTS),
    st.tuples(st.just("fail"), TALK, st.booleans()),
    st.tuples(st.just("break_down"), TALK, st.booleans()),
    st.tuples(st.just("by_hand"), SMALL, TEXTS),
    st.tuples(st.just("step"), SMALL, TEXTS),
    st.tuples(st.just("use"), SMALL, st.booleans()),
    st.tuples(st.just("summarise"), SMALL, TEXTS),
    st.tuples(st.just("annotate"), SMALL, TEXTS),
)


def agrees(recorder: TrajectoryRecorder) -> bool:
    """Whether the document that is there says what the whole journal says."""
    written = json.loads(recorder.trajectory_path.read_bytes())
    whole = load(recorder.trajectory_path).to_document("inline")
    return expanded(written) == {**whole, "history": written["history"]}


@pytest.fixture(params=["as they are", "soon long", "small"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits as they are; a document that is soon long; all so small that everything is settled and read again."""
    if request.param == "soon long":
        monkeypatch.setattr(snapshot, "INLINE_LIMIT", 6_000)
    if request.param == "small":
        for owner, name, value in (
            (draft, "NEWEST", 1),
            (draft, "WAITING", 2),
            (draft, "BLOCK", 700),
            (draft, "IN_MEMORY", 0),
            (reading, "LANES", 2),
            (snapshot, "INLINE_LIMIT", 6_000),
        ):
            monkeypatch.setattr(owner, name, value)


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("history", ["auto", "delta"])
def test_the_live_document_is_what_the_journal_folds_to(history: str) -> None:
    """After every few things that an agent may do, the document agrees with the journal, and so it does at the end."""

    @hypothesis_settings(max_examples=25, deadline=None)
    @given(st.lists(ACTIONS, max_size=25), st.integers(1, 6))
    def holds(actions: list[tuple[Payload, ...]], often: int) -> None:
        with TemporaryDirectory() as place:
            recorder = TrajectoryRecorder(Path(place, "run.json"), history=history, strict=True)  # type: ignore[arg-type]
            recorder.start(task="t")
            agent = Agent(recorder)
            for number, (name, *arguments) in enumerate(actions):
                getattr(agent, name)(*arguments)
                if number % often == 0:
                    recorder.save_trajectory()
                    assert agrees(recorder), (number, name)
            recorder.finalize()
            assert agrees(recorder)

    holds()


@pytest.mark.parametrize("history", ["inline", "delta"])
def test_what_a_provider_says_is_not_taken_for_a_place_in_the_document(tmp_path: Path, history: str) -> None:
    """Members and texts that look like the places where shared texts are put stand where they were said."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history=history)  # type: ignore[arg-type]
    hostile = {"request": 0, "input_messages": 0, "messages": 0, "said": '"request": 0, "input_messages": 0'}
    tool = {"type": "function", "function": {"name": "t", "parameters": hostile}}

    for text in ("a", "b"):
        answer = {**json.loads(said(text).body), **hostile}
        call(
            recorder, asked(hostile["said"], text, tools=[tool], metadata=hostile), Answer(json.dumps(answer).encode())
        )
    recorder.finalize()

    assert agrees(recorder)
    assert [one.response.extra["request"] for one in load(recorder.trajectory_path).llm_interactions] == [0, 0]


@pytest.mark.parametrize("history", ["inline", "delta"])
def test_half_a_character_leaves_the_document_readable(tmp_path: Path, history: History) -> None:
    """Where a journal says half of a surrogate pair, it is described, and the messages stand where they belong."""
    request = {"interaction_id": "llm_1", "attempt": 0, "api": "openai-chat", "provider": "p", "model": "m"}
    body = {"body": {"model": "m", "messages": None}, "items": {"messages": [[0, 0]]}, "check": {}}
    failed = {"interaction_id": "llm_1", "attempt": 0, "type": "Error", "message": "\ud83d"}
    path = tmp_path / "run.jsonl"
    path.write_bytes(
        journal_of(
            ("start", {}),
            ("item", {"n": 0, "value": asked("a")["messages"][0]}),
            ("llm_request", request | body),
            ("llm_error", failed),
        )
    )

    snapshot.Snapshot(path, tmp_path / "run.json", history).write()

    (shown,) = expanded(json.loads((tmp_path / "run.json").read_bytes()))["llm_interactions"]
    assert shown["input_messages"] == [{"role": "user", "content": "a"}]
    assert shown["error"]["message"] == {"__type__": "str", "repr": "'\\ud83d'"}


def test_a_stream_s_error_that_is_cut_in_a_character_is_text(tmp_path: Path) -> None:
    """It reads as U+FFFD, as the rest of a stream does."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    stream = b'data: {"error":{"type":"overloaded","message":"bad \\ud83d"}}\n\n'

    call(recorder, asked("a", stream=True), Answer(stream, media="text/event-stream"))
    recorder.finalize()

    assert agrees(recorder)
    (one,) = load(recorder.trajectory_path).llm_interactions
    assert one.error is not None
    assert one.error.message == "bad \N{REPLACEMENT CHARACTER}"


def test_what_a_tool_brought_back_is_not_brought_back_by_a_request_that_leaves_it_out(tmp_path: Path) -> None:
    """A request that shares its end with the one before, without the tool's answer in it, answers no call."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    asks = said(None, calls=[("c1", "bash", "{}")])
    answer = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}

    call(recorder, asked("list"), asks)
    call(recorder, asked(answer, "again"), asks)
    call(recorder, asked("again"), said("done"))
    recorder.finalize()

    assert agrees(recorder)
    assert [len(step.tool_results) for step in load(recorder.trajectory_path).agent_steps] == [1, 0, 0]


def test_a_result_that_comes_again_is_no_other_call_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of calls without ids, what answered one that is settled is not taken for the answer of one that is open."""
    monkeypatch.setattr(draft, "NEWEST", 1)
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    gemini = "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"
    asks = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    answers = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]}
    says = {"role": "model", "parts": [{"text": "fine"}]}
    user = {"role": "user", "parts": [{"text": "go"}]}

    def post(contents: list[Payload], content: Payload) -> None:
        answer = Answer(json.dumps({"candidates": [{"content": content}]}).encode())
        with recorder.wrap(httpx.Client(transport=Wire(answer))) as client:
            client.post(gemini, json={"contents": contents})
        recorder.save_trajectory()

    post([user], asks)
    post([user, asks, answers], says)
    post([user], says)
    post([user, asks, answers, user], asks)
    post([user, asks, answers], says)
    recorder.finalize()

    assert agrees(recorder)
    assert [len(step.tool_results) for step in load(recorder.trajectory_path).agent_steps] == [1, 0, 0, 0, 0]


def test_what_is_kept_does_not_grow_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as many calls over a sliding history leave about as much behind, and a document of deltas."""
    monkeypatch.setattr(filed, "AT_HAND", 50_000)
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="delta", strict=True)
    recorder.start()
    talk: list[Payload] = [{"role": "system", "content": "s"}]
    kept = []
    for number in range(660):
        talk.append({"role": "user", "content": f"{number} " + "x" * 1000})
        talk[1:] = talk[-10:]
        call(recorder, asked(*talk), said("fine", identity=f"r{number}"))
        if number in (59, 659):
            recorder.save_trajectory()
            gc.collect()
            kept.append(kept_by(recorder._lifecycle.run))
    recorder.finalize()

    few, many = kept
    assert many.objects - few.objects < 600 * 4
    assert many.characters - few.characters < 600 * 250
    assert recorder.trajectory_path.stat().st_size < 660 * 3000
    assert agrees(recorder)


def test_a_recorded_call_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """What was needed to record a call and to show it goes at once when it is settled: there are no cycles in it."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    talk: list[Payload] = []

    def calls(how_many: int) -> None:
        for _ in range(how_many):
            talk.append(str(len(talk)))
            call(recorder, asked(*talk), said("fine", identity=f"r{len(talk)}"))
        recorder.save_trajectory()

    calls(20)
    gc.collect()
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        calls(20)
        gc.collect()
        found = {type(one).__module__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    recorder.finalize()

    assert not {module for module in found if module.startswith("trace_recorder")}


@LISTS_FILES
def test_a_finished_run_holds_no_file_open(tmp_path: Path) -> None:
    """Once a run has ended, its files are closed, though its recorder lives on and garbage is not collected."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    gc.disable()
    try:
        for number in range(12):
            call(recorder, asked(str(number)), said("fine", identity=f"r{number}"))
        before = _held(tmp_path)
        recorder.finalize()
        after = _held(tmp_path)
    finally:
        gc.enable()

    assert (len(before) > 1, after) == (True, [])


@LISTS_FILES
def test_a_thread_that_comes_late_opens_no_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has the document written while its run closes leaves nothing open, or is too late."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    call(recorder, asked("a"), said("fine"))
    run = recorder._lifecycle.run
    assert run is not None
    close = run._journal.close

    def close_late() -> None:
        thread = threading.Thread(target=run.save)
        thread.start()
        thread.join()
        close()

    monkeypatch.setattr(run._journal, "close", close_late)
    recorder.finalize()

    assert _held(tmp_path) == []


def test_a_recorder_keeps_none_of_its_finished_runs(tmp_path: Path) -> None:
    """One recorder of many runs holds the last one at most."""
    recorder = TrajectoryRecorder(directory=tmp_path, strict=True)
    runs = weakref.WeakSet[Run]()
    for _ in range(3):
        recorder.start()
        assert recorder._lifecycle.run is not None
        runs.add(recorder._lifecycle.run)
        recorder.finalize()
    gc.collect()

    assert len(runs) == 1


def _held(place: Path) -> list[str]:
    """What this process has open in a directory, by its names, those of removed files too."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [name for link in links if (name := str(link.readlink())).startswith(str(place))]


@pytest.mark.parametrize("newest", [1, 12], ids=["some settled", "nothing settled"])
@pytest.mark.parametrize("often", [1, 10, 1000], ids=lambda often: f"every {often} records")
def test_a_document_that_grows_long_is_cut_down_to_deltas_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: int, often: int
) -> None:
    """In the last file or in memory, settled or not: it is what deltas from the beginning are, with no second draft."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    for number in range(1, 13):
        call(recorder, asked("x" * 10_000, str(number)), said("fine", identity=f"r{number}"))
        recorder.record_llm_interaction([{"role": "user", "content": "by hand"}], {"content": "x"}, "p", "m")
        call(recorder, {"model": "m", "messages": "no list"}, said("what?", identity=f"q{number}"))
    recorder.finalize()
    drafts: list[draft.Draft] = []

    def begun(*arguments: Any) -> draft.Draft:
        drafts.append(draft.Draft(*arguments))
        return drafts[-1]

    monkeypatch.setattr(snapshot, "INLINE_LIMIT", 90_000)
    monkeypatch.setattr(snapshot, "Draft", begun)
    monkeypatch.setattr(draft, "NEWEST", newest)
    monkeypatch.setattr(draft, "BLOCK", 1_000)
    live = snapshot.Snapshot(tmp_path / "live.jsonl", tmp_path / "live.json", "auto")
    lines = (tmp_path / "run.jsonl").read_bytes().splitlines(keepends=True)
    with (tmp_path / "live.jsonl").open("ab", buffering=0) as file:
        for start in range(0, len(lines), often):
            file.writelines(lines[start : start + often])
            live.write()

    assert len(drafts) == 1
    snapshot.Snapshot(tmp_path / "run.jsonl", tmp_path / "delta.json", "delta").write()
    assert (tmp_path / "live.json").read_bytes() == (tmp_path / "delta.json").read_bytes()


def test_a_document_is_inline_as_long_as_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interaction that is shown again, now with its response, counts once: only a longer document has deltas."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="inline", strict=True)
    for number in range(5):
        call(recorder, asked("x" * 10_000, str(number)), said("fine", identity=f"r{number}"))
    recorder.finalize()
    monkeypatch.setattr(snapshot, "INLINE_LIMIT", recorder.trajectory_path.stat().st_size)

    live = snapshot.Snapshot(tmp_path / "live.jsonl", tmp_path / "live.json", "auto")
    with (tmp_path / "live.jsonl").open("ab", buffering=0) as file:
        for line in (tmp_path / "run.jsonl").read_bytes().splitlines(keepends=True):
            file.write(line)
            live.write()

    assert (tmp_path / "live.json").read_bytes() == recorder.trajectory_path.read_bytes()


def test_a_long_prompt_is_in_memory_once_while_a_journal_is_read_anew(tmp_path: Path) -> None:
    """What all interactions of an inline document begin with is copied for none of them."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="delta", strict=True)
    talk: list[Payload] = [{"role": "system", "content": "s" * 100_000}]
    for number in range(400):
        talk.append(str(number))
        call(recorder, asked(*talk), said("fine", identity=f"r{number}"))
    recorder.finalize()

    prompts: dict[int, bytes] = {}

    def look(frame: FrameType) -> None:
        if frame.f_code is replacing._write.__code__:
            texts = frame.f_locals["texts"]
            prompts.update((id(text), text) for text in texts if text.startswith(b'{"role": "system"'))

    watch(snapshot.Snapshot(tmp_path / "run.jsonl", tmp_path / "again.json", "inline").write, look)

    assert (tmp_path / "again.json").stat().st_size > 400 * 100_000
    assert len(prompts) == 1


def test_a_document_that_somebody_edits_is_written_anew(tmp_path: Path) -> None:
    """What is copied from the last document is not what somebody has written into it meanwhile."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    for number in range(20):
        recorder.record_agent_step(number, "thinking")
    with recorder.trajectory_path.open("r+b") as file:
        file.write(b"x" * 2000)

    recorder.record_agent_step(20, "thinking")

    assert agrees(recorder)
