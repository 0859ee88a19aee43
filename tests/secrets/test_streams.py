"""Secrets in streams: in any pieces, with the stream cut anywhere for writing, and after a kill."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.searching import IS_SEARCH
from tests.secrets.corpus import keys
from tests.secrets.everywhere import bytes_of
from tests.secrets.test_linear import steps
from tests.waiting import wait_until
from trace_recorder.background_work import current_yield
from trace_recorder.storage.redaction.partial_secrets import unfinished
from trace_recorder.storage.redaction.patterns import PEM_LONGEST
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor, find_secrets

BODY = "\n".join("MIIEowIBAAKCAQEAx7k2" + f"{n:02d}" + "Qw9ErTy8UiOp3AsDf6GhJk1LzXcVb0Nm5QwErTyUiO" for n in range(26))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"
URL = "postgres://app:p@ss/w0rd-1x9y@db:5432/x"


def event(text: str) -> bytes:
    """Return an event of a chat with this text."""
    chunk = {"id": "s", "choices": [{"index": 0, "delta": {"content": text}}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def parts(redaction: Redaction, pieces: list[str], flushes: list[int]) -> list[str]:
    """Return the text of each written part of a stream, after these events and at its end, as during an exchange."""
    written, waiting = [], b""
    for number, piece in enumerate(pieces):
        waiting += event(piece)
        if number in flushes:
            masked, _, taken = redaction.mask_stream(waiting, last=False)
            written.append(told(masked))
            waiting = waiting[taken:]
    written.append(told(redaction.mask_stream(waiting)[0]))
    return written


def told(data: bytes) -> str:
    """Return the text that the events make."""
    lines = [line.removeprefix("data: ") for line in data.decode().split("\n\n") if line]
    return "".join(json.loads(line)["choices"][0]["delta"]["content"] for line in lines)


SECRETS = [URL, *(key.text for key in keys(1) if len(key.text) < 120)]


@pytest.mark.parametrize("first", range(8))
def test_a_secret_in_two_parts_is_masked_at_any_cut(first: int) -> None:
    """If a secret is cut into two parts of a stream at any position, no part shows it. CI tries each fifth one.

    Each test tries an eighth of the secrets.
    """
    redaction = Redaction(default_redactor, {})
    shown = {}
    for secret in SECRETS[first::8]:
        whole = redaction.mask_plain(f"it is {secret} so")
        for at in range(1, len(secret), 1 if IS_SEARCH else 5):
            text = "".join(parts(redaction, ["it is ", secret[:at], secret[at:], " so"], [1]))
            if text != whole:
                shown[secret, at] = text

    assert shown == {}


@pytest.mark.parametrize(
    "form", ["password: {}\n", "  DB_PASS={}", 'secret = "{}"', "use --token {} -v", "the pass is {}, so"]
)
def test_what_is_masked_as_a_whole_waits_as_a_whole(form: str) -> None:
    """At any cut of a text with a value after a name, all that is shown of the secret so far waits for the rest."""
    text = form.format("pässwörd1x9y8z7w6v5u4")
    spans = find_secrets(text).secrets

    assert len(spans) == 1
    for cut in range(spans[0].start + 1, spans[0].end):
        assert cut - unfinished(text[:cut]) <= spans[0].start


@pytest.mark.parametrize("every", [1, 7, 50])
def test_a_private_key_in_small_pieces_is_in_no_part(every: int) -> None:
    """The key comes four characters an event, and a part is written every few events. From BEGIN to END the
    text waits.
    """
    text = f"Here it is:\n{PEM}\nKeep it."
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    written = parts(Redaction(default_redactor, {}), pieces, list(range(0, len(pieces), every)))

    assert "".join(written) == "Here it is:\n[REDACTED:private-key]\nKeep it."


@pytest.mark.parametrize("shown", [PEM[:200], PEM[:-10], PEM[: PEM.index("-----END")], "\n".join(PEM.split("\n")[:3])])
def test_a_private_key_without_its_end_is_masked(shown: str) -> None:
    """A key that `head` or a limit of output cut off is masked as text, in JSON, and in a stream."""
    redaction = Redaction(default_redactor, {})
    streamed = "".join(parts(redaction, [shown[at : at + 4] for at in range(0, len(shown), 4)], [20, 40]))
    texts = [redaction.mask_plain(f"$ head key\n{shown}"), json.loads(redaction.mask(json.dumps({"a": shown}))[0])["a"]]

    assert ["MIIE" in text or "ErTy" in text for text in [*texts, streamed]] == [False] * 3


def tokens(text: str) -> list[str]:
    """Return the text in tokens as models send it: words, each with the blank before it, cut after twelve letters."""
    return re.findall(r"\s?\S{1,12}|\s+", text)


@pytest.mark.parametrize("flushed_after", [1, 2, 5])
def test_no_secret_is_shown_by_words_with_leading_blanks(flushed_after: int) -> None:
    """The stream is written after each word or a few. A word before a blank counts as finished, except names of
    secrets.
    """
    redaction = Redaction(default_redactor, {})
    shown = []
    for key in keys(1):
        pieces = tokens(f"Please take {key.text} and go on, the rest is set to be done.")
        streamed = "".join(parts(redaction, pieces, list(range(0, len(pieces), flushed_after))))
        if key.longest in streamed and key.longest not in redaction.mask_plain("".join(pieces)):
            shown.append(key.text)

    assert shown == []


@pytest.mark.parametrize(
    ("pieces", "written"),
    [
        (["Antwort a", "uf a.0: g", "rößer"], ["", "Antwort auf a.0: größer"]),
        (["Antwort ", "auf a.0: g", "rößer"], ["Antwort ", "auf a.0: größer"]),
        (["Antwort a", " uf a.0: g", "rößer"], ["Antwort a", " uf a.0: größer"]),
        (["Antwort a", "uf b.0: so ", "gut"], ["Antwort auf b.0: so ", "gut"]),
    ],
)
def test_an_event_waits_for_the_end_of_its_last_word(pieces: list[str], written: list[str]) -> None:
    """If an event waits, the event before it waits too, unless that one ends with a whole word."""
    assert parts(Redaction(default_redactor, {}), pieces, [1]) == written


def test_most_words_of_an_answer_are_written_at_once() -> None:
    """Only the last words wait, even if words end with digits or are "set"."""
    events = b"".join(map(event, tokens(" ".join(f"it is set at word{number}" for number in range(200)))))

    assert Redaction(default_redactor, {}).mask_stream(events, last=False)[2] > len(events) - 600


def test_each_event_of_a_stream_takes_few_calls() -> None:
    """A stream of words takes 8 function calls for each event. Each event that ends in a word once took 144."""
    redaction = Redaction(default_redactor, {"A_TOKEN": "x9y8z7w6v5u4"})
    answer = b"".join(map(event, tokens(" ".join(f"it is set at word{number}" for number in range(200)))))
    redaction.mask_stream(answer, last=False)

    assert steps(redaction.mask_stream, answer, last=False) < 10 * answer.count(b"data: ")


@pytest.mark.parametrize(
    "form",
    [
        '{"type":"response.output_text.delta","sequence_number":NUMBER,"output_index":PLACE,"delta":TEXT,"obfuscation":"aNUMBER"}',
        '{"model":"mPLACE","index":PLACE,"created_at":"2025-06-12T22:05:NUMBERZ","message":{"role":"assistant","content":TEXT}}',
        '{"type":"content_block_delta","index":PLACE,"delta":{"type":"text_delta","text":TEXT}}',
        '{"choices":[{"delta":{"content":TEXT},"index":PLACE}],"id":"NUMBER"}',
        '{"type":"response.output_text.delta","delta":TEXT,"item_id":"PLACE"}',
    ],
)
@pytest.mark.parametrize("in_turn", [True, False])
def test_events_of_one_form_are_joined_and_events_of_other_places_are_not(form: str, *, in_turn: bool) -> None:
    """Events of two answers, in turn or in sequence, that differ in a counter, a time or filler are joined, so a key
    over several events is masked.
    """
    key = next(key.text for key in keys(1) if key.service == "Groq")
    texts = [text.ljust(120, "-") for text in (f'it is\n"{key}" so ', "nothing is said here ")]
    pieces = [(place, text[at : at + 3]) for place, text in enumerate(texts) for at in range(0, 120, 3)]
    if in_turn:
        pieces = [piece for pair in zip(pieces[:40], pieces[40:], strict=True) for piece in pair]
    lines = [
        "data: " + form.replace("NUMBER", str(number)).replace("PLACE", str(place)).replace("TEXT", json.dumps(piece))
        for number, (place, piece) in enumerate(pieces)
    ]

    masked, count, _ = Redaction(default_redactor, {}).mask_stream("\n\n".join(lines).encode())
    spelled = re.findall(r'"(?:delta|content|text)":("(?:[^"\\]|\\.)*")', masked.decode())

    places = [[text for text, (at, _) in zip(spelled, pieces, strict=True) if at == place] for place in (0, 1)]
    remaining = ["".join(map(json.loads, texts_of_place)) for texts_of_place in places]
    assert (count, remaining) == (1, [texts[0].replace(key, "[REDACTED:groq-key]"), texts[1]])


def test_the_waiting_text_is_bounded() -> None:
    """A text without an end does not wait for ever, and ordinary words do not wait."""
    texts = ["-----BEGIN RSA PRIVATE KEY-----\n" + "Aa1+" * PEM_LONGEST, "a1" * 10_000, "Done. ", "它是", "it is so,\n"]
    texts += ["The code is right.", "It is the way"]

    assert [unfinished(text) for text in texts] == [0] * 7


def test_only_the_end_of_a_long_field_name_waits() -> None:
    """A field whose value is not closed waits from its name on, of which the last 80 letters suffice."""
    field = "y" * 100 + '_password": "correct horse'

    assert unfinished("x" * 10_000 + '{"' + field) == 80 + len('": "correct horse')


@pytest.mark.parametrize("answers", [1, 8])
def test_texts_without_a_place_to_cut_are_written(answers: int) -> None:
    """Eight answers that end in a word, or a name that a model repeats, do not keep the whole stream from its file."""
    events = b"".join(
        f'data: {{"choices":[{{"index":{number % answers},"delta":{{"content":"key "}}}}]}}\n\n'.encode()
        for number in range(8_000)
    )

    assert Redaction(default_redactor, {}).mask_stream(events, last=False)[2] > len(events) // 8


AGENT = """
import sys, time
import httpx
from trace_recorder import TrajectoryRecorder

class Slow(httpx.SyncByteStream):
    def __iter__(self):
        import json
        text = open(sys.argv[2]).read()
        for at in range(0, len(text), 4):
            chunk = {"id": "s", "choices": [{"index": 0, "delta": {"content": text[at : at + 4]}}]}
            yield f"data: {json.dumps(chunk)}\\n\\n".encode()
            time.sleep(0.01)
        print("said", flush=True)
        time.sleep(300)

class Wire(httpx.BaseTransport):
    def handle_request(self, request):
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Slow())

recorder = TrajectoryRecorder(sys.argv[1])
recorder.start()
with recorder.wrap(httpx.Client(transport=Wire(), trust_env=False)) as client:
    url = "https://api.openai.com/v1/chat/completions"
    with client.stream("POST", url, json={"model": "m", "stream": True}) as answer:
        for _ in answer.iter_raw():
            pass
"""


def test_after_a_kill_no_file_has_an_incomplete_key(tmp_path: Path) -> None:
    """If the process is killed in the middle of a key, with some parts of the stream written, no part shows the key."""
    path = tmp_path / "run.json"
    (tmp_path / "said").write_text(f"One moment, please. Here it is:\n{PEM[:1200]}")
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT, path, tmp_path / "said"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "said\n"
    wait_until(lambda: b"Here it is" in bytes_of(path))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    there = bytes_of(path)
    assert (b"One moment" in there, b"MIIE" in there, b"ErTy" in there) == (True, False, False)


def test_a_long_event_with_a_secret_is_masked_in_short_slices() -> None:
    """Other threads may run after a few of its strings, while it is parsed and while its texts are collected."""
    key = next(key.text for key in keys(1) if key.service == "Groq")
    items = [{"a": number, "b": "x y"} for number in range(20_000)]
    event = f"data: {json.dumps({'text': f'it is {key}', 'items': items})}\n\n".encode()
    steps: list[int] = []
    token = current_yield.set(lambda: steps.append(1))
    try:
        masked, count, taken = Redaction(default_redactor, {}).mask_stream(event)
    finally:
        current_yield.reset(token)

    assert (count, taken, key.encode() in masked) == (1, len(event), False)
    assert len(steps) > 4 * len(items) / 64
