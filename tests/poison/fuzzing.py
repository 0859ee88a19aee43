"""Fuzzing: targets that accept any bytes, seeds of every kind, and mutations of both.

`scripts/fuzz` runs it manually. A target raises if the package breaks a promise. With atheris the mutations are guided
by coverage. Without it they are random, by a seed that is printed: the same seed gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.chat_calls import rich_run
from tests.poison.mutations import APIS, BODIES, mutated, real_bodies, streams
from tests.secrets.corpus import innocent, keys
from tests.storage.items.store import item_of, request_of, text_of_data
from trace_recorder.dialects import manual as by_hand
from trace_recorder.dialects.dialect import dialect_of, join_stream
from trace_recorder.dialects.stream_framing import events, json_lines
from trace_recorder.reading.fold import Fold
from trace_recorder.storage.fact_writer import fact_text, record_of
from trace_recorder.storage.items.encoder import ItemEncoder
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_reader import read_records
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.json_text import NotJsonError, parse, split_members
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload

SLOW = 5.0
"""The limit in seconds. For the command, a slower input is a finding."""
TOKENS = (
    *(b"data: ", b"data:", b"\ndata: ", b"event: error\n", b"\n\n", b"\r\n\r\n", b"\r", b"[DONE]", b": x\n"),
    *(b'"', b"\\", b"\\u", b"\\ud83d", b"{", b"}", b"[", b"]", b":", b",", b"null", b"NaN", b"1e999", b"\xff", b"\0"),
    *(b"\xe2\x80\xa8", b"\xef\xbb\xbf", b'{"seq":', b',"crc":"00000000"}', b'"@string:0"', b'"index":0', b"sk-"),
)


def join(data: bytes) -> None:
    """Join any stream in every dialect, with the same result each time, and read the result."""
    text = data.decode("utf-8", "replace")
    list(events(text)), list(json_lines(text))
    for api in APIS:
        joined = join_stream(api, data)
        assert joined is not None
        said = json.dumps(joined.body)
        json.dumps(joined.body, ensure_ascii=False).encode()
        again = join_stream(api, data)
        assert again is not None
        assert json.dumps(again.body) == said
        reader = dialect_of(api)
        assert reader is not None
        to_json(reader.read_response(joined.body).to_document())


def read_bodies(data: bytes) -> None:
    """Read any JSON with every reader, as request and as response. The readers change nothing in it."""
    try:
        body: Payload = json.loads(data)
    except (ValueError, RecursionError):
        return
    before = json.dumps(body)
    for api in (*APIS, None):
        reader = dialect_of(api) or by_hand
        request, response = reader.read_request(body), reader.read_response(body, 2)
        to_json([message.to_document() for message in request.messages])
        to_json(response.to_document())
    assert json.dumps(body) == before


def read_journal(data: bytes) -> None:
    """Read any journal.

    Every byte belongs to a record or a bad line, in order, and the records fold into a document.
    """
    fold, end = Fold(), 0
    for line in read_records(data):
        assert line.offset >= end
        assert line.length > 0
        assert not data[end : line.offset].strip(b"\n")
        end = line.offset + line.length
        fold.add([line])
    assert not data[end:].strip(b"\n")
    document = fold.trajectory("unknown").to_document()
    json.loads(to_json(document))


def redact(data: bytes) -> None:
    """Check that a text is masked once, JSON stays JSON, and a stream is cut into the same lines."""
    text = data.decode("utf-8", "surrogateescape")
    once = default_redactor(text)
    assert default_redactor(once) == once
    redaction = _redaction()
    stream, count, taken = redaction.mask_stream(data)
    assert (stream.count(b"\n") <= data.count(b"\n"), taken) == (True, len(data))
    assert (count > 0) == (stream != data)
    assert 0 <= redaction.mask_stream(data, last=False)[2] <= len(data)
    try:
        text = data.decode()
        parse(text)
    except (UnicodeDecodeError, NotJsonError):
        return
    masked = redaction.mask(text)[0]
    parse(masked)
    assert redaction.mask(masked) == (masked, 0)


@cache
def _redaction() -> Redaction:
    return Redaction(default_redactor, {"A_TOKEN": "hunter2hunter2", "DB_PASSWORD": 'quo"te\\d-päss'})


def take_apart(data: bytes) -> None:
    """Check that strict JSON is read as by Python, and that a split request is restored."""
    try:
        text = data.decode()
        value = parse(text)
    except (UnicodeDecodeError, NotJsonError):
        return
    assert json.dumps(value) == json.dumps(json.loads(text))
    if not isinstance(value, dict):
        return
    split_members(text)
    table = ItemTable()
    encoded = ItemEncoder().encode(data)
    for new in encoded.new:
        table.add(item_of(json.loads(text_of_data(record_of(fact_text(new))[1]))))
    assert "\n" not in encoded.body.text
    request = request_of({"body": json.loads(encoded.body.text), "items": encoded.items})
    back = table.expand(request.body, request.items or {})
    assert json.dumps(back, sort_keys=True) == json.dumps(value, sort_keys=True)


Target = Callable[[bytes], None]
TARGETS: dict[str, Target] = {
    "join": join,
    "read": read_bodies,
    "journal": read_journal,
    "redact": redact,
    "json": take_apart,
}


@cache
def seeds(target: str) -> tuple[bytes, ...]:
    """Return the inputs from which a target's mutations begin."""
    if target == "join":
        return tuple(text.encode() for texts in streams().values() for text in texts if len(text) < 20_000)
    if target == "journal":
        with TemporaryDirectory() as directory:
            return (rich_run(Path(directory) / "run.json").with_suffix(".jsonl").read_bytes(),)
    bodies = tuple(json.dumps(body).encode() for _, body in real_bodies())
    if target == "redact":
        texts = [*(key.text for key in keys(2)), *(text for text in innocent().values() if len(text) < 500)]
        lines = [json.dumps({"a": text, "password": text}) for text in texts]
        return tuple(one.encode() for one in (*texts, *lines)) + seeds("join")[::10] + bodies[::10]
    return tuple(body for body in bodies if len(body) < 20_000)


def mutate(data: bytes, random: Random, other: bytes) -> bytes:
    """Change some bytes: cut, double, move, overwrite, insert a token, or continue with a second seed."""
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice((1, 2, 8, 64, 1024)))
        part, act = data[start:end], random.randrange(8)
        if act == 0:
            data = data[:start] + data[end:]
        elif act == 1:
            data = data[:end] + part + data[end:]
        elif act == 2:
            data = data[:start]
        elif act == 3:
            at = random.randrange(len(other) + 1)
            data = data[:start] + other[at : at + len(part) * 2] + data[end:]
        elif act == 4:
            lines = data.split(b"\n")
            random.shuffle(lines) if random.random() < 0.2 else lines.reverse()
            data = b"\n".join(lines)
        elif act == 5 and part:
            data = data[:start] + bytes([random.randrange(256)]) + data[start + 1 :]
        else:
            data = data[:start] + random.choice(TOKENS) * random.choice((1, 1, 1, 50)) + data[start:]
    return data


def example(target: str, random: Random) -> bytes:
    """Return the bytes of one try."""
    if target in {"read", "json"} and random.random() < 0.8:
        bodies = real_bodies() if random.random() < 0.8 else [(None, body) for body in BODIES.values()]
        return json.dumps(mutated(random.choice(bodies)[1], random)).encode()
    pool = seeds(target)
    return mutate(random.choice(pool), random, random.choice(pool))


def search(target: str, enough: Callable[[int], bool], seed: int, *, slow: float = inf) -> tuple[int, Counter[str]]:
    """Try until the number of tries is reached.

    Return the number of tries, and the findings by kind. A try of more than `slow` seconds is a finding too.
    """
    counts: Counter[str] = Counter()
    tries = 0
    while not enough(tries):
        data = example(target, Random(f"{seed} {tries}"))
        began = time.monotonic()
        try:
            TARGETS[target](data)
        except Exception as error:  # noqa: BLE001 - whatever is found
            kind = f"{type(error).__name__}: {str(error)[:80]}"
            if not counts[kind]:
                print(f"{target}, try {tries}: {kind}\n  {data[:300]!r}", file=sys.stderr)
            counts[kind] += 1
        if time.monotonic() - began > slow:
            counts["slow"] += 1
            print(f"{target}, try {tries}: took {time.monotonic() - began:.1f} s, {len(data)} bytes", file=sys.stderr)
        tries += 1
    return tries, counts


def guided(target: str, seconds: float, seed: int) -> None:
    """Let atheris search. It ends the process itself, and writes the inputs that fail into the working directory."""
    import atheris  # type: ignore[import-not-found]

    with TemporaryDirectory() as directory:
        for number, one in enumerate(seeds(target)[:500]):
            Path(directory, str(number)).write_bytes(one)
        atheris.instrument_all()
        limits = [f"-max_total_time={int(seconds)}", f"-seed={seed}", "-max_len=20000", "-timeout=20", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", directory], TARGETS[target])
        atheris.Fuzz()


def main() -> None:
    """Run every target for its share of the time, and print a table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--atheris", action="store_true", help="guided by coverage; one target at a time")
    options = parser.parse_args()
    chosen = options.target or list(TARGETS)
    if options.atheris:
        guided(chosen[0], options.seconds, options.seed)
        return

    def lasting(seconds: float) -> Callable[[int], bool]:
        until = time.monotonic() + seconds
        return lambda _: time.monotonic() >= until

    share = options.seconds / len(chosen)
    rows = [(target, *search(target, lasting(share), options.seed, slow=SLOW)) for target in chosen]
    for target, tries, found in rows:
        print(f"{target:10} {tries:8} tries {sum(found.values()):5} findings  {dict(found)}")
    sys.exit(any(found for _, _, found in rows))


if __name__ == "__main__":
    main()
