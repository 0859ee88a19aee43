"""The calls and tools that a run waits for: open calls with their text so far, and tools that have not returned.

On a terminal, `tail` draws these lines below the steps, redraws them as time passes, and removes them at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trace_recorder.cli.text_layout import compact, escape_control_characters, in_one_line, pluralize, seconds
from trace_recorder.clocks import seconds_between
from trace_recorder.values.messages import LLMResponse
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.views.conversations.steps_and_calls import StepOrCall

MAX_TEXT_LINES = 8
"""How many of the last lines of a text are shown."""


def waiting_for(part: StepOrCall, now: str) -> Iterator[Text]:
    """Yield the lines for an open step or call: its waiting time, and its text so far."""
    call = part.call
    if call is None or (call.answered and call.complete):
        names = [
            f"{tool.name} {compact(tool.arguments, full=False)}"
            for _, tool, result in tool_uses(part.tool_calls, part.tool_results)
            if tool is not None and result is None
        ]
        if names:
            spent = call.duration_seconds if call else None
            yield _line(", ".join(names), part.timestamp, now, spent or 0.0)
        return
    response = call.response
    text = response.content or response.reasoning or _arguments(response)
    served = " ".join(filter(None, (call.provider, call.model)))
    came = f"{pluralize(len(text), 'character')} so far" if text else "no answer yet"
    yield _line(", ".join(filter(None, (call.interaction_id, served, came))), part.timestamp, now)
    if text:
        yield Text(escape_control_characters(text.rstrip("\n")), "green" if response.content else "italic")


def _line(what: str, since: str | None, now: str, spent: float = 0.0) -> Text:
    """Return a line with the awaited call or tools and their duration, without the `spent` seconds before."""
    elapsed = seconds_between(since, now)
    whole = max(0, round((elapsed or 0.0) - spent))
    duration = f"{whole} s" if whole < 60 else seconds(whole)
    return Text(in_one_line(f"waiting {duration}: {what}"), "cyan")


def _arguments(response: LLMResponse) -> str:
    return "\n".join(f"{tool.name} {compact(tool.arguments, full=True)}" for tool in response.tool_calls)


class WaitingArea:
    """The lines at the end of a terminal that are redrawn. A pipe gets no such lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def draw(self, texts: Iterable[Text]) -> None:
        """Draw the last lines of each text in place of the earlier lines. In a pipe, the texts are not read."""
        if not self._console.is_terminal:
            return
        if not self._live.is_started:
            self._live.start()
        lines = [line for text in texts for line in self._last_lines(text)]
        self._live.update(Text("\n").join(lines), refresh=True)

    def clear(self) -> None:
        """Remove them."""
        self._live.stop()

    def _last_lines(self, text: Text) -> Sequence[Text]:
        width = self._console.width
        end = Text(text.plain[-MAX_TEXT_LINES * width :], text.style)
        return end.wrap(self._console, width)[-MAX_TEXT_LINES:]
