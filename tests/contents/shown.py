"""The content that an export shows of a run: its JSON, read by the format's description without code of the views.

Each reader returns conversations, or a conversation for each exchange if the format is organised by exchange. A
conversation is messages in order. A call is identified by its position among the calls of the conversation, because ids
may be made up.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contents.script import Tokens

Json = Any


@dataclass(slots=True)
class Message:
    """A message.

    If it is a tool result, `of` is the position of its call, or None if the format does not state the call.
    """

    role: str
    text: str
    thought: str = ""
    calls: list[tuple[str, Json]] = field(default_factory=list)
    of: int | None = None
    images: list[bytes] = field(default_factory=list)
    tokens: Tokens | None = None


@dataclass(slots=True)
class Conversation:
    """Messages in order, and how many model calls of the conversation failed."""

    messages: list[Message] = field(default_factory=list)
    failures: int = 0
    _ids: dict[str, int] = field(default_factory=dict)
    _calls: int = 0

    def say(self, role: str, content: Json, base: Path, **more: Json) -> Message:
        """Add a message with a text, or with parts."""
        images = [found for part in parts_of(content) if (found := image_in(part, base)) is not None]
        message = Message(role, text_of(content), images=images, **more)
        self.messages.append(message)
        return message

    def call(self, message: Message, identity: str, name: str, arguments: Json) -> None:
        """Add a call to a message."""
        message.calls.append((name, json.loads(arguments) if isinstance(arguments, str) else arguments))
        self._ids[identity] = self._calls
        self._calls += 1

    def result(self, identity: str | None, content: Json, base: Path) -> None:
        """Add the result of a tool."""
        message = self.say("tool", content, base, of=self._ids.get(identity or ""))
        message.text = given(message.text)


def parts_of(content: Json) -> list[Mapping[str, Json]]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def text_of(content: Json) -> str:
    """Return a text, or the joined texts of parts."""
    if not isinstance(content, list):
        return content or ""
    return "".join(part if isinstance(part, str) else part.get("text") or "" for part in content)


def given(text: str) -> str:
    """Return the text of a tool result. Gemini's results are objects, which in these scripts contain one text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return str(value["result"]) if isinstance(value, dict) and value.keys() == {"result"} else text


def image_in(part: Mapping[str, Json], base: Path) -> bytes | None:
    """Return the bytes of an image part as the format's reader would decode them, or None if it is not an image."""
    source = part.get("source") or {}
    if "path" in source:
        return source["path"].encode() if "://" in source["path"] else (base / source["path"]).read_bytes()
    url = part.get("image_url")
    address = url.get("url") if isinstance(url, dict) else url
    if address is not None:
        return decoded(address.partition("base64,")[2])
    if "inlineData" in part:  # Gemini's own form uses the URL alphabet
        return base64.urlsafe_b64decode(part["inlineData"]["data"])
    data = source.get("data") or part.get("data") or part.get("url")
    return decoded(data) if isinstance(data, str) else None


def decoded(text: str) -> bytes:
    """Decode base64 in the standard alphabet only, as most readers do."""
    try:
        return base64.b64decode(text.partition("base64,")[2] or text, validate=True)
    except binascii.Error:
        return b"(no base64)"


def usage(value: Mapping[str, Json] | None, dialect: str) -> Tokens | None:
    """Return tokens as the provider counts them: Anthropic's prompt excludes cached tokens, Gemini's output excludes
    thoughts.
    """
    if not value:
        return None
    cached = value.get("cache_read_input_tokens") or 0
    more = cached + (value.get("cache_creation_input_tokens") or 0) if dialect == "anthropic" else 0
    thought = value.get("reasoning_tokens") or 0 if dialect == "google" else 0
    return Tokens(value.get("input_tokens", 0) + more, value.get("output_tokens", 0) + thought, cached)


# ── the formats ──────────────────────────────────────────────────────────────────────────────────────────────────────


def atif(documents: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read steps by their source. A tool's result is in the observation of the step that called the tool."""
    found = []
    for document in documents:
        found.append(_atif(document, base))
        found += atif(document.get("subagent_trajectories") or [], base, dialect)
    return found


def _atif(document: Json, base: Path) -> Conversation:
    talk = Conversation()
    for step in document["steps"]:
        if step["source"] != "agent":
            talk.say(step["source"], step["message"], base)
            continue
        if (step.get("extra") or {}).get("error"):
            talk.failures += 1
            continue
        message = talk.say("assistant", step["message"], base, thought=step.get("reasoning_content") or "")
        if counted := step.get("metrics"):
            tokens = (counted.get("prompt_tokens") or 0, counted.get("completion_tokens") or 0)
            message.tokens = Tokens(*tokens, counted.get("cached_tokens") or 0)
        for call in step.get("tool_calls") or ():
            talk.call(message, call["tool_call_id"], call["function_name"], call["arguments"])
        for result in (step.get("observation") or {}).get("results") or ():
            if result.get("content") is not None:
                talk.result(result.get("source_call_id"), result["content"], base)
    return talk


def hierarchy(documents: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read the last step of each agent, which has every message before it."""
    last = {(step["info"] or {}).get("agent_id"): step for document in documents for step in document["steps"]}
    return [_hierarchy(step["messages"], base) for step in last.values()]


def hierarchy_steps(documents: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read every step, for runs whose histories are rewritten."""
    return [_hierarchy(step["messages"], base) for document in documents for step in document["steps"]]


def _hierarchy(messages: list[Json], base: Path) -> Conversation:
    talk = Conversation()
    for raw in messages:
        if raw["tool_response"]:
            talk.result(raw["tool_response"]["id"], raw["content"], base)
            continue
        message = talk.say(raw["role"], raw["content"], base, thought=raw["reasoning"] or "")
        parts = (raw["metadata"] or {}).get("parts")
        message.images += [image for part in parts_of(parts) if (image := image_in(part, base)) is not None]
        if counted := raw["usage"]:
            cached = (counted.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            message.tokens = Tokens(counted.get("prompt_tokens") or 0, counted.get("completion_tokens") or 0, cached)
        for call in raw["tool_calls"] or ():
            talk.call(message, call["id"], call["name"], call["arguments"])
    return talk


def invariant(rows: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read events in the order of time. The events of an agent are its conversation."""
    talks: dict[str | None, Conversation] = {}
    for row in rows:
        for one in row.get("messages") or ():
            told = one.get("metadata") or {}
            talk = talks.setdefault(told.get("agent_id"), Conversation())
            _chat_message(talk, one, base, told.get("reasoning"), usage(told.get("usage"), dialect))
    return list(talks.values())


def chat_rows(rows: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read rows of messages in OpenAI's form, or of a prompt and its completion."""
    talks = []
    for row in rows:
        talk = Conversation()
        for one in row.get("messages") or [*row["prompt"], *row["completion"]]:
            _chat_message(talk, one, base, one.get("reasoning_content"), None)
        talks.append(talk)
    return talks


def _chat_message(talk: Conversation, raw: Json, base: Path, thought: str | None, tokens: Tokens | None) -> None:
    if raw["role"] == "tool":
        talk.result(raw["tool_call_id"], raw["content"], base)
        return
    message = talk.say(raw["role"], raw.get("content"), base, thought=thought or "", tokens=tokens)
    for call in raw.get("tool_calls") or ():
        function = call.get("function", call)
        talk.call(message, call["id"], function["name"], function["arguments"])


def traces(sessions: list[list[Json]], base: Path, dialect: str) -> list[Conversation]:
    """Read Pi's sessions: parts of text, thinking and calls. The input does not include cached tokens."""
    return [_session(lines, base) for lines in sessions]


def _session(lines: Iterable[Json], base: Path) -> Conversation:
    talk = Conversation()
    for line in lines:
        if line["type"] != "message":
            continue
        raw = line["message"]
        parts = raw["content"] if isinstance(raw["content"], list) else [{"type": "text", "text": raw["content"]}]
        if raw.get("stopReason") == "error":
            talk.failures += 1
        elif raw["role"] == "toolResult":
            talk.result(raw["toolCallId"], parts, base)
        else:
            thought = "".join(part.get("thinking") or "" for part in parts)
            message = talk.say(raw["role"], parts, base, thought=thought)
            if counted := raw.get("usage"):
                cached = counted.get("cacheRead") or 0
                prompt = (counted.get("input") or 0) + cached + (counted.get("cacheWrite") or 0)
                message.tokens = Tokens(prompt, counted.get("output") or 0, cached)
            for part in parts:
                if part["type"] == "toolCall":
                    talk.call(message, part["id"], part["name"], part["arguments"])
    return talk


def session_traces(sessions: list[list[Json]], base: Path, dialect: str) -> list[Conversation]:
    """Read sessions of the Hub's simple form: texts, thoughts, calls with their arguments as JSON, and results."""
    talks = []
    for lines in sessions:
        talk = Conversation()
        for raw in (line["message"] for line in lines if line["type"] == "message"):
            if raw["role"] == "tool":
                talk.result(raw["toolCallId"], raw["content"], base)
                continue
            message = talk.say(raw["role"], raw["content"], base, thought=raw.get("reasoningContent") or "")
            for call in raw.get("toolCalls", ()):
                function = call["function"]
                talk.call(message, call["id"], function["name"], json.loads(function["arguments"]))
        talks.append(talk)
    return talks


def trae(documents: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read a Trae document exchange by exchange: a message has one call or one result, and each answer has its
    calls.
    """
    return [_exchange(one, base, dialect) for document in documents for one in document["llm_interactions"]]


def _exchange(interaction: Json, base: Path, dialect: str) -> Conversation:
    talk = Conversation()
    for raw in interaction["input_messages"]:
        if raw.get("tool_result"):
            talk.result(raw["tool_result"]["call_id"], raw["tool_result"]["result"], base)
        elif raw["role"] == "tool":
            talk.result(raw["call_id"], raw["content"], base)
        elif raw.get("tool_call") and talk.messages and raw["content"] is None and talk.messages[-1].calls:
            _calls(talk, talk.messages[-1], [raw["tool_call"]])
        else:
            message = talk.say(raw["role"], raw["content"], base, thought=raw.get("reasoning") or "")
            message.images += map(decoded, (raw.get("extra") or {}).get("images") or ())
            _calls(talk, message, raw.get("tool_calls") or ([raw["tool_call"]] if raw.get("tool_call") else []))
    answer = interaction["response"]
    if not answer:
        talk.failures += 1
        return talk
    message = talk.say("assistant", answer["content"], base, thought=answer.get("reasoning") or "")
    message.tokens = usage(answer.get("usage"), dialect)
    _calls(talk, message, answer.get("tool_calls") or [])
    return talk


def _calls(talk: Conversation, message: Message, calls: list[Json]) -> None:
    for call in calls:
        talk.call(message, call["call_id"], call["name"], call["arguments"])


def toolbrain(documents: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read each turn: the parsed text of the model, and the results of the tools line by line."""
    return [_turn(turn) for document in documents for turn in document]


def _turn(turn: Json) -> Conversation:
    talk = Conversation([Message("prompt", turn["prompt_for_model"])])
    parsed = turn["parsed_completion"]
    message = Message("assistant", parsed["final_answer"] or "", thought=parsed["thought"] or "")
    talk.messages.append(message)
    for line in ast.parse(parsed["tool_code"] or "").body:
        call = line.value  # type: ignore[attr-defined]
        message.calls.append((call.func.id, {one.arg: ast.literal_eval(one.value) for one in call.keywords}))
    for text in (turn["tool_output"] or "").split("\n") if turn["tool_output"] is not None else ():
        talk.messages.append(Message("tool", given(text)))
    return talk


Shown = Callable[[list[Json], Path, str], list[Conversation]]


def verifiers(episodes: list[Json], base: Path, dialect: str) -> list[Conversation]:
    """Read the path to each leaf of a graph of messages. The counts of a call belong to the node of its answer."""
    talks = []
    for episode in episodes:
        for trace in episode["traces"]:
            nodes = trace["nodes"]
            leaves = {*range(len(nodes))} - {node["parent"] for node in nodes}
            counted = {call.get("node"): call.get("usage") for call in trace["calls"]}
            talks += [_path(nodes, leaf, counted, base) for leaf in sorted(leaves)]
            if talks:
                talks[-1].failures += sum(call.get("node") is None for call in trace["calls"])
    return talks


def _path(nodes: list[Json], leaf: int | None, counted: Mapping[int | None, Json], base: Path) -> Conversation:
    path = []
    while leaf is not None:
        path.append(leaf)
        leaf = nodes[leaf]["parent"]
    talk = Conversation()
    for number in reversed(path):
        raw, tokens = nodes[number]["message"], None
        if said := counted.get(number):
            cached = said.get("cached_input_tokens") or 0
            tokens = Tokens(said["prompt_tokens"] + cached, said["completion_tokens"], cached)
        _chat_message(talk, raw, base, raw.get("reasoning_content"), tokens)
    return talk
