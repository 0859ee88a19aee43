"""What a name says of the value after it (`kind_of`, `says_secret`), and whether a value is like a key (`is_strange`).

A name is judged by how it ends, in any spelling: `clientSecret`, `client-secret` and `CLIENT_SECRET` are one name.
Invariant: a judgement takes a few string operations, whatever the name is, because hostile texts are made of names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from typing import Literal

Kind = Literal["strong", "weak", "cookie"]
SCHEMES = (
    "(?:Bearer|Basic|Token|Api-?Key|Key|Negotiate|Digest|OAuth|Bot|SSWS|GenieKey|Splunk|sso-key|DeepL-Auth-Key"
    "|Klaviyo-API-Key)"
)
"""How a credential begins in a header: the schemes of authorization, and what services write in their place."""


def _ends(first: str, last: str) -> tuple[str, ...]:
    return tuple(map("".join, product(first.split(), last.split())))


_SAYS_SECRET = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "secret", "secretkey", "secretkeybase"),
    *_ends("account access private signing encryption master subscription storage", "key"),
    *_ends("api access refresh auth bearer session security client id oauth personal private", "token"),
    *("authorization", "authorizationtoken", "clientkeydata", "sharedaccesskey", "authkey"),
)
"""Names that end so say that a secret follows; without hyphens and underscores."""
_STRONG = (
    *_SAYS_SECRET,
    *_ends("bot user app webhook github gitlab slack npm pypi hf vault deploy service admin login", "token"),
    *_ends("license deploy app service integration", "key"),
)
"""Names whose values are secrets, unless they are words, types or placeholders."""
_WEAK = ("token", "key", "auth", "credential", "credentials", "cred", "creds", "signature", "sig", "secret", "secrets")
"""Names that have other uses too."""
_NO_SECRET = (
    *_ends(
        "public primary foreign sort partition cache idempotency object row dict hash group index lookup map"
        " storageaccount route i18n unique composite natural registry host context msg message shortcut query",
        "key",
    ),
    *_ends(
        "next prev previous page continuation pagination sync eos bos pad unk sep cls mask special added image start"
        " end stop begin first last max min num total prompt completion csrfmeta cancel cancellation lex",
        "token",
    ),
    *("bypass", "compass", "monkey", "hotkey"),
)
_NO_SECRET_ALONE = re.compile(
    r"turkey|hockey|jockey|donkey|whiskey|keyword|surpass|encompass|author|sha\d+", re.IGNORECASE
)
_UPPER = ("_KEY", "_TOKEN", "_SECRET", "_SECRETS", "_AUTH", "_CREDENTIAL", "_CREDENTIALS")
"""How variables end whose values are secrets."""
_COMPOUND = re.compile(r"(?:x_)?(?:[a-z]+_){0,3}api_key|(?:x_)?(?:[a-z]+_){1,3}token")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = str.maketrans("", "", "_-")
_LONGEST_NAME = 60
_ABOUT_A_SECRET = re.compile(
    r"(?:is|has|had|no|not|use|uses|show|hide|forgot|forgotten|reset|change|toggle|require|requires|required|need|needs|allow"
    r"|enable|disable|invalid|wrong|missing|incorrect|weak|expired|enter)[_-]",
    re.IGNORECASE,
)
"""Names such as `forgot_password` have a text about the secret as their value."""

LONGEST_LOOK = 400
"""Whether a value is a secret is decided by this many characters; all of it is masked."""
LONGEST_SAMPLE = 128
"""Letters and digits are counted in this many."""
_CLASSES = (
    bytes(
        ord("a" if chr(code).islower() else "A" if chr(code).isupper() else "0" if chr(code).isdigit() else " ")
        for code in range(128)
    )
    + b" " * 128
)
_STEPS = (b"aA", b"a0", b"0a", b"0A", b"A0", b"AAa", b"aAA")
"""Where small letters, capitals and digits follow each other, except for a capital that begins a word.

Each step is counted once. Counting them costs a twentieth of searching for them by a pattern.
"""


@lru_cache(maxsize=4096)
def kind_of(name: str) -> Kind | None:
    """Whether a name is that of a secret: always, of a kind that may be something else, or of a cookie's header."""
    name = name.rstrip("0123456789_-")[-_LONGEST_NAME:].lstrip("-")
    low = name.lower()
    flat = low.translate(_SEPARATORS)
    if low in ("cookie", "set-cookie"):
        return "cookie"
    if flat.replace(".", "").endswith(_NO_SECRET) or _NO_SECRET_ALONE.fullmatch(name):
        return None
    if (
        flat.endswith(_STRONG)
        or low.endswith("apikey")
        or (name.isupper() and (name.endswith(_UPPER) or name == "TOKEN"))
    ):
        return "strong"
    if flat.endswith(("pass", "pw")):
        return "strong" if _is_apart(name, 4 if flat.endswith("pass") else 2) else None
    if not flat.endswith(_WEAK):
        return None
    spelled = _CAMEL.sub("_", name).replace("-", "_").lower()
    return "strong" if _COMPOUND.fullmatch(spelled) else "weak"


def _is_apart(name: str, length: int) -> bool:
    """Whether the last letters of a name are a word of their own."""
    before = name[-length - 1 : -length]
    return not before or before in "_.-" or (name[-length].isupper() and not before.isupper())


@lru_cache(maxsize=4096)
def says_secret(name: str) -> bool:
    """Whether the string under a name is a secret, whatever it looks like, if the name is that of a field."""
    flat = name.rstrip("0123456789_-")[-_LONGEST_NAME:].lower().translate(_SEPARATORS)
    return flat.endswith((*_SAYS_SECRET, "apikey")) and _ABOUT_A_SECRET.match(_CAMEL.sub("_", name)) is None


def is_strange(value: str, shortest: int = 16) -> bool:
    """Whether a text looks like a key: long, with letters and digits mixed, and without words."""
    look = value[:LONGEST_SAMPLE]
    if len(look) < shortest or len(set(look)) < 8:
        return False
    classes = look.encode("latin-1", "replace").translate(_CLASSES)
    steps = sum(map(classes.count, _STEPS))
    return steps >= 3 and 5 * steps >= len(look)
