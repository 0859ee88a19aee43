"""The tools of the wire tests, on exchanges of the project's own: the server, the two runs, and the comparison."""

from __future__ import annotations

import json
import random

import pytest

from tests.wire.corpus import Exchange, Payload
from tests.wire.judgement import COLUMNS, judge
from tests.wire.replay_server import pieces
from tests.wire.runs import Mode, unwrapped, wrapped


def exchange(number: int, answer: Payload, *, stream: bool = False, status: int = 200) -> Exchange:
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in answer) if stream else json.dumps(answer)
    messages = [{"role": "user", "content": f"Was ist {number}? ✓"}]
    return Exchange(
        number=number,
        source=f"made#{number}",
        dialect="openai-chat",
        host="api.openai.com",
        path="/v1/chat/completions",
        query="",
        request={"model": "gpt-4o", "messages": messages, "not_in_the_sdk": number}
        | ({"stream": True} if stream else {}),
        status=status,
        content_type="text/event-stream" if stream else "application/json",
        response_text=text,
        stream=stream,
    )


def choice(name: str, content: str, reason: str | None) -> Payload:
    return {"index": 0, name: {"role": "assistant", "content": content}, "finish_reason": reason}


MADE = (
    exchange(0, {"id": "a", "object": "chat.completion", "model": "m", "choices": [choice("message", "Grün", "stop")]}),
    exchange(
        1,
        [
            {"id": "b", "object": "chat.completion.chunk", "model": "m", "choices": [choice("delta", "Blau ✓", None)]},
            {"id": "b", "object": "chat.completion.chunk", "model": "m", "choices": [choice("delta", "!", "length")]},
        ],
        stream=True,
    ),
    exchange(2, {"error": {"message": "kaputt", "type": "invalid_request_error"}}, status=400),
)
READ = dict.fromkeys(COLUMNS, True)
FAILED = READ | dict.fromkeys(("content", "reasoning", "tool_calls", "finish_reason", "usage"))


@pytest.mark.parametrize("mode", [Mode(), Mode(asynchronous=True), Mode(seed=1), Mode(seed=1, compress=True)])
def test_a_correct_record_passes_in_every_mode(mode, tmp_path):
    """A correctly recorded answer, stream or error gets no negative verdict."""
    plain, recorded = unwrapped(MADE, mode), wrapped(MADE, mode, tmp_path / "run.json")

    assert [judge(made, plain, recorded) for made in MADE] == [READ, READ, FAILED]


def test_a_record_of_a_different_exchange_is_noticed(tmp_path):
    """If the records of two exchanges are swapped, every aspect in which the exchanges differ fails."""
    plain, recorded = unwrapped(MADE, Mode()), wrapped(MADE, Mode(), tmp_path / "run.json")
    recorded.interactions = {0: recorded.interactions[1], 1: recorded.interactions[2], 2: recorded.interactions[0]}

    failed = [{column for column, verdict in judge(made, plain, recorded).items() if verdict is False} for made in MADE]

    told_apart = {"request", "response", "content", "finish_reason"}
    no_answer = {"error", "reasoning", "tool_calls", "usage"}
    assert failed == [told_apart, told_apart | no_answer, {"request", "response", "error"}]


def test_a_lost_record_is_noticed(tmp_path):
    """An exchange without a record fails as not recorded."""
    plain, recorded = unwrapped(MADE, Mode()), wrapped(MADE, Mode(), tmp_path / "run.json")
    del recorded.interactions[0]

    assert judge(MADE[0], plain, recorded)["recorded"] is False


def test_pieces_give_the_whole_body():
    """The joined pieces of a body are the body, and some pieces begin within a code point."""
    body = "data: ünïcödé ✓\n\n".encode() * 3

    parts = pieces(body, random.Random(1))

    assert (b"".join(parts), any(part[0] & 0xC0 == 0x80 for part in parts)) == (body, True)
