"""Checks values against the models of the two files, and generates JSON Schemas from these models.

`python -m trace_recorder.derive.schemas.json_schema` writes the JSON Schemas next to the models, and they are shipped
from there; a test checks that they are up to date. Whether what a file says is also true is checked by `validate.py`.
Nothing else imports this module, because it imports pydantic.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import WithDefaultSchema

from trace_recorder.derive.schemas.document import Document
from trace_recorder.derive.schemas.journal import DATA
from trace_recorder.derive.schemas.record_parts import Record
from trace_recorder.derive.schemas.schema_types import Json, Shape
from trace_recorder.values.messages import Payload

DIRECTORY = Path(__file__).parent
MAX_LINE = 120
"""How long a line of a schema file may be, where it can be shorter."""


def violations(model: type[Shape], value: Payload) -> list[str]:
    """Return where a value violates its model, such as "llm_interactions[3].response.content: …"."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return [": ".join(filter(None, (_place(one["loc"]), one["msg"]))) for one in found]
    return []


def _place(steps: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


class _Plain(GenerateJsonSchema):
    """Leaves out titles, which only repeat names, and defaults, which only mean that a member may be missing."""

    def field_title_should_be_set(self, _: object) -> bool:
        return False

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def document_schema() -> Json:
    """Generate the JSON Schema of the document."""
    return _named("document", Document.model_json_schema(schema_generator=_Plain))


def journal_schema() -> Json:
    """Generate the JSON Schema of one line of a journal. The data of an unknown kind may be anything."""
    shapes: list[type[Shape]] = [Record, *DATA.values()]
    models: list[tuple[type[Shape], Literal["validation"]]] = [(shape, "validation") for shape in shapes]
    places, definitions = models_json_schema(models, schema_generator=_Plain)
    line = definitions["$defs"].pop(Record.__name__)
    cases = [
        {"if": {"properties": {"kind": {"const": kind}}}, "then": {"properties": {"data": places[model, "validation"]}}}
        for kind, model in DATA.items()
    ]
    return _named("journal", {**line, "allOf": cases, **definitions})


def _named(name: str, schema: Json) -> Json:
    title = {"$schema": GenerateJsonSchema.schema_dialect, "title": f"trace-recorder {name}"}
    return title | {key: value for key, value in schema.items() if key != "title"}


def texts() -> dict[str, str]:
    """Return the text of each schema file by its name."""
    schemas = {"document": document_schema(), "journal": journal_schema()}
    return {f"{name}.schema.json": _laid_out(schema) + "\n" for name, schema in schemas.items()}


def _laid_out(value: Payload, indent: str = "") -> str:
    """Return JSON in which an object or an array is on one line where it fits."""
    line = json.dumps(value)
    if not isinstance(value, dict | list) or len(indent) + len(line) <= MAX_LINE:
        return line
    inner, ends = indent + "  ", "{}" if isinstance(value, dict) else "[]"
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    values = value.values() if isinstance(value, dict) else value
    parts = [f"{inner}{name}{_laid_out(one, inner)}" for name, one in zip(names, values, strict=True)]
    return f"{ends[0]}\n" + ",\n".join(parts) + f"\n{indent}{ends[1]}"


if __name__ == "__main__":
    for name, text in texts().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
