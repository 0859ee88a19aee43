"""Dense beginnings of keys are masked together, and texts that only have many of them are not.

The same applies to close names whose values may be secrets. Values in a file of settings are judged one by one.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.secrets import hostile
from tests.secrets.corpus import keys, masked
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

KEY = "sk-proj-" + "a1B2c3D4" * 6
PROSE = " there, and here the text goes on as usual." * 20


@pytest.mark.parametrize("beginnings", ["sk-a1/", "AKIA.", "hf_A1=", "pat-na1-", "gsk_1:ghp_A1.xai-/"])
def test_a_key_after_many_beginnings_of_keys_is_masked(beginnings: str) -> None:
    """Only a limited number of beginnings is tried.

    At most some hundred characters after them are masked as well.
    """
    left = masked(f"it is {beginnings * 60}{KEY}{PROSE}")

    assert (KEY in left, left.endswith(PROSE[-400:]), "[REDACTED:" in left) == (False, True, True)


def test_each_key_of_a_long_list_is_masked_under_its_own_name() -> None:
    """Complete keys do not count as hostile, however close together they are."""
    ids = [key for key in keys(60) if key.mask == "aws-key-id"]
    left = masked(" ".join(key.text for key in ids))

    assert left == " ".join("[REDACTED:aws-key-id]" for _ in ids)


@pytest.mark.parametrize(
    "line",
    [
        "0.0704345703,-0.0525512695,0.0673217773,",
        "    def test_reset_mock_on_mock_open_issue_18622(self): ...\n",
        "test_get_sk_mock_1, test_get_mock_key_2, test_live_stock_on_block_3, ",
        "tests/test_auth_key.py::test_get_key_sk_1[param1] PASSED\n",
        "msg_01AbCdEfGhIjKlMn01 req_01AbCdEfGhIjKlMn02 ",
        "https://example.com/a-b_c.d/e-f_g.h?key=1&pat-1_2.3\n",
    ],
)
def test_a_text_with_many_sparse_beginnings_of_keys_stays(line: str) -> None:
    """Numbers, long names of functions, lists of ids and URLs are not masked."""
    assert masked(line * 300) == line * 300


def test_a_dense_text_is_masked_once() -> None:
    """Masking a masked dense text again changes nothing."""
    random = Random(4)
    signs = [key.text[: random.randint(3, 12)] for key in keys(1)]
    for _ in range(60):
        text = "".join(random.choice(signs) + random.choice(["", "", ".", "/", " ", "x" * 40]) for _ in range(200))
        once = masked(text)

        assert masked(once) == once


def test_a_password_after_many_close_names_is_masked() -> None:
    """Only a limited number of values is judged. All values after further names are masked."""
    left = masked("pw=pw.pw=word pw=" * 60 + "Winter-1s-coming" + PROSE)

    assert ("Winter-1s-coming" in left, left.endswith(PROSE[-400:]), "[REDACTED:" in left) == (False, True, True)


def test_short_strings_with_close_names_keep_their_places() -> None:
    """A mask may cover several strings of JSON. The text of each other string stays in its place."""
    strings = ["pw=pw.pw=word pw=word", "sk-a1/sk-a1/AKIA.", "KEYflb_live_ASIA"] * 200
    left = json.loads(Redaction(default_redactor, {}).mask(json.dumps([*strings, "pw=Winter-1s-coming"]))[0])

    assert (len(left), "Winter-1s-coming" in left[-1], left[2]) == (601, False, "KEYflb_live_ASIA")


@pytest.mark.parametrize(
    "lines",
    [
        "SERVICE_API_KEY=\nSERVICE_PASSWORD=change-me\n",
        "DB_PASSWORD=your-password\nDB_NAME=app\nDB_PORT=5432\n",
        "API_TOKEN=<token>\nDB_PASSWORD=${DB_PASSWORD}\n",
        "  db:\n    user: app\n    password: change-me\n",
    ],
)
def test_a_long_template_of_settings_is_not_masked(lines: str) -> None:
    """Placeholders are less dense than a hostile text, however many there are."""
    assert masked(lines * 500) == lines * 500


FORMS = ("password: {}\n", 'password: "{}"', "DB_PASSWORD={}\n", "Authorization: Bearer {}\n", "--password {} -v")


@pytest.mark.parametrize("form", FORMS)
def test_a_password_after_a_hostile_text_is_masked(form: str) -> None:
    """The part that is masked together never hides the name of a following secret."""
    secret, random = "Winter-1s-coming9", Random(7)
    texts = [text for _, text in hostile.mixed(1600, 100) if "[REDACTED:" not in text]
    lines = [f"{text[: random.randint(300, 1600)]}\n{form.format(secret)}" for text in texts]

    assert [line for line in lines if secret in masked(line)] == []


def test_a_masked_hostile_text_is_not_masked_again() -> None:
    """The text next to masks is searched again, and is nowhere denser than before."""
    texts = [text for _, text in (*hostile.pumped(1000), *hostile.mixed(1000, 100))]

    assert [text for text in map(masked, texts) if masked(text) != text] == []


@pytest.mark.parametrize(
    "line",
    [
        "DB_PASSWORD=${PASS}\n",
        "api_key: string, ",
        "password: str = None\n",
        "token=next_token, key=cache_key, ",
        '{"key": "a1", "token": 5}, ',
        "if (auth=user.auth) { key=row.key; }\n",
    ],
)
def test_harmless_values_after_close_names_stay(line: str) -> None:
    """Placeholders, types and names are not masked, because no such line is as dense as a hostile text."""
    assert masked(line * 12) == line * 12
