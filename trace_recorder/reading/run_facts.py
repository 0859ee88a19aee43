"""Collects the facts about the run as a whole: start and end, annotations, rewards, gaps, and damaged journal lines.

`run_fold.py` passes each record about the run to a method of `RunFacts`. `fold.py` reads the records of LLM
interactions, tools and steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_recorder.facts import (
    ABSENT,
    AnnotationFact,
    FinalizeFact,
    GapFact,
    RedactionFact,
    RemovalFact,
    RewardFact,
    StartFact,
    UnreadFact,
)
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.checked_types import check_types
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction, stated_error
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep, Gap, Removal, Reward, Status, Trajectory

MISSING_LINES = "lines of the journal"
"""The `what` of a gap for records that are missing from the journal."""
MAX_REPORTED_LINES = 1000
"""At most this many damaged lines have a gap each. One more gap states how many other damaged lines there are."""
NO_CONNECTIONS: Mapping[str, Payload] = {}


@dataclass(slots=True)
class RunFacts:
    """The facts of one run, collected record by record.

    `torn` is the last line if it was cut off, and `records` is how many records were read. `last_seq` is the number of
    the newest record, and `damaged_since` is how many damaged lines follow that record. `redactions` is how many
    secrets were masked, as the records state. `summaries` has the summaries of steps, by the JSON of the step number.
    """

    start: StartFact | None = None
    start_seq: int = 0
    start_time: str = ""
    end: FinalizeFact | None = None
    end_time: str = ""
    summaries: dict[str, Payload] = field(default_factory=dict)
    annotations: dict[str, Payload] = field(default_factory=dict)
    rewards: list[Reward] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    torn: BadLine | None = None
    records: int = 0
    last_seq: int = 0
    damaged_since: int = 0
    redactions: int = 0
    _annotated: dict[int, str] = field(default_factory=dict)
    _reported_lines: int = 0
    _unreported_lines: int = 0
    _unreported_bytes: int = 0

    @property
    def damage(self) -> int:
        """How many damaged lines the journal has, plus how many ranges of missing lines."""
        return self._reported_lines + self._unreported_lines + sum(gap.what == MISSING_LINES for gap in self.gaps)

    @property
    def ends_in_damage(self) -> bool:
        """Whether the last line is damaged, and not only cut off."""
        return self.damaged_since > 0 and self.torn is None

    def count(self, record: Record) -> None:
        """Count the secrets that were masked in a record.

        Add a gap if records are missing before the record. For a record without masked secrets that directly follows
        the last record, the caller may increase `last_seq` instead.
        """
        self.redactions += record.fact.redacted or 0
        if record.seq > self.last_seq + 1:
            self._report_missing(record)
        self.last_seq, self.damaged_since = record.seq, 0

    def _report_missing(self, record: Record) -> None:
        """Add a gap if more records are missing before `record` than damaged lines are in their place."""
        last, damaged = self.last_seq, self.damaged_since
        missing = record.seq - last - 1
        if missing <= damaged:
            return
        why = f"records {last + 1} to {record.seq - 1} are missing"
        if missing == 1:
            why = f"record {last + 1} is missing"
        self.gaps.append(Gap(record.time, MISSING_LINES, why))

    def add_bad_line(self, line: BadLine) -> None:
        """Add a line that is not a record.

        A cut-off last line gets no gap, because the writer was killed while writing it.
        """
        self.damaged_since += 1
        if line.torn:
            self.torn = line
        elif self._reported_lines < MAX_REPORTED_LINES:
            self._reported_lines += 1
            why = f"{line.length} bytes at {line.offset}: {line.why}"
            self.gaps.append(Gap(None, "a damaged line of the journal", why))
        else:
            self._unreported_lines += 1
            self._unreported_bytes += line.length

    def add_unusable(self, record: Record, error: Exception) -> None:
        """Add a gap for a record whose fact could not be used."""
        self._add_unusable(record.time, record.kind, record.seq, f"{type(error).__name__}: {error}")

    def add_unusable_call(self, time: str, kind: str, first_seq: int, error: Exception) -> None:
        """Add a gap for a call that could not be read. Its first record has this kind and this number."""
        self._add_unusable(time, kind, first_seq, f"{type(error).__name__}: {error}")

    def add_unread(self, record: Record, fact: UnreadFact) -> None:
        """Add a gap for a record that is not a fact, unless a later version wrote its kind."""
        if fact.why is not None:
            self._add_unusable(record.time, record.kind, record.seq, fact.why)

    def _add_unusable(self, time: str, kind: str, seq: int, why: str) -> None:
        self.gaps.append(Gap(time, f"a {kind} record could not be used", f"record {seq}: {why}"))

    def add_faults(self, record: Record) -> None:
        """Add a gap for each member of a record that could not be used."""
        for fault in record.faults:
            what = f"a member of a {record.kind} record could not be used"
            self.gaps.append(Gap(record.time, what, f"record {record.seq}: {fault}"))

    def add_start(self, record: Record, fact: StartFact) -> None:
        """Keep the first fact of the run. If there are several, keep the first."""
        if self.start is None:
            self.start, self.start_seq, self.start_time = fact, record.seq, record.time

    def add_end(self, record: Record, fact: FinalizeFact) -> None:
        """Keep how the run ended. If it is stated several times, keep the last."""
        self.end, self.end_time = fact, record.time

    def add_annotation(self, record: Record, fact: AnnotationFact) -> None:
        """Add an annotation of the run, or the summary of a step."""
        if fact.lakeview_step is not None:
            self.summaries[to_json(fact.lakeview_step)] = fact.value
        else:
            key = fact.key or ""
            self.annotations[key] = fact.value
            self._annotated[record.seq] = key

    def apply_redaction(self, _: Record, fact: RedactionFact) -> None:
        """Replace the data of an earlier record by a masked copy, because a value became known as a secret later."""
        if self.start is not None and fact.of == self.start_seq:
            if fact.task is not ABSENT:
                self.start = replace(self.start, task=fact.task)
            if fact.session is not None:
                self.start = replace(self.start, session=fact.session)
            if fact.metadata is not None:
                self.start = replace(self.start, metadata=fact.metadata)
        elif self._annotated.get(fact.of) in self.annotations and self._is_newest(fact.of):
            if fact.value is ABSENT:
                raise KeyError("value")
            self.annotations[self._annotated[fact.of]] = fact.value

    def _is_newest(self, seq: int) -> bool:
        """Return whether the record `seq` is the last that sets its annotation."""
        return not any(later > seq and key == self._annotated[seq] for later, key in self._annotated.items())

    def add_reward(self, record: Record, fact: RewardFact) -> None:
        """Add a reward."""
        reward = Reward(
            name=fact.name,
            value=fact.value,
            weight=fact.weight,
            step_number=fact.step_number,
            explanation=fact.explanation,
            timestamp=record.time or None,
        )
        self.rewards.append(check_types(reward))

    def add_removal(self, record: Record, fact: RemovalFact) -> None:
        """Add a removal of texts after the end of the run."""
        self.removals.append(check_types(Removal(record.time or None, tuple(fact.rules), fact.places)))

    def add_gap(self, record: Record, fact: GapFact) -> None:
        """Add a gap that the recorder itself wrote."""
        self.gaps.append(check_types(Gap(fact.time or record.time or None, fact.what, fact.why)))

    def all_gaps(self) -> tuple[Gap, ...]:
        """Return the gaps of the run, without the gaps of single interactions."""
        if not self._unreported_lines:
            return tuple(self.gaps)
        why = f"{self._unreported_lines} more, {self._unreported_bytes} bytes"
        return (*self.gaps, Gap(None, "damaged lines of the journal", why))

    def with_summary(self, step: AgentStep) -> AgentStep:
        """Return the step with the summary that was recorded for its number.

        Return the step unchanged if there is no summary.
        """
        summary = self.summaries.get(to_json(step.step_number))
        if summary is None:
            return step
        return replace(step, extra={**step.extra, "lakeview_summary": summary})

    @property
    def _is_fork(self) -> bool:
        return self.start is not None and self.start.forked_at is not None

    def fields_without_calls(self, status: Status) -> dict[str, Any]:
        """Return the fields of the trajectory that do not depend on its interactions and steps."""
        known = self._outline_fields(status)
        known["provider"], known["model"] = self.served_by(None)
        for name in ("provider", "model"):
            if self._is_fork or known[name] is None:
                del known[name]
        return known

    def served_by(self, first: LLMInteraction | None) -> tuple[str | None, str | None]:
        """Return the provider and the model of the run. `first` is the first interaction that was made.

        If the start record has no provider or model, they come from `first`. In a fork they always do, because a fork
        may call another model than its agent states.
        """
        begun = self.start or _NOT_STARTED
        if first is None:
            return begun.provider, begun.model
        if self._is_fork:
            return first.provider, first.model
        return begun.provider or first.provider, begun.model or first.model

    def outline(
        self,
        status: Status,
        first: LLMInteraction | None,
        *,
        metrics: dict[str, Payload] | None = None,
        gaps: Iterable[Gap] = (),
        connections: Mapping[str, Payload] = NO_CONNECTIONS,
    ) -> Trajectory:
        """Return the trajectory without its interactions and steps.

        `status` is used if the journal has no finalize record. `first` is the first interaction that was made
        (`served_by`). `gaps` are the gaps of single interactions. `connections` are the fields with connections to MCP
        servers and to models.
        """
        provider, model = self.served_by(first)
        return Trajectory(
            **self._outline_fields(status),
            provider=provider,
            model=model,
            metrics=metrics or {},
            gaps=(*self.all_gaps(), *gaps),
            **connections,
        )

    def _outline_fields(self, status: Status) -> dict[str, Any]:
        """Return the fields of the trajectory that depend neither on its interactions nor on its steps."""
        begun, ended = self.start or _NOT_STARTED, self.end or _NOT_ENDED
        return {
            "trajectory_id": begun.trajectory_id or None,
            "parent": begun.parent,
            "session": begun.session,
            "task": begun.task,
            "status": status if self.end is None else ended.status,
            "success": ended.success,
            "final_result": ended.final_result,
            "error": stated_error(ended.error),
            "max_steps": begun.max_steps,
            "start_time": self.start_time or None,
            "end_time": self.end_time or None,
            "execution_time": ended.execution_time,
            "metadata": begun.metadata,
            "annotations": self.annotations,
            "rewards": tuple(self.rewards),
            "removals": tuple(self.removals),
            "journal_records": self.records,
        }


_NOT_STARTED = StartFact(
    schema="trace-recorder/journal",
    version=0,
    trajectory_id="",
    provider=None,
    model=None,
    max_steps=None,
    task=None,
    metadata={},
)
_NOT_ENDED = FinalizeFact(status="unknown", success=None, execution_time=None, final_result=None)
"""What is known of a run whose first or last record is missing."""
