"""`TrajectoryRecorder`, the public class: start, manual records, finalize, and the current recorder.

Invariants: misuse raises at once, with a message that says what to do. A failure of recording does not raise, unless
`strict` is set. Recorded facts are never deleted, in whatever order methods are called. `lifecycle.py` begins and ends
runs, and `recording/run.py` writes their records.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Literal, Self, TypeVar, overload
from weakref import ref

from trace_recorder.attach.exporting import Exporter
from trace_recorder.attach.lifecycle import Lifecycle, RecorderTarget, is_disabled, not_ended
from trace_recorder.attach.settings import (
    check_bool,
    check_choice,
    check_path,
    check_redactors,
    content_setting,
    exporters_of,
)
from trace_recorder.capture import sdk_clients as clients
from trace_recorder.errors import TrajectoryPathError
from trace_recorder.guard import Guard, try_call
from trace_recorder.recording import context as steps
from trace_recorder.recording import manual_records, process, tools
from trace_recorder.recording.limits import Limits
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import WeakRegistry
from trace_recorder.storage.content_tiers.tiers import Content, redaction_for
from trace_recorder.storage.paths import DEFAULT_DIRECTORY, RunPaths, looks_like_sentence
from trace_recorder.storage.redaction.redactor import Redactor
from trace_recorder.storage.redaction.secret_matches import OnSecret
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.checked_types import ArgumentReader
from trace_recorder.values.final_status import FinalStatus, status_from_exception
from trace_recorder.values.messages import Payload, without_none

Client = TypeVar("Client")
current: ContextVar[TrajectoryRecorder | None] = ContextVar("trace_recorder_current", default=None)
running: WeakRegistry[TrajectoryRecorder] = WeakRegistry()


def active() -> TrajectoryRecorder | None:
    """Return the innermost recorder of this context that has not ended, or else the innermost recorder."""
    return not_ended(current.get()) or current.get()


class TrajectoryRecorder:
    """Records one run of an agent at a time into `<path>.json` and its journal `<path>.jsonl`.

    `trajectory_path` is the path of the document. If it is None, the document is
    `directory`/trajectory_YYYYMMDD_HHMMSS.json. `session` is a name for all runs that belong together, such as the id
    of a chat. The environment's TRACE_RECORDER_SESSION and TRACE_RECORDER_DIR replace the defaults of `session` and
    `directory`. `history` is how the document shows prompts: "inline" (whole), "delta" (what is new in each), or
    "auto", which is "inline" up to 16 MB of prompts. `content` is how much is written: "full", "masked" (without names
    of users and hosts, and addresses), or "none" (structure and figures, and no text). The environment's
    TRACE_RECORDER_CONTENT replaces the default, "full". `redact` is a function that returns a text masked, a list of
    such functions, or None for no masking. `on_secret` returns what replaces a secret. If `durability` is "disk", each
    record is flushed to disk by fsync. If `strict` is True, failures of recording are raised, also if the files cannot
    be created. `exporters`, such as `otlp(endpoint)`, send each run to other tools. If TRACE_RECORDER_DISABLED is set,
    nothing is recorded.

    Examples:
        >>> with TrajectoryRecorder(task="count the files") as recorder:
        ...     client = recorder.wrap(OpenAI())
        ...     reply = client.chat.completions.create(model="gpt-4o-mini", messages=messages)

    Every method may be called from any thread and from async code. When a method returns, its records are in the
    journal, even if the process is killed right after that. A `with` or `async with` block starts and ends a run. The
    status is "completed" after a normal end or `sys.exit(0)`. The status is "interrupted" after Ctrl-C, a cancelled
    task or a closed generator. Otherwise the status is "failed", with the exception, which is not suppressed.
    """

    _limits: ClassVar[Limits] = Limits()

    def __init__(  # noqa: PLR0913 - the seed's signature, and one keyword for each setting
        self,
        trajectory_path: str | os.PathLike[str] | None = None,
        *,
        task: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        max_steps: int | None = None,
        session: str | None = None,
        metadata: Mapping[str, object] | None = None,
        directory: str | os.PathLike[str] = DEFAULT_DIRECTORY,
        history: Literal["auto", "inline", "delta"] = "auto",
        content: Content | None = None,
        redact: Redactor | Sequence[Redactor] | None = default_redactor,
        on_secret: OnSecret | None = None,
        durability: Literal["process", "disk"] = "process",
        strict: bool = False,
        exporters: Sequence[Exporter] = (),
    ) -> None:
        check_choice("history", history, ("auto", "inline", "delta"))
        check_choice("durability", durability, ("process", "disk"))
        check_bool("strict", strict)
        check_path("trajectory_path", trajectory_path or "")
        check_path("directory", directory)
        content = content_setting(content, os.environ)
        check_redactors(redact, on_secret, content)
        if task is None and looks_like_sentence(trajectory_path):
            why = f"This path reads like a task: pass task={trajectory_path!r}, or a path that ends in .json"
            raise TrajectoryPathError(errno.EINVAL, why, str(trajectory_path))
        self._lifecycle = Lifecycle(
            RunPaths(trajectory_path, directory, sync=durability == "disk"),
            partial(redaction_for, content, redact, on_secret=on_secret),
            Guard(strict=strict, quotes_errors=content != "none"),
            history=history,
            content=content,
            limits=self._limits,
            facts=manual_records.start_members("TrajectoryRecorder()", task, provider, model, max_steps, session),
            metadata=manual_records.metadata_of(metadata),
            disabled=is_disabled(os.environ),
            exporters=exporters_of(exporters),
        )
        self._outer: ref[TrajectoryRecorder] | None = None
        running.add(self)

    # ── the life of a run ────────────────────────────────────────────────────────────────────────────────────────

    def start(
        self,
        task: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        max_steps: int | None = None,
        *,
        session: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> str:
        """Begin a run in a new file, make this the current recorder, and return the document's path.

        A run that is still open is closed as "interrupted", with a warning. If an argument is None, the value that was
        given to the recorder is used. `metadata` is added to the recorder's metadata. Raises TrajectoryPathError if a
        given path is wrong. If the files cannot be created for another reason, an error is logged.

        Examples:
            >>> recorder = TrajectoryRecorder("trajectories/task-7.json")
            >>> path = recorder.start(task="count the files", provider="my-server", model="my-model", max_steps=10)
            >>> recorder.finalize()
        """
        facts = without_none(**manual_records.start_members("start()", task, provider, model, max_steps, session))
        added = manual_records.metadata_of(metadata)
        with self._lifecycle.lock:
            if self._lifecycle.has_open_run():
                why = "is closed as interrupted, and a new file begins. Call finalize() first."
                warnings.warn(f"start() while a run is open: {self.trajectory_path} {why}", stacklevel=2)
                self._end(FinalStatus("interrupted"))
            self._lifecycle.facts |= facts
            self._lifecycle.metadata = {**self._lifecycle.metadata, **added}
            self._begin()
        self._activate()
        return self.get_trajectory_path()

    start_recording = start

    def finalize(self, success: bool | None = None, final_result: object = None) -> None:
        """End the run as completed, with its success and its result.

        Everything is on file when this returns. `success` is a bool, a 0 or 1 of any numeric class, or None if it is
        unknown. Raises AlreadyFinalizedError if the run has ended already. Raises TypeError for any other `success`,
        after the run has ended.

        Examples:
            >>> with TrajectoryRecorder(task="count the files") as recorder:
            ...     recorder.finalize(success=True, final_result="There are 3 files.")
        """
        numbers = ArgumentReader("finalize()")
        with self._lifecycle.lock:
            self._lifecycle.run_for("finalize()")
            self._end(FinalStatus("completed", numbers.optional_bool("success", success)), final_result)
        numbers.raise_if_refused()

    finalize_recording = finalize

    def __enter__(self) -> Self:
        with self._lifecycle.lock:
            if not self._lifecycle.has_open_run():
                self._begin()
        self._activate()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with self._lifecycle.lock:
            self._end(status_from_exception(error))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run = self._lifecycle.run_in_progress()
        if run is None or not run.is_long:
            self.__exit__(kind, error, traceback)
            return
        from trace_recorder.capture.event_loops import run_in_thread  # noqa: PLC0415 - few programs need it

        raised: list[Exception] = []
        self._deactivate()
        end = partial(self._lifecycle.end_locked, status_from_exception(error))
        await run_in_thread(lambda: try_call(end, raised.append), "end")
        if raised:
            raise raised[0]

    def _begin(self) -> None:
        self._lifecycle.begin()
        running.add(self)

    def _activate(self) -> None:
        outer = active()
        if outer is not self:
            self._outer = None if outer is None else ref(outer)
        current.set(self)

    def _deactivate(self) -> None:
        running.discard(self)
        if current.get() is self:
            current.set(not_ended(self._outer() if self._outer else None))

    def _end(self, ending: FinalStatus, final_result: object = None) -> None:
        self._deactivate()
        self._lifecycle.end(ending, final_result)

    # ── what the agent records itself ────────────────────────────────────────────────────────────────────────────

    def record_llm_interaction(
        self, messages: object, response: object, provider: str, model: str, tools: object = None
    ) -> None:
        """Record an LLM call that is not captured: its prompt, its answer, and its tools.

        Messages, response and tools may be dicts, objects with attributes, pydantic models, dataclasses, or an SDK's
        own objects. They are copied at once. If `response` is an exception, a failed call is recorded.

        Examples:
            >>> question = {"role": "user", "content": "How many files are here?"}
            >>> answer = {"content": "There are 3."}
            >>> with TrajectoryRecorder(task="count the files") as recorder:
            ...     recorder.record_llm_interaction([question], answer, provider="my-server", model="my-model")
        """
        record = partial(
            manual_records.interaction,
            messages=messages,
            response=response,
            provider=provider,
            model=model,
            tools=tools,
        )
        self._record("record_llm_interaction()", "record an LLM interaction", record)

    def record_agent_step(  # noqa: PLR0913, PLR0917 - the seed's signature
        self,
        step_number: int,
        state: object,
        llm_messages: object = None,
        llm_response: object = None,
        tool_calls: object = None,
        tool_results: object = None,
        reflection: str | None = None,
        error: object = None,
    ) -> None:
        """Record one step of the agent under the agent's number.

        `state` is "thinking", "calling_tool", "reflecting", "completed" or "error", or an Enum of these. The other
        arguments may be of any kind that `record_llm_interaction` accepts. Inside the block of a `step()` with this
        number, the record describes that step, and its values replace the values that were set in the block. If
        `step_number` is not a number, raises TypeError after everything else is on file.

        Examples:
            >>> question = {"role": "user", "content": "How many files are here?"}
            >>> with TrajectoryRecorder(task="count the files") as recorder:
            ...     recorder.record_agent_step(1, "completed", [question], {"content": "There are 3."})
        """
        numbers = ArgumentReader("record_agent_step()")
        number = numbers.integer("step_number", step_number)
        details = {
            "llm_response": llm_response,
            "tool_calls": tool_calls,
            "tool_results": tool_results,
            "reflection": reflection,
            "error": error,
        }

        def record(run: Run) -> None:
            self._lifecycle.number_step(number)
            manual_records.step(run, number, state, llm_messages, details)

        self._record("record_agent_step()", "record an agent step", record)
        numbers.raise_if_refused()

    def reward(
        self,
        name: str,
        value: float,
        weight: float = 1.0,
        step_number: int | None = None,
        explanation: str | None = None,
    ) -> None:
        """Record a reward of the run or of one of its steps.

        `value` and `weight` are numbers of any class. A bool is 0 or 1. If either is not a number, raises TypeError
        after the reward is on file.

        Examples:
            >>> with TrajectoryRecorder(task="fix the tests") as recorder:
            ...     recorder.reward("tests", 0.5, explanation="half of them pass")
        """
        numbers = ArgumentReader("reward()")
        counts = {"value": numbers.number("value", value), "weight": numbers.number("weight", weight)}
        number = None
        if step_number is not None:
            number = numbers.integer("step_number", step_number)
        members = {"name": name, **counts, "step_number": number, "explanation": explanation}
        self._record("reward()", "record a reward", partial(manual_records.reward, members=members))
        numbers.raise_if_refused()

    def annotate(self, key: str, value: object) -> None:
        """Record a fact about the run. In the document, a later value replaces an earlier value of the same key.

        Examples:
            >>> with TrajectoryRecorder(task="fix the tests") as recorder:
            ...     recorder.annotate("branch", "main")
        """
        self._record("annotate()", "record an annotation", partial(manual_records.annotation, key=key, value=value))

    def update_lakeview(self, step_number: int, lakeview_summary: object) -> None:
        """Record a summary of a step. Trae Agent's recorder has this method too."""
        numbers = ArgumentReader("update_lakeview()")
        record = partial(
            manual_records.summary, number=numbers.integer("step_number", step_number), text=lakeview_summary
        )
        self._record("update_lakeview()", "record an annotation", record)
        numbers.raise_if_refused()

    def _record(self, who: str, what: str, record: Callable[[Run], None]) -> None:
        run = self._lifecycle.run_for(who)
        if run is not None:
            with self._lifecycle.guard.protect(what):
                record(run)

    def save_trajectory(self) -> None:
        """Write the document now. Otherwise the document of a long run may be older than its journal."""
        run = self._lifecycle.run
        if run is not None and not run.closed:
            run.save()

    # ── the agent's loop ─────────────────────────────────────────────────────────────────────────────────────────────

    def step(self, step_number: int | None = None) -> steps.Step:
        """Begin a step, as a context manager, sync or async.

        The LLM calls and tools in the `with` block belong to the step. The step's number is `step_number`. The default
        is one more than the number of the run's last step, whichever agent made that step. The returned step's `state`,
        `reflection` and `error` may be set. Raises TypeError if `step_number` is not a number.

        Examples:
            >>> with TrajectoryRecorder(task="count the files") as recorder, recorder.step() as step:
            ...     reply = run_my_agent(recorder.wrap(OpenAI()))
            ...     step.reflection = "nothing is left to count"
        """
        numbers = ArgumentReader("step()")
        number = None if step_number is None else numbers.integer("step_number", step_number)
        numbers.raise_if_refused()
        run = self._lifecycle.run_for("step()")
        return steps.Step(run, self._lifecycle.number_step(number))

    def agent(self, name: str) -> steps.Agent:
        """Mark a sub-agent, as a context manager, sync or async.

        Everything that is recorded in the `with` block belongs to the sub-agent. So does everything in the tasks that
        the block starts, and in threads that run in a copy of its context. Blocks may nest.
        """
        return steps.Agent(self._lifecycle.run_for("agent()"), name)

    @overload
    def tool(self, function: tools.Tool, /) -> tools.Tool: ...

    @overload
    def tool(self, /, *, name: str | None = None) -> Callable[[tools.Tool], tools.Tool]: ...

    def tool(self, function: Callable[..., object] | None = None, /, *, name: str | None = None) -> object:
        """Record the calls of a function as executions of a tool: arguments, result or exception, and duration.

        Use it as a decorator, `@recorder.tool` or `@recorder.tool(name="bash")`, for functions, coroutine functions,
        generators, async generators and methods. The decorator may be above or below @staticmethod and @classmethod.

        Examples:
            >>> with TrajectoryRecorder(task="What is 17 * 23?") as recorder:
            ...     @recorder.tool
            ...     def multiply(a: int, b: int) -> int:
            ...         return a * b
            ...     print(multiply(17, 23))
            391
        """
        return tools.make_tool(RecorderTarget(self).run_of_tool, function, name)

    def tool_call(self, name: str, arguments: object = None, call_id: str | None = None) -> tools.AnnouncedExecution:
        """Record the execution of a tool that has no `@tool` decorator, as a context manager.

        `call_id` is the model's id of the call.
        """
        return tools.AnnouncedExecution(self._lifecycle.run_for("tool_call()"), name, arguments, call_id)

    # ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────

    def wrap(self, client: Client, provider: str | None = None) -> Client:
        """Record every LLM call of a client in this recorder, and return the same client.

        `provider` names the provider if the address does not. Raises UnsupportedClientError and BoundClientError.

        Examples:
            >>> with TrajectoryRecorder(task="count the files") as recorder:
            ...     reply = run_my_agent(recorder.wrap(OpenAI()))
        """
        return clients.wrap(client, RecorderTarget(self), provider)

    # ── where it is ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def trajectory_path(self) -> Path:
        """The path of the run's document. Before the start, the path of the next document is reserved and returned."""
        return self._lifecycle.document()

    @property
    def trajectory_data(self) -> dict[str, Payload]:
        """The document so far, as Trae Agent's recorder has it. Changes to this dict do not change the file."""
        from trace_recorder.reading.fold import Fold  # noqa: PLC0415 - few agents read their own run
        from trace_recorder.reading.own_files import load_own  # noqa: PLC0415

        if self._lifecycle.run is None:
            return Fold().trajectory("unknown").to_document("inline")
        return load_own(self.trajectory_path).to_document("inline")

    def get_trajectory_path(self) -> str:
        """Return the path of the document as a string."""
        return str(self.trajectory_path)

    def child_environment(self) -> dict[str, str]:
        """Return the environment for a program that this run starts, so that the program's runs are linked to this run.

        The environment is needed only while several runs are open. While one run is open, `os.environ` has the id of
        this run, and its session.
        """
        run = self._lifecycle.run_for("child_environment()")
        environment = dict(os.environ)
        if run is not None:
            environment |= process.variables_of(run.trajectory_id)
        return environment

    def __bool__(self) -> bool:
        """Return True, so that agents can test by `if self.trajectory_recorder:` whether they have a recorder."""
        return True

    def __deepcopy__(self, _: object = None) -> Self:
        """Return the recorder itself, because a copied agent records to the same run."""
        return self

    __copy__ = __deepcopy__

    def __repr__(self) -> str:
        return f"<TrajectoryRecorder {self._lifecycle}>"
