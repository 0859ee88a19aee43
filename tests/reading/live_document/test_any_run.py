"""In any order of a run's acts, the live document equals the document that is folded from the whole journal."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.agreement import agrees
from tests.chat_calls import Answer, asked, call, said
from tests.limits import limited
from trace_recorder import TrajectoryRecorder
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.values.messages import Payload

TEXTS = st.sampled_from(["a", "b", "wö" * 300, ""])
REFUSAL = Answer(b'{"error":{"type":"rate_limit","message":"slow"}}', status=429)


class Agent:
    """Several conversations on one recorder. Each may grow, be cut, lose its beginning, or be sent again."""

    def __init__(self, recorder: TrajectoryRecorder) -> None:
        self.recorder = recorder
        self.talks: list[list[Payload]] = [[{"role": "system", "content": f"talk {at}"}] for at in range(3)]
        self.open: list[tuple[int, str]] = []
        self.answers = 0

    def go_on(self, place: int, text: str, tool: bool, api: bool) -> None:
        talk = self.talks[place]
        talk.append({"role": "user", "content": text})
        self.answers += 1
        calls = [(f"c{self.answers}", "bash", '{"a": 1}')] if tool else []
        parameters: Payload = {"temperature": 0.5} if api else {}
        call(self.recorder, asked(*talk, **parameters), said(text, identity=f"r{self.answers}", calls=calls))
        if tool:
            self.open.append((place, calls[0][0]))
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
        """Record a tool, which an open call may have asked for."""
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


SOON_LONG = DocumentLimits(inline_bytes=6_000)
SMALL_ALL = DocumentLimits(inline_bytes=6_000, kept_bytes=0)
"""Limits so small that the document reads every call a second time."""


@pytest.mark.parametrize("limits", [DocumentLimits(), SOON_LONG, SMALL_ALL], ids=["as they are", "soon long", "small"])
@pytest.mark.parametrize("history", ["auto", "delta"])
def test_the_live_document_equals_the_fold_of_the_journal(history: str, limits: DocumentLimits) -> None:
    """The document agrees with the journal after every few acts of an agent, and at the end."""
    TrajectoryRecorder = limited(document=limits)  # noqa: N806 - the property's examples follow from its source

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
