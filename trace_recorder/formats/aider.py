"""aider's two files: the chats as people read them, and the requests to the model.

`.aider.chat.history.md` has the chats of a directory, one after another. Each chat is a run. A line of the user begins
with `#### `, a line that aider printed begins with `> `, and both end with two spaces. All other lines are the model's.
aider rounds token counts from a thousand on before it prints them. A rounded count is kept as the text that aider
printed.

`.aider.llm.history` (`--llm-history-file`) has each request with its answer, as text. A line `TO LLM <time>` begins a
request; a line of dashes begins each of its messages. A line `LLM RESPONSE <time>` begins the answer. Each other line
begins with the role of its message. The file does not separate sessions, so the whole file is one run. The answer to a
failed request is empty.

Source: `aider/io.py` (`append_chat_history`, `user_input`, `ai_output`, `log_llm_history`), `aider/utils.py`
(`format_messages`), and `show_usage_report`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter

from trace_recorder.dialects.json_access import as_text, role_of
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, Histories, Members, TimedFact
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import LLMResponse, Message
from trace_recorder.values.token_counts import WHOLE

_START = "# aider chat started at "
_USER, _PRINTED, _END = "#### ", "> ", "  "
_MODEL = re.compile(r"(?:Main model|Model): (\S+)")
_VERSION = re.compile(r"Aider (v\S+)")
_FAILED = re.compile(r"litellm\.(\w+): (.*)", re.DOTALL)
_USAGE = re.compile(
    r"Tokens: ([\d.]+[kM]?) sent(.{0,200}?), ([\d.]+[kM]?) received\.(?:\s+Cost: \$([\d.]+) message)?", re.DOTALL
)
_CACHE = re.compile(r", ([\d.]+[kM]?) cache (write|hit)")


def recognizes(source: Source) -> bool:
    """Return whether the file begins with the heading of a chat."""
    return source.head.lstrip().startswith(_START.encode())


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield a run for each chat with a prompt or an unreadable line.

    If there is no such chat, yield the run of the first chat.
    """
    first: ForeignRun | None = None
    has_yielded = False
    for number, chat in enumerate(_chats(source), start=1):
        run = _run(f"{source.path.parent.absolute().name or 'aider'}-{number}", chat)
        first = first or run
        if chat.has_prompt or chat.missing:
            has_yielded = True
            yield run
    if first is not None and not has_yielded:
        yield first


@dataclass(slots=True)
class _Chat:
    """The lines of one chat, and the time in its heading. `has_prompt` is True if one of the lines is the user's."""

    started: str
    lines: list[str] = field(default_factory=list)
    missing: list[TimedFact] = field(default_factory=list)
    has_prompt: bool = False

    def add(self, line: Line) -> None:
        if line.why is not None:
            self.missing.append(TimedFact.gap(what=f"line {line.number}", why=line.why))
            return
        text = as_text(line.value) or ""
        self.lines.append(text)
        self.has_prompt = self.has_prompt or text.startswith(_USER)

    def is_empty(self) -> bool:
        """Return whether the chat has no lines. Blank lines before the first heading do not count."""
        if self.started:
            return not self.lines and not self.missing
        return not any(map(str.strip, self.lines)) and not self.missing


def _chats(source: Source) -> Iterator[_Chat]:
    chat = _Chat("")
    for line in source.text_lines():
        text = as_text(line.value) or ""
        if text.startswith(_START) and (started := stated_time(text.removeprefix(_START).strip())):
            if not chat.is_empty():
                yield chat
            chat = _Chat(started)
        else:
            chat.add(line)
    yield chat


def _run(name: str, chat: _Chat) -> ForeignRun:
    run = ForeignRun(identity=f"{name}-{chat.started[:19]}", start_time=chat.started, events=[*chat.missing])
    reader = _AiderChatReader(run)
    blocks = [*_blocks(chat.lines), ("", "")]
    for (kind, text), (following, _) in pairwise(blocks):
        if kind == "user" and text.startswith(("/", "!")) and following != "answer":
            reader.keep("command", text)
        elif kind == "user":
            reader.history.add(Message("user", text), "")
            reader.note_task(text)
        elif kind == "answer":
            reader.answered = reader.history.call("", LLMResponse(text, model=run.model))
        else:
            reader.read_printed(text)
    return reader.finish()


def _blocks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each part of a chat, in order. The kinds are "user", "answer" and "printed"."""
    is_trimmed = not any(line.endswith(_END) and line.startswith((_USER, _PRINTED)) for line in lines)
    has_prompt = False
    kinds: list[tuple[str, str]] = []
    for line in lines:
        has_end = is_trimmed or line.endswith(_END)
        if has_end and line.startswith(_USER):
            has_prompt = True
            kinds.append(("user", line))
        elif not has_prompt or (has_end and line.startswith(_PRINTED)):
            kinds.append(("printed", line))
        else:
            kinds.append(("answer", line))
    for kind, group in groupby(kinds, key=itemgetter(0)):
        texts = [line for _, line in group]
        if kind != "answer":
            prefix = _USER if kind == "user" else _PRINTED
            texts = [text.removesuffix(_END).removeprefix(prefix) for text in texts]
        text = "\n".join(texts).strip("\n")
        if kind != "answer" or text.strip():
            yield kind, text


class _AiderChatReader(SessionReader):
    """A reader of one chat. `answered` is the last call, or None if aider has already printed the call's usage."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self.answered: Call | None = None

    def read_printed(self, text: str) -> None:
        """Read aider's own lines: its version and model, the usage of the last answer, and failed requests."""
        run = self.run
        if (model := _MODEL.search(text)) and run.model is None:
            run.model = model[1]
        if version := _VERSION.search(text):
            run.source.setdefault("version", version[1])
        if text.strip():
            self.keep("printed", text)
        for line in text.split("\n"):
            if failed := _FAILED.match(line):
                self.history.failed_call("", {"type": failed[1], "message": failed[2]}).model = run.model
        if usage := _USAGE.search(text):
            if self.answered is not None:
                self.answered.set_usage(_usage(usage))
            self.answered = None


def _usage(match: re.Match[str]) -> Members:
    """Return exact counts as numbers, and rounded counts as the texts that aider printed."""
    printed = {"input_tokens": match[1], "output_tokens": match[3]}
    names = {"write": "cache_creation_input_tokens", "hit": "cache_read_input_tokens"}
    printed |= {names[kind]: count for count, kind in _CACHE.findall(match[2])}
    exact = {name: int(count) for name, count in printed.items() if count.isdecimal() and len(count) < 10}
    rounded = {name: count for name, count in printed.items() if name not in exact}
    usage: Members = dict(exact)
    cost = match[4]
    if cost and cost.count(".") < 2 and cost != ".":  # noqa: PLR2004 - otherwise it is not a number
        usage["cost"] = float(cost)
    if rounded:
        usage["extra"] = {"rounded": rounded}
    return usage


FORMAT = Format(name="aider", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))


_ENTRY = re.compile(r"(TO LLM|LLM RESPONSE) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")
_BETWEEN = "-------"
_ROLE = re.compile(r"(SYSTEM|USER|ASSISTANT|TOOL|FUNCTION|DEVELOPER)(?: |$)")


def recognizes_requests(source: Source) -> bool:
    """Return whether the file begins with the line of a request or of an answer."""
    head = source.head.split(b"\n", 1)[0]
    return _ENTRY.fullmatch(head.decode("utf-8", "replace").rstrip("\r")) is not None


def read_requests(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a file."""
    run = ForeignRun(identity=f"{source.path.parent.absolute().name or 'aider'}-llm-history")
    requests = Histories()
    request: _LoggedMessage | None = None
    for entry in _logged_messages(source, run):
        if entry.is_request:
            if request is not None:
                _add_request(run, requests, request, None)
            request = entry
        elif request is None:
            run.events.append(TimedFact.unread(what="answer without a request", value=entry.text(), time=entry.time))
        else:
            _add_request(run, requests, request, entry)
            request = None
    if request is not None:
        _add_request(run, requests, request, None)
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
                name = "USER"
                if role := _ROLE.match(part[0]):
                    name = role[1]
                yield {"role": role_of(name.lower()), "content": "\n".join(_without_role(line, name) for line in part)}

    def text(self) -> str | None:
        """Return the text of an answer, or None if the answer is empty."""
        lines = [_without_role(line, "ASSISTANT") for line in self.lines if line != _BETWEEN]
        return "\n".join(lines).strip("\n") or None


def _without_role(line: str, role: str) -> str:
    if not line.startswith(role):
        return line
    return line.removeprefix(role).removeprefix(" ")


def _logged_messages(source: Source, run: ForeignRun) -> Iterator[_LoggedMessage]:
    entry: _LoggedMessage | None = None
    for line in source.text_lines():
        if line.why is not None:
            run.events.append(TimedFact.gap(what=f"line {line.number}", why=line.why))
        elif match := _ENTRY.fullmatch(as_text(line.value) or ""):
            if entry is not None:
                yield entry
            entry = _LoggedMessage(match[1] == "TO LLM", stated_time(match[2]))
        elif entry is not None:
            entry.lines.append(as_text(line.value) or "")
    if entry is not None:
        yield entry


def _add_request(run: ForeignRun, requests: Histories, request: _LoggedMessage, answer: _LoggedMessage | None) -> None:
    messages = [*request.messages()]
    conversation, length = requests.add(messages)
    call = Call(time=request.time, conversation=conversation, length=length)
    if answer is None:
        call.complete, call.ended_by = False, "no answer follows"
    elif (text := answer.text()) is None:
        call.complete, call.ended_by = False, "the answer is empty"
    else:
        call.response = {"content": text}
    prompts = [as_text(message["content"]) for message in messages if message["role"] == "user"]
    run.task = run.task or next(reversed(prompts), None)
    run.events.append(call)


REQUESTS = Format(
    name="aider-llm", reader=FormatReader(recognizes=recognizes_requests, read=read_requests, counting=WHOLE)
)
