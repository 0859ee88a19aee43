"""Passwords and cookies that a command takes by its own flag: `curl -u`, `curl -b`, `sshpass -p`, `mysql -p`.

The flag with its value is searched for, and the command is looked for before it, in its line. Invariant: each flag
costs a bounded number of steps, however many commands and flags a text has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

Span = tuple[int, int]

_OPEN = r"[\\\"']{0,9}"
_VALUE = r"(?![$<{*])([^\s\"'\\]{4,200}+)"
_COOKIE = r"[\w.-]{1,60}=(?=[A-Za-z_%-]{0,60}[0-9])(?=[^\s;\"'\\]{12})"
_MEMBER = rf"[\w.-]{{1,60}}[\"'\\]{{1,9}}\s{{0,3}}:\s{{0,3}}{_OPEN}(?=[A-Za-z_%-]{{0,60}}[0-9])(?=[^\s\"'\\]{{12}})"
_CURL_FLAG = (
    rf"-(?<=\s-)(?:(?:u|-user|U|-proxy-user)[ =]{{0,2}}{_OPEN}"
    r"(?:(?=[A-Za-z_-]{0,60}[0-9])(?=[A-Za-z0-9_-]{16,190}:(?![\w!#-&*+./@^~\[-]))|[^\s:\"'\\\[]{0,80}:)"
    rf"|(?:b|-cookie)[ =]{{0,2}}{_OPEN}(?:[\w.-]{{1,60}}=[^\s;\"'\\]{{0,60}}; ?){{0,8}}?{_COOKIE})"
)
"""A user and a password, a key in place of both, or cookies."""
_CLIENTS = ("docker", "podman", "az", "helm registry")
_AFTER_A_CLIENT = "|".join(rf"(?<={word}\s{{{n}}}login)" for word in _CLIENTS for n in (1, 2, 3))
_TRIES = 4
"""So many words that begin like the command are looked at before a flag."""


@dataclass(frozen=True, slots=True)
class _Command:
    """A word that has to be there, and a flag with its secret.

    `begin` is the command, at most `reach` characters before the flag; it is None if the flag's pattern has all of it.
    """

    word: str
    flag: re.Pattern[str]
    begin: re.Pattern[str] | None = None
    reach: int = 200
    several_lines: bool = False

    def is_before(self, text: str, at: int) -> bool:
        """Whether the command is before a flag, in the same line, or in one that ends with a backslash."""
        if self.begin is None:
            return True
        first, end = max(0, at - self.reach), at
        for _ in range(_TRIES):
            end = text.rfind(self.word, first, end)
            if end < 0:
                return False
            between = text[end:at]
            if between.count("\n") > (between.count("\\\n") if self.several_lines else 0):
                return False
            if self.begin.match(text, end):
                return True
        return False


_COMMANDS = (
    _Command("curl", re.compile(_CURL_FLAG + _VALUE), re.compile(r"curl\b"), 300, several_lines=True),
    _Command("cookies", re.compile(rf"cookies[\"'\\]{{0,9}}\s{{0,3}}[:=]\s{{0,3}}\{{[\"'\\]{{1,9}}{_MEMBER}" + _VALUE)),
    _Command("sshpass", re.compile(rf"sshpass[ \t]{{1,4}}-p[ \t]{{0,3}}{_OPEN}{_VALUE}")),
    _Command("mysql", re.compile(rf"-p(?<=\s-p){_OPEN}{_VALUE}"), re.compile(r"mysql[a-z]{0,8}\b")),
    _Command("redis-cli", re.compile(rf"-a(?<=\s-a)[ \t]{{1,3}}{_OPEN}{_VALUE}"), re.compile(r"redis-cli\b")),
    _Command(
        "login",
        re.compile(rf"-p(?<=\s-p)[ \t]{{1,3}}{_OPEN}{_VALUE}"),
        re.compile(rf"login\b(?:{_AFTER_A_CLIENT})"),
    ),
)  # fmt: skip


def secrets_in_commands(text: str) -> Iterator[Span]:
    """Yield where the passwords are that commands take by their own flags."""
    for command in _COMMANDS:
        if command.word in text:
            for found in command.flag.finditer(text):
                if not found[1].startswith("[REDACTED") and command.is_before(text, found.start()):
                    yield found.span(1)
