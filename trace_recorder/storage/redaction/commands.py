"""Finds passwords and cookies that a command takes by a flag of its own, such as `curl -u` or `mysql -p`.

The search finds a flag with its value first, and then the command before the flag in the same line. Invariant: each
flag costs a bounded number of steps, however many commands and flags a text has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.dense_parts import CLOSE_NAMES, Density, dense_end
from trace_recorder.storage.redaction.secret_spans import ASSIGNED, NO_SPANS, Secret, Spans
from trace_recorder.values.structs import Struct

_OPEN = r"[\\\"']{0,9}"
_VALUE = r"(?![$<{*])([^\s\"'\\]{4,200}+)"
_COOKIE = r"[\w.-]{1,60}=(?=[A-Za-z_%-]{0,60}[0-9])(?=[^\s;\"'\\]{12})"
_MEMBER = rf"[\w.-]{{1,60}}[\"'\\]{{1,9}}\s{{0,3}}:\s{{0,3}}{_OPEN}(?=[A-Za-z_%-]{{0,60}}[0-9])(?=[^\s\"'\\]{{12}})"
_CURL_FLAG = (
    rf"-(?<=\s-)(?:(?:u|-user|U|-proxy-user)[ =]{{0,2}}{_OPEN}"
    r"(?:(?=[A-Za-z_-]{0,60}[0-9])(?=[A-Za-z0-9_-]{16,190}:(?![\w!#-&*+./@^~\[-]))|[^\s:\"'\\\[]{0,80}:)"
    rf"|(?:b|-cookie)[ =]{{0,2}}{_OPEN}(?:[\w.-]{{1,60}}=[^\s;\"'\\]{{0,60}}; ?){{0,8}}?{_COOKIE})"
)
"""Matches a flag of curl up to a secret, such as `-u me:` before a password.

The secret is a password after a user, a key in place of both, or a cookie.
"""
_CLIENTS = ("docker", "podman", "az", "helm registry")
_AFTER_A_CLIENT = "|".join(rf"(?<={word}\s{{{n}}}login)" for word in _CLIENTS for n in (1, 2, 3))
_TRIES = 4
"""Before a flag, at most this many occurrences of the command's `word` are examined.

If the command does not begin at one of them, the flag is skipped.
"""


class _Command(Struct, frozen=True):
    """A command with a flag that takes a secret.

    `word` is a text that the command contains. `flag` is the pattern of the flag, with the secret as its group. `begin`
    is the pattern of the command, at most `reach` characters before the flag. `begin` is None if `flag` includes the
    command. If `several_lines` is True, a backslash continues the command in the next line.
    """

    word: str
    flag: re.Pattern[str]
    begin: re.Pattern[str] | None = None
    reach: int = 200
    several_lines: bool = False

    def find(self, text: str, spans: Spans) -> Iterator[Secret]:
        """Yield the command's secrets, without those that begin with a secret that is found already."""
        begin = last = 0
        position = text.find(self.word)  # before the flag, or in it
        density = Density(CLOSE_NAMES)
        while (match := self.flag.search(text, position)) is not None:
            start, position = match.start(), match.end()
            if not (0 <= begin < last and start - begin <= self.reach and self._is_line(text, last, start)):
                begin = self._begin_before(text, start)
            last = start if begin >= 0 else 0
            is_found = spans.secrets and spans.covers(match.start(1))
            if begin >= 0 and not match[1].startswith("[REDACTED") and not is_found:
                if density.add(start):
                    position = dense_end(text, position)
                yield Secret(match.start(1), position, ASSIGNED)

    def _begin_before(self, text: str, position: int) -> int:
        """Return the beginning of a flag's command, or -1 if no command is before the flag in its line."""
        if self.begin is None:
            return position
        first, end = max(0, position - self.reach), position
        for _ in range(_TRIES):
            end = text.rfind(self.word, first, end)
            if end < 0 or not self._is_line(text, end, position):
                return -1
            if self.begin.match(text, end):
                return end
        return -1

    def _is_line(self, text: str, start: int, end: int) -> bool:
        """Return whether a part of a text is in one line. If `several_lines` is True, a backslash continues a line."""
        if text.find("\n", start, end) < 0:
            return True
        return self.several_lines and text.count("\n", start, end) <= text.count("\\\n", start, end)


_COMMANDS = (
    _Command("curl", lazy_pattern(_CURL_FLAG + _VALUE), lazy_pattern(r"curl\b"), 300, several_lines=True),
    _Command(
        "cookies", lazy_pattern(rf"cookies[\"'\\]{{0,9}}\s{{0,3}}[:=]\s{{0,3}}\{{[\"'\\]{{1,9}}{_MEMBER}{_VALUE}")
    ),
    _Command("sshpass", lazy_pattern(rf"sshpass[ \t]{{1,4}}-p[ \t]{{0,3}}{_OPEN}{_VALUE}")),
    _Command("mysql", lazy_pattern(rf"-p(?<=\s-p){_OPEN}{_VALUE}"), lazy_pattern(r"mysql[a-z]{0,8}\b")),
    _Command("redis-cli", lazy_pattern(rf"-a(?<=\s-a)[ \t]{{1,3}}{_OPEN}{_VALUE}"), lazy_pattern(r"redis-cli\b")),
    _Command(
        "login",
        lazy_pattern(rf"-p(?<=\s-p)[ \t]{{1,3}}{_OPEN}{_VALUE}"),
        lazy_pattern(rf"login\b(?:{_AFTER_A_CLIENT})"),
    ),
)  # fmt: skip


def secrets_in_commands(text: str, spans: Spans = NO_SPANS) -> Iterator[Secret]:
    """Yield the passwords that commands take by their own flags."""
    for command in _COMMANDS:
        if command.word in text:
            yield from command.find(text, spans)
