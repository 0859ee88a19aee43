"""The texts of a run, and a search for them in the bytes of files, in each form in which a file may have them.

What is structure is stated here once more, and independently of the package: a string is structure by the name of its
member. Every other string of a run is a text, and so are the names of members in arguments, results and schemas.
"""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from trace_recorder import Trajectory, load
from trace_recorder.figures.stats import Stats
from trace_recorder.reading.relations.prompt_relations import relations_of
from trace_recorder.registry import IMPORT_FORMATS
from trace_recorder.storage.format_words import format_words
from trace_recorder.storage.journal_reader import Record, json_of_line, read_records
from trace_recorder.values.messages import Payload

STRUCTURE = frozenset(
    """
    schema trajectory_id interaction_id execution_id step_id agent_id parent_agent_id parent_execution_id call_id id
    tool_call_id tool_use_id toolUseId item_id responseId api provider model modelVersion method status role type object
    finish_reason finishReason stop_reason stopReason done_reason name recorder python platform kind time began zlib
    chunk_ends chunk_times url framing state media_type mime_type mimeType content_type format parent replay_of
    service_tier event_type version tool_name created_at service_tier code modality anthropic-version content-type
    x-stainless-retry-count system_fingerprint serviceTier anthropic_version phase effort trafficType timestamp sha256
    connection_id direction transport subprotocol server claudecode/toolUseId callId jsonrpc
    retry-after-ms native_finish_reason completionReason blockReason encoding_format truncation speed inference_geo
    event_id previous_item_id conversation conversation_id stream_id
    """.split()  # noqa: SIM905 - a list of quoted words is harder to read
)
"""The members whose strings are structure: ids, types, roles, models, times, and names of tools."""
OPAQUE = frozenset(
    """
    arguments args parameters input_schema inputSchema json result returned metadata response_format structuredContent
    """.split()  # noqa: SIM905 - as above
)
"""The members below which every string is a text, and every name of a member too."""
OURS = frozenset(
    {"imported_from", "replay_of", "forked_from", "recorded_under", "file", "format", "sha256", *IMPORT_FORMATS}
)
"""What this package writes into the metadata of a run: names of members, and the format of an import."""
LITERALS = frozenset({"true", "false", "null", "none"})
"""Words that a journal has for other reasons."""
SHORTEST = 4
"""A shorter text is in nearly every file."""
_WORD = re.compile(r"[\w.-]+")


def texts_of_journal(journal: Path) -> set[str]:
    """Return the texts in a journal: in its records, and in the events of its streams."""
    texts: set[str] = set()
    structure: set[str] = set()
    for line in journal.read_bytes().splitlines(keepends=True):
        for record in read_records(line):
            if isinstance(record, Record):
                structure.add(record.time)
                data = json_of_line(line[record.offset : record.offset + record.length])["data"]
                _collect(data, texts, structure, is_opaque=False)
                if "zlib" in data:
                    for event in _events(data["zlib"]):
                        _collect(event, texts, structure, is_opaque=False)
    offered = {tool.name for call in load(journal).llm_interactions for tool in call.tools}
    known = structure | offered | OURS | LITERALS | format_words()
    return {text for text in texts - known if len(text.strip()) >= SHORTEST and not text.startswith("@string:")}


def _collect(value: Payload, texts: set[str], structure: set[str], *, is_opaque: bool, name: str = "") -> None:
    if isinstance(value, str):
        if not is_opaque and name in STRUCTURE:
            structure.add(value)
            return
        texts.add(value)
        parsed = _parsed(value)
        if parsed is not None:
            _collect(parsed, texts, structure, is_opaque=True)
    elif isinstance(value, dict):
        is_message = value.get("role") in {"user", "system"}
        for member, inner in value.items():
            if is_opaque:
                texts.add(member)
            else:
                structure.add(member)
            is_protocol = member == "result" and "jsonrpc" in value
            if member == "reason" and "type" in value:  # why a response has its status; of a websocket, it is a text
                member = "status"  # noqa: PLW2901 - as above
            below = (
                is_opaque or (member in OPAQUE and not is_protocol) or (member == "input" and isinstance(inner, dict))
            )
            _collect(inner, texts, structure, is_opaque=below or (is_message and member == "name"), name=member)
    elif isinstance(value, list):
        for element in value:
            _collect(element, texts, structure, is_opaque=is_opaque, name=name)


def _parsed(text: str) -> Payload:
    try:
        value = json.loads(text) if text[:1] in {"{", "["} else None
    except (ValueError, RecursionError):
        return None
    return value


def _events(packed: str) -> Iterator[Payload]:
    for line in zlib.decompress(base64.b64decode(packed)).decode(errors="replace").splitlines():
        begin = re.search(r"[{\[]", line)
        if begin is not None:
            event = _parsed(line[begin.start() :])
            if event is not None:
                yield event


# ── the search ───────────────────────────────────────────────────────────────────────────────────────────────────────


def found_in(texts: Iterable[str], files: Iterable[Path]) -> list[str]:
    """Return the texts that one of the files has: as they are, escaped once or twice, or in base64."""
    everything = "\n".join(unpacked.decode("utf-8", "replace") for file in files for unpacked in _unpacked(file))
    words = {*_WORD.findall(everything)}
    texts_in_files = set()
    for text in texts:
        if _WORD.fullmatch(text) is not None:  # such a word may be a part of another word by chance
            if text in words:
                texts_in_files.add(text)
        elif any(form in everything for form in _forms(text)):
            texts_in_files.add(text)
    return sorted(texts_in_files)


def _forms(text: str) -> Iterator[str]:
    once = json.dumps(text)[1:-1]
    yield from (text, once, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(once)[1:-1])
    data = text.encode("utf-8", "surrogatepass")
    if len(data) >= 9:  # the middle of the base64 does not depend on what is around the text
        for offset in range(3):
            encoded = base64.b64encode(b"\0" * offset + data).decode()
            yield encoded[4:-4]


def _unpacked(file: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, and of everything that is packed in it."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:  # a temporary file that has taken its name meanwhile
        return
    yield data
    if data.startswith(b"PK"):
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                yield from _unpacked_bytes(archive.read(name))
        return
    yield from _unpacked_bytes(data)


def _unpacked_bytes(data: bytes) -> Iterator[bytes]:
    yield data
    for encoded in re.findall(rb'"((?:[A-Za-z0-9+/]{4}){4,}={0,2}|[A-Za-z0-9+/]{16,}={1,2})"', data):
        decoded = base64.b64decode(encoded + b"=" * (-len(encoded) % 4))
        yield decoded
        try:
            yield zlib.decompress(decoded)
        except zlib.error:
            continue
    begin = data.rfind(b'id="trace-recorder-runs">')
    if begin >= 0:
        zipped = base64.b64decode(data[begin:].partition(b">")[2].partition(b"<")[0])
        with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
            for name in archive.namelist():
                yield from _unpacked_bytes(archive.read(name))


# ── what stays the same ──────────────────────────────────────────────────────────────────────────────────────────────


def figures_of(run: Trajectory) -> Payload:
    """Return the figures of a run, and the shape of its calls, which do not depend on its texts."""
    stats = Stats()
    stats.add(run)
    figures = stats.to_json()
    for name in ("interrupted", "unknown", "running"):  # whether the writer of a file is alive is not in the file
        figures["runs"].pop(name, None)
    calls = [
        (
            *(call.interaction_id, call.provider, call.model, call.api, call.stream, call.complete),
            *(call.error is None, call.response.finish_reason, call.response.usage.input_tokens),
            [(tool.call_id, tool.name, type(tool.arguments).__name__) for tool in call.response.tool_calls],
            [message.role for message in call.input_messages or ()],
            [tool.name for tool in call.tools],
            len(call.attempts),
        )
        for call in run.llm_interactions
    ]
    steps = [
        (step.step_number, step.state, [(result.call_id, result.success) for result in step.tool_results])
        for step in run.agent_steps
    ]
    return [figures, calls, steps, run.success, len(run.gaps), relation_names(run)]


def relation_names(run: Trajectory) -> list[Payload]:
    """Return what each prompt is to an earlier one."""
    relations = relations_of(run)
    named: list[Payload] = []
    for call in run.llm_interactions:
        relation = relations.of(call)
        turn = relation.turn
        previous = turn.previous.interaction.interaction_id if turn is not None and turn.previous is not None else None
        named.append((relation.kind, relation.base, previous, len(relation.answers)))
    return named


def reload(lines: Iterable[bytes], path: Path) -> Trajectory:
    """Write a journal, and load it."""
    path.write_bytes(b"".join(lines))
    return load(path)
