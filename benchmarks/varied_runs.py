"""Many runs made quickly: a few are recorded, and the others are copies of them with other words, ids and days.

An original has three to nine calls with tools, words of a skewed vocabulary, failures, rewards and several models.
Every third original is recorded over HTTP, in the form of OpenAI's chat completions, and the others are recorded by
hand. A variant replaces each word by a word of about the same frequency, so it has as many distinct texts as a recorded
run. Its journal has valid CRCs, and its document agrees with it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from zlib import crc32

import httpx

from trace_recorder import TrajectoryRecorder

RUNS_PER_DIRECTORY = 1000
VOCABULARY_WORDS = 20_000
MODELS = [("openai", "gpt-5-mini"), ("anthropic", "claude-sonnet-4-5"), ("ollama", "qwen3")]
TOOLS = ("bash", "read_file", "write_file", "search")
RARE_WORD = "zyzzyva"
"""A word that about one run in a thousand has."""
_VARYING = rb"([a-z]{2}word\d+|\d{4}-\d\d-\d\dT|%s)"
_ITEM = re.compile(rb'\{"seq":\d+,"time":"[^"]*","kind":"item","data":\{"n":(\d+),')
_CRC_BYTES = len(b',"crc":"00000000"}')
Messages = list[dict[str, object]]
Answer = dict[str, object]


# ── originals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def word(number: int) -> str:
    """Return a word of the vocabulary."""
    return f"{chr(97 + number % 26)}{chr(97 + number // 26 % 26)}word{number}"


def words(chosen: random.Random, count: int) -> str:
    """Return words, a few of which are frequent."""
    return " ".join(word(int(VOCABULARY_WORDS * chosen.random() ** 4)) for _ in range(count))


def record(path: Path, number: int) -> None:
    """Record the original of this number."""
    chosen = random.Random(number)
    provider, model = chosen.choice(MODELS)
    messages: Messages = [
        {"role": "system", "content": "Be brief. " * 40},
        {"role": "user", "content": words(chosen, 60)},
    ]
    task, metadata = words(chosen, 8), {"seed": number % 7}
    with suppress(RuntimeError), TrajectoryRecorder(path, task=task, metadata=metadata) as recorder:
        call_model = _over_http(recorder, model) if number % 3 == 1 else _by_hand(recorder, provider, model)
        for call in range(chosen.randint(3, 9)):
            arguments = {"command": words(chosen, 6)}
            tool = {"id": f"call_{call}", "name": chosen.choice(TOOLS), "arguments": arguments}
            usage = {"input_tokens": 60 * (call + 1), "output_tokens": 30}
            call_model(messages, {"content": words(chosen, 30), "tool_calls": [tool], "usage": usage})
            result = f"{words(chosen, 80)}\nexit code {chosen.randrange(40)}"
            if call == 2 and number % 1000 == 3:
                result += f" {RARE_WORD}"
            messages.append({"role": "tool", "tool_call_id": tool["id"], "content": result})
        if number % 3 == 0:
            recorder.reward("solved", float(chosen.random() < 0.5))
        if number % 9 == 0:
            raise RuntimeError("the agent gave up")
        recorder.finalize(success=chosen.choice([True, False, None]))


def _by_hand(recorder: TrajectoryRecorder, provider: str, model: str) -> Callable[[Messages, Answer], None]:
    """Return a function that records a call, and adds the answer to the messages."""

    def call_model(messages: Messages, answer: Answer) -> None:
        recorder.record_llm_interaction(messages, answer, provider, model)
        messages.append({"role": "assistant", "content": answer["content"], "tool_calls": answer["tool_calls"]})

    return call_model


def _over_http(recorder: TrajectoryRecorder, model: str) -> Callable[[Messages, Answer], None]:
    """Return the same function over HTTP: a client that is recorded, and a transport that answers."""
    answers: list[dict[str, object]] = []
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answers.pop()))
    client = recorder.wrap(httpx.Client(transport=transport))

    def call_model(messages: Messages, answer: Answer) -> None:
        tools = [
            {
                "id": tool["id"],
                "type": "function",
                "function": {"name": tool["name"], "arguments": json.dumps(tool["arguments"])},
            }
            for tool in answer["tool_calls"]
        ]
        message = {"role": "assistant", "content": answer["content"], "tool_calls": tools}
        usage = {"prompt_tokens": answer["usage"]["input_tokens"], "completion_tokens": 30, "total_tokens": 90}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        answers.append({"id": "chatcmpl-1", "model": model, "choices": [choice], "usage": usage})
        client.post("https://api.openai.com/v1/chat/completions", json={"model": model, "messages": messages})
        messages.append(message)

    return call_model


# ── variants ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text that is cut into pieces, of which every second one varies."""

    pieces: list[bytes]
    checks: tuple[tuple[bytes, tuple[int, ...]], ...] = ()
    """The check values in a line of a journal, each with the numbers of the items that it is computed from."""
    item: int | None = None

    def with_words(self, replaced: Callable[[bytes], bytes]) -> bytes:
        """Return the text of a variant."""
        pieces = self.pieces.copy()
        pieces[1::2] = map(replaced, pieces[1::2])
        return b"".join(pieces)


class Original:
    """A recorded run as the base of variants."""

    def __init__(self, path: Path) -> None:
        document = path.read_bytes()
        self._identity = str(json.loads(document)["trajectory_id"]).encode()
        self._varying = re.compile(_VARYING % self._identity)
        self._document = Pieces(self._varying.split(document))
        self._lines = [*map(self._line, path.with_suffix(".jsonl").read_bytes().splitlines())]

    def _line(self, line: bytes) -> Pieces:
        item = _ITEM.match(line)
        data = json.loads(line)["data"] if b'"check":{' in line else {"check": {}}
        checks = ((value, _item_numbers(data["items"][name])) for name, value in data["check"].items())
        pieces = self._varying.split(line[:-_CRC_BYTES])
        return Pieces(pieces, tuple((value.encode(), items) for value, items in checks), int(item[1]) if item else None)

    def write_variant(self, path: Path, variant: int) -> None:
        """Write both files of a variant."""
        replacements = _Replacements(variant, self._identity)
        crcs: dict[int, bytes] = {}
        lines = []
        for line in self._lines:
            text = line.with_words(replacements.__getitem__)
            for value, items in line.checks:
                check = crc32(b"".join([crcs[item] for item in items]))
                text = text.replace(b'"%s"' % value, b'"%08x"' % check)
            crc = b"%08x" % crc32(text)
            if line.item is not None:
                crcs[line.item] = crc
            lines.append(b'%s,"crc":"%s"}\n' % (text, crc))
        path.with_suffix(".jsonl").write_bytes(b"".join(lines))
        path.write_bytes(self._document.with_words(replacements.__getitem__))


def _item_numbers(ranges: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(number for first, last in ranges for number in range(first, last + 1))


class _Replacements(dict[bytes, bytes]):
    """The texts that replace the varying pieces of an original in a variant."""

    def __init__(self, variant: int, identity: bytes) -> None:
        super().__init__({identity: b"%032x" % (int(identity, 16) ^ variant)})
        self._variant = variant
        self._mask = variant * 2_654_435_761 >> 4

    def __missing__(self, piece: bytes) -> bytes:
        if piece.endswith(b"T"):
            replaced = (date.fromisoformat(piece[:-1].decode()) - timedelta(self._variant)).isoformat() + "T"
        else:
            number = int(piece[6:])
            half = 1 << max(0, number.bit_length() - 1)  # words from here to twice this number are about as frequent
            replaced = word(number ^ (self._mask & (half - 1)))
        self[piece] = replaced.encode()
        return self[piece]


# ── directories of runs ──────────────────────────────────────────────────────────────────────────────────────────────


def path_of(directory: Path, number: int) -> Path:
    """Return the document of a run."""
    return directory / f"{number // RUNS_PER_DIRECTORY:03}" / f"run{number:06}.json"


def make(directory: Path, runs: int, originals: int = RUNS_PER_DIRECTORY) -> None:
    """Make the runs that are missing, in several processes: the originals, then their variants."""
    numbers = range(min(runs, originals))
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(partial(make_variants, directory, runs, originals), numbers, chunksize=20):
            pass


def make_variants(directory: Path, runs: int, originals: int, number: int) -> None:
    """Make the run of a number and its variants, unless they are there."""
    first = path_of(directory, number)
    if not first.exists():
        record(first, number)
    original = None
    for variant in range(number + originals, runs, originals):
        path = path_of(directory, variant)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            original = original or Original(first)
            original.write_variant(path, variant // originals)
