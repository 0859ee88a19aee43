"""Checks values against the JSON Schemas in this folder. The package contains these files.

This module knows only the keywords that `json_schema.py` writes. In one way it is stricter than JSON Schema: 1.0 is not
an integer. `reading/validate.py` also checks whether the content of a file is consistent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from sys import float_info
from typing import NamedTuple

from trace_recorder.values.messages import Payload


class Violation(NamedTuple):
    """A violation of a schema. `place` is the place of a value, such as ".llm_interactions[3].response"."""

    place: str
    expected: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place.removeprefix("."), self.expected)))


def violations(name: str, value: Payload) -> list[str]:
    """Return the violations of a schema as texts. `name` is "document", or "journal" for one line of a journal."""
    schema = _schema(name)
    return [str(violation) for violation in _Checker(schema["$defs"]).check(schema, value, "")]


@cache
def _schema(name: str) -> Mapping[str, Payload]:
    schema: Mapping[str, Payload] = json.loads((Path(__file__).parent / f"{name}.schema.json").read_bytes())
    return schema


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


def _own_violations(violations: Sequence[Violation], place: str) -> int:
    """Count the violations in an object's own members. Violations deeper inside do not count.

    The schema with the fewest such violations is probably the right one. For example, `api` tells captured interactions
    from interactions that were recorded by hand.
    """
    inside = (violation.place[len(place) + 1 :] for violation in violations)
    return sum("." not in member and "[" not in member for member in inside)


class _Checker:
    """Checks values against schemas. `definitions` are the schemas to which a `$ref` refers."""

    def __init__(self, definitions: Mapping[str, Payload]) -> None:
        self._definitions = definitions

    def check(self, schema: Mapping[str, Payload], value: Payload, place: str) -> list[Violation]:
        """Return the violations of a schema in a value. `place` is the place of the value."""
        if "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        if "anyOf" in schema:
            return self._check_alternatives(schema["anyOf"], value, place)
        if "type" in schema:
            expected, has_type = _TYPES[schema["type"]]
            if not has_type(value):
                return [Violation(place, f"{expected} is expected")]
        if isinstance(value, dict):
            return self._check_object(schema, value, place)
        if isinstance(value, list):
            return self._check_list(schema, value, place)
        return _check_scalar(schema, value, place)

    def _check_alternatives(
        self, schemas: Sequence[Mapping[str, Payload]], value: Payload, place: str
    ) -> list[Violation]:
        """Return the violations of the schema that fits best. The list is empty if one of the schemas fits."""
        results = []
        for schema in schemas:
            results.append(self.check(schema, value, place))
            if not results[-1]:
                return []
        best = min(results, key=lambda result: (_own_violations(result, place), len(result)))
        if len(best) == 1 and best[0].place == place:
            expected = [result[0].expected.removesuffix(" is expected") for result in results if len(result) == 1]
            return [Violation(place, f"{' or '.join(expected)} is expected")]
        return best

    def _check_object(self, schema: Mapping[str, Payload], value: Mapping[str, Payload], place: str) -> list[Violation]:
        required = schema.get("required", ())
        violated = [Violation(f"{place}.{name}", "it is missing") for name in required if name not in value]
        if "oneOf" in schema:
            names = [alternative["required"][0] for alternative in schema["oneOf"]]
            if sum(name in value for name in names) != 1:
                violated.append(Violation(place, f"exactly one of {', '.join(names)} is expected"))
        if len(value) > schema.get("maxProperties", len(value)):
            violated.append(Violation(place, "an empty object is expected"))
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for name, part in value.items():
            if part_schema := properties.get(name, others):
                violated += self.check(part_schema, part, f"{place}.{name}")
        for case in schema.get("allOf", ()):
            if not self.check(case["if"], value, place):
                violated += self.check(case["then"], value, place)
        return violated

    def _check_list(self, schema: Mapping[str, Payload], value: Sequence[Payload], place: str) -> list[Violation]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
        violated = [] if least <= len(value) <= most else [Violation(place, f"{least} elements are expected")]
        if element_schema := schema.get("items"):
            for number, element in enumerate(value):
                violated += self.check(element_schema, element, f"{place}[{number}]")
        return violated


def _check_scalar(schema: Mapping[str, Payload], value: Payload, place: str) -> list[Violation]:
    if "enum" in schema and value not in schema["enum"]:
        return [Violation(place, f"one of {', '.join(schema['enum'])} is expected")]
    if "const" in schema and value != schema["const"]:
        return [Violation(place, f"{schema['const']} is expected")]
    if "minimum" in schema and value < schema["minimum"]:
        return [Violation(place, f"at least {schema['minimum']} is expected")]
    if "pattern" in schema and not _pattern(schema["pattern"]).match(value):
        return [Violation(place, f"a string of the form {schema['pattern']} is expected")]
    return []


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of JSON Schema.

    In JSON Schema, `$` matches only at the end of the string. In Python, `$` also matches before a newline at the end.
    """
    return re.compile(pattern.removesuffix("$") + r"\Z")
