"""Collects the facts about the run as a whole: start and end, annotations, rewards, gaps, and damaged journal lines.

`fold.py` handles the records of LLM interactions, tools and steps. It passes each record of another kind to a method of
`RunFacts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import get_args

from trace_recorder.derive.interactions import stated_error
from trace_recorder.dialects.json_access import as_int
from trace_recorder.storage.journal_reader import BadLine, Record
from trace_recorder.values.checked_types import check_types, text_of_member
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep, Gap, Reward, Status, Trajectory

MISSING_LINES = "lines of the journal"
"""The `what` of a gap for records that are missing from the journal."""
MAX_REPORTED_LINES = 1000
"""At most this many damaged lines have a gap each. One more gap states how many other damaged lines there are."""


_TYPES_OF_START: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("trajectory_id", "parent", "task", "provider", "model"), (str,)),
    "max_steps": (int, float),
    "metadata": (dict,),
}
_TYPES_OF_END: Mapping[str, tuple[type, ...]] = {"status": (str,), "success": (bool,), "execution_time": (int, float)}
"""The types of the members of the start record and the finalize record. Each member may also be absent or null."""
_OF_REWARD = frozenset({"name", "value", "weight", "step_number", "explanation"})
"""The members of a reward's record that a reward has. A later version may write more."""
_STATUSES = frozenset(get_args(Status))
_FROM_INTERACTIONS = {"llm_interactions", "agent_steps", "metrics", "gaps"}


@dataclass(slots=True)
class RunFacts:
    """The facts of one run, collected record by record.

    `torn` is the last line if it was cut off, and `records` is how many records were read. `last_seq` is the number of
    the newest record, and `damaged_since` is how many damaged lines follow that record. `redactions` is how many
    secrets were masked, as the records state. `summaries` has the summaries of steps, by the JSON of the step number.
    """

    start: Record | None = None
    end: Record | None = None
    summaries: dict[str, Payload] = field(default_factory=dict)
    annotations: dict[str, Payload] = field(default_factory=dict)
    rewards: list[Reward] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
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
        if "redacted" in record.data and (redacted := as_int(record.data["redacted"])):
            self.redactions += redacted
        if isinstance(record.seq, int):
            if record.seq > self.last_seq + 1:
                self._report_missing(record)
            self.last_seq, self.damaged_since = record.seq, 0

    def _report_missing(self, record: Record) -> None:
        """Add a gap if more records are missing before `record` than damaged lines are in their place."""
        last, damaged = self.last_seq, self.damaged_since
        missing = record.seq - last - 1
        if missing > damaged:
            which = f"record {last + 1} is" if missing == 1 else f"records {last + 1} to {record.seq - 1} are"
            self.gaps.append(Gap(record.time, MISSING_LINES, f"{which} missing"))

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
        """Add a gap for a record whose data could not be used."""
        why = f"record {record.seq}: {type(error).__name__}: {error}"
        self.gaps.append(Gap(record.time, f"a {record.kind} record could not be used", why))

    def add_start(self, record: Record) -> None:
        """Keep the start record. If there are several, keep the first."""
        self.start = self.start or self._with_declared_types(record, _TYPES_OF_START)

    def add_end(self, record: Record) -> None:
        """Keep the finalize record. If there are several, keep the last."""
        self.end = self._with_declared_types(record, _TYPES_OF_END)

    def _with_declared_types(self, record: Record, types: Mapping[str, tuple[type, ...]]) -> Record:
        """Return the record with members of the types that `types` allows.

        Convert a member of another type to a text if `types` allows a text. Otherwise remove the member, and add a gap.
        """
        data = record.data
        wrong = [name for name, kinds in types.items() if type(data.get(name)) not in (*kinds, NoneType)]
        if not wrong:
            return record
        texts = {name: text_of_member(data[name]) for name in wrong if str in types[name]}
        for name in wrong:
            if name not in texts:
                why = f"record {record.seq}: {name} is {type(data[name]).__name__}"
                self.gaps.append(Gap(record.time, f"a member of a {record.kind} record could not be used", why))
        return replace(record, data={name: value for name, value in data.items() if name not in wrong} | texts)

    def add_annotation(self, record: Record) -> None:
        """Add an annotation of the run, or the summary of a step."""
        if "lakeview_step" in record.data:
            self.summaries[to_json(record.data["lakeview_step"])] = record.data["value"]
        else:
            key = text_of_member(record.data["key"]) or ""
            self.annotations[key] = record.data["value"]
            self._annotated[record.seq] = key

    def apply_redaction(self, record: Record) -> None:
        """Replace the data of an earlier record by a masked copy, because a value became known as a secret later."""
        of, data = record.data["of"], record.data
        if self.start is not None and of == self.start.seq:
            masked = self._with_declared_types(record, _TYPES_OF_START).data
            masked = {name: masked[name] for name in ("task", "metadata") if name in masked}
            self.start = replace(self.start, data={**self.start.data, **masked})
        elif self._annotated.get(of) in self.annotations and self._is_newest(of):
            self.annotations[self._annotated[of]] = data["value"]

    def _is_newest(self, seq: int) -> bool:
        """Return whether the record `seq` is the last that sets its annotation."""
        return not any(later > seq and key == self._annotated[seq] for later, key in self._annotated.items())

    def add_reward(self, record: Record) -> None:
        """Add a reward."""
        given = {name: value for name, value in record.data.items() if name in _OF_REWARD}
        given |= {name: text_of_member(given.get(name)) for name in ("name", "explanation")}
        self.rewards.append(check_types(Reward(**given, timestamp=record.time or None)))

    def add_gap(self, record: Record) -> None:
        """Add a gap that the recorder itself wrote."""
        time, data = record.data.get("time") or record.time or None, record.data
        self.gaps.append(check_types(Gap(time, text_of_member(data["what"]) or "", text_of_member(data["why"]) or "")))

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
        return replace(step, extra={**step.extra, "lakeview_summary": summary}) if summary is not None else step

    @property
    def _is_fork(self) -> bool:
        return self.start is not None and "forked_at" in self.start.data

    def fields_without_calls(self, status: Status) -> dict[str, object]:
        """Return the fields of the trajectory that do not depend on its interactions and steps."""
        outline = self.outline(status, None)
        unknown = {name for name in ("provider", "model") if self._is_fork or getattr(outline, name) is None}
        return {
            field.name: getattr(outline, field.name)
            for field in fields(outline)
            if field.name not in unknown | _FROM_INTERACTIONS
        }

    def outline(
        self,
        status: Status,
        first: LLMInteraction | None,
        *,
        metrics: dict[str, Payload] | None = None,
        gaps: Iterable[Gap] = (),
    ) -> Trajectory:
        """Return the trajectory without its interactions and steps.

        `status` is used if the journal has no finalize record. `first` is the first interaction that was made. If the
        start record has no provider or model, they come from `first`. In a fork they always do, because a fork may call
        another model than its agent states. `gaps` are the gaps of single interactions.
        """
        begun: Mapping[str, Payload] = self.start.data if self.start else {}
        ended: Mapping[str, Payload] = self.end.data if self.end else {}
        provider, model = begun.get("provider"), begun.get("model")
        if first is not None and self._is_fork:
            provider, model = first.provider, first.model
        elif first is not None:
            provider, model = provider or first.provider, model or first.model
        return Trajectory(
            trajectory_id=begun.get("trajectory_id"),
            parent=begun.get("parent"),
            task=begun.get("task"),
            status=ended["status"] if ended.get("status") in _STATUSES else status,
            success=ended.get("success"),
            final_result=ended.get("final_result"),
            error=stated_error(ended["error"]) if "error" in ended else None,
            provider=provider,
            model=model,
            max_steps=begun.get("max_steps"),
            start_time=(self.start.time or None) if self.start else None,
            end_time=(self.end.time or None) if self.end else None,
            execution_time=ended.get("execution_time"),
            metadata=begun.get("metadata") or {},
            annotations=self.annotations,
            rewards=tuple(self.rewards),
            metrics=metrics or {},
            gaps=(*self.all_gaps(), *gaps),
            journal_records=self.records,
        )
