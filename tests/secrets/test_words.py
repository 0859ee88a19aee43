"""Letters after a secret's name: random letters, and a word that fills its line, are masked. Prose and code stay
unchanged.
"""

from __future__ import annotations

import string
from random import Random

import pytest

from tests.secrets.test_streams import parts
from trace_recorder.storage.redaction.name_kinds import is_strange
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

ALONE = (
    *(
        "password: {}",
        "api_key: {}\nmodel: x",
        "db:\n  password: {}  \n  port: 5432",
        "DB_PASSWORD={}\n",
        "passwd={}\r\n",
    ),
    *(
        "<apiKey>{}</apiKey>",
        "<a><password>{}</password></a>",
        "Authorization: Bearer {}",
        "//h.example/:_authToken={}",
    ),
    *('"Authorization": "Bearer {}"', "curl -H 'Authorization: Bearer {}' https://h.example", "X-Api-Key: {}"),
)
ANYWHERE = (
    *(
        "deploy --token {} --force",
        "token: {}",
        "https://h.example/x?token={}&y=1",
        'password = "{}"',
        "the password is {}.",
    ),
    *("//h.example/:_password={} # mine", "{{'secret': '{}'}}"),
)
HARMLESS = (
    *("password: required", "password: str", "api_key: Optional[str]", "password: string;", "password: the new one"),
    *("token: hunter", "id-token: write", "password: db-password", "secret: mysecret", "  password: password"),
    *("self.password = password", "password = hunter", "api_key: hunter, model: x", "password: hunter is a word"),
    *("Authorization: Bearer authentication", "Authorization: Bearer accesstoken", "Authorization: Basic notreally"),
    *("Authorization: Bearer header, and more", "<password>string</password>", "<password>hunter</secret>"),
    *("result_key: knowledgeBaseSummaries", "key: MultiIndexSelector", "--password suffers", "API_KEY=MYAPIKEY"),
    *(
        'raise ValueError("password: unsafe")',
        "password:=hunter",
        "password: missing",
        "Authorization: Token description",
    ),
    *(
        'password = "wrongpassword"',
        'password = "hunter"',
        "label: Password",
        "password: Passwort",
        "exports.getUrlWithToken = getUrlWithToken",
    ),
)


def drawn(random: Random, count: int) -> str:
    """Return random small letters."""
    return "".join(random.choices(string.ascii_lowercase, k=count))


@pytest.mark.parametrize("text", ALONE)
@pytest.mark.parametrize("word", ["rosebud", "winteriscoming", "xkqzjwvbqmtpfhgd"])
def test_a_word_that_is_the_whole_value_of_a_setting_is_masked(text: str, word: str) -> None:
    """The word may be in its own line, in an element, or in a header. No text next to the word is masked."""
    word = word if "Bearer" not in text or len(word) > 7 else f"{word}{word}"

    assert default_redactor(text.format(word)) == text.format("[REDACTED:assigned-secret]")


@pytest.mark.parametrize("text", ANYWHERE)
def test_random_letters_are_masked_after_any_name(text: str) -> None:
    """At most one of fifty draws of 20 small letters is taken for words."""
    random = Random(3)
    words = [drawn(random, 20) for _ in range(50)]

    assert sum(word in default_redactor(text.format(word)) for word in words) <= 1


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_and_code_stay(text: str) -> None:
    """A type, a word about the secret, a permission, an expression, a sentence and a label are not masked."""
    assert default_redactor(f"a\n{text}\nb") == f"a\n{text}\nb"


@pytest.mark.parametrize("text", [*(text.format("rosebudrose") for text in ALONE), *HARMLESS])
def test_a_stream_is_masked_the_same_at_any_cut(text: str) -> None:
    """A part of a model's answer may end in the middle of a line, whose continuation is not known yet."""
    redaction = Redaction(default_redactor, {})
    whole = default_redactor(f"it is {text} so")
    texts = {
        (at, flush): "".join(parts(redaction, ["it is ", text[:at], text[at:], " so"], [flush]))
        for at in range(1, len(text))
        for flush in (1, 2)
    }

    assert {cut: said for cut, said in texts.items() if said != whole} == {}


def test_words_are_distinguished_from_random_letters() -> None:
    """No name in a program, and no word of several languages, counts as random. Nearly all random letters do."""
    words = (
        "authenticationprovider international wachtwoordherstellen accountbeheerder configuration_manager contraseña"
    )
    random = Random(4)
    missed = [text for text in (drawn(random, 16) for _ in range(1000)) if not is_strange(text)]

    assert ([word for word in words.split() if is_strange(word)], len(missed) < 50) == ([], True)
