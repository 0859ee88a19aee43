"""OpenAI's batches: files with a request in each line, and files with an output or an error in each line.

Each request is a run.

Source: https://platform.openai.com/docs/guides/batch. Compatible services write the same files. A request is
`{"custom_id", "method", "url", "body"}`, and an output is `{"id", "custom_id", "response", "error"}`. A batch has two
halves in separate files: its requests and its outputs. The other half of a file is found in the same directory, by the
ids that both files have. If several files have these ids, the files with the most similar names are taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import zip_longest
from os.path import commonprefix
from typing import NamedTuple

from trace_recorder.dialects.json_access import as_dict, as_int, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.agent_history import first_text
from trace_recorder.formats.foreign_runs.exchanges import model_endpoint
from trace_recorder.formats.foreign_runs.run import Call, Event, ForeignRun, HttpExchange, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.spans.reading.payloads import read_input, read_output
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_HOST = "https://api.openai.com"
_MAX_NEIGHBOURS = 100
"""At most this many files of a directory are searched for the other file of a batch: requests or answers."""


def recognizes(source: Source) -> bool:
    """Return whether the first line is a request or an output of a batch."""
    return any(_is_request(line.value) or _is_output(line.value) for line in source.first_lines[:1])


def _is_request(value: Payload) -> bool:
    members = as_dict(value)
    return {"custom_id", "method", "url", "body"} <= members.keys() and isinstance(members["body"], dict)


def _is_output(value: Payload) -> bool:
    return {"custom_id", "response", "error"} <= as_dict(value).keys()


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each request, in the order of the requests.

    An output without its request is a run, too. If an id occurs several times, its first output belongs to its first
    request, its second output to its second request, and so on.
    """
    requests: defaultdict[str, list[Members]] = defaultdict(list)
    outputs: defaultdict[str, list[Members]] = defaultdict(list)
    missing: list[TimedFact] = []
    for file in (source, *_other_half(source)):
        source.read_too |= {file.path} - {source.path}
        for line in file.lines():
            name = as_text(as_dict(line.value).get("custom_id"))
            if name is not None and _is_request(line.value):
                requests[name].append(as_dict(line.value))
            elif name is not None and _is_output(line.value):
                outputs[name].append(as_dict(line.value))
            else:
                why = line.why or "it is neither a request nor an output"
                missing.append(TimedFact.gap(what=f"line {line.number} of {file.path.name}", why=why))
    for name in requests | outputs:
        for number, (request, output) in enumerate(zip_longest(requests[name], outputs[name]), start=1):
            run = _run(name, request, output)
            if number > 1 and run.identity == name:
                run.identity = f"{name}-{number}"
            run.events += missing
            missing = []
            yield run


def _other_half(source: Source) -> list[Source]:
    """Return the files with the other half of a batch: the outputs of the requests, or the requests of the outputs.

    These files are in the same directory. The outputs of a batch may be in two files, one of them for failures. These
    two files have no id in common. If it is not clear which files belong to the batch, return [].
    """
    lines = [as_dict(line.value) for line in source.first_lines]
    if any(map(_is_request, lines)) and any(map(_is_output, lines)):
        return []
    is_wanted = _is_request
    if _is_request(lines[0]):
        is_wanted = _is_output
    candidates = [*_candidates(source, is_wanted)]
    longest = max((candidate.common_characters for candidate in candidates), default=0)
    similar = [candidate for candidate in candidates if candidate.common_characters == longest]
    all_ids = set[str]().union(*(candidate.first_ids for candidate in similar))
    are_disjoint = sum(len(candidate.first_ids) for candidate in similar) == len(all_ids)
    if len(similar) == 1 or (is_wanted is _is_output and are_disjoint):
        return [candidate.source for candidate in similar]
    return []


class _PossibleHalf(NamedTuple):
    """A file that may be the other half: how many characters its name begins with as ours does, and its first ids."""

    common_characters: int
    source: Source
    first_ids: set[str]


def _candidates(source: Source, is_wanted: Callable[[Payload], bool]) -> Iterator[_PossibleHalf]:
    """Yield the files of the directory whose first lines have an id of this file."""
    ids: set[str] | None = None
    for path in sorted(source.path.parent.glob("*.jsonl"))[:_MAX_NEIGHBOURS]:
        if path == source.path:
            continue
        neighbour = source.neighbour(path)
        first_ids = _first_ids(neighbour, is_wanted)
        if first_ids and ids is None:
            ids = {as_text(as_dict(line.value).get("custom_id")) or "" for line in source.lines()}
        if ids is not None and not first_ids.isdisjoint(ids):
            common = commonprefix([path.name, source.path.name])  # noqa: RUF071 - names are compared by characters
            yield _PossibleHalf(len(common), neighbour, first_ids)


def _first_ids(source: Source, is_wanted: Callable[[Payload], bool]) -> set[str]:
    """Return the ids in those first lines of a file for which `is_wanted` is true.

    Return an empty set for a symbolic link, or if there are no such lines.
    """
    try:
        if source.path.is_symlink() or b'"custom_id"' not in source.head:
            return set()
        values = [as_dict(line.value) for line in source.first_lines if is_wanted(line.value)]
    except (OSError, TrajectoryFormatError):
        return set()
    return {as_text(value.get("custom_id")) or "" for value in values}


def _run(name: str, request: Members | None, output: Members | None) -> ForeignRun:
    line, response = output or {}, as_dict((output or {}).get("response"))
    body = response.get("body")
    prompt = read_input(as_dict((request or {}).get("body"))).messages or ()
    run = ForeignRun(
        identity=as_text(line.get("id")) or name,
        task=next((first_text(message.content) or None for message in prompt if message.role == "user"), None),
        model=as_text(as_dict(body).get("model")) or as_text(as_dict((request or {}).get("body")).get("model")),
        source=without_none(custom_id=name, request_id=as_text(response.get("request_id"))),
    )
    error = _error(as_dict(line.get("error")), response)
    if error is not None:
        run.status, run.error = "failed", error
    elif response:
        run.status = "completed"
    run.events = _events(name, request, response, error)
    return run


def _error(error: Members, response: Members) -> Members | None:
    """Return the reason why a request has no answer: the batch did not send the request, or the service refused it.

    Return None if the request has an answer. The body of a refusal may be missing, or its error may be a text.
    """
    status = as_int(response.get("status_code"))
    is_refused = (status or 0) >= 400  # noqa: PLR2004 - an HTTP status
    if not error and not is_refused:
        return None
    refusal = as_dict(response.get("body")).get("error")
    reason = error or as_dict(refusal)
    kind = as_text(reason.get("code")) or as_text(reason.get("type")) or "error"
    message = as_text(reason.get("message")) or as_text(refusal) or ""
    return {"type": kind, "message": message} | without_none(status=status)


def _events(name: str, request: Members | None, response: Members, error: Members | None) -> list[Event]:
    body = response.get("body")
    time = stated_time(as_dict(body).get("created") or as_dict(body).get("created_at"))
    if request is None:
        call = Call(time=time, conversation=None, error=error, model=as_text(as_dict(body).get("model")))
        output = read_output(body)
        if error is None and output is not None:
            call.response = output.to_document()
        return [
            call,
            TimedFact.gap(what=f"the request {name}", why="no file of requests in the directory has it", time=time),
        ]
    url = _HOST + (as_text(request.get("url")) or "")
    endpoint = model_endpoint(request.get("method"), url)
    if endpoint is None:
        return [TimedFact.gap(what=f"the request {name}", why="its URL is not the URL of a known model API", time=time)]
    exchange = HttpExchange(
        time=time,
        endpoint=endpoint,
        url=url,
        request=to_json(request["body"]).encode("utf-8", "replace"),
        headers=[(b"content-type", b"application/json")],
        status=as_int(response.get("status_code")),
        response_headers=[(b"content-type", b"application/json")],
    )
    if exchange.status is None:
        exchange.error = error
    elif body is not None:
        exchange.response = to_json(body).encode("utf-8", "replace")
    return [exchange]


FORMAT = Format(name="openai-batch", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
