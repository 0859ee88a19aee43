"""The quick first look of a JSON text misses nothing: a text is masked as it is when every string of it is searched.

The grid has names of secrets and of other things, values that are hard to judge, and the forms in which JSON has both.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from itertools import product
from urllib.parse import quote

import pytest

from tests.searching import part_of
from tests.secrets import harmless, hostile
from tests.secrets.corpus import innocent, keys
from tests.wire import corpus as wire
from trace_recorder.storage.redaction.json_strings import parts_around
from trace_recorder.storage.redaction.known_values import KnownSecrets
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor, possible_secrets
from trace_recorder.values.messages import Payload

NAMES = (
    *("password", "passwd", "pass", "pwd", "pw", "DB_PASS", "userPassword", "password_1", "pass_word", "passphrase"),
    *("secret", "clientSecret", "client-secret", "secrets", "secretKey", "token", "accessToken", "X-Auth-Token"),
    *("max_tokens", "key", "api_key", "X-Api-Key", "apikey2", "public_key", "authorization", "auth", "credentials"),
    *("cookie", "Cookie", "Set-Cookie", "signature", "sig", "login", "monkey", "author"),
)
VALUES = (
    *("sid=abcDEF123456; a=b", "a=b; sid=abcDEF123456", 'a"b\\c1D2e3F4', '"k3Yk3Yk3AbQ9zz1x"', "k3Yk3Yk3AbQ9zz1x"),
    *("hunter2", "rosebud", "a1", "Tr0ub4dor&horse99battery", "Tr0ub;dor99", "x y1z2w3q4", "Bearer abcDEF123456"),
    *("Basic dXNlcjpwYXNzd29yZDE=", "\ta1b2c3d4\n", "pässwörd1", "//h/a1b2c3d4e5", "${TOKEN}", ""),
)
Form = Callable[[str, str], Payload]
FORMS: dict[str, Form] = {
    "a member": lambda name, value: {name: value},
    "a member, nested": lambda name, value: {"a": {"b": [{name: value, "n": 1}]}},
    "members before and after": lambda name, value: {"id": "x", name: value, "text": "so"},
    "name and value": lambda name, value: {"name": name, "value": value},
    "key and value": lambda name, value: {"key": name, "value": value},
    "a name of several words": lambda name, value: {"name": f"my {name}", "value": value},
    "an option of several words": lambda name, value: [f"--my {name}", value],
    "value and name": lambda name, value: {"value": value, "name": name},
    "name, type and value": lambda name, value: {"name": name, "type": "string", "value": value},
    "a name and a nested object": lambda name, value: {"name": name, "schema": {"type": "string"}, "value": value},
    "a name, and a value of another object": lambda name, value: [{"name": name}, {"name": "city", "value": value}],
    "an option": lambda name, value: [f"--{name}", value],
    "an option with an equals sign": lambda name, value: [f"--{name}={value}"],
    "an option in a command": lambda name, value: {"command": ["deploy", f"--{name}", value, "run"]},
    "a list": lambda name, value: [name, value],
    "a list under the name": lambda name, value: {name: [value]},
    "an object under the name": lambda name, value: {name: {"a": value}},
    "a line": lambda name, value: {"content": f"{name}: {value}\n"},
    "an assignment": lambda name, value: {"content": f"export {name}={value}\nok"},
    "a sentence": lambda name, value: {"content": f"The {name} is {value}, I think."},
    "JSON in a string": lambda name, value: {"arguments": json.dumps({name: value})},
    "JSON in a string, spaced": lambda name, value: {"content": f"  {json.dumps({'a': {name: value}}, indent=1)}"},
    "JSON in JSON in a string": lambda name, value: {"arguments": json.dumps({"x": json.dumps({name: value})})},
    "Python in a string": lambda name, value: {"content": f"d = { ({name: value})!r}"},
    "Python, an argument": lambda name, value: {"content": f"login(user='me', {name}={value!r})"},
}
IS_ASCII = (False, True)


def unchanged(text: str) -> str:
    """Return the text, as a redactor of a user that finds nothing."""
    return text


QUICK = Redaction(default_redactor, {"A_TOKEN": "hunter2"})
EVERY_STRING = Redaction((default_redactor, unchanged), {"A_TOKEN": "hunter2"})
"""A redaction with a user's redactor searches every string, without a first look."""


def differences(texts: list[str]) -> list[tuple[str, str, str]]:
    """Return the texts that are masked in two ways, with both masked texts."""
    distinct = dict.fromkeys(texts)  # most texts are the same in ASCII and in UTF-8
    pairs = [(text, QUICK.mask(text)[0], EVERY_STRING.mask(text)[0]) for text in distinct]
    return [(text, quick, whole) for text, quick, whole in pairs if quick != whole]


@pytest.mark.parametrize("form", FORMS)
def test_a_text_is_masked_as_if_every_string_was_searched(form: str) -> None:
    """Each name is tried with each value, in ASCII and in UTF-8. CI has a third of the pairs for each form."""
    pairs = part_of([*product(VALUES, NAMES)], 3, [*FORMS].index(form) % 3)
    texts = [
        json.dumps(FORMS[form](name, value), ensure_ascii=is_ascii) for value, name in pairs for is_ascii in IS_ASCII
    ]

    assert differences(texts) == []


@pytest.mark.parametrize("others", [1, 31, 32, 33, 200])
def test_other_secrets_beside_it_do_not_matter(others: int) -> None:
    """A text with many secrets is searched in another way than a text with few."""
    many = [{f"password_{number}": f"a1b2c3d4e5{number}"} for number in range(others)]
    texts = [
        json.dumps([*many, FORMS[form](name, value)])
        for form in FORMS
        for name in ("cookie", "password", "token")
        for value in VALUES[:4]
    ]

    assert differences([*part_of(texts, 3, others % 3)]) == []


AROUND = "Some words (of a page, with brackets) stand here; they are 3 or 4 lines, no more.\n" * 6
KINDS_OF_TEXTS: dict[str, Callable[[], Sequence[str]]] = {
    "keys": lambda: [key.text for key in keys(1)],
    "keys, encoded": lambda: [
        text
        for key in keys(1)[::3]
        for text in (f"?q={quote(key.text)}", base64.b64encode(f"see {key.text}".encode()).decode(), key.text * 2)
    ],
    "names": lambda: [
        form.format(name=name, value=value) for form, name, value in part_of([*product(LINES, NAMES, MORE_VALUES)], 3)
    ],
    "innocent": lambda: [*innocent().values()],
    "hostile": lambda: [text for _, text in (*hostile.pumped(700), *hostile.mixed(700, 100))],
    "packages": lambda: part_of([text for _, _, text in [*harmless.texts()][::25]], 3),
    "the wire": lambda: [json.dumps(exchange.request) + exchange.response_text for exchange in wire.load()[::6]],
}
MORE_VALUES = (*VALUES, "s" * 300 + "1", "Winter, is; c0ming&now")
LINES = (
    *("{name}: {value}\n", "  {name}={value}", '{name} = "{value}"', "use --{name} {value} -v", "set {name} {value}\n"),
    *(
        "<{name}>{value}</{name}>",
        '{{"a": {{"{name}": "{value}"}}}}',
        "the {name} is {value}, so",
        "f('{name}', '{value}')",
    ),
)


@pytest.mark.parametrize("kind", KINDS_OF_TEXTS)
def test_a_string_of_any_length_is_masked_as_if_every_string_was_searched(kind: str) -> None:
    """Each text is one short string, and the middle of a long string, in ASCII and in UTF-8."""
    texts = KINDS_OF_TEXTS[kind]()
    bodies = [
        json.dumps({"role": "tool", "content": content}, ensure_ascii=is_ascii)
        for text in texts
        for content, is_ascii in (
            (text, False),
            (f"{AROUND}{text} {AROUND}", False),
            (f"é{AROUND}{text}\t{AROUND}", True),
        )
    ]

    assert differences(bodies) == []


def test_a_long_string_is_masked_as_if_all_of_it_was_searched() -> None:
    """Only the parts around possible secrets are searched. Each part ends outside of every secret."""
    secrets = [key.text for key in keys(1)][::4]
    texts = [
        [AROUND * 100, *secrets[::9], AROUND * 400, *secrets[at : at + 2], AROUND * 400, secrets[at], "é\\\n", AROUND]
        for at in range(0, len(secrets), 3)
    ]
    strings = part_of([("".join(text), is_ascii) for text in texts for is_ascii in IS_ASCII], 3)
    bodies = [json.dumps({"content": text, "b": AROUND}, ensure_ascii=is_ascii) for text, is_ascii in strings]

    assert len(bodies) > 10
    assert [json.loads(QUICK.mask(body)[0]) for body in bodies] == [
        json.loads(EVERY_STRING.mask(body)[0]) for body in bodies
    ]


def test_only_the_neighbourhood_of_a_secret_in_a_long_string_is_searched() -> None:
    """Of two million characters, less than 100,000 are decoded and masked."""
    half = AROUND * 2000
    text = json.dumps({"content": f"{half}{keys(1)[0].text}\n{half}"})
    positions = possible_secrets(text, KnownSecrets())

    spans = list(parts_around(text, text.index(": ") + 2, len(text) - 1, positions, QUICK.unfinished))

    assert [0 < end - start < 100_000 for start, end in spans] == [True]
    assert spans[0][0] < positions[0] < spans[0][1]


def test_a_long_string_is_cut_outside_of_a_call_with_a_name_and_a_value() -> None:
    """A block of a long string may end anywhere in `define('DB_PASSWORD', '…')`."""
    secret = "T4Xmf87wK4tyF2"
    call = f"define('DB_PASSWORD', '{secret}');"

    masked = [QUICK.mask_plain("x, " * 10_900 + "." * offset + f" {call}" + "x" * 99) for offset in range(32, 72)]

    assert [text for text in masked if secret in text] == []
