"""The logs of Inspect AI: `.eval`, a zip file with one member for each sample, and `.json`. Each sample is a run.

Source: `inspect_ai/log/_log.py` and `_recorders/`, version 2, and the older form in which a sample has a `transcript`.
Scores are rewards, letters by Inspect's own `value_to_float`. A sample that an error or a limit ended has failed,
although the log's status is "success". Token counts leave out cached tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from zipfile import is_zipfile

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.inspect_ai import chat
from trace_recorder.imports.foreign.inspect_ai.archive import Archive, MemberError
from trace_recorder.imports.foreign.inspect_ai.attachments import Attachments
from trace_recorder.imports.foreign.inspect_ai.prompts import Prompts
from trace_recorder.imports.foreign.inspect_ai.sample import SampleReader, provider_of
from trace_recorder.imports.foreign.run import Annotation, Event, ForeignRun, Kept, Members, Missing, Score
from trace_recorder.imports.foreign.source import Source, parse_json
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import CACHE_APART

_HEADERS = ("header.json", "_journal/start.json")
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_OF_RUN = ("task", "task_id", "task_args", "tags", "sandbox")
_KEPT = ("target", "choices", "files", "setup", "store", "error_retries", "model_usage", "role_usage", "limit")


def recognizes(source: Source) -> bool:
    """Whether it is a zip file with the members of a log, or a document with `eval` and `status`, or with events."""
    if source.head.startswith(b"PK\x03\x04"):
        return is_zipfile(source.path) and any(name in Archive(source.path, 0).members for name in _HEADERS)
    document = as_dict(source.document)
    log = {"task", "model"} <= as_dict(document.get("eval")).keys() and isinstance(document.get("status"), str)
    return log or _is_event(next(iter(as_list(document.get("events"))), None))


def _is_event(value: Payload) -> bool:
    event = as_dict(value)
    return isinstance(event.get("event"), str) and "timestamp" in event


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each sample. Raises TrajectoryFormatError if there is none."""
    is_zip = source.head.startswith(b"PK\x03\x04")
    header, samples = _from_zip(source) if is_zip else _from_document(as_dict(source.document))
    name = source.path.name.removesuffix(".eval").removesuffix(".json")
    number = 0
    for number, (sample, why) in enumerate(samples, start=1):
        yield _run(header, as_dict(sample), f"{name}-{number}", why)
    if not number:
        raise TrajectoryFormatError(f"{source.path} holds no sample. The log's status is {header.get('status')}.")


_Samples = Iterator[tuple[Payload, str | None]]
"""The samples of a log; None and why, for one that cannot be read."""


def _from_document(document: Members) -> tuple[Members, _Samples]:
    if "eval" not in document:
        return {}, iter([(document, None)])
    header = {name: value for name, value in document.items() if name != "samples"}
    stated = as_list(document.get("samples"))
    return header, ((sample, None if isinstance(sample, dict) else "it is no object") for sample in stated)


def _from_zip(source: Source) -> tuple[Members, _Samples]:
    archive = Archive(source.path, source.max_document_bytes)
    headers = (as_dict(_member(archive, name)[0]) for name in _HEADERS if name in archive.members)
    samples = [name for name in archive.members if name.startswith("samples/") and name.endswith(".json")]
    return next(filter(None, headers), {}), (_member(archive, name) for name in samples)


def _member(archive: Archive, name: str) -> tuple[Payload, str | None]:
    try:
        return parse_json(archive.read(name))
    except MemberError as error:
        return None, f"{name}: {error}"


def _run(header: Members, sample: Members, name: str, why: str | None) -> ForeignRun:
    of_eval = as_dict(header.get("eval"))
    old = as_dict(sample.get("transcript"))
    attachments = Attachments(as_dict(sample.get("attachments")) or as_dict(old.get("content")))
    scores = _scores(attachments.put_in(sample.get("scores")), sample.get("score"))
    events = [*_events(sample, old, attachments, why), *_rewards(scores), *_kept(sample, attachments)]
    error, limit = as_dict(sample.get("error")), as_dict(sample.get("limit"))
    failure = _failure(error, limit)
    model = as_text(of_eval.get("model"))
    response = chat.response_of(as_dict(attachments.put_in(sample.get("output")))) or {}
    return ForeignRun(
        identity=as_text(sample.get("uuid")) or name,
        events=events,
        task=_task(attachments.put_in(sample.get("input"))),
        provider=provider_of(model),
        model=model,
        start_time=stated_time(sample.get("started_at")),
        end_time=stated_time(sample.get("completed_at")),
        status="failed" if failure else "completed" if "messages" in sample else "unknown",
        final_result=response.get("content"),
        error=failure,
        source=_source(header, of_eval),
        metadata=without_none(
            **{key: of_eval.get(key) or None for key in _OF_RUN},
            sample_id=sample.get("id"),
            epoch=sample.get("epoch"),
            sample_metadata=sample.get("metadata") or None,
        ),
    )


def _source(header: Members, of_eval: Members) -> Members:
    stated = {name: of_eval.get(name) for name in ("eval_id", "run_id", "created")}
    version = as_dict(of_eval.get("packages")).get("inspect_ai")
    return without_none(**stated, version=version, log_status=header.get("status"), log_error=header.get("error"))


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


def _events(sample: Members, old: Members, attachments: Attachments, why: str | None) -> Iterator[Event]:
    if why is not None:
        yield Missing(what="a sample", why=why)
    pool = as_list(as_dict(sample.get("events_data")).get("messages")) or as_list(sample.get("message_pool"))
    reader = SampleReader(attachments, Prompts([*pool], lambda message: chat.message_of(attachments.put_in(message))))
    stated = as_list(sample.get("events")) or as_list(old.get("events"))
    yield from reader.events(stated) if stated else reader.messages(as_list(sample.get("messages")))
    if attachments.exceeded:
        yield Missing(what="some attachments", why="together they are larger than what is read of a sample")


def _task(value: Payload) -> str | None:
    """Return the input of a sample: its text, or that of its last message of a user."""
    if not isinstance(value, list):
        return as_text(value)
    texts = (chat.message_of(message).get("content") for message in reversed(value))
    for content in texts:
        parts = content if isinstance(content, list) else [{"text": content}]
        found = [text for text in (as_text(as_dict(part).get("text")) for part in parts) if text]
        if found:
            return "\n".join(found)
    return None


def _scores(several: Payload, single: Payload) -> Members:
    return as_dict(several) or ({"score": single} if isinstance(single, dict) else {})


def _rewards(scores: Members) -> Iterator[Event]:
    for name, score in scores.items():
        stated = as_dict(score)
        explanation = as_text(stated.get("explanation"))
        value = stated.get("value")
        for key, number in {name: value}.items() if not isinstance(value, dict) else value.items():
            named = name if value is number else f"{name}/{key}"
            reward = _number(number)
            if reward is not None:
                yield Score(name=named, value=reward, explanation=explanation)
    if scores:
        yield Annotation(key="scores", value=scores)


def _number(value: Payload) -> float | None:
    """Return a score as a number, by the rules of Inspect's `value_to_float`; None if it is none."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return _LETTERS.get(value, _LETTERS.get(value.lower()) if len(value) > 1 else None)
    return as_number(value)


def _kept(sample: Members, attachments: Attachments) -> Iterator[Event]:
    for name in _KEPT:
        if sample.get(name):
            yield Kept(what=f"the sample's {name}", value=attachments.put_in(sample[name]))


FORMAT = ImportFormat(name="inspect-ai", recognizes=recognizes, read=read, counting=CACHE_APART)
