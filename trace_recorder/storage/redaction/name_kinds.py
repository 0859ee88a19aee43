"""Whether a name is that of a secret, and whether a value looks like a key."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Kind = Literal["strong", "weak", "cookie"]
SCHEMES = (
    "(?:Bearer|Basic|Token|Api-?Key|Key|Negotiate|Digest|OAuth|Bot|SSWS|GenieKey|Splunk|sso-key|DeepL-Auth-Key"
    "|Klaviyo-API-Key)"
)
"""How a credential begins in a header: the schemes of authorization, and what services write in their place."""

_STRONG = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret|secret_?key(?:_?base)?|apikey|api_?token|account_?key|access_?key"
    r"|private_?key|signing_?key|encryption_?key|master_?key|subscription_?key|storage_?key|license_?key|deploy_?key"
    r"|(?:access|refresh|auth|bearer|session|security|bot|client|id|oauth|personal|private|user|app|webhook|github|gitlab"
    r"|slack|npm|pypi|hf|vault|deploy|service|admin|login)_?token|authorization(?:_?token)?|client_?key_?data"
    r"|connection_?string_?secret|shared_?access_?key|auth_?key|app_?key|service_?key|integration_?key)"
)
_NAME = re.compile(rf"(?:.*[_.-])?(?:{_STRONG}|pass|pw)|.*(?:{_STRONG})", re.IGNORECASE | re.DOTALL)
_WEAK = re.compile(r".*(?:token|key|auth|credentials?|creds?|signature|sig|secrets?)", re.IGNORECASE | re.DOTALL)
_NO_NAME = re.compile(
    r".*(?:public|primary|foreign|sort|partition|cache|idempotency|foreign|object|row|dict|hash|group|index|lookup|map"
    r"|storage_?account|route|i18n|unique|composite|natural|registry|host|context|msg|message|shortcut|query)[_.-]?key"
    r"|.*(?:next|prev|previous|page|continuation|pagination|sync|eos|bos|pad|unk|sep|cls|mask|special|added|image|start|end"
    r"|stop|begin|first|last|max|min|num|total|prompt|completion|csrf_?meta|cancel(?:lation)?|lex|cancellation)[_.-]?token"
    r"|(?:monkey|turkey|hockey|jockey|donkey|whiskey|keyword|hotkey|bypass|compass|surpass|encompass|author|sha\d+)"
    r"|.*(?:bypass|compass|monkey|hotkey)",
    re.IGNORECASE | re.DOTALL,
)

LONGEST_LOOK = 400
"""Whether a value is a secret is decided by this many characters; all of it is masked."""
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
    name = name.rstrip("0123456789_-")[-60:].lstrip("-")
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    if plain.lower() in ("cookie", "set-cookie"):
        return "cookie"
    if _NO_NAME.fullmatch(plain) or _NO_NAME.fullmatch(name):
        return None
    if _NAME.fullmatch(plain.replace("-", "_")) or _NAME.fullmatch(name.replace("-", "_")):
        return "strong"
    if name.isupper() and re.fullmatch(r".*_(?:API_?)?(?:KEY|TOKEN|SECRETS?|AUTH|CREDENTIALS?)|TOKEN", name):
        return "strong"
    if re.fullmatch(r"(?:x_)?(?:[a-z]+_){0,3}api_?key|(?:x_)?(?:[a-z]+_){1,3}token", plain.replace("-", "_").lower()):
        return "strong"
    return "weak" if _WEAK.fullmatch(plain) else None


def is_strange(value: str, shortest: int = 16) -> bool:
    """Whether a text looks like a key: long, with letters and digits mixed, and without words."""
    look = value[:LONGEST_LOOK]
    if len(look) < shortest or len(set(look)) < 8:
        return False
    classes = look.encode("latin-1", "replace").translate(_CLASSES)
    steps = sum(map(classes.count, _STEPS))
    return steps >= 3 and 5 * steps >= len(look)
