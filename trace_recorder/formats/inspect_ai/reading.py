"""The logs of Inspect AI, as `.eval` files and as `.json` files. Each sample is a run.

An `.eval` file is a zip file with a member for each sample.

Scores are rewards. Scores that are letters become numbers by the rule of Inspect's own `value_to_float`. A sample that
an error or a limit ended has failed, although the log's status is "success". Counts of input tokens leave out cached
tokens.

Source: `inspect_ai/log/_log.py` and `_recorders/`, version 2, and the older form in which a sample has a `transcript`.
"""

from __future__ import annotations

from collections.abc import Iterator
from zipfile import is_zipfile

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.run import Event, ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, parse_json
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.foreign_runs.zip_archive import ZIP_BEGIN, Archive, MemberError
from trace_recorder.formats.inspect_ai import reading_chats
from trace_recorder.formats.inspect_ai.reading_samples import Attachments, SamplePrompts, SampleReader, provider_in_name
from trace_recorder.storage.byte_order_marks import without_mark
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.trajectory import Status

_HEADERS = ("header.json", "_journal/start.json")
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_OF_RUN = ("task", "task_id", "task_args", "tags", "sandbox")
_KEPT = ("target", "choices", "files", "setup", "store", "error_retries", "model_usage", "role_usage", "limit")


def recognizes(source: Source) -> bool:
    """Return whether the file is the zip file of a log, or a document with `eval` and `status` or with events."""
    if source.head.startswith(ZIP_BEGIN):
        return is_zipfile(source.path) and any(name in Archive(source.path, 0).members for name in _HEADERS)
    document = as_dict(source.document)
    log = {"task", "model"} <= as_dict(document.get("eval")).keys() and isinstance(document.get("status"), str)
    return log or _is_event(next(iter(as_list(document.get("events"))), None))


def _is_event(value: Payload) -> bool:
    event = as_dict(value)
    return isinstance(event.get("event"), str) and "timestamp" in event


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each sample. Raises TrajectoryFormatError if the log has no sample."""
    if source.head.startswith(ZIP_BEGIN):
        header, samples = _from_zip(source)
    else:
        header, samples = _from_document(as_dict(source.document))
    name = source.path.name.removesuffix(".eval").removesuffix(".json")
    number = 0
    for number, (sample, why) in enumerate(samples, start=1):
        yield _run(header, as_dict(sample), f"{name}-{number}", why)
    if not number:
        raise TrajectoryFormatError(f"{source.path} has no sample. The log's status is {header.get('status')}.")


_Samples = Iterator[tuple[Payload, str | None]]
"""For each sample of a log, the sample and None, or None and the reason why the sample cannot be read."""


def _from_document(document: Members) -> tuple[Members, _Samples]:
    if "eval" not in document:
        return {}, iter([(document, None)])
    header = {name: value for name, value in document.items() if name != "samples"}
    return header, map(_sample_or_why_not, as_list(document.get("samples")))


def _sample_or_why_not(sample: Payload) -> tuple[Payload, str | None]:
    if isinstance(sample, dict):
        return sample, None
    return sample, "it is not an object"


def _from_zip(source: Source) -> tuple[Members, _Samples]:
    archive = Archive(source.path, source.max_document_bytes)
    headers = (as_dict(_member(archive, name)[0]) for name in _HEADERS if name in archive.members)
    samples = [name for name in archive.members if name.startswith("samples/") and name.endswith(".json")]
    return next(filter(None, headers), {}), (_member(archive, name) for name in samples)


def _member(archive: Archive, name: str) -> tuple[Payload, str | None]:
    try:
        return parse_json(without_mark(archive.read(name)))
    except MemberError as error:
        return None, f"{name}: {error}"


def _run(header: Members, sample: Members, name: str, why: str | None) -> ForeignRun:
    evaluation = as_dict(header.get("eval"))
    transcript = as_dict(sample.get("transcript"))
    attachments = Attachments(as_dict(sample.get("attachments")) or as_dict(transcript.get("content")))
    scores = as_dict(attachments.put_in(sample.get("scores")))
    if not scores and isinstance(sample.get("score"), dict):
        scores = {"score": sample["score"]}
    events = [*_events(sample, transcript, attachments, why), *_rewards(scores), *_kept(sample, attachments)]
    failure = _failure(as_dict(sample.get("error")), as_dict(sample.get("limit")))
    status: Status = "unknown"
    if failure is not None:
        status = "failed"
    elif "messages" in sample:
        status = "completed"
    model = as_text(evaluation.get("model"))
    response = reading_chats.response_of(as_dict(attachments.put_in(sample.get("output")))) or {}
    return ForeignRun(
        identity=as_text(sample.get("uuid")) or name,
        events=events,
        task=_task(attachments.put_in(sample.get("input"))),
        provider=provider_in_name(model),
        model=model,
        start_time=stated_time(sample.get("started_at")),
        end_time=stated_time(sample.get("completed_at")),
        status=status,
        final_result=response.get("content"),
        error=failure,
        source=_source(header, evaluation),
        metadata=without_none(
            **{key: evaluation.get(key) or None for key in _OF_RUN},
            sample_id=sample.get("id"),
            epoch=sample.get("epoch"),
            sample_metadata=sample.get("metadata") or None,
        ),
    )


def _source(header: Members, evaluation: Members) -> Members:
    ids = {name: evaluation.get(name) for name in ("eval_id", "run_id", "created")}
    version = as_dict(evaluation.get("packages")).get("inspect_ai")
    return without_none(**ids, version=version, log_status=header.get("status"), log_error=header.get("error"))


def _failure(error: Members, limit: Members) -> Members | None:
    if error:
        message = as_text(error.get("message")) or "error"
        return {"type": message.split("(")[0], "message": message} | without_none(traceback=error.get("traceback"))
    if limit:
        return {
            "type": f"{limit.get('type')} limit",
            "message": as_text(limit.get("reason")) or f"{limit.get('limit')}",
        }
    return None


def _events(sample: Members, transcript: Members, attachments: Attachments, why: str | None) -> Iterator[Event]:
    if why is not None:
        yield TimedFact.gap(what="a sample", why=why)
    pool = as_list(as_dict(sample.get("events_data")).get("messages")) or as_list(sample.get("message_pool"))
    reader = SampleReader(
        attachments, SamplePrompts([*pool], lambda message: reading_chats.read_log_message(attachments.put_in(message)))
    )
    events = as_list(sample.get("events")) or as_list(transcript.get("events"))
    if events:
        yield from reader.events(events)
    else:
        yield from reader.messages(as_list(sample.get("messages")))
    if attachments.exceeded:
        yield TimedFact.gap(what="some attachments", why="together they are larger than the limit for a sample")


def _task(value: Payload) -> str | None:
    """Return the input of a sample as text. If the input is a list of messages, return the last text in it."""
    if not isinstance(value, list):
        return as_text(value)
    contents = (reading_chats.read_log_message(message).get("content") for message in reversed(value))
    for content in contents:
        if isinstance(content, list):
            texts = [as_text(as_dict(part).get("text")) for part in content]
        else:
            texts = [as_text(content)]
        text = "\n".join(filter(None, texts))
        if text:
            return text
    return None


def _rewards(scores: Members) -> Iterator[Event]:
    for name, score in scores.items():
        members = as_dict(score)
        value, explanation = members.get("value"), as_text(members.get("explanation"))
        values = {name: value}
        if isinstance(value, dict):
            values = {f"{name}/{key}": part for key, part in value.items()}
        for reward_name, part in values.items():
            number = _number(part)
            if number is not None:
                yield TimedFact.reward(name=reward_name, value=number, explanation=explanation)
    if scores:
        yield TimedFact.annotation(key="scores", value=scores)


def _number(value: Payload) -> float | None:
    """Return a score as a number by the rules of Inspect's `value_to_float`, or None if it is not a number."""
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return as_number(value)
    if value not in _LETTERS and len(value) > 1:
        value = value.lower()
    return _LETTERS.get(value)


def _kept(sample: Members, attachments: Attachments) -> Iterator[Event]:
    for name in _KEPT:
        if sample.get(name):
            yield TimedFact.unread(what=f"the sample's {name}", value=attachments.put_in(sample[name]))
