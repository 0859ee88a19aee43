"""A loop with overlapping acts in any order: after every record the document equals the journal."""

from __future__ import annotations

import contextvars
import json
import random
from pathlib import Path

import httpx
import pytest

from tests.agreement import document
from tests.chat_calls import CHAT, Answer, Wire, asked, call, said
from tests.journals import folded, records_of
from tests.limits import limited
from tests.searching import seeds
from trace_recorder import TrajectoryRecorder
from trace_recorder.reading.document import expand_deltas
from trace_recorder.reading.live_document.document_thread import DocumentLimits
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory


class Loop:
    """An agent with acts in any order: blocks overlap, tools outlive their blocks, answers and streams end late."""

    def __init__(self, recorder: TrajectoryRecorder, seed: int, *, marks: bool) -> None:
        self.recorder = recorder
        self.chance = random.Random(seed)
        self.acts = [self.call, self.call, self.use, self.use, self.end_use, self.fail, self.tell, self.sum_up]
        self.acts += [self.begin, self.begin, self.end, self.agent] if marks else [self.agent]
        self.acts += [self.open, self.close, self.by_hand]
        self.streams: list[tuple[httpx.Client, httpx.Response]] = []
        self.places: list[contextvars.Context] = [contextvars.copy_context()]
        self.blocks: list[tuple[contextvars.Context, Payload]] = []
        self.uses: list[tuple[contextvars.Context, Payload]] = []
        self.number = self.ran = 0
        self.marks = marks

    def act(self) -> None:
        self.chance.choice(self.acts)()

    def place(self) -> contextvars.Context:
        return self.chance.choice(self.places)

    def call(self) -> None:
        self.number += 1
        told = [
            {"role": "tool", "tool_call_id": f"c{self.chance.randint(1, self.number)}", "content": "told"}
            for _ in range(self.chance.randint(0, 3))
        ]
        calls = [(f"c{self.number}", f"t{self.chance.randint(0, 2)}", "{}")] * self.chance.randint(0, 1)
        answer = said("x", identity=f"r{self.number}", calls=calls)
        self.place().run(call, self.recorder, asked("go", *told), answer)

    def open(self) -> None:
        self.number += 1
        function = {"name": f"t{self.chance.randint(0, 2)}", "arguments": "{}"}
        delta = {"tool_calls": [{"index": 0, "id": f"c{self.number}", "function": function}]}
        event = {"id": f"r{self.number}", "choices": [{"delta": delta}]}
        body = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
        client = self.recorder.wrap(httpx.Client(transport=Wire(Answer(body, media="text/event-stream", size=9))))
        request = client.build_request("POST", CHAT, json=asked("go", stream=True))
        self.streams.append((client, self.place().run(client.send, request, stream=True)))

    def close(self) -> None:
        if self.streams:
            client, response = self.streams.pop(self.chance.randrange(len(self.streams)))
            self.chance.choice([response.read, response.close])()
            client.close()

    def by_hand(self) -> None:
        self.number += 1
        calls = [{"call_id": f"c{self.number}", "name": "t1", "arguments": {}}]
        response = {"content": "x", "id": f"r{self.number}", "tool_calls": calls}
        self.place().run(self.recorder.record_llm_interaction, asked("go")["messages"], response, "p", "m")

    def fail(self) -> None:
        self.place().run(call, self.recorder, asked("again"), Answer(b"{}", status=self.chance.choice([429, 500])))

    def use(self) -> None:
        place = self.place()
        stated = self.chance.choice([None, None, f"c{self.chance.randint(1, self.number + 1)}"])
        self.ran += 1
        name = self.chance.choice([f"t{self.chance.randint(0, 2)}", f"u{self.ran}"])
        told = place.run(self.recorder.tool_call, name, {}, None if name[0] == "u" else stated)
        place.run(told.__enter__)
        self.uses.append((place, told))

    def end_use(self) -> None:
        if self.uses:
            place, told = self.uses.pop(self.chance.randrange(len(self.uses)))
            error = self.chance.choice([None, OSError("busy")])
            place.run(told.__exit__, type(error), error, None)

    def begin(self) -> None:
        place = self.place().run(contextvars.copy_context)
        step = place.run(self.recorder.step)
        place.run(step.__enter__)
        self.places.append(place)
        self.blocks.append((place, step))

    def end(self) -> None:
        if self.blocks:
            place, step = self.blocks.pop(self.chance.randrange(len(self.blocks)))
            place.run(step.__exit__, None, None, None)
            if place in self.places and self.chance.random() < 0.8:
                self.places.remove(place)

    def agent(self) -> None:
        place = self.place().run(contextvars.copy_context)
        place.run(self.recorder.agent("sub").__enter__)
        self.places.append(place)
        if len(self.places) > 6:
            del self.places[1]

    def tell(self) -> None:
        if self.marks:
            number, named = self.chance.randint(1, 5), self.chance.choice([f"c{self.chance.randint(1, 5)}", ""])
            calls = [{"call_id": named, "name": f"t{self.chance.randint(0, 2)}", "arguments": {}}]
            told = {"reflection": "r", "tool_calls": self.chance.choice([None, calls])}
            self.place().run(self.recorder.record_agent_step, number, "reflecting", **told)

    def sum_up(self) -> None:
        self.recorder.update_lakeview(self.chance.randint(1, 30), "s")


LIMITS = DocumentLimits(kept_bytes=0)


def told(recorder: TrajectoryRecorder) -> Trajectory:
    """Return the trajectory of the whole journal."""
    return folded(recorder.trajectory_path.with_suffix(".jsonl").read_bytes(), "running")


def agrees(recorder: TrajectoryRecorder) -> bool:
    """Return whether the document, written now, agrees with the whole journal."""
    recorder.save_trajectory()
    written = document(recorder)
    return bool(expand_deltas(written) == {**told(recorder).to_document("inline"), "history": written["history"]})


def lost(recorder: TrajectoryRecorder) -> list[str]:
    """Return the tools that no model asked for and that ran in no block, but that are not in exactly one step."""
    ran = [record.data for record in records_of(recorder.trajectory_path) if record.kind == "tool_call"]
    shown = [call.name for step in told(recorder).agent_steps for call in step.tool_calls]
    return [
        one["name"] for one in ran if one["name"][0] == "u" and "step_id" not in one and shown.count(one["name"]) != 1
    ]


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("seed", seeds(4, 12))
def test_the_document_equals_the_journal_after_every_record(tmp_path: Path, seed: int, marks: bool) -> None:
    """Records overlap, come late, or repeat, and few values are kept in memory. Each tool is in a step."""
    recorder = limited(document=LIMITS)(tmp_path / "run.json", strict=True, history="inline")
    recorder.start()
    loop = Loop(recorder, seed, marks=marks)

    disagreeing = []
    for number in range(60):
        loop.act()
        if not agrees(recorder):
            disagreeing.append(number)
    loop.recorder.finalize()
    for client, _ in loop.streams:
        client.close()

    assert (disagreeing, agrees(recorder), lost(recorder)) == ([], True, [])
