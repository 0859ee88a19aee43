"""Passwords and cookies that a command takes by its own flag: `curl -u`, `curl -b`, `sshpass -p`, `mysql -p`."""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

_COOKIE = r"[\w.-]{1,60}=(?=[A-Za-z_%-]{0,60}[0-9])(?=[^\s;\"'\\]{12})"
_COOKIE_MEMBER = r"[\w.-]{1,60}[\"'\\]{1,9}\s{0,3}:\s{0,3}QUOTE(?=[A-Za-z_%-]{0,60}[0-9])(?=[^\s\"'\\]{12})"
_CURL = (
    r"curl\b(?:[^\n]|(?<=\\)\n){0,300}?\s(?:(?:-u|--user|-U|--proxy-user)[ =]{0,2}QUOTE"
    r"(?:(?=[A-Za-z_-]{0,60}[0-9])(?=[A-Za-z0-9_-]{16,190}:(?![\w!#-&*+./@^~\[-]))|[^\s:\"'\\\[]{0,80}:)"
    rf"|(?:-b|--cookie)[ =]{{0,2}}QUOTE(?:[\w.-]{{1,60}}=[^\s;\"'\\]{{0,60}}; ?){{0,8}}?{_COOKIE})"
)
"""A user and a password, a key in place of both, or cookies; the command may go on in the next line."""
_FLAGS = (
    # (a word that has to be there, a command up to the secret)
    ("curl", _CURL),
    ("cookies", rf"cookies[\"'\\]{{0,9}}\s{{0,3}}[:=]\s{{0,3}}\{{[\"'\\]{{1,9}}{_COOKIE_MEMBER}"),
    ("sshpass", r"sshpass\s{1,4}-p\s{0,3}QUOTE"),
    ("mysql", r"mysql[a-z]{0,8}\b[^\n]{0,200}?\s-pQUOTE"),
    ("redis-cli", r"redis-cli\b[^\n]{0,200}?\s-a\s{1,3}QUOTE"),
    ("login", r"(?:docker|podman|az|helm registry)\s{1,3}login\b[^\n]{0,200}?\s-p\s{1,3}QUOTE"),
)
_COMMANDS = tuple(
    (word, re.compile(flag.replace("QUOTE", r"[\\\"']{0,9}") + r"(?![$<{*])([^\s\"'\\]{4,200}+)"))
    for word, flag in _FLAGS
)


def secrets_in_commands(text: str) -> Iterator[Span]:
    """Return where the passwords are that commands take by their own flags."""
    for command, pattern in _COMMANDS:
        if command in text:
            yield from (found.span(1) for found in pattern.finditer(text) if not found[1].startswith("[REDACTED"))


def command_sign(word: str, told_at: int = 0) -> str:
    """Match a command with its flag, from the letters by which it is recognised."""
    pattern = dict(_COMMANDS)[word].pattern
    found = pattern[pattern.index(word) + told_at :]
    return rf"(?<={re.escape(word[:told_at])}){found}" if told_at else found
