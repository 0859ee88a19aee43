"""The tiers of content: how much of what a run says is written, by a recorder from the start, or by `share` afterwards.

| tier | is written | is not written |
|---|---|---|
| `full` | everything | secrets that the rules recognise |
| `masked` | everything else | also names of users and hosts, e-mail addresses and IP addresses |
| `none` | structure, roles, ids, times, tokens, costs, names of tools and models, digests of texts | every text |

`none` is an allow-list: what is not known to be structure is a text. `vocabulary.py` and `records.py` have the list.
`masked` is a search (`storage/redaction/identities.py`), and so it cannot find everything: not a name in prose.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal, get_args

from trace_recorder.storage.redaction.redactor import Redaction, Redactor
from trace_recorder.storage.redaction.secret_matches import OnSecret

Content = Literal["full", "masked", "none"]
CONTENTS: tuple[Content, ...] = get_args(Content)


def redaction_for(
    content: Content,
    redact: Redactor | Sequence[Redactor] | None,
    environment: Mapping[str, str] = os.environ,
    on_secret: OnSecret | None = None,
    *,
    names: Iterable[str] = (),
    key: bytes | None = None,
) -> Redaction:
    """Return the masking of one run in a tier.

    `names` are more names of users and hosts that "masked" masks. `key` is the key of the digests of "none", or None
    for the key of this process. What a tier needs is imported here, because few recorders have one of these two.
    """
    if content == "masked":
        from trace_recorder.storage.redaction.identities import (  # noqa: PLC0415
            Identities,
            identities_of_machine,
        )

        identities = Identities([*identities_of_machine(environment), *names])
        return Redaction(redact, environment, on_secret, identities=identities)
    if content == "none":
        from trace_recorder.storage.content_tiers.records import TextlessRecords  # noqa: PLC0415
        from trace_recorder.storage.content_tiers.text_digests import TextDigests  # noqa: PLC0415

        textless = TextlessRecords(TextDigests(key or key_of_process()))
        return Redaction(redact, environment, on_secret, textless=textless)
    return Redaction(redact, environment, on_secret)


@cache
def key_of_process() -> bytes:
    """Return the key of the digests in the runs that this process records. It is never written."""
    return os.urandom(32)
