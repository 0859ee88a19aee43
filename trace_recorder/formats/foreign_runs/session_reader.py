"""What the readers of agents' sessions share: the run, the history of its agent, and how facts get into the run.

A format whose lines need no state of their own makes a `SessionReader` and passes it to functions. A format with more
state has a subclass with the state. Both yield the run that `finish` returns.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, add_message, first_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.values.messages import Payload


class SessionReader:
    """A reader of one session: its run, and the history of an agent.

    The default of `history` is a history of the main agent, whose events are the events of the run.
    """

    def __init__(self, run: ForeignRun, history: AgentHistory | None = None) -> None:
        self.run = run
        self.history = history or AgentHistory(run.events)

    def lines(self, source: Source) -> Iterator[Members]:
        """Yield the objects in the lines of a file. A line that is not an object becomes a gap."""
        return session_lines(source.lines(), self.history.events.append)

    def objects(self, values: Payload, name: str) -> Iterator[tuple[int, Members]]:
        """Yield the objects in a list, each with its number in the list, counted from 1.

        Any other value becomes a gap, which `name` and the number name.
        """
        for number, value in enumerate(as_list(values), start=1):
            if isinstance(value, dict):
                yield number, value
            else:
                self.add_gap(f"{name} {number}", "it is not an object")

    def keep(self, what: str, value: Payload, time: str = "") -> None:
        """Keep a part of the file unchanged, because a trajectory has no member for it."""
        self.history.events.append(TimedFact.unread(what, value, time))

    def add_gap(self, what: str, why: str, time: str = "") -> None:
        """Add a gap: a part of the file that cannot be read, and the reason."""
        self.history.events.append(TimedFact.gap(what, why, time))

    def annotate(self, key: str, value: Payload, time: str = "") -> None:
        """Add an annotation of the whole run."""
        self.history.events.append(TimedFact.annotation(key, value, time))

    def keep_rest(self, what: str, members: Members, *read: str) -> None:
        """Keep the members of an object that are not among those that were `read`, if there are any."""
        rest = {name: value for name, value in members.items() if name not in read}
        if rest:
            self.keep(what, rest)

    def add_prompt(self, content: Payload, time: str) -> None:
        """Add a user's message in Anthropic's form. The first text of the first message is the task."""
        self.note_task(content)
        add_message(self.history, content, time)

    def note_task(self, content: Payload) -> None:
        """Set the task to the first text of a message, unless the task is known."""
        self.run.task = self.run.task or first_text(content) or None

    def note_model(self, model: str | None) -> None:
        """Set the model of the run, unless the model is known."""
        self.run.model = self.run.model or model

    def note_identity(self, identity: Payload) -> None:
        """Set the id of the run if the value is an id."""
        self.run.identity = as_text(identity) or self.run.identity

    def finish(self) -> ForeignRun:
        """Return the run, with the messages that no call saw.

        Its executions are those whose times are the times of lines, and then those that the format has added.
        """
        self.history.finish()
        self.run.executions[:0] = self.history.executions()
        return self.run
