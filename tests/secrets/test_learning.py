"""A run learns secrets from its clients' headers: a bounded number of them, in any thread. Earlier records are masked
too.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from urllib.parse import quote

import httpx
import pytest

from tests.chat_calls import CHAT, Wire, asked, call, said
from tests.journals import records_of
from tests.searching import seeds
from tests.secrets.everywhere import bytes_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate
from trace_recorder.storage.redaction import headers
from trace_recorder.storage.redaction.known_values import COOKIES, KEPT, KnownSecrets
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

OWN = "opaque-Own-Key-0f-the-client/+"


def changing(number: int) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request, most of which change with each request."""
    signed = f"AWS4-HMAC-SHA256 Credential=x/20250612/eu/bedrock/aws4_request, Signature={number:064x}"
    return [
        (b"x-api-key", OWN.encode()),
        (b"cookie", b"AWSALB=sticky-%032d" % number),
        (b"authorization", b"Bearer per-request-%032d" % number),
        (b"x-amz-signature", b"%064d" % number),
        (b"x-nonce-token", signed.encode()),
        (b"proxy-authorization", signed.encode()),
    ]


def test_learned_values_are_bounded_and_not_compiled() -> None:
    """After a thousand requests with changing cookies, bearers and signatures, as much is kept as after a hundred."""
    known, kept, called = KnownSecrets(), [], Counter[str]()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/re/" in frame.f_code.co_filename:
            called[frame.f_code.co_name] += 1

    for number in range(1000):
        sys.setprofile(profile if number > 10 else None)
        known.learn(*headers.secrets(changing(number)))
        known.mask(f"it is {OWN} and per-request-{number:032d}")
        sys.setprofile(None)
        kept.append(len(known))

    text = known.mask(f"{OWN} per-request-{999:032d}")
    assert (max(kept), kept[99], called["compile"], text) == (
        KEPT + COOKIES,
        kept[-1],
        0,
        "[REDACTED:known-secret] [REDACTED:known-secret]",
    )


def test_signatures_and_nonces_are_not_learned() -> None:
    """Values that are valid for only one request are not learned, because no record contains them."""
    assert {*headers.secrets(changing(7))[0]} == {OWN, f"Bearer per-request-{7:032d}", f"per-request-{7:032d}"}


def test_a_cached_text_is_searched_again_for_a_learned_value() -> None:
    """A text that was found harmless is masked as soon as a value in it has been learned."""
    redaction = Redaction(default_redactor, {})
    texts = ['"value":"How are you?"', f'"body":{{"user":"{OWN}"}}']

    before = [redaction.mask_all(texts), redaction.mask_all(texts), redaction.mask_all(texts[1:])]
    redaction.learn([OWN])
    after = redaction.mask_all(texts)

    masked = '"body":{"user":"[REDACTED:known-secret]"}'
    assert before == [[(text, 0) for text in texts]] * 2 + [[(texts[1], 0)]]
    assert after == [(texts[0], 0), (masked, 1)]


def test_a_cached_text_is_searched_again_for_a_short_learned_value() -> None:
    """A short value, which is masked only after the name of a secret, is found too."""
    redaction = Redaction(default_redactor, {})
    text = '"content":"password: Admin"'

    before = redaction.mask_all([text])
    redaction.learn(["Admin"])

    masked = '"content":"password: [REDACTED:assigned-secret]"'
    assert (before, redaction.mask_all([text])) == ([(text, 0)], [(masked, 1)])


def test_eight_clients_with_simultaneous_first_calls_are_masked() -> None:
    """A thread's later records are masked with all that the thread has learned, whichever threads learn meanwhile."""
    leaked: list[str] = []

    def first_call(redaction: Redaction, number: int, barrier: threading.Barrier) -> None:
        key = f"opaque-Key-0f-client-{number}-{id(redaction):x}"
        barrier.wait()
        redaction.learn([key])
        barrier.wait()
        if key in redaction.mask(json.dumps({"content": f"my key is {key}"}))[0]:
            leaked.append(key)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads switch in the middle of learning
    for _ in seeds(100, 300):
        redaction, barrier = Redaction(default_redactor, {}), threading.Barrier(8)
        threads = [threading.Thread(target=first_call, args=(redaction, number, barrier)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sys.setswitchinterval(interval)

    assert leaked == []


@pytest.mark.parametrize(
    "value",
    ["postgres", "assistant", "function", "password", "12345678", "user", "tool_calls", "lm-studio", "development"],
)
def test_a_common_word_is_masked_only_after_its_name(value: str) -> None:
    """If a password is a common word, no prompt, role or type changes."""
    redaction = Redaction(default_redactor, {"DB_PASSWORD": value, "OPENAI_API_KEY": value})
    text = json.dumps({"role": value, "type": value, value: 1, "content": f"Use {value}, or {value}_x."})

    mask = "DB_PASSWORD=[REDACTED:assigned-secret]\n"
    assert (redaction.mask(text), redaction.mask_plain(f"DB_PASSWORD={value}\n")) == ((text, 0), mask)


def test_a_short_value_is_masked_only_as_a_whole_word() -> None:
    """A short value is not masked within a longer word, but after an escape of JSON, of a URL or of a terminal."""
    redaction = Redaction(default_redactor, {"A_TOKEN": "x9y8z7w6"})
    texts = [
        "ax9y8z7w6",
        "x9y8z7w6b",
        "(x9y8z7w6)",
        "a-x9y8z7w6_b",
        "\\nx9y8z7w6",
        "%20x9y8z7w6",
        "\x1b[32mx9y8z7w6\x1b[0m",
    ]

    mask = "[REDACTED:known-secret]"
    assert [redaction.mask_plain(text) for text in texts] == [
        *texts[:2],
        *(f"({mask})", f"a-{mask}_b", f"\\n{mask}", f"%20{mask}", f"\x1b[32m{mask}\x1b[0m"),
    ]


@pytest.mark.parametrize("before", ["", "x", "xy", "user:"])
def test_the_client_s_own_key_is_masked_in_every_encoding(before: str) -> None:
    """The key is masked percent-encoded, and in base64 at any alignment, alone or within a longer text."""
    redaction = Redaction(default_redactor, {})
    redaction.learn([OWN])
    text = f"{before}{OWN}\x00\xff binary"
    encoded = base64.b64encode(text.encode("latin-1")).decode()
    small = re.sub("%..", lambda found: found[0].lower(), quote(text, safe=""))
    texts = [encoded, encoded.replace("+", "-").replace("/", "_"), quote(text, safe=""), small]

    core = base64.b64encode(OWN.encode()).decode()[4:-4]
    left = json.loads(redaction.mask(json.dumps(texts))[0])
    assert ["REDACTED" in one and OWN not in one and core not in one for one in left] == [True] * 4


def test_a_later_learned_secret_is_masked_in_the_live_document(tmp_path: Path) -> None:
    """A key in the task and in annotations is masked in the document once a client has sent it.

    `validate` names the records.
    """
    recorder = TrajectoryRecorder(tmp_path / "run.json", task=f"use {OWN}", metadata={"key": [OWN], "n": 1})
    recorder.start()
    recorder.annotate("a", {"b": f"it is {OWN}"})
    with httpx.Client(transport=Wire(said("x")), trust_env=False) as client:
        recorder.wrap(client).post(CHAT, json=asked("x"), headers={"x-api-key": OWN})
    recorder.annotate("c", 1)

    path = recorder.trajectory_path
    live = json.loads(path.read_text())
    recorder.finalize(success=True)
    mask = "[REDACTED:known-secret]"
    for document in (live, json.loads(path.read_text()), load(path).to_document()):
        assert (document["task"], document["metadata"], document["annotations"]) == (
            f"use {mask}",
            {"key": [mask], "n": 1},
            {"a": {"b": f"it is {mask}"}, "c": 1},
        )
    told = [finding.where for finding in validate(path).findings if "secret later" in finding.what]
    assert (OWN.encode() in path.read_bytes(), validate(path).ok, told) == (
        False,
        True,
        ["journal, record 1 (start)", "journal, record 2 (annotation)"],
    )


def test_a_replaced_annotation_stays(tmp_path: Path) -> None:
    """The later mask changes the annotation's own record, and not a later value of the same key."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    recorder.annotate("a", f"it is {OWN}")
    recorder.annotate("a", "something else")
    with httpx.Client(transport=Wire(said("x")), trust_env=False) as client:
        recorder.wrap(client).post(CHAT, json=asked("x"), headers={"x-api-key": OWN})
    recorder.finalize()

    assert load(recorder.trajectory_path).annotations == {"a": "something else"}


def test_no_correction_is_recorded_without_a_secret_in_a_record(tmp_path: Path) -> None:
    """A learned key that no record contains adds no record."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="x")
    recorder.start()
    for number in range(20):
        with httpx.Client(transport=Wire(said("x")), trust_env=False) as client:
            recorder.wrap(client).post(
                CHAT, json=asked("x"), headers=[(k.decode(), v.decode()) for k, v in changing(number)]
            )
    recorder.finalize()

    kinds = {record.kind for record in records_of(recorder.trajectory_path)}
    assert (kinds, OWN.encode() in bytes_of(recorder.trajectory_path)) == (
        {"start", "item", "llm_request", "llm_response", "finalize"},
        False,
    )


def test_secrets_of_the_environment_are_known_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Task and metadata are written before a client is wrapped, and have no secret of the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", OWN)
    with TrajectoryRecorder(tmp_path / "run.json", task=f"use {OWN}", metadata={"k": OWN}) as recorder:
        call(recorder, asked("x"), said("x"))

    assert OWN.encode() not in bytes_of(recorder.trajectory_path)
