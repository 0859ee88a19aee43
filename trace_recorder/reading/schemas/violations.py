"""Checks values against the JSON Schemas in this folder. The package contains these files.

This module knows only the keywords that `json_schema.py` writes. In one way it is stricter than JSON Schema: 1.0 is not
an integer. `reading/validate.py` also checks whether the content of a file is consistent.

A schema is turned into functions once, because a long run has many records. A function does not know the place of its
value: places are put together only for the violations that were found.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from sys import float_info
from typing import NamedTuple

from trace_recorder.values.messages import Payload


class Violation(NamedTuple):
    """A violation of a schema. `place` is the place in the checked value, such as ".llm_interactions[3].response"."""

    place: str
    expected: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place.removeprefix("."), self.expected)))


def violations(name: str, value: Payload) -> list[str]:
    """Return the violations of a schema as texts. `name` is "document", or "journal" for one line of a journal."""
    return [*map(str, _check_of(name)(value))]


Schema = Mapping[str, Payload]
Violations = Sequence[Violation]
Check = Callable[[Payload], Violations]
_NONE: Violations = ()


@cache
def _check_of(name: str) -> Check:
    schema: Schema = json.loads((Path(__file__).parent / f"{name}.schema.json").read_bytes())
    return _Checks(schema["$defs"]).of(schema)


def _is_integer(value: Payload) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Payload) -> bool:
    return isinstance(value, float) or (_is_integer(value) and abs(value) <= float_info.max)


_TYPES: Mapping[str, tuple[str, Callable[[Payload], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", _is_integer),
    "number": ("a number", _is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("a list", lambda value: isinstance(value, list)),
}


class _Checks:
    """Makes the functions that check values. `definitions` are the schemas to which a `$ref` refers."""

    def __init__(self, definitions: Schema) -> None:
        self._definitions = definitions
        self._by_reference: dict[str, Check] = {}

    def of(self, schema: Schema) -> Check:
        """Return a function that returns the violations of a schema in a value."""
        if "$ref" in schema:
            return self._of_reference(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema:
            return _alternatives([*map(self.of, schema["anyOf"])])
        match schema.get("type"):
            case None:
                return _by_type(self._object(schema), self._list(schema), _scalar(schema))
            case "object":
                return _typed("object", self._object(schema))
            case "array":
                return _typed("array", self._list(schema))
            case kind:
                return _typed(kind, _scalar(schema))

    def _of_reference(self, name: str) -> Check:
        """Return the function of a definition. A definition may refer to itself."""
        if name not in self._by_reference:
            self._by_reference[name] = lambda value: self._by_reference[name](value)  # noqa: PLW0108 - replaced below
            self._by_reference[name] = self.of(self._definitions[name])
        return self._by_reference[name]

    def _object(self, schema: Schema) -> Check:
        required, most = frozenset(schema.get("required", ())), schema.get("maxProperties")
        alternatives = [alternative["required"][0] for alternative in schema.get("oneOf", ())]
        members = {name: self._of_part(part) for name, part in schema.get("properties", {}).items()}
        others = self._of_part(schema.get("additionalProperties", {}))
        cases = self._cases(schema.get("allOf", ()))

        def check(value: Mapping[str, Payload]) -> Violations:
            violated: list[Violation] = []
            if not required <= value.keys():
                missing = [name for name in schema["required"] if name not in value]
                violated += (Violation(f".{name}", "it is missing") for name in missing)
            if alternatives and sum(name in value for name in alternatives) != 1:
                violated.append(Violation("", f"exactly one of {', '.join(alternatives)} is expected"))
            if most is not None and len(value) > most:
                violated.append(Violation("", "an empty object is expected"))
            for name, part in value.items():
                part_check = members.get(name, others)
                if part_check is not None and (inside := part_check(part)):
                    violated += _below(f".{name}", inside)
            for case in cases(value):
                violated += case(value)
            return violated

        return check

    def _of_part(self, schema: Schema) -> Check | None:
        """Return the function for a member or an element, or None if it may be any value."""
        if not schema:
            return None
        return self.of(schema)

    def _cases(self, schemas: Sequence[Schema]) -> Callable[[Mapping[str, Payload]], Iterable[Check]]:
        """Return a function that returns the checks of the cases that an object is in.

        The condition of a case is that one member, if the object has it, has a certain text.
        """
        by_member: dict[str, dict[str, list[Check]]] = defaultdict(lambda: defaultdict(list))
        for schema in schemas:
            [(name, condition)] = schema["if"]["properties"].items()
            by_member[name][condition["const"]].append(self.of(schema["then"]))

        def cases(value: Mapping[str, Payload]) -> Iterable[Check]:
            for name, by_text in by_member.items():
                if name not in value:
                    for checks in by_text.values():
                        yield from checks
                elif isinstance(value[name], str):
                    yield from by_text.get(value[name], ())

        return cases

    def _list(self, schema: Schema) -> Check:
        least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
        element_check = self._of_part(schema.get("items", {}))

        def check(value: Sequence[Payload]) -> Violations:
            violated: list[Violation] = []
            if not least <= len(value) <= most:
                violated.append(Violation("", f"{least} elements are expected"))
            if element_check is not None:
                for number, element in enumerate(value):
                    if inside := element_check(element):
                        violated += _below(f"[{number}]", inside)
            return violated

        return check


def _below(place: str, violated: Violations) -> list[Violation]:
    """Return violations in a part of a value as those of the whole value."""
    return [Violation(place + violation.place, violation.expected) for violation in violated]


def _typed(kind: str, check: Check | None) -> Check:
    """Return the check of a value that must have a type of JSON."""
    expected, has_type = _TYPES[kind]
    wrong = (Violation("", f"{expected} is expected"),)
    if check is None:
        return lambda value: _NONE if has_type(value) else wrong
    return lambda value: check(value) if has_type(value) else wrong


def _by_type(of_object: Check, of_list: Check, of_scalar: Check | None) -> Check:
    """Return the check of a value that may have any type."""

    def check(value: Payload) -> Violations:
        if isinstance(value, dict):
            return of_object(value)
        if isinstance(value, list):
            return of_list(value)
        if of_scalar is not None:
            return of_scalar(value)
        return _NONE

    return check


def _alternatives(checks: Sequence[Check]) -> Check:
    """Return a check for the violations of the schema that fits best. There are none if one of the schemas fits."""

    def check(value: Payload) -> Violations:
        results = []
        for each in checks:
            violated = each(value)
            if not violated:
                return _NONE
            results.append(violated)
        best = min(results, key=lambda result: (_own_violations(result), len(result)))
        if len(best) == 1 and not best[0].place:
            expected = [result[0].expected.removesuffix(" is expected") for result in results if len(result) == 1]
            return [Violation("", f"{' or '.join(expected)} is expected")]
        return best

    return check


def _own_violations(violated: Violations) -> int:
    """Count the violations in an object's own members. Violations deeper inside do not count.

    The schema with the fewest such violations is probably the right one. For example, `api` tells captured interactions
    from interactions that were recorded by hand.
    """
    inside = (violation.place[1:] for violation in violated)
    return sum("." not in member and "[" not in member for member in inside)


def _scalar(schema: Schema) -> Check | None:
    """Return the check of a value that is neither an object nor a list, or None if it may be any such value."""
    rules: list[tuple[Callable[[Payload], bool], Violations]] = []

    def expect(text: str, is_right: Callable[[Payload], bool]) -> None:
        rules.append((is_right, (Violation("", f"{text} is expected"),)))

    if "enum" in schema:
        expect(f"one of {', '.join(schema['enum'])}", lambda value: value in schema["enum"])
    if "const" in schema:
        expect(schema["const"], lambda value: bool(value == schema["const"]))
    if "minimum" in schema:
        expect(f"at least {schema['minimum']}", lambda value: bool(value >= schema["minimum"]))
    if "pattern" in schema:
        # In JSON Schema, `$` matches only at the end. In Python, it also matches before a newline at the end.
        pattern = re.compile(schema["pattern"].removesuffix("$") + r"\Z")
        expect(f"a string of the form {schema['pattern']}", lambda value: pattern.match(value) is not None)
    if not rules:
        return None

    def check(value: Payload) -> Violations:
        for is_right, wrong in rules:
            if not is_right(value):
                return wrong
        return _NONE

    return check
