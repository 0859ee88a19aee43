"""Shows each secret to a function of the user (`on_secret`), which says what replaces it.

Only secrets that the package's own rules find are shown. Without such a function, nothing of this runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from trace_recorder.storage.redaction.json_strings import pointers_of
from trace_recorder.storage.redaction.secret_spans import KINDS, Secret
from trace_recorder.values.structs import Struct


class SecretMatch(Struct, frozen=True):
    """A secret that was found in a text.

    `kind` is the name of its kind, such as "openai key": the words of its mask. `text` is the secret, with the escapes
    of the text that it is in. `fact` is the kind of the record, such as "tool_result", or "" if the text is in none.
    `pointer` is the JSON pointer of the string in the record. It is "" for texts that are not JSON, and in streams.
    """

    kind: str
    text: str
    fact: str
    pointer: str


OnSecret = Callable[[SecretMatch], str | None]


class SearchedFact:
    """The members of a fact as JSON text, or one text of it, in which secrets are found.

    `starts` are the positions of the strings that are searched. If the text is the value of one member, `member` is its
    name. If `is_searched_again` is True, the same text is searched twice, and no secret is shown twice.
    """

    def __init__(
        self,
        kind: str,
        text: str = "",
        starts: tuple[int, ...] = (),
        *,
        member: str = "",
        is_searched_again: bool = False,
    ):
        self.kind = kind
        self._beginning = ""
        if member:
            self._beginning = f"/{member}"
        self._text = text
        self._starts = starts
        self.answers: dict[str, str | None] | None = {} if is_searched_again else None

    @cached_property
    def _pointers(self) -> dict[int, str]:
        return pointers_of(self._text, self._starts)

    def pointer(self, start: int) -> str:
        """Return the JSON pointer of the string that begins at a position."""
        if self._beginning and self._text.startswith('"'):  # the value of the member is this string
            return self._beginning
        if not self._text:
            return ""
        return self._beginning + self._pointers.get(start, "")


class Place(Struct, frozen=True):
    """Where a text is: the fact, and the position of the text's string in it."""

    fact: SearchedFact
    start: int = 0


NOWHERE = Place(SearchedFact(""))


def replacement(on_secret: OnSecret, place: Place, text: str, secret: Secret) -> str | None:
    """Return what the user's function returns for a secret of a text. Raises TypeError if it is not a str or None."""
    answers, secret_text = place.fact.answers, secret.text(text)
    if answers is not None and secret_text in answers:
        return answers[secret_text]
    kind = KINDS[secret.kind].replace("-", " ")
    answer = on_secret(SecretMatch(kind, secret_text, place.fact.kind, place.fact.pointer(place.start)))
    if answer is not None and not isinstance(answer, str):
        raise TypeError(f"on_secret returned {type(answer).__name__} for the kind {kind!r}, not a str or None")
    if answers is not None:
        answers[secret_text] = answer
        if answer is not None:
            answers.setdefault(answer, None)
    return answer
