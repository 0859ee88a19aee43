"""Finds what identifies people and machines: names of users and hosts, e-mail addresses and IP addresses.

Only the tier "masked" searches for these (`storage/content_tiers/tiers.py`). A name of a user or a host is found as a
whole word if it is given, and the name in a home directory always. Not found are names in prose, names of other
machines, phone numbers, and anything that is split over two parts of a stream or is encoded in base64.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from pathlib import PurePath, PureWindowsPath

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.secret_spans import EMAIL, HOST_NAME, IP_ADDRESS, USER_NAME, Secret

_USER_VARIABLES = ("USER", "LOGNAME", "USERNAME", "SUDO_USER")
_HOST_VARIABLES = ("HOSTNAME", "COMPUTERNAME")
_HOME_VARIABLES = ("HOME", "USERPROFILE")
_SHORTEST = 3
_COMMON = frozenset(
    {
        *("root", "user", "users", "admin", "administrator", "ubuntu", "debian", "runner", "home", "shared", "public"),
        *("default", "guest", "node", "app", "docker", "vscode", "codespace", "jovyan", "sandbox", "agent", "model"),
        *("assistant", "system", "tool", "function", "developer", "localhost", "workspace", "test", "work", "python"),
        *("content", "text", "type", "role", "name", "message", "linux", "local", "build", "server", "client"),
    }
)
"""Names of accounts and hosts that identify nobody, or are words of every run. They are masked in no text."""
_SHARED_HOMES = frozenset({"shared", "public", "default", "all users", "linuxbrew"})
_HOME = lazy_pattern(
    r"(?:/home/|/Users/|/var/home/|[A-Za-z]:(?:\\\\?|/)Users(?:\\\\?|/))(?P<name>[\w.-]{1,64})(?![\w.-])"
)
_EMAIL = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])")
_IP = lazy_pattern(
    r"(?<![\w.:])(?:(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)|(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}(?![\w:]))"
)
_EMAIL_SIGN = lazy_pattern(r"(?:@|\\u0040)[A-Za-z0-9-]{1,63}\.[A-Za-z]")
_IP_SIGNS = (lazy_pattern(r"\.\d{1,3}\.\d{1,3}\.\d"), lazy_pattern(r":[0-9A-Fa-f]{0,4}:"))
_HOME_SIGN = lazy_pattern(r"home\\?/|Users(?:\\{1,4}|\\?/)")
"""Match a part of each of these in JSON text, in which characters may be escaped."""
_PLAIN = lazy_pattern(r"[A-Za-z0-9_.-]+")
_SHORTEST_PART = 2
_LONGEST = 320
"""An e-mail address at the end of a part of a stream may have this many characters."""
_LAST_WORD = lazy_pattern(r"[^\s\"'<>(),;]{1,320}\Z")


class Identities:
    """What one run, or one share, masks: these names, and everything that has the form of an address or of a home.

    If `addresses` is False, only the names are masked.
    """

    def __init__(self, names: Iterable[str], *, addresses: bool = True) -> None:
        self._addresses = addresses
        users_and_hosts = {name for name in names if len(name) >= _SHORTEST and name.lower() not in _COMMON}
        self.names = tuple(sorted(users_and_hosts, key=lambda name: (-len(name), name)))
        self._hosts = frozenset(hosts_of_machine())
        self._words = self._parts = None
        if self.names:
            self._parts = re.compile("|".join(dict.fromkeys(map(_part_in_json, self.names))))
            words = "|".join(map(re.escape, self.names))
            self._words = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])")

    def positions(self, text: str) -> list[int]:
        """Return the positions in JSON text at which one of these may be."""
        positions: list[int] = []
        if self._addresses:
            positions += [match.start() for sign in _IP_SIGNS for match in sign.finditer(text)]
            if "@" in text or "u0040" in text:
                positions += [match.start() for match in _EMAIL_SIGN.finditer(text)]
            if "home" in text or "Users" in text:
                positions += [match.start() for match in _HOME_SIGN.finditer(text)]
        if self._parts is not None:  # without the ends of words: a letter may be the end of an escape
            positions += [match.start() for match in self._parts.finditer(text)]
        return positions

    def spans(self, text: str) -> Iterator[Secret]:
        """Yield the spans of all that is found in a text. Spans may overlap."""
        if self._addresses:
            yield from _addresses_in(text)
        if self._words is not None:
            for word in self._words.finditer(text):
                kind = HOST_NAME if word[0] in self._hosts else USER_NAME
                yield Secret(word.start(), word.end(), kind)

    def unfinished(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of one of these: its last word."""
        word = _LAST_WORD.search(text, max(0, len(text) - _LONGEST))
        if word is None:
            return 0
        return len(word[0])


def _part_in_json(name: str) -> str:
    """Return a pattern of a part of a name that JSON does not escape, or of what may be an escaped letter."""
    part = max(_PLAIN.findall(name), key=len, default="")
    if len(part) < _SHORTEST_PART:
        return r"[^\x00-\x7f]|\\"
    return re.escape(part)


def _addresses_in(text: str) -> Iterator[Secret]:
    for home in _HOME.finditer(text):
        if home["name"].lower() not in _SHARED_HOMES:
            yield Secret(home.start("name"), home.end("name"), USER_NAME)
    if "@" in text:
        for email in _EMAIL.finditer(text):
            yield Secret(email.start(), email.end(), EMAIL)
    for address in _IP.finditer(text):
        if _is_address(address[0]):
            yield Secret(address.start(), address.end(), IP_ADDRESS)


def _is_address(text: str) -> bool:
    """Return whether a text is an IP address of a machine. Addresses that every machine has are not masked.

    An address without a digit is a name of code, such as `a::b`.
    """
    if not any(map(str.isdigit, text)):
        return False
    try:
        address = ip_address(text)
    except ours(ValueError):
        return False
    return not (address.is_loopback or address.is_unspecified)


def hosts_of_machine() -> list[str]:
    """Return the names of this machine."""
    name = socket.gethostname()
    return [*dict.fromkeys(filter(None, (name, name.partition(".")[0])))]


def identities_of_machine(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the user and of this machine, which are common words if they identify nobody."""
    for variable in (*_USER_VARIABLES, *_HOST_VARIABLES):
        if environment.get(variable):
            yield environment[variable]
    for variable in _HOME_VARIABLES:
        home = environment.get(variable, "")
        yield (PureWindowsPath(home) if "\\" in home else PurePath(home)).name
    yield from hosts_of_machine()


def users_in_homes(text: str) -> Iterator[str]:
    """Yield the names in the home directories of a text."""
    for home in _HOME.finditer(text):
        if home["name"].lower() not in _SHARED_HOMES:
            yield home["name"]
