"""A run whose texts are hard to draw: code with tags, odd names of files and languages, and deep nesting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openai import OpenAI

from tests.viewer_page.agents import Agent
from tests.viewer_page.provider import Reply, provider
from trace_recorder import TrajectoryRecorder

DEPTH = 8_000
NESTED = "[" * DEPTH + '"innermost"' + "]" * DEPTH
PAGE = "<!doctype html>\n<!-- a remark -->\n<html><body><script>\nconst a = 1;\n</script></body></html>\n"
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg">\n  <!-- a circle -->\n  <circle r="4"/>\n</svg>'
WITH_TAGS = "const page = <div>{/* <!-- x --> */}</div>;\nexport default page;"


def _block(language: str, code: str) -> str:
    return f"```{language}\n{code}\n```\n\n"


XML = "<a><!-- b --></a>"
BLOCKS = {"html": PAGE, "xml": XML, "svg": DRAWING, "js": WITH_TAGS, "ts": WITH_TAGS, "constructor": "c"}
CODE = "".join(f"This is {language}:\n\n{_block(language, code)}" for language, code in BLOCKS.items())


def hard_to_draw(directory: Path) -> Path:
    """Record the run."""
    files = [("write_file", {"path": path, "content": PAGE}) for path in ("page.html", "a.constructor", "b.__proto__")]
    replies = (
        Reply(f"{CODE}All blocks are above.", files),
        Reply("I look at nested JSON.", [("nested", {"depth": DEPTH}), ("take", f'{{"value": {NESTED}}}')]),
        Reply("> " * 3_000 + "a quote in quotes"),
        Reply("The end."),
    )
    with provider(replies) as url, TrajectoryRecorder(task="Draw odd texts", directory=directory) as recorder:
        client = recorder.wrap(OpenAI(base_url=url, api_key="sk-none"))
        agent = Agent(recorder, client, [{"role": "user", "content": CODE}])
        agent.tools = {"write_file": write_file, "nested": nested}
        agent.turn()
        try:
            agent.turn()
        except (KeyError, RecursionError):
            agent.messages.append({"role": "tool", "tool_call_id": "call_1_1", "content": NESTED})
        agent.turn()
        agent.turn()
        recorder.finalize(success=True, final_result={"page": PAGE, "sign": "\u00010"})
        return recorder.trajectory_path


def write_file(path: str, content: str) -> Any:
    """Return the result of a tool that wrote a file."""
    return {"wrote": path, "content": content}


def nested(depth: int) -> str:
    """Return JSON of nested lists."""
    return NESTED
