"""Reads the minimal ages of runs from files `retention.toml`. No command deletes a run that is younger.

    min_age = "30d"              # every run

    [[keep]]
    where = "tag:audit"          # a query: docs/many-runs.md
    min_age = "365d"

A file applies to the runs in its directory and below. So the files in all parent directories of a run count, and no
path on the command line gets around one. A file that is not understood stops the command.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from trace_recorder.catalog.query import Term, parse_age, parse_query
from trace_recorder.errors import QueryError, RetentionError
from trace_recorder.values.messages import Payload

RULES_NAME = "retention.toml"
_FILE_MEMBERS = ("min_age", "keep")
_RULE_MEMBERS = ("where", "min_age")


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """A minimal age of the runs that match `terms`, as `file` states it. `min_age` is the age, and `text` its text."""

    file: Path
    min_age: timedelta
    text: str
    where: str = ""
    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        if self.where:
            return f"{self.file} keeps runs that match {self.where!r} for {self.text}"
        return f"{self.file} keeps runs for {self.text}"


class RetentionRules:
    """The rules of directories. Each file is read once."""

    def __init__(self) -> None:
        self._rules: dict[Path, tuple[RetentionRule, ...]] = {}

    def of(self, directory: Path) -> tuple[RetentionRule, ...]:
        """Return the rules that apply in a directory, given by its real path. Raises RetentionError and OSError."""
        for place in (*reversed(directory.parents), directory):
            if place not in self._rules:
                self._rules[place] = (*self._rules.get(place.parent, ()), *_rules_in(place))
        return self._rules[directory]


def _rules_in(directory: Path) -> tuple[RetentionRule, ...]:
    file = directory / RULES_NAME
    try:
        members = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if file.is_symlink():
            raise RetentionError(f"{file} is a link to a file that does not exist.") from None
        return ()
    except ValueError as error:  # not UTF-8, or not TOML
        raise RetentionError(f"{file} is not TOML: {error}.") from error
    _check_members(file, members, _FILE_MEMBERS)
    keep = members.get("keep", [])
    if not isinstance(keep, list) or not all(isinstance(rule, dict) for rule in keep):
        raise RetentionError(f"{file}: write each rule as a table [[keep]] with where and min_age.")
    rules = [_rule(file, rule) for rule in keep]
    if "min_age" in members:
        rules.insert(0, _rule(file, {"min_age": members["min_age"], "where": ""}))
    return tuple(rules)


def _check_members(file: Path, members: Mapping[str, Payload], names: tuple[str, ...]) -> None:
    for name in members:
        if name not in names:
            raise RetentionError(f"{file}: {name!r} is unknown here. The known names are {', '.join(names)}.")


def _rule(file: Path, members: Mapping[str, Payload]) -> RetentionRule:
    _check_members(file, members, _RULE_MEMBERS)
    where, text = members.get("where"), members.get("min_age")
    if not isinstance(where, str):
        raise RetentionError(f'{file}: a rule under [[keep]] needs a query, such as where = "meta:env=prod".')
    age = None
    if isinstance(text, str):
        age = parse_age(text)
    if age is None:
        raise RetentionError(f'{file}: min_age is {text!r}, and must be a text such as "30d", "12h" or "52w".')
    try:
        return RetentionRule(file, age, str(text), where, parse_query(where))
    except QueryError as error:
        raise RetentionError(f"{file}: where = {where!r}: {error}.") from error
