"""The built page with its data, and the policy that lets only the page's own code run.

Recorded text may contain anything. In the page it is JSON in a script element that browsers do not run. The JSON has no
`<`, so recorded text cannot end the element. The policy allows the page's one script and one style by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from importlib.resources import files

from trace_recorder.dialects.json_access import map_inside
from trace_recorder.values.messages import Payload

_DATA = '<script type="application/json" id="trace-recorder-data">{}</script>'
_POLICY = '<meta http-equiv="Content-Security-Policy" content="{}">'
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""The characters of ASCII that could end the script element around the JSON, and their escapes in JSON."""


def json_text(value: Payload) -> str:
    """Return a value as JSON in ASCII, which can have any recorded text, even half of a surrogate pair.

    A file of another tool may have numbers that JSON does not know, such as NaN. They become texts, such as "nan".
    """
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_with_finite_numbers(value))


def _with_finite_numbers(value: Payload) -> Payload:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return map_inside(_with_finite_numbers, value)


@cache
def template() -> str:
    """Return the built page without data."""
    return files("trace_recorder.viewer").joinpath("page", "viewer.html").read_text(encoding="utf-8")


@cache
def content_security_policy(connect: str = "'none'") -> str:
    """Return the policy of the page. `connect` names the addresses to which the code of the page may connect."""
    script, style = _hash_of('<script type="module">', "</script>"), _hash_of("<style>", "</style>")
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{script}'",
            f"style-src '{style}'",
            "img-src data: blob:",
            f"connect-src {connect}",
            "form-action 'none'",
            "base-uri 'none'",
        ]
    )


def _hash_of(begin: str, end: str) -> str:
    """Return the hash of the text between two tags, in the form of a policy."""
    _, _, rest = template().partition(begin)
    digest = hashlib.sha256(rest.partition(end)[0].encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def page_with(data: Payload, policy: str | None = None) -> str:
    """Return the page with its data, and with the `policy` if no server sends the policy in a header."""
    page = template().replace(_POLICY.format(""), _POLICY.format(policy) if policy else "", 1)
    text = json_text(data)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return page.replace(_DATA.format("null"), _DATA.format(text), 1)
