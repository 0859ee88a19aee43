"""The corpus: every kind of key is masked wherever it is, and no text without secrets is changed."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.secrets.corpus import false_alarms, innocent, keys, masked, masked_on_the_wire, near_misses
from tests.wire.corpus import DIRECTORY, load
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

PLACES = {
    "alone": "{}",
    "in prose": "here it is: {}, keep it",
    "on a line of its own": "tokens:\n{}\n",
    "behind a tab": "key\t{}\tvalue",
    "in brackets": "({})",
    "among Chinese words": "密钥是{}。",
    "at an end": "the last word is {}",
    "in a shell": "$ ./deploy {} --dry-run\nok",
    "in a removed line": "@@ -1 +1 @@\n-{}\n+\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_every_kind_of_key_is_masked(place: str) -> None:
    """No drawn part of a key remains, and the mask names the kind."""
    left = {key.text: masked(PLACES[place].format(key.text)) for key in keys(3)}

    missed = [key for key in keys(3) if key.longest in left[key.text] or f"[REDACTED:{key.mask}]" not in left[key.text]]
    assert missed == []


@pytest.mark.parametrize("spelled", ["json", "ascii json", "json in json", "all escaped"])
def test_every_kind_of_key_is_masked_in_every_spelling_of_json(spelled: str) -> None:
    """Keys in JSON within JSON, and in escapes, are masked too."""
    redaction = Redaction(default_redactor, {})
    masked = {}
    for key in keys(3):
        text = json.dumps({"a": f"ü\n{key.text}"}, ensure_ascii=spelled == "ascii json")
        if spelled == "json in json":
            text = json.dumps({"arguments": text})
        if spelled == "all escaped":
            escapes = "".join(f"\\u{ord(letter):04x}" for letter in key.text)
            text = f'{{"a":"{escapes}"}}'
        masked[key] = json.dumps(json.loads(redaction.mask(text)[0]))

    assert [key for key, text in masked.items() if key.longest in text] == []


def test_a_text_that_only_looks_like_a_key_is_not_masked() -> None:
    """A shorter word, a word of other letters, and a public identifier that begins like a key are not masked."""
    texts = [(service, f"see {text}, please") for service, text in near_misses()]

    assert [(service, masked(text)) for service, text in texts] == texts


def test_a_key_in_a_url_is_masked() -> None:
    """A slash before a key is not taken for a letter of base64, unless the key begins like an image in base64."""
    words = [key for key in keys(1) if re.fullmatch(r"[A-Za-z0-9_.~-]{16,}", key.text) and "SWMKEY" not in key.text]
    texts = {key.service: masked(f"GET https://api.example.com/v1/{key.text}/items") for key in words}

    missed = {key.service for key in words if key.longest in texts[key.service]}
    assert (len(words) > 200, missed) == (True, {"Facebook, page", "Square, access", "Square, OAuth"})


def test_no_text_without_secrets_is_changed() -> None:
    """Prose, code, hashes, images and signatures stay unchanged."""
    assert false_alarms() == {}


def test_most_texts_without_secrets_are_not_searched_closely() -> None:
    """The first look rules out nearly all texts without a secret."""
    seen = [name for name, text in innocent().items() if Redaction(default_redactor, {}).must_be_searched(text)]

    assert len(seen) <= len(innocent()) // 8


@pytest.mark.skipif(not load(), reason=f"no wire corpus in {DIRECTORY} (set TRACE_RECORDER_WIRE)")
def test_nothing_in_real_traffic_is_masked() -> None:
    """The corpus, from which its owners have removed all keys, gets no mask."""
    assert masked_on_the_wire() == []


CORPUS = st.sampled_from([key.text for key in keys(1)] + [text for text in innocent().values() if len(text) < 300])
BETWEEN = st.sampled_from(
    ['"', "\\", "{", "}", ":", "=", " ", "\n", "[REDACTED:", "]", ' Bearer "', "\nKEY=", '"api_key": "']
)
TEXTS = st.lists(st.builds(str.__add__, CORPUS | st.just(""), BETWEEN), max_size=6).map("".join)
"""Texts of the corpus with a separator between every two, because a command that begins within a key is not a
command.
"""


@given(TEXTS)
def test_masking_is_deterministic_and_idempotent(text: str) -> None:
    """A masked text is not masked again, and the same text always gives the same result."""
    once = default_redactor(text)

    assert (default_redactor(text), default_redactor(once)) == (once, once)


@given(TEXTS)
def test_a_record_is_masked_once(text: str) -> None:
    """A record is neither masked nor counted a second time."""
    redaction = Redaction(default_redactor, {"A_TOKEN": "hunter2hunter2"})
    once, count = redaction.mask(json.dumps({"a": text, "password": f"{text}x", text: "hunter2hunter2"}))

    assert (count > 0, redaction.mask(once)) == (True, (once, 0))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\t", '"'])
def test_a_masked_value_is_not_masked_again(end: str) -> None:
    """A secret after the name of a second secret is masked once, whatever follows."""
    once = default_redactor(f'"password": "spring.datasource.password=rJJhrhklrYZPyzOVNHkGRO:{end}')

    assert (default_redactor(once), "rJJhr" in once) == (once, False)


@pytest.mark.parametrize(
    "text",
    [
        'Cookie: theme=dark; sessionid=0uZNbxRH6XZ8v4aXfEBeNWnpVGbt6rrB[REDACTED:{"api-key": "KEY"}',
        'x[REDACTED: {"api-key": "KEY"}',
        "[REDACTED:api-key: KEY",
        "Cookie: theme=dark; last=[REDACTED:no; sessionid=KEY",
    ],
)
def test_a_secret_after_the_beginning_of_a_mask_is_masked(text: str) -> None:
    """Only a whole mask is no text. A text that was cut may have the beginning of one."""
    once = default_redactor(text.replace("KEY", "a0f378f7f93d3f73f565a052d09478b2"))

    assert (default_redactor(once), "a0f378" in once) == (once, False)


def test_an_equals_sign_after_a_token_may_belong_to_the_next_text() -> None:
    """A token that may end in equals signs is found before a sign and a text that are not its own."""
    token = f"t1.1hOzE3VXbZYaoU3I4fq0.{'O8uodmcahID6FfjS-VpwBBsjb4' * 3}RnhavZHo"

    assert default_redactor(f"{token}=x, {token}==") == "[REDACTED:yandex-token]=x, [REDACTED:yandex-token]"


def test_nested_commands_are_masked_once() -> None:
    """If a secret of a command is within a second command, no text is doubled."""
    text = "sshpass -p OIj8HbQduCYL ssh x; sshpasscurl -u admin:Y8HbQduCYL7 h; mysql -pOIj8Hb -p Y8"
    left = default_redactor(text)

    assert (len(left) < 2 * len(text), left.count("sshpasscurl"), "OIj8" in left, "Y8HbQ" in left) == (
        True,
        1,
        False,
        False,
    )


def test_a_short_text_is_masked_without_backtracking() -> None:
    """Repeated signs after a secret's name took minutes when two repeats of the pattern could match each sign."""
    left = default_redactor(f'"password": "cmVmdKoB{":" * 200}ac51b0e:ac51b0e78287a"')

    assert left == '"password": "[REDACTED:assigned-secret]"'


def test_a_mask_is_not_taken_for_a_user_and_password() -> None:
    """A mask after a flag for a user and a password is not masked again."""
    left = default_redactor("curl --user glcbt-da_I2frF0lXfwDTH2SyHy3sx h")

    assert left == "curl --user [REDACTED:gitlab-token] h"


@pytest.mark.parametrize("option", ["--password", "--api-key"])
def test_a_value_after_an_option_in_a_json_list_is_masked(option: str) -> None:
    """In a command's arguments as a list, only the element right after the option is masked."""
    before = json.dumps({"command": ["deploy", option, "k3Yk3Yk3AbQ9zz1x", "run"], "files": ["a1B2c3D4e5F6g7H8i9J0"]})

    assert Redaction(default_redactor, {}).mask(before) == (
        before.replace("k3Yk3Yk3AbQ9zz1x", "[REDACTED:secret-member]"),
        1,
    )


@pytest.mark.parametrize(
    "text",
    [
        '["--password"], ["k3Yk3Yk3AbQ9zz1x"]',
        '["--password", {"user": "k3Yk3Yk3AbQ9zz1x"}]',
        '["--password", "--verbose1x"]',
        '["--verbose", "k3Yk3Yk3AbQ9zz1x"]',
    ],
)
def test_other_values_near_an_option_are_not_masked(text: str) -> None:
    """Elements of a second list, members' values, options, and the words after an option without a secret stay
    unchanged.
    """
    assert Redaction(default_redactor, {}).mask(text) == (text, 0)


@pytest.mark.parametrize(
    "value", ["secret_name_of_the_application", "test_user_for_the_login_page", "token-of-the-service-account-2"]
)
def test_words_that_begin_with_a_placeholder_stay(value: str) -> None:
    """Keys may begin with such a word too, but they mix letters and digits."""
    assert default_redactor(f"API_KEY={value}") == f"API_KEY={value}"


@pytest.mark.parametrize(
    "value",
    ["a-MxYuJRib56bDM4hWiE0kU41QjxOfT0", "A/y/PqC4lL6y5N+tx9klRjp", "test_33b7433268850984867193508716c0dc1954"],
)
def test_a_key_that_begins_like_a_placeholder_is_masked(value: str) -> None:
    """A key may begin with an article, or a word such as "test", before letters and digits that are not words."""
    assert default_redactor(f"API_KEY={value}") == "API_KEY=[REDACTED:assigned-secret]"


@pytest.mark.parametrize("command", ["redis-cli -h h -a", "sshpass -p", "docker login -u me -p"])
def test_a_flag_without_a_value_does_not_take_the_next_line(command: str) -> None:
    """A flag at the end of a line has no value, because a shell ends the command there."""
    assert default_redactor(f"{command}\nk3Yk3Yk3AbQ9zz1x") == f"{command}\nk3Yk3Yk3AbQ9zz1x"


@pytest.mark.parametrize("command", ["redis-cli -h h -a ", "mysql -u root -p", "docker login -u me -p "])
@pytest.mark.parametrize("before", ["ssh -p2222 h; ", "ps -a all; ", "mkdir -p /srv && mkdir -p /data && "])
def test_an_equal_flag_of_an_earlier_command_hides_no_password(before: str, command: str) -> None:
    """Agents write several commands in one line, which may have the same flags."""
    assert default_redactor(f"{before}{command}k3Yk3Yk3AbQ9zz1x") == f"{before}{command}[REDACTED:assigned-secret]"
