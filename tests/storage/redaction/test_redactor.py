"""Redaction: true keys are masked wherever they are, prose is not, and JSON stays JSON."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wire.corpus import DIRECTORY, load
from trace_recorder.storage.redaction.redactor import Redaction, Redactor
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.storage.redaction.urls import clean_url
from trace_recorder.values.messages import Payload

EXCHANGES = load()
ALNUM = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0fG" * 4
PEM = f"-----BEGIN {{0}}PRIVATE KEY-----\n{ALNUM}\n{ALNUM[:30]}+/==\n-----END {{0}}PRIVATE KEY-----"

KEYS: dict[str, tuple[str, ...]] = {
    "anthropic-key": (f"sk-ant-api03-{ALNUM[:90]}-_AA", f"sk-ant-oat01-{ALNUM[:60]}"),
    "openai-key": (f"sk-{ALNUM[:48]}", f"sk-proj-{ALNUM[:60]}_-{ALNUM[:60]}", f"sk-or-v1-{'0123456789abcdef' * 4}"),
    "google-key": (f"AIza{ALNUM[:35]}", f"AIzaSy-_{ALNUM[:31]}"),
    "google-token": (f"ya29.{ALNUM[:60]}-_",),
    "github-token": (*(f"gh{one}_{ALNUM[:36]}" for one in "pousr"), f"github_pat_{ALNUM[:22]}_{ALNUM[:59]}"),
    "gitlab-token": (f"glpat-{ALNUM[:20]}",),
    "slack-token": ("xoxb-1234567890-1234567890123-" + ALNUM[:24], "xoxp-1234567890-" + ALNUM[:24]),
    "huggingface-token": (f"hf_{ALNUM[:34]}",),
    "groq-key": (f"gsk_{ALNUM[:52]}",),
    "xai-key": (f"xai-{ALNUM[:80]}",),
    "aws-key-id": ("AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"),
    "stripe-key": (f"sk_live_{ALNUM[:24]}", f"rk_live_{ALNUM[:24]}"),
    "jwt": (f"eyJ{ALNUM[:30]}.eyJ{ALNUM[:60]}.{ALNUM[:40]}_-",),
    "private-key": tuple(PEM.format(kind) for kind in ("", "RSA ", "OPENSSH ", "ENCRYPTED ")),
}  # fmt: skip
EVERY_KEY = [(what, key) for what, keys in KEYS.items() for key in keys]

PLACES = {
    "alone": "{}",
    "in prose": "my key is {}, keep it",
    "in quotes": '{{"key": "{}"}}',
    "behind an equals sign": "API_KEY={}",
    "on a line of its own": "tokens:\n{}\n",
    "behind a tab": "key\t{}\tvalue",
    "in a URL": "https://host/v1?key={}&alt=sse",
    "among Chinese words": "密钥是 {} 。",
    "with nothing between it and Chinese words": "令牌{}请保密",
    "behind an umlaut": "für {} nötig",
}


def masked(text: str) -> str:
    return json.loads(default_redactor(json.dumps({"text": text}, ensure_ascii=False)))["text"]


@pytest.mark.parametrize("place", PLACES)
def test_every_true_key_is_masked(place: str) -> None:
    """In text and in JSON, a key of a well-known form is masked wherever it is, and nothing else."""
    texts = {
        key: (default_redactor(PLACES[place].format(key)), masked(PLACES[place].format(key))) for _, key in EVERY_KEY
    }

    expected = {key: (PLACES[place].format(f"[REDACTED:{what}]"),) * 2 for what, key in EVERY_KEY}
    assert {key: found for key, found in texts.items() if found != expected[key]} == {}


@pytest.mark.parametrize("spelled", ["in json", "in ascii json", "in json in json"])
def test_a_key_after_an_escape_of_json_is_masked(spelled: str) -> None:
    """A key after an escaped line break of JSON is masked."""
    text = "Schlüssel für\n{}"
    masked = {}
    for what, key in EVERY_KEY:
        inner = text.format(key)
        for _ in range(2 if spelled == "in json in json" else 1):
            inner = json.dumps({"arguments": inner}, ensure_ascii=spelled == "in ascii json")
        masked[key] = (what, default_redactor(inner))

    assert [
        key for key, (what, found) in masked.items() if key[:60] in found or f"[REDACTED:{what}]" not in found
    ] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:s3cr3tpw@host/path", "https://[REDACTED:url-password]@host/path"),
        ("postgres://app:hunter2hunter2@db:5432/x", "postgres://[REDACTED:url-password]@db:5432/x"),
        ("redis://:hunter2@cache", "redis://[REDACTED:url-password]@cache"),
        (f"Authorization: Bearer {ALNUM[:40]}==", "Authorization: Bearer [REDACTED:bearer-token]"),
        (f"authorization: bearer {ALNUM[:40]}", "authorization: bearer [REDACTED:bearer-token]"),
        ("https:\\/\\/me:s3cr3tpw@host\\/path", "https:\\/\\/[REDACTED:url-password]@host\\/path"),
    ],
)
def test_passwords_in_urls_and_bearer_tokens_are_masked(text: str, expected: str) -> None:
    """A password in a URL and a bearer token are masked, whatever their form."""
    assert default_redactor(text) == expected


def test_a_private_key_with_headers_is_masked() -> None:
    """A private key that has headers before its body, as in the old encryption, is masked."""
    headers = "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,3F17F5316E2BAC89\n\n"

    assert default_redactor(PEM.format("RSA ").replace("\n", headers, 1)) == "[REDACTED:private-key]"


SIGNATURE = base64.b64encode(Random(7).randbytes(3000)).decode()
INNOCENT = {
    "words": "The session token and the auth secret are words; so are password, api key and bearer.",
    "task": "task-1234567890abcdefghijklmnop and risk-assessment-of-the-whole-thing, desk-abcdefghijklmnopqrstu",
    "sk- in prose": "Keys that begin with sk- are OpenAI's; sk-learn is not one, nor is sk-SK or sk-...",
    "a class in a page": '<label class="sk-toggleable__label-arrow">, <div class="sk-loading-indicator-container">',
    "a branch": "git checkout -b feature/sk-refactor-the-whole-login-page",
    "an image": f"data:image/png;base64,{base64.b64encode(Random(1).randbytes(20_000)).decode()}",
    "an image for URLs": base64.urlsafe_b64encode(Random(2).randbytes(20_000)).decode(),
    "a signature": f'{{"type":"thinking","thinking":"x","signature":"{SIGNATURE}"}}',
    "encrypted content": "gAAAAAB" + base64.urlsafe_b64encode(Random(3).randbytes(3000)).decode(),
    "hashes": "sha256:" + "0123456789abcdef" * 4 + " commit " + "0123456789abcdef" * 2 + "01234567",
    "uuid": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "a host with a port": "http://localhost:8080/v1 and https://[::1]:443/x and ssh://git@github.com/me/repo",
    "an address": "mailto:me@example.com, https://example.com/@user:tag, http://a.b/c@d",
    "bearer of news": "The bearer authentication/authorization scheme; the Bearer of-very-long-hyphenated-news came",
    "a public key": f"-----BEGIN PUBLIC KEY-----\n{ALNUM}\n-----END PUBLIC KEY-----",
    "a masked key": "[REDACTED:openai-key] and Bearer [REDACTED:bearer-token] and https://[REDACTED:url-password]@host",
    "half a key": "sk-ant-, ghp_, AIza, hf_, AKIA, eyJ, -----BEGIN PRIVATE KEY-----",
}  # fmt: skip


@pytest.mark.parametrize("name", INNOCENT)
def test_prose_and_data_are_not_masked(name: str) -> None:
    """A text that only resembles a key is not masked."""
    assert default_redactor(INNOCENT[name]) == INNOCENT[name]


SECRET_TEXTS = (
    "12345678",
    "nabcdefgh",
    "u0041bcdefg",
    "REDACTED",
    "pass\\word",
    'pa"ssword',
    "known-secret",
    "sk-secret",
)


@pytest.mark.skipif(not EXCHANGES, reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")
def test_texts_of_real_agents_are_not_masked() -> None:
    """No signature, image or prose in the corpus, which has no keys, is masked."""
    texts = [json.dumps([exchange.request, exchange.response_text], ensure_ascii=False) for exchange in EXCHANGES]

    assert [one.source for one, text in zip(EXCHANGES, texts, strict=True) if default_redactor(text) != text] == []


SHARDS = (
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "Bearer ",
    "://",
    "a:b",
    "@",
    "[REDACTED:",
    "]",
    "sk-",
)
PARTS = st.sampled_from([key for _, key in EVERY_KEY] + [*SHARDS, *SECRET_TEXTS, *'"\\{},:éx -\n', "abcdefgh"])
TEXTS = st.lists(PARTS, max_size=8).map("".join)
VALUES = st.recursive(
    TEXTS | st.integers(0, 10**12) | st.sampled_from([0.12345678, 12345678.5, True, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SECRETS = st.lists(st.sampled_from(SECRET_TEXTS))


@given(TEXTS)
def test_masking_twice_is_the_same_as_masking_once(text: str) -> None:
    """A mask is not masked again."""
    once = default_redactor(text)

    assert default_redactor(once) == once


@given(VALUES, st.booleans())
@example(["-----BEGIN PRIVATE KEY-----", {"a": "-----END PRIVATE KEY-----"}], True)
def test_json_stays_json(value: Payload, ascii_only: bool) -> None:
    """Masked JSON is JSON with the same structure; two secrets that are names of members stay two names."""
    text = json.dumps(value, ensure_ascii=ascii_only)

    assert skeleton(json.loads(Redaction(default_redactor, {}).mask(text)[0])) == skeleton(value)
    json.loads(default_redactor(text))


def skeleton(value: Payload) -> Payload:
    """Return the structure of a value without its strings: its lists, the sizes of its objects, its numbers."""
    if isinstance(value, dict):
        return {"members": [skeleton(one) for one in value.values()]}
    if isinstance(value, list):
        return [skeleton(one) for one in value]
    return "text" if isinstance(value, str) else value


@given(VALUES, SECRETS, st.booleans())
def test_json_stays_json_with_any_learned_secret(value: Payload, secrets: list[str], ascii_only: bool) -> None:
    """Any learned secret is masked in the strings of JSON, without damage to numbers, escapes or quotes."""
    redaction = Redaction(default_redactor, {})
    redaction.learn(secrets)

    left = json.loads(redaction.mask(json.dumps(value, ensure_ascii=ascii_only))[0])

    assert isinstance(left, type(value) if not isinstance(value, str) else str)


@given(VALUES, SECRETS)
def test_masking_learned_secrets_twice_is_the_same_as_once(value: Payload, secrets: list[str]) -> None:
    """A learned secret that occurs in the text of a mask does not change the mask."""
    redaction = Redaction(default_redactor, {})
    redaction.learn(secrets)

    once = redaction.mask(json.dumps(value))[0]

    assert redaction.mask(once)[0] == once


# ── what is learned ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "secret", ["hunter2hunter2", 'quo"ted\\secret', "schlüssel-geheim", "two\nlines-of-it", "correct horse"]
)
def test_a_learned_secret_is_masked_in_any_spelling_of_json(secret: str) -> None:
    """The client's own key is masked in plain text, and in JSON with any escapes."""
    redaction = Redaction(default_redactor, {})
    redaction.learn([secret])
    value = {"a": f"it is {secret}!"}

    left = [json.loads(redaction.mask(json.dumps(value, ensure_ascii=one))[0]) for one in (True, False)]

    mask = "it is [REDACTED:known-secret]!"
    assert [*left, redaction.mask_plain(value["a"])] == [{"a": mask}, {"a": mask}, mask]


def test_the_longest_secret_is_masked_first() -> None:
    """If a secret begins with another secret, the whole longer secret is masked."""
    redaction = Redaction(default_redactor, {})
    redaction.learn(["hunter2hunter2", "hunter2hunter2-and-more"])

    assert redaction.mask('"hunter2hunter2-and-more"')[0] == '"[REDACTED:known-secret]"'


def test_environment_variables_with_secret_names_are_masked() -> None:
    """Values of environment variables with secret names are masked, except short values and placeholders."""
    names = ("OPENAI_API_KEY", "MY_TOKEN", "APP_SECRET", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "X_APIKEY")
    environment = {name: f"value-of-{name}" for name in names}
    harmless = {
        "HOME": "/home/somebody",
        "A_TOKEN": "short",
        "TOKENIZERS_PARALLELISM": "parallelism",
        "B_KEY": "not-a-key-at-all",
    }
    placeholder = {"OPENAI_API_KEY_": "lm-studio", "C_API_KEY": "not-needed"}
    text = json.dumps([*environment.values(), *harmless.values(), *placeholder.values()])

    left = json.loads(Redaction(default_redactor, environment | harmless | placeholder).mask(text)[0])

    assert left == ["[REDACTED:known-secret]"] * len(names) + [*harmless.values(), *placeholder.values()]


def test_without_redaction_nothing_is_masked() -> None:
    """`redact=None` turns masking off, even for known secrets."""
    redaction = Redaction(None, {"A_TOKEN": "hunter2hunter2"})
    redaction.learn(["hunter3hunter3"])
    text = f'"hunter2hunter2 hunter3hunter3 sk-{ALNUM[:40]}"'

    assert (redaction.mask(text)[0], redaction.mask_plain(text)) == (text, text)


# ── a redactor of the user's ──────────────────────────────────────────────────────────────────────────────────────


def shout(text: str) -> str:
    return text.replace("whisper", "WHISPER")


@pytest.mark.parametrize(
    ("redact", "expected"),
    [
        (shout, [f"sk-{ALNUM[:30]} WHISPER"]),
        ((default_redactor, shout), ["[REDACTED:openai-key] WHISPER"]),
        ([shout], [f"sk-{ALNUM[:30]} WHISPER"]),
        (default_redactor, ["[REDACTED:openai-key] whisper"]),
    ],
    ids=["alone", "joined", "in a list", "default"],
)
def test_a_user_s_redactor_replaces_or_joins_the_default(redact: Redactor, expected: list[str]) -> None:
    """A function as `redact` replaces the default redactor, and a list of functions is called in order."""
    text = json.dumps([f"sk-{ALNUM[:30]} whisper"])

    assert json.loads(Redaction(redact, {}).mask(text)[0]) == expected


def test_a_user_s_redactor_sees_decoded_texts_and_cannot_break_json() -> None:
    """The user's redactor gets each decoded string of the JSON, and its result is encoded again."""
    seen: list[str] = []

    def quoting(text: str) -> str:
        seen.append(text)
        return f'"{text}"'

    left = json.loads(Redaction(quoting, {}).mask('{"a":["one\\n",1,{"b":"zwei \\u00fc"}]}')[0])

    assert (seen, left) == (["one\n", "zwei ü"], {"a": ['"one\n"', 1, {"b": '"zwei ü"'}]})


def test_a_user_s_redactor_does_not_change_numbers_and_names() -> None:
    """JSON values that are not strings are written unchanged, such as 1.10 and 1e999, and so is a name that occurs
    twice.
    """
    text = '{"a":1.10,"b":1e999,"a":"whisper"}'

    assert Redaction(shout, {}).mask(text)[0] == '{"a":1.10,"b":1e999,"a":"WHISPER"}'


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://me:pw@host:8443/v1/x?key=SECRET&alt=sse&api-version=2024#frag", "https://host:8443/v1/x?alt=sse&api-version=2024"),
        ("https://host/v1/models/m:generateContent?%24alt=json%3Benum-encoding", "https://host/v1/models/m:generateContent?%24alt=json%3Benum-encoding"),
        ("http://[::1]:11434/api/chat?token=x", "http://[::1]:11434/api/chat"),
    ],
)  # fmt: skip
def test_a_url_is_recorded_without_possible_secrets(url: str, expected: str) -> None:
    """A recorded URL has no user, password or fragment, and only parameters that are known to be harmless."""
    assert clean_url(url) == expected


ODD = st.text(st.sampled_from('ab "\\\n:{}'), max_size=6)


@given(
    st.lists(st.tuples(ODD, ODD), max_size=4),
    st.lists(st.integers(1, 20), min_size=4, max_size=12),
    st.lists(st.tuples(ODD, ODD), max_size=4),
    st.lists(ODD, min_size=1),
    st.booleans(),
)
def test_a_key_over_several_events_is_masked_in_any_event_form(
    before: list[tuple[str, str]], sizes: list[int], behind: list[tuple[str, str]], fillers: list[str], spaced: bool
) -> None:
    """A key that a stream splits over several events is masked, whatever text is around it in the events."""
    key = f"sk-{ALNUM[:48]}"
    cuts = [min(sum(sizes[:at]), len(key)) for at in range(len(sizes) + 1)]
    spelled = [key[start:end] for start, end in pairwise([*cuts, len(key)])]
    words = [*(f"{one} {two}" for one, two in before), " ", *spelled, " ", *(f"{one} {two}" for one, two in behind)]
    events = [
        {"choices": [{"index": 0, "delta": {"content": word}}], "obfuscation": fillers[at % len(fillers)]}
        for at, word in enumerate(words)
    ]
    separators = None if spaced else (",", ":")
    text = "".join(f"data: {json.dumps(event, separators=separators)}\n\n" for event in events)

    masked, count, _ = Redaction(default_redactor, {}).mask_stream(text.encode())

    told = [json.loads(line.removeprefix(b"data: ")) for line in masked.split(b"\n\n") if line]
    said = "".join(event["choices"][0]["delta"]["content"] for event in told)
    assert (said, count) == ("".join(words).replace(key, "[REDACTED:openai-key]"), 1)


def test_a_key_over_events_of_different_forms_is_masked() -> None:
    """A key is masked even if one of its events has additional members between the usual beginning and end."""
    key = f"sk-{ALNUM[:48]}"
    events: list[Payload] = [{"content": "", "obfuscation": "ab"}] * 3
    events += [{"content": "", "obfuscation": "ab", "text": key[at : at + 5]} for at in range(0, len(key), 5)]
    text = "".join(f"data: {json.dumps(event, separators=(',', ':'))}\n\n" for event in events)

    masked, count, _ = Redaction(default_redactor, {}).mask_stream(text.encode())

    told = [json.loads(line.removeprefix(b"data: ")) for line in masked.split(b"\n\n") if line]
    assert ("".join(event.get("text", "") for event in told), count) == ("[REDACTED:openai-key]", 1)
