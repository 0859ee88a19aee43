"""Passwords in prose: after names in bold letters, in parentheses, after a log's brackets, in the fields of forms."""

from __future__ import annotations

import json

import pytest

from tests.secrets.test_streams import parts
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

MASK = "[REDACTED:assigned-secret]"
SECRETS = ("hunter2secret", "Tr0ub4dor&3")
SAID = (
    *("Log in as bob (password: {}).", "(password: {})", "it is (user bob, password: {}) there"),
    *("[note] log in as bob, password: {}", "[2026-01-02 10:00] [INFO] login bob, password: {}"),
    *("**Password**: {}", "**Password:** {}", "- **Password**: `{}`", "__Password__: {}", "*password*: {}, then"),
    *("<b>Password:</b> {}", "<p><strong>Password</strong>: {}</p>", "Username: bob / Password: {}"),
    *("the temporary password is: {}", "My new password was: {}\nok"),
)
FIELDS = (
    'Content-Disposition: form-data; name="password"\r\n\r\n{}\r\n--x--',
    'Content-Disposition: form-data; name="api_key"\n\n{}\n--x--',
)
HARMLESS = (
    *("**Password**: required", "**Password**: the new one", "**Token**: see step 2", "**password**: string"),
    *("**Password**: rosebud", "<b>Password:</b> please enter it!", "<strong>Secret</strong>: SHA256"),
    *("func login (password: String)", "def f(password: str1234)", "constructor (password: Base64String)"),
    *("fn new (key: [u8; 32])", "fun (secret: Ed25519Key)", "login(user, password: getpass2)"),
    *("the password is: required", "the key is: sha256", "[a] the password is base64-encoded"),
    *('["password"\n\n"hunter2secret"]', 'x = "password"\n\nhunter2secret()', '<input name="password"\n\nid2="x">'),
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("text", [*SAID, *FIELDS])
def test_a_password_in_prose_is_masked(text: str, secret: str) -> None:
    """Only the password is masked, in a plain text and in JSON."""
    said = text.format(secret)
    in_json = Redaction(default_redactor, {}).mask(json.dumps({"text": f"x\n{said}\ny"}))

    assert default_redactor(said) == text.format(MASK)
    assert (json.loads(in_json[0]), in_json[1]) == ({"text": f"x\n{text.format(MASK)}\ny"}, 1)


@pytest.mark.parametrize("text", HARMLESS)
def test_types_words_and_calls_stay(text: str) -> None:
    """A type, a word, a call of a function, and a text about a password are not masked."""
    assert default_redactor(f"a\n{text}\nb") == f"a\n{text}\nb"


@pytest.mark.parametrize("text", [text.format(SECRETS[0]) for text in SAID])
def test_a_stream_is_masked_the_same_at_any_cut(text: str) -> None:
    """A part of a model's answer may end anywhere in the name, in the letters around it, or in the value."""
    redaction = Redaction(default_redactor, {})
    whole = default_redactor(f"it is\n{text}\nso")
    texts = {
        (at, flush): "".join(parts(redaction, ["it is\n", text[:at], text[at:], "\nso"], [flush]))
        for at in range(1, len(text))
        for flush in (1, 2)
    }

    assert {cut: said for cut, said in texts.items() if said != whole} == {}
