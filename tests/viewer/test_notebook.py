"""The HTML of a run, and of its parts, in a notebook."""

from __future__ import annotations

import html.parser
import re
from html import unescape
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import trace_recorder
from tests.processes import python
from tests.viewer.recorded import TASK, growing, record
from trace_recorder import AgentStep, LLMInteraction, Message, ToolCall, Trajectory, load
from trace_recorder.viewer.one_file import one_file

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&\u202e\ud83d"


class _Tags(html.parser.HTMLParser):
    """A parser that collects the names of the elements and attributes in an HTML text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_run_and_its_parts_have_short_html(tmp_path: Path) -> None:
    """The HTML of a run, and of each of its parts, is a small table, however long the run is."""
    run = load(record(tmp_path / "run.json", [[{"role": "system", "content": "x" * 100_000}, TASK], *growing(40)]))

    for value in (run, run.llm_interactions[-1], run.agent_steps[0], run.llm_interactions[0].input_messages[0]):
        shown = value._repr_html_()
        assert shown.startswith("<table>")
        assert len(shown) < 10_000
    assert "fix the failing test" in run._repr_html_()
    assert "<summary><bdi>41 steps</bdi></summary>" in run._repr_html_()


def test_hostile_text_is_escaped_in_short_html() -> None:
    """Recorded text adds no element to the HTML, and the HTML can be encoded."""
    call = ToolCall(HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
    message = Message(HOSTILE, HOSTILE, (call,), name=HOSTILE, reasoning=HOSTILE)
    step = AgentStep(1, HOSTILE, HOSTILE, tool_calls=(call,), error=HOSTILE, reflection=HOSTILE, agent=HOSTILE)
    run = Trajectory(task=HOSTILE, model=HOSTILE, final_result={HOSTILE: [HOSTILE]}, agent_steps=[step])

    for value in (message, step, run):
        shown = _Tags(value._repr_html_())
        value._repr_html_().encode()
        assert shown.tags <= {"table", "caption", "b", "tr", "th", "td", "bdi", "details", "summary"}
        assert shown.attributes <= {"style"}


def test_a_run_is_displayed_as_its_page_in_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`display` puts the self-contained page into a frame that may do nothing but run its script."""
    run = load(record(tmp_path / "run.json", growing(2)))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    try:
        with capture_output() as captured:
            trace_recorder.display(run, height=300)
    finally:
        InteractiveShell.clear_instance()

    [shown] = captured.outputs
    frame = shown.data["text/html"]
    match = re.fullmatch(
        r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)" title="trajectory" style="([^"]*)"></iframe>', frame
    )
    assert match is not None
    assert unescape(match[1]) == one_file(run)
    assert "height:300px" in match[2]


def test_an_interaction_without_a_request_has_html(tmp_path: Path) -> None:
    """An interaction whose request was lost in a damaged journal is shown with its other parts."""
    path = record(tmp_path / "run.json", growing(1)).with_suffix(".jsonl")
    path.write_bytes(path.read_bytes().replace(b"Be brief.", b"Xe brief.", 1))
    [one] = load(path).llm_interactions

    assert isinstance(one, LLMInteraction)
    assert "try 1" in one._repr_html_()


def test_outside_of_a_notebook_display_raises_an_error() -> None:
    """Without IPython, `display` raises an error of one sentence, and reads no run."""
    ended = python(
        "import sys; sys.modules['IPython'] = None\n"
        "import trace_recorder\n"
        "try: trace_recorder.display(trace_recorder.Trajectory())\n"
        "except trace_recorder.MissingExtraError as error: print(error)"
    )

    assert "`trace-recorder view` shows it" in ended.stdout
