"""A text that a stream spells over many events and parts is removed, and nothing else of the stream changes."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.dialects.test_every_stream import EVENTS
from tests.journals import RawRecord, journal_of, line, read_raw
from trace_recorder import redact, validate
from trace_recorder.dialects.dialect import join_stream
from trace_recorder.facts import LLMStreamFact
from trace_recorder.retention.removed_texts import MASK
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.rewritten_streams import part_text
from trace_recorder.storage.stream_chunks import describe_chunks, packed
from trace_recorder.values.messages import JoinedStream, Payload

TEXT = 'Jörg O\'Neil, "JO" 😀'
NOT_SAID = {"type", "role", "name", "id", "jsonPath"}
SPELLED = [kind for kind, event in EVENTS.items() if "wort " in event]


def pieces(text: str, random: Random) -> list[str]:
    """Cut a text into pieces of one to three characters."""
    cuts = [0]
    while cuts[-1] < len(text):
        cuts.append(min(len(text), cuts[-1] + random.randint(1, 3)))
    return [text[start:end] for start, end in pairwise(cuts)]


def stream_of(kind: str, texts: list[str]) -> str:
    """Return a stream with an event of a kind for each text."""
    before, after = ("", "\n") if kind.startswith("ollama") else ("data: ", "\n\n")
    lines = []
    for number, text in enumerate(texts):
        event = EVENTS[kind] % number if "%d" in EVENTS[kind] else EVENTS[kind]
        lines.append(before + event.replace("wort ", json.dumps(text)[1:-1]) + after)
    return "".join(lines)


def run_of(path: Path, api: str, parts: list[bytes], **members: Payload) -> Path:
    """Write the journal of a run with a stream in these parts, each with a chunk for each of its lines."""
    of_exchange = {"interaction_id": "llm_1", "attempt": 0}
    begin = {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "t", "provider": None, "model": None}
    request = {"api": api, "provider": "p", "method": "POST", "url": "u", "headers": {}, "body": {"stream": True}}
    records: list[tuple[str, Payload]] = [
        ("start", {**begin, "max_steps": None, "task": None, "metadata": {}}),
        ("llm_request", {**of_exchange, **request}),
    ]
    for part in parts:
        chunks = [(1.0, line) for line in part.splitlines(keepends=True)]
        ends = describe_chunks(chunks, 0.0, part)
        stated = {"status": 200, "time_to_first_token_seconds": 0.1, "bytes": len(part), "zlib": packed(part, 6)}
        records.append(("llm_stream", {**of_exchange, **stated, **ends, "headers": {}, **members}))
        records.append(("annotation", {"key": "between", "value": "parts"}))
    records += [
        ("llm_response", {**of_exchange, "status": 200, "complete": False, "stream": True, "headers": {}, "text": ""}),
        ("finalize", {"status": "completed", "success": None, "execution_time": 1.0, "final_result": None}),
    ]
    path.write_bytes(journal_of(*records))
    return path


def texts_of(path: Path) -> list[bytes]:
    """Return the text of each part of the stream of a journal."""
    facts = [record.fact for record in read_records(path.read_bytes()) if isinstance(record, Record)]
    return [part_text(fact) or b"" for fact in facts if isinstance(fact, LLMStreamFact)]


def cut_at_lines(data: bytes, random: Random) -> list[bytes]:
    """Cut a stream into parts of whole lines."""
    parts, part = [], b""
    for whole_line in data.splitlines(keepends=True):
        part += whole_line
        if random.random() < 0.3:
            parts.append(part)
            part = b""
    return [*parts, part] if part else parts


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", SPELLED)
def test_a_text_is_removed_from_a_stream_of_each_dialect(kind: str, seed: int, tmp_path: Path) -> None:
    """The joined stream is that of a model that words the mask. Other events stay byte for byte."""
    random = Random(f"{kind}{seed}")
    texts = pieces(f"I am {TEXT}, and you?", random)
    api = kind.partition(",")[0]
    data = stream_of(kind, texts).encode()
    journal = run_of(tmp_path / "run.jsonl", api, cut_at_lines(data, random))

    redacted = redact(journal, text=TEXT)

    after = b"".join(texts_of(journal))
    spoken = joined(api, stream_of(kind, [f"I am {MASK}, and you?"]))
    assert (redacted.leftovers, [f for f in validate(journal).findings if f.severity == "error"]) == ((), [])
    assert text_in(joined(api, after.decode()).body) == text_in(spoken.body)
    assert len(after.splitlines()) == len(data.splitlines())
    unchanged = sum(before == line for before, line in zip(data.splitlines(), after.splitlines(), strict=True))
    assert unchanged >= len(data.splitlines()) - len(TEXT) - 2


def joined(api: str, text: str) -> JoinedStream:
    stream = join_stream(api, text.encode())
    assert stream is not None
    return stream


def text_in(value: Payload) -> str:
    """Return the strings with a part of the spoken text, joined. Lists of tokens have each token alone."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(
            text_in(member) for name, member in value.items() if name not in {"type", "role", "name", "id", "jsonPath"}
        )
    return "".join(map(text_in, value)) if isinstance(value, list) else ""


@pytest.mark.parametrize("seed", range(5))
def test_parts_may_end_anywhere(seed: int, tmp_path: Path) -> None:
    """A part may end within a line, an escape or a character. The chunks still cover the text."""
    random = Random(seed)
    data = stream_of("openai-chat", pieces(f"{TEXT} and {TEXT}", random)).replace("\\u00f6", "ö").encode()
    cuts = sorted({0, len(data), *(random.randrange(len(data)) for _ in range(8))})
    journal = run_of(tmp_path / "run.jsonl", "openai-chat", [data[start:end] for start, end in pairwise(cuts)])

    redact(journal, text=TEXT)

    spoken = joined("openai-chat", b"".join(texts_of(journal)).decode()).body
    [choice] = spoken["choices"]
    assert choice["message"]["content"] == f"{MASK} and {MASK}"


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_list_of_events_is_a_stream_too(indent: int | None, is_cut: bool, tmp_path: Path) -> None:
    """Google's stream without `alt=sse` is one list, whose events may extend over several lines."""
    texts = pieces(f"I am {TEXT}!", Random(1))
    events = [{"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]} for text in texts]
    text = json.dumps(events, indent=indent, ensure_ascii=False)
    journal = run_of(tmp_path / "run.jsonl", "google-generate", [text[: -1 if is_cut else None].encode()])

    redact(journal, text=TEXT)

    [after] = texts_of(journal)
    words = [event["candidates"][0]["content"]["parts"][0]["text"] for event in json.loads(after + b"]" * is_cut)]
    assert ("".join(words), len(words)) == (f"I am {MASK}!", len(texts))


def test_streams_at_the_same_time_are_apart(tmp_path: Path) -> None:
    """Two choices of one stream spell two texts. A text that only both together spell is not removed."""
    words = ["An", "An", "n Le", "n Le", "e", "a"]
    lines = [
        f"data: {json.dumps({'choices': [{'index': number % 2, 'delta': {'content': text}}]})}\n\n"
        for number, text in enumerate(words)
    ]
    journal = run_of(tmp_path / "run.jsonl", "openai-chat", ["".join(lines).encode()])

    redact(journal, text="Ann Lee")

    choices = joined("openai-chat", texts_of(journal)[0].decode()).body["choices"]
    assert [choice["message"]["content"] for choice in choices] == [MASK, "Ann Lea"]


def test_a_function_sees_the_joined_text(tmp_path: Path) -> None:
    """A function gets the text that all events spell, and its result is in the first of the changed events."""
    seen = []

    def without_ann(text: str) -> str:
        seen.append(text)
        return text.replace("Ann", "X")

    journal = run_of(
        tmp_path / "run.jsonl", "openai-chat", [stream_of("openai-chat", ["hi A", "n", "n Lee", "!"]).encode()]
    )
    redact(journal, function=without_ann)

    assert "hi Ann Lee!" in seen
    assert b"".join(texts_of(journal)).decode() == stream_of("openai-chat", ["hi X", "", " Lee", "!"])


@pytest.mark.parametrize("framing", ["aws-eventstream"])
def test_frames_are_changed_too(framing: str, tmp_path: Path) -> None:
    """The line of a frame has its payload as JSON."""
    texts = pieces(f"I am {TEXT}!", Random(2))
    head = '{"headers":{":event-type":"contentBlockDelta"},"payload":'
    lines = [f"{head}{json.dumps({'contentBlockIndex': 0, 'delta': {'text': text}})}}}\n" for text in texts]
    journal = run_of(tmp_path / "run.jsonl", "bedrock-converse", ["".join(lines).encode()], framing=framing)

    redact(journal, text=TEXT)

    words = [json.loads(line)["payload"]["delta"]["text"] for line in texts_of(journal)[0].splitlines()]
    assert ("".join(words), len(words)) == (f"I am {MASK}!", len(texts))


def test_tokens_with_their_probabilities_go_with_the_text(tmp_path: Path) -> None:
    """The tokens of `logprobs` spell the text too, their bytes are numbers, and their alternatives repeat it."""

    def token(text: str) -> Payload:
        alternatives = [{"token": text, "logprob": -0.1, "bytes": [*text.encode()]}, {"token": f"{text}x"}]
        return {"token": text, "logprob": -0.1, "bytes": [*text.encode()], "top_logprobs": alternatives}

    words = ["hi ", "An", "n L", "ee", "!"]
    events = [
        {"choices": [{"index": 0, "delta": {"content": text}, "logprobs": {"content": [token(text)]}}]}
        for text in words
    ]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    journal = run_of(tmp_path / "run.jsonl", "openai-chat", [stream.encode()])
    journal.write_bytes(
        journal.read_bytes() + line(99, "annotation", {"key": "k", "value": {"logprobs": [*map(token, words)]}})
    )

    redact(journal, text="Ann Lee")

    after = texts_of(journal)[0].decode()
    [record] = [one for one in read_raw(journal.read_bytes()) if isinstance(one, RawRecord) and one.seq == 99]
    for text in (after, json.dumps(record.data)):
        assert "".join(re.findall(r'"token": "([^"]*)"', text)) == f"hi hi hi x{MASK}!!!x"
        assert re.findall(r"\[[\d, ]+\]", text) == [
            *["[104, 105, 32]"] * 2,
            *["[0, 0]", "[0, 0]", "[0, 0, 0]", "[0, 0, 0]", "[0, 0]", "[0, 0]"],
            *["[33]"] * 2,
        ]
