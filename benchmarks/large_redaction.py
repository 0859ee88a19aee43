"""How long a redaction of a large journal takes, and how much memory: `python -m benchmarks.large_redaction [MB…]`.

The journals have requests with source code, streamed answers and tool results, as an agent that edits code makes them.
Each size is measured in a process of its own. Linear time and bounded memory show as equal numbers in both columns.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trace_recorder.retention.redaction import redact_files
from trace_recorder.retention.redaction_rules import RedactionRules
from trace_recorder.storage.journal_lines import encode_lines
from trace_recorder.storage.stream_chunks import packed

SIZES_MB = (64, 256, 1024)
TEXT = "Jörg O'Neil"
_SOURCES = [path.read_text("utf-8") for path in sorted(Path(json.__file__).parent.parent.glob("*.py"))[:60]]
_TIME = "2025-06-12T22:05:46.433797+00:00"


def write_journal(path: Path, megabytes: int) -> None:
    """Write the journal of an ended run with this size. Every hundredth call has the text."""
    begin = {"schema": "trace-recorder/journal", "version": 1, "trajectory_id": "t", "provider": "p", "model": "m"}
    records = [("start", {**begin, "max_steps": None, "task": f"for {TEXT}", "metadata": {}})]
    seq = number = 0
    with path.open("wb") as file:
        while file.tell() < megabytes * 1_000_000:
            records += _call(number)
            lines = [(kind, json.dumps(data, ensure_ascii=False)) for kind, data in records]
            file.writelines(encode_lines(lines, seq + 1, _TIME))
            seq, number, records = seq + len(records), number + 1, []
        end = {"status": "completed", "success": True, "execution_time": 1.0, "final_result": "done"}
        file.writelines(encode_lines([("finalize", json.dumps(end))], seq + 1, _TIME))


def _call(number: int) -> list[tuple[str, object]]:
    """Return the records of a call: a new message with source code, a streamed answer, and a tool."""
    source = _SOURCES[number % len(_SOURCES)][:40_000]
    answer = f"{source[:3_000]} {TEXT if number % 100 == 0 else 'nobody'} {number}"
    message = {"role": "user", "content": f"{number}: {source} {TEXT if number % 100 == 50 else ''}"}
    call = {"interaction_id": f"llm_{number + 1}", "attempt": 0}
    request = {"api": "openai-chat", "provider": "p", "method": "POST", "url": "u", "stream": True}
    items = {"messages": [[max(0, number - 20), number]]}
    events = [
        {"choices": [{"index": 0, "delta": {"content": text}}]} for text in re.findall(r".{1,5}", answer, re.DOTALL)
    ]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}]}
    head = {"status": 200, "time_to_first_token_seconds": 0.1, "headers": {}}
    tool = {"execution_id": f"tool_{number + 1}", "name": "read"}
    return [
        ("item", {"n": number, "value": message}),
        ("llm_request", {**call, **request, "items": items, "headers": {}, "body": {"model": "m", "messages": None}}),
        ("llm_stream", {**call, **head, "bytes": len(stream), "zlib": packed(stream, 1)}),
        ("llm_response", {**call, "status": 200, "complete": True, "stream": True, "headers": {}, "assembled": whole}),
        ("tool_call", {**tool, "arguments": {"path": f"a{number}.py"}}),
        ("tool_result", {**tool, "success": True, "result": source}),
    ]


def measure(megabytes: int, rule: str) -> None:
    """Redact one journal. Print the processor seconds for each 100 MB, and the peak of the process's memory."""
    rules = RedactionRules([TEXT]) if rule == "text" else RedactionRules(patterns=[r"J\w+ O'\w+"])
    with tempfile.TemporaryDirectory(dir=".") as directory:
        journal = Path(directory) / "run.jsonl"
        write_journal(journal, megabytes)
        size = journal.stat().st_size / 1e6
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began = time.process_time()
        redacted = redact_files(journal, rules)
        seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{rule:8}{size:8.0f} MB {redacted.count:6} places {seconds:8.1f} s {100 * seconds / size:6.2f} s/100 MB "
        f"{peak:6.0f} MB peak ({base:.0f} MB before), left: {len(redacted.leftovers)}",
        flush=True,
    )


def main(arguments: list[str]) -> None:
    """Measure each size in a process of its own, by a text and by a pattern."""
    if len(arguments) == 2:
        measure(int(arguments[0]), arguments[1])
        return
    for megabytes in map(int, arguments or map(str, SIZES_MB)):
        for rule in ("text", "pattern"):
            subprocess.run([sys.executable, "-m", "benchmarks.large_redaction", str(megabytes), rule], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
