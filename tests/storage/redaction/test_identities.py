"""What identifies people and machines: what is found as a whole, and what is left alone."""

from __future__ import annotations

import json

import pytest

from trace_recorder.storage.content_tiers.tiers import redaction_for
from trace_recorder.storage.redaction.identities import identities_of_machine
from trace_recorder.storage.redaction.text_masking import default_redactor

ENVIRONMENT = {"USER": "wanda", "HOME": "/home/wanda", "HOSTNAME": "atlantis"}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail a.b+c@example.co.uk, now", "mail [REDACTED:email-address], now"),
        ("from 10.1.2.3:80 and fe80::1ff:fe23:4567:890a", "from [REDACTED:ip-address]:80 and [REDACTED:ip-address]"),
        ("127.0.0.1, ::1 and 0.0.0.0 are every machine", "127.0.0.1, ::1 and 0.0.0.0 are every machine"),
        ("version 1.2.3.4.5, 12:30:45, a::b, std::vector", "version 1.2.3.4.5, 12:30:45, a::b, std::vector"),
        ("/home/peter/a.py", "/home/[REDACTED:user-name]/a.py"),
        ("/Users/shared/x and /home/", "/Users/shared/x and /home/"),
        ("C:\\Users\\Peter\\x", "C:\\Users\\[REDACTED:user-name]\\x"),
        ("wanda@work, wanda, wandas, swanda", "[REDACTED:user-name]@work, [REDACTED:user-name], wandas, swanda"),
        ("@decorator and a@b", "@decorator and a@b"),
    ],
)
def test_texts(text: str, masked: str) -> None:
    """As plain text, and in JSON in each spelling."""
    redaction = redaction_for("masked", default_redactor, ENVIRONMENT)
    assert redaction.mask_plain(text) == masked
    for spelled in (json.dumps({"a": text}), json.dumps({"a": text}).replace("@", "\\u0040").replace("/", "\\/")):
        assert json.loads(redaction.mask(spelled)[0]) == {"a": masked}


def test_words_of_every_run_are_no_names() -> None:
    """A user who is called "user" or "model" does not break the roles and members of JSON."""
    names = [*identities_of_machine({"USER": "user", "LOGNAME": "model", "HOME": "/root"})]
    redaction = redaction_for("masked", default_redactor, {}, names=[*names, "content"])
    message = json.dumps({"role": "user", "content": "the model", "model": "m"})
    assert redaction.mask(message) == (message, 0)


def test_the_tier_full_masks_none_of_these() -> None:
    """Only secrets."""
    text = "wanda at wanda@example.com, 10.1.2.3, /home/wanda"
    assert redaction_for("full", default_redactor, ENVIRONMENT).mask_plain(text) == text
