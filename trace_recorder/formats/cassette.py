"""The calls to models in cassettes of vcrpy or pytest-recording, in YAML or JSON.

Source: vcrpy 9.4. `interactions` is a list of `request` (`method`, `uri`, `body`, `headers`) and `response` (`status`
with `code`, `headers`, `body` with `string` or `base64_string`). Each header has a list of values. The body of a
response may still be compressed as its headers state. Cassettes have no times. PyYAML reads YAML if it is installed.
YAML with aliases is refused, because a small file could become a huge value.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

from trace_recorder.dialects.json_access import as_dict, as_int, as_list
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.exchanges import (
    as_bytes,
    from_base64,
    header_pairs,
    model_endpoint,
    other_requests,
    with_gap,
    without_encoding,
)
from trace_recorder.formats.foreign_runs.run import Event, ForeignRun, HttpExchange, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, open_file
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.guard import try_call
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_BEGIN = b"interactions:"
MAX_YAML_BYTES = 64 * 1024 * 1024


def recognizes(source: Source) -> bool:
    """Return whether the file is YAML that begins with `interactions`, or a JSON document with that member."""
    if _is_yaml(source):
        return True
    first = as_dict(next(iter(as_list(as_dict(source.document).get("interactions"))), None))
    return {"request", "response"} <= first.keys() and "uri" in as_dict(first["request"])


def _is_yaml(source: Source) -> bool:
    for line in source.head.splitlines():
        if line.strip() not in {b"", b"---"} and line[:1] != b"#":
            return line.rstrip() == _BEGIN
    return False


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the calls to models of a cassette as one run."""
    if _is_yaml(source):
        document = _load_yaml(source)
    else:
        document = source.document
    events: list[Event] = []
    other_count, remaining = 0, source.max_run_bytes
    for number, interaction in enumerate(as_list(as_dict(document).get("interactions")), start=1):
        exchange = _events(as_dict(interaction), number)
        remaining -= sum(len(event.response or b"") for event in exchange if isinstance(event, HttpExchange))
        if remaining < 0:  # short bodies may decompress to long ones
            events.append(
                TimedFact.gap(what=f"interaction {number} and those after it", why="they are too large together")
            )
            break
        other_count += not exchange
        events += exchange
    yield ForeignRun(identity=source.path.name.partition(".")[0], events=[*events, *other_requests(other_count)])


def _events(interaction: Members, number: int) -> list[Event]:
    """Return the exchange of an interaction, and gaps for its unreadable parts.

    Return [] if the interaction is not a call to a model.
    """
    request, response = as_dict(interaction.get("request")), as_dict(interaction.get("response"))
    url = request.get("uri")
    endpoint = model_endpoint(request.get("method"), url)
    if endpoint is None or not isinstance(url, str):
        return []
    response_headers = header_pairs(as_dict(response.get("headers")).items())
    status = as_int(as_dict(response.get("status")).get("code"))
    body, why = _body(response.get("body")), None
    if body is not None:
        body, why = without_encoding(body, response_headers)
    exchange = HttpExchange(
        time="",
        endpoint=endpoint,
        url=url,
        request=_body(request.get("body")) or b"",
        headers=header_pairs(as_dict(request.get("headers")).items()),
        status=status,
        response_headers=response_headers,
        response=body,
    )
    return with_gap(exchange, f"interaction {number}", why)


def _body(value: Payload) -> bytes | None:
    if isinstance(value, dict):
        if isinstance(value.get("base64_string"), str):
            return from_base64(value["base64_string"])
        value = value.get("string")
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return as_bytes(value)
    return None


def _load_yaml(source: Source) -> Payload:
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise TrajectoryFormatError(
            f"{source.path} is a cassette in YAML, which needs PyYAML: pip install 'trace-recorder[imports]'"
        ) from None
    with open_file(source.path) as file:
        data = file.read(MAX_YAML_BYTES + 1)
    if len(data) > MAX_YAML_BYTES:
        raise TrajectoryFormatError(
            f"{source.path} is longer than {MAX_YAML_BYTES} bytes, the most that is read of YAML."
        )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return try_call(partial(_checked, yaml, loader, data, source), partial(_refuse, source))


def _checked(yaml: Any, loader: Any, data: bytes, source: Source) -> Payload:
    depth = count = 0
    for count, event in enumerate(yaml.parse(data, Loader=loader), start=1):  # noqa: B007 read after the loop
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > MAX_DOCUMENT_DEPTH or count > source.max_values or kind == "AliasEvent":
            raise TrajectoryFormatError(
                f"{source.path} has aliases, too many values or too many levels, so it is not read."
            )
    value: Payload = yaml.load(data, Loader=loader)
    return value


def _refuse(source: Source, error: Exception) -> Payload:
    if isinstance(error, TrajectoryFormatError):
        raise error
    raise TrajectoryFormatError(f"{source.path} is not YAML: {error}") from None


FORMAT = Format(name="vcr", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
