"""A password is masked whole, whatever characters it has, and in a sentence too. What follows a value stays."""

from __future__ import annotations

import json

import pytest

from tests.secrets.test_streams import parts
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

PASSWORDS = (
    *("Tr0ub4dor&horse99battery", "Tr0ub4dor&horse", "Tr&0ub4dor99", "a&b3c9d8e7", "Winter&Cold77", "x;Tr0ub4dor"),
    *(
        "Tr0ub;dor99",
        "Tr0ub4;dor",
        "a1b2,c3d4e5",
        "Tr0ub,4,dor",
        "Tr0ub4|dor",
        "a1b2&c3;d4,e5",
        "Tr0ub4dor&&&",
        "a1b2c3&",
    ),
)
LINES = (
    "password: {}",
    "DB_PASSWORD={}",
    "export DB_PASSWORD={}\nok",
    "  passwd: {}  # mine",
    "{} = {}".format("pwd", "{}"),
)
SENTENCES = (
    *("Log in as bob and password: {}", "user bob, password: {}", "The password: {} works", "Log in, password: {}."),
    *("First line.\nThen use the password: {} to log in.",),
    *('{{"note": "Log in as bob, password: {}"}}', "{{'note': 'It is bob's, password: {}'}}"),
    *('{{"note": "First.\\nThen use the password: {} to log in."}}', '{{\\"note\\": \\"Log in, password: {}\\"}}'),
)
IN_SENTENCES = ("hunter2secret", "hunter22", "Tr0ub4dor&horse99battery", "x1y2z3;w4", "swordf1sh")
BEHIND = (
    *(
        "https://h/?password=a1b2c3d4&user=me",
        "Password=a1b2c3d4;Server=db;Encrypt=true",
        "login(pw='x', password=a1b2c3d4,",
    ),
    *(
        "PASSWORD=a1b2c3d4; echo done",
        "PASSWORD=a1b2c3d4 && echo done",
        "PASSWORD=a1b2c3d4&&echo",
        "password: a1b2c3d4, and so on",
    ),
    *(
        "{{password: a1b2c3d4,user: me}}",
        "?password=a1b2c3d4&amp;user=me",
        "password=a1b2c3d4&quot;,",
        "password=a1b2c3d4,user=me",
    ),
)
HARMLESS = (
    *("def f(self, password: Optional[str2])", "{ user: user1, password: password1 }", "f(user: str, token: b64text)"),
    *("The password: sha256 or md5.", "See the password: section 2.1, please.", "passwd: files,nis"),
    *("password: string,number", "a token: user.id1"),
    *("the key: value1, value2", "In short, token: 12 of 15", "we compare password: pw1.lower()"),
    *("password: str,int2", "password: os.environ,x1", "secret: $(cat a1),b2"),
    *('{"user": bob, password: env23456}', 'f("x" as const, password: env23456)'),
    "{'a': 'x', b as c, password: env23456}",
)  # fmt: skip


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("line", LINES)
def test_a_password_is_masked_to_its_end(line: str, password: str) -> None:
    """No part of the password remains, except for signs at its end."""
    kept = password[len(password.rstrip("&")) :]

    assert default_redactor(line.format(password)) == line.format(f"[REDACTED:assigned-secret]{kept}")


@pytest.mark.parametrize("password", IN_SENTENCES)
@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_password_in_a_sentence_is_masked(sentence: str, password: str) -> None:
    """The sentence around it stays."""
    assert default_redactor(sentence.format(password)) == sentence.format("[REDACTED:assigned-secret]")


@pytest.mark.parametrize("text", BEHIND)
def test_the_text_after_a_value_stays(text: str) -> None:
    """A further parameter, an operator of a shell, a mark of HTML and a new word do not belong to the value."""
    assert default_redactor(text) == text.replace("a1b2c3d4", "[REDACTED:assigned-secret]")


@pytest.mark.parametrize("text", HARMLESS)
def test_code_and_prose_stay(text: str) -> None:
    """Types, names of variables, expressions and words after such a name are not passwords."""
    assert default_redactor(text) == text


@pytest.mark.parametrize("password", PASSWORDS[:11])
def test_a_password_in_json_is_masked_to_its_end(password: str) -> None:
    """The line is a string of JSON, as in the result of a tool."""
    redaction = Redaction(default_redactor, {})

    masked, count = redaction.mask(json.dumps({"output": f"PORT=1\nDB_PASSWORD={password}\nA=b"}))
    assert (json.loads(masked), count) == ({"output": "PORT=1\nDB_PASSWORD=[REDACTED:assigned-secret]\nA=b"}, 1)


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("password", ["Tr0ub4dor&horse99battery", "Tr0ub4;dor99", "a1b2c3d4,e5f6"])
def test_a_password_over_parts_of_a_stream_is_masked_to_its_end(password: str, size: int) -> None:
    """A part that ends within the password waits for the next part."""
    text = f"so use\nDB_PASSWORD={password}\nand go on"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    assert "".join(parts(Redaction(default_redactor, {}), pieces, [*range(len(pieces))])) == text.replace(
        password, "[REDACTED:assigned-secret]"
    )
