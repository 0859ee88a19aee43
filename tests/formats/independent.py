"""A second reading of the newest files, with the simplest code for each, of answers, results and times.

`python -m tests.formats.independent` prints the table of results/imports.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from tests.formats.files import DIRECTORY, loaded
from trace_recorder.values.messages import Payload

NEWEST = DIRECTORY / "newest"
_Lines = list[dict[str, Any]]
Calls = list[tuple[str, str, Payload]]


class Answer(NamedTuple):
    """An answer of a model: its time, its tokens, its text and its tool calls (id, name, arguments)."""

    time: str
    input_tokens: int | None
    output_tokens: int | None
    text: str | None
    calls: Calls


class Reading(NamedTuple):
    """The answers in a file in the order of time, and the tool results by the ids of their calls."""

    answers: list[Answer]
    results: dict[str, str]


def ours(path: Path) -> Reading:
    """Return the reading of a file by our importer."""
    answers: list[Answer] = []
    results: dict[str, str] = {}
    for run in loaded(path):
        for call in run.llm_interactions:
            asked = [(tool_call.call_id, tool_call.name, tool_call.arguments) for tool_call in call.response.tool_calls]
            usage = call.response.usage
            text = call.response.content or None
            answers.append(Answer(call.timestamp or "", usage.input_tokens, usage.output_tokens, text, asked))
        for result in (one for step in run.agent_steps for one in step.tool_results):
            results[result.call_id] = _text(result.error or result.result)
    return Reading(sorted(answers, key=lambda answer: answer.time), results)


def _text(value: Any) -> str:
    """Return the texts in a result, in order."""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if isinstance(value, dict):
        return _text(value["text"]) if "text" in value else json.dumps(value, sort_keys=True)
    return "" if value is None else str(value)


def _time(value: Any) -> str:
    """Return a time in our form. The source has a text with a Z, or a number of milliseconds."""
    if isinstance(value, str):
        return datetime.fromisoformat(value).isoformat(timespec="microseconds")
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)).isoformat(timespec="microseconds")


def _lines(path: Path) -> _Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _codex(path: Path) -> Reading:
    """Read the items between two inputs as an answer, with the record of tokens that follows the answer."""
    answers: list[Answer] = []
    results: dict[str, str] = {}
    time, text, calls = "", None, []
    for line in _lines(path):
        item = line["payload"]
        kind = item.get("type") if line["type"] == "response_item" else None
        if kind == "function_call_output":
            results[item["call_id"]] = item["output"]
        elif kind == "function_call":
            calls.append((item["call_id"], item["name"], json.loads(item["arguments"])))
            time = time or line["timestamp"]
        elif kind == "message" and item["role"] == "assistant":
            text, time = item["content"][0]["text"], time or line["timestamp"]
        elif line["type"] == "token_usage_record":
            usage = item["usage"]
            answers.append(Answer(_time(time), usage["input_tokens"], usage["output_tokens"], text, calls))
            time, text, calls = "", None, []
    return Reading(answers, results)


def _claude(path: Path) -> Reading:
    """Read the lines of each answer of the session and its sub-agents. An answer has the time of the request that it
    names.
    """
    files = [path, *sorted(path.parent.glob(f"{path.stem}/subagents/*.jsonl"))]
    lines = [line for file in files for line in _lines(file)]
    sent = {line["id"]: line["timestamp"] for line in lines if line["type"] == "api-request"}
    answers: dict[str, Answer] = {}
    results: dict[str, str] = {}
    for line in lines:
        message = line.get("message", {})
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        if line["type"] == "assistant":
            before = answers.get(message["id"], Answer("", None, None, None, []))
            texts = [before.text or "", *(block["text"] for block in blocks if block["type"] == "text")]
            calls = [(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
            usage, time = message["usage"], _time(sent[line["requestRef"]])
            counts = usage["input_tokens"], usage["output_tokens"]
            answers[message["id"]] = Answer(time, *counts, "".join(texts) or None, before.calls + calls)
        results |= {block["tool_use_id"]: _text(block["content"]) for block in blocks if block["type"] == "tool_result"}
    return Reading(sorted(answers.values(), key=lambda answer: answer.time), results)


def _gemini(path: Path) -> Reading:
    """Read the last line of each answer, which has the results too."""
    last = {line["id"]: line for line in _lines(path) if line.get("type") == "gemini"}
    results = {
        call["id"]: part["functionResponse"]["response"]["output"]
        for line in last.values()
        for call in line.get("toolCalls", [])
        for part in call["result"]
    }
    answers = [
        Answer(
            _time(line["timestamp"]),
            line["tokens"]["input"],
            line["tokens"]["output"],
            line["content"],
            [(call["id"], call["name"], call["args"]) for call in line.get("toolCalls", [])],
        )
        for line in last.values()
    ]
    return Reading(answers, results)


def _gemini_stream(path: Path) -> Reading:
    """Read the parts before and after results as answers. The file states tokens only for the whole run."""
    answers: list[Answer] = []
    results: dict[str, str] = {}
    is_open = False
    for line in _lines(path):
        if line["type"] == "tool_result":
            results[line["tool_id"]], is_open = line["output"], False
        elif line["type"] == "tool_use" or line.get("role") == "assistant":
            if not is_open:
                answers.append(Answer(_time(line["timestamp"]), None, None, None, []))
                is_open = True
            answer = answers[-1]
            if line["type"] == "tool_use":
                answer.calls.append((line["tool_id"], line["tool_name"], line["parameters"]))
            else:
                answers[-1] = answer._replace(text=(answer.text or "") + line["content"])
    return Reading(answers, results)


def _pi(path: Path) -> Reading:
    answers: list[Answer] = []
    results: dict[str, str] = {}
    for line in _lines(path):
        message = line.get("message", {})
        if message.get("role") == "assistant":
            calls = [
                (one["id"], one["name"], one["arguments"]) for one in message["content"] if one["type"] == "toolCall"
            ]
            text = "".join(one["text"] for one in message["content"] if one["type"] == "text") or None
            usage = message["usage"]
            answers.append(Answer(_time(line["timestamp"]), usage["input"], usage["output"], text, calls))
        elif message.get("role") == "toolResult":
            results[message["toolCallId"]] = _text(message["content"])
    return Reading(answers, results)


def _qwen(path: Path) -> Reading:
    answers: list[Answer] = []
    results: dict[str, str] = {}
    for line in _lines(path):
        parts = line.get("message", {}).get("parts", [])
        if line["type"] == "assistant":
            asked = [part["functionCall"] for part in parts if "functionCall" in part]
            usage = line["usageMetadata"]
            counts = usage["promptTokenCount"], usage["candidatesTokenCount"]
            text = "".join(part.get("text", "") for part in parts) or None
            calls = [(one["id"], one["name"], one["args"]) for one in asked]
            answers.append(Answer(_time(line["timestamp"]), *counts, text, calls))
        elif line["type"] == "tool_result":
            given = [part["functionResponse"] for part in parts]
            results |= {one["id"]: one["response"]["output"] for one in given}
    return Reading(answers, results)


def _cline(path: Path) -> Reading:
    answers: list[Answer] = []
    results: dict[str, str] = {}
    for message in json.loads(path.read_text())["messages"]:
        blocks = message["content"]
        if message["role"] == "assistant":
            metrics = message.get("metrics", {})
            counts = metrics.get("inputTokens"), metrics.get("outputTokens")
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            calls = [(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
            answers.append(Answer(_time(message["ts"]), *counts, "\n\n".join(texts) or None, calls))
        results |= {block["tool_use_id"]: _text(block["content"]) for block in blocks if block["type"] == "tool_result"}
    return Reading(answers, results)


def _completion_log(path: Path) -> Reading:
    log = json.loads(path.read_text())
    message, usage = log["response"]["choices"][0]["message"], log["response"]["usage"]
    calls = [
        (tool_call["id"], tool_call["function"]["name"], json.loads(tool_call["function"]["arguments"]))
        for tool_call in message["tool_calls"]
    ]
    time = _time(1000 * (log["timestamp"] - log["latency_sec"]))
    counts = usage["prompt_tokens"], usage["completion_tokens"]
    return Reading([Answer(time, *counts, message["content"] or None, calls)], {})


def _spans(path: Path) -> Reading:
    """Read the times of calls, and tool results by their spans. The answers are taken from the provider's record."""
    document = json.loads(path.read_text())
    spans = [span for one in document["resourceSpans"] for scope in one["scopeSpans"] for span in scope["spans"]]
    times: list[str] = []
    results: dict[str, str] = {}
    for span in spans:
        attributes = {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}
        if attributes.get("gen_ai.operation.name") in {"chat", "generate_content"}:
            start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(span["startTimeUnixNano"]) // 1000)
            times.append(start.isoformat(timespec="microseconds"))
        if "gen_ai.tool.call.result" in attributes:
            value = attributes["gen_ai.tool.call.result"]
            results[span["spanId"]] = _text(json.loads(value) if value[0] == "{" else value)
    return Reading([Answer(time, None, None, None, []) for time in sorted(times)], results)


READERS: dict[str, Callable[[Path], Reading]] = {
    "codex-0.169.0/*.jsonl": _codex,
    "claude-code-2.1.330/*.jsonl": _claude,
    "cli/gemini-cli-0.61.0.jsonl": _gemini,
    "cli/gemini-cli-0.61.0.stream.jsonl": _gemini_stream,
    "cli/pi-0.73.1.jsonl": _pi,
    "cli/qwen-code-0.15.10.jsonl": _qwen,
    "chat/cline-2026.messages.json": _cline,
    "chat/litellm_proxy__*.json": _completion_log,
    "spans/*.otlp.json": _spans,
}


def provider_said(path: Path) -> list[Answer] | None:
    """Return the scripted provider's answers, without times, if `truth.json` lists the file."""
    facts = json.loads((NEWEST / "truth.json").read_text()).get(path.relative_to(NEWEST).as_posix())
    if facts is None:
        return None
    return [
        Answer("", one["inp"], one["out"], one["text"] or None, [(c["id"], c["name"], c["args"]) for c in one["calls"]])
        for one in facts
    ]


def readings() -> Iterator[tuple[Path, Reading, Reading, list[Answer] | None]]:
    """Yield each of the newest files with our reading, the second reading, and the provider's record."""
    for pattern, read in READERS.items():
        for path in sorted(NEWEST.glob(pattern)):
            yield path, ours(path), read(path), provider_said(path)


def main() -> None:
    """Print the table of the newest files."""
    for path, read, _, answers in readings():
        calls = sum(len(answer.calls) for answer in read.answers)
        tokens = [
            sum(getattr(answer, name) or 0 for answer in read.answers) for name in ("input_tokens", "output_tokens")
        ]
        source = "`truth.json`; the rest the raw file" if answers else "the raw file"
        counts = f"{len(read.answers)} | {calls} | {len(read.results)} | {tokens[0]} / {tokens[1]}"
        print(f"| `{path.relative_to(NEWEST)}` | {counts} | {source} |")


if __name__ == "__main__":
    main()
