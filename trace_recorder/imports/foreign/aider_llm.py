"""aider's `.aider.llm.history` (`--llm-history-file`): each request to the model with its answer, as text.

Source: `aider/io.py` (`log_llm_history`) and `aider/utils.py` (`format_messages`). `TO LLM <time>` is followed by the
messages, each after a line of dashes; `LLM RESPONSE <time>` by the answer. Each line begins with its role. The file
has no sessions: it is one run. The answer to a request that failed is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_text, role_of
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.histories import Histories
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import Call, ForeignRun, Kept, Members, Missing
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.token_counts import WHOLE

_ENTRY = re.compile(r"(TO LLM|LLM RESPONSE) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")
_BETWEEN = "-------"
_ROLE = re.compile(r"(SYSTEM|USER|ASSISTANT|TOOL|FUNCTION|DEVELOPER)(?: |$)")


def recognizes(source: Source) -> bool:
    """Whether the file begins with a request or an answer."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    return _ENTRY.fullmatch(head.decode("utf-8", "replace").rstrip("\r")) is not None


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one run of a file."""
    run = ForeignRun(identity=f"{source.path.parent.absolute().name or 'aider'}-llm-history")
    requests = Histories()
    request: _LoggedMessage | None = None
    for entry in _entries(source, run):
        if entry.is_request:
            if request is not None:
                _add(run, requests, request, None)
            request = entry
        elif request is None:
            run.events.append(Kept(what="answer without a request", value=entry.text(), time=entry.time))
        else:
            _add(run, requests, request, entry)
            request = None
    if request is not None:
        _add(run, requests, request, None)
    yield run


@dataclass(slots=True)
class _LoggedMessage:
    """A request or an answer, with its lines."""

    is_request: bool
    time: str
    lines: list[str] = field(default_factory=list)

    def messages(self) -> Iterator[Members]:
        """Yield the messages of a request."""
        parts: list[list[str]] = []
        for line in self.lines:
            if line == _BETWEEN:
                parts.append([])
            elif parts:
                parts[-1].append(line)
        for part in parts:
            if part:
                role = _ROLE.match(part[0])
                name = role[1] if role else "USER"
                yield {"role": role_of(name.lower()), "content": "\n".join(_without_role(line, name) for line in part)}

    def text(self) -> str | None:
        """Return the text of an answer; None if it is empty."""
        return (
            "\n".join(_without_role(line, "ASSISTANT") for line in self.lines if line != _BETWEEN).strip("\n") or None
        )


def _without_role(line: str, role: str) -> str:
    return line.removeprefix(role).removeprefix(" ") if line.startswith(role) else line


def _entries(source: Source, run: ForeignRun) -> Iterator[_LoggedMessage]:
    entry: _LoggedMessage | None = None
    for line in source.text_lines():
        if line.why is not None:
            run.events.append(Missing(what=f"line {line.number}", why=line.why))
        elif found := _ENTRY.fullmatch(as_text(line.value) or ""):
            if entry is not None:
                yield entry
            entry = _LoggedMessage(found[1] == "TO LLM", stated_time(found[2]))
        elif entry is not None:
            entry.lines.append(as_text(line.value) or "")
    if entry is not None:
        yield entry


def _add(run: ForeignRun, requests: Histories, request: _LoggedMessage, answer: _LoggedMessage | None) -> None:
    messages = [*request.messages()]
    conversation, length = requests.add(messages)
    text = None if answer is None else answer.text()
    call = Call(time=request.time, conversation=conversation, length=length)
    if text is None:
        call.complete, call.ended_by = False, "no answer follows" if answer is None else "the answer is empty"
    else:
        call.response = {"content": text}
    said = [message["content"] for message in messages if message["role"] == "user"]
    run.task = run.task or (as_text(said[-1]) if said else None)
    run.events.append(call)


FORMAT = ImportFormat(name="aider-llm", recognizes=recognizes, read=read, counting=WHOLE)
