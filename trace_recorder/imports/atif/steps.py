"""Reading the steps of one ATIF trajectory: its calls, each with what the model saw, and what its tools gave.

What has no place in the values is kept beside them (`extra_members.py`). How the trajectories of a document make a run
is for `document.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.derive.requests import result_of
from trace_recorder.dialects import manual as by_hand
from trace_recorder.imports.atif import extra_members as members
from trace_recorder.imports.atif.tool_steps import is_of_tools
from trace_recorder.values.llm_interaction import Attempt, ErrorInfo, LLMInteraction, WithoutRawData
from trace_recorder.values.messages import (
    NO_RESPONSE,
    Choice,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    without_none,
)

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


@dataclass(slots=True)
class Source(WithoutRawData):
    """What the document tells of a call: the messages of the conversation up to `length`, which calls share."""

    shared: list[Message]
    length: int
    tools: list[Tool]
    parameters: dict[str, Payload]
    observed: tuple[ToolResult, ...] = ()
    told: tuple[Mapping[str, Payload], ...] = ()

    def request(self) -> RequestReading:
        """What the model was shown."""
        return RequestReading(self.shared[: self.length], self.tools, self.parameters)

    def request_without_messages(self) -> RequestReading:
        """The same: the messages are at hand."""
        return self.request()

    @property
    def new_tool_results(self) -> list[ToolResult]:
        """What came back from tools since the model last spoke."""
        found: list[ToolResult] = []
        for message in reversed(self.shared[: self.length]):
            if message.role == "assistant":
                break
            if message.role == "tool":
                found.append(result_of(message))
        return found[::-1]

    def has_request(self) -> bool:
        """Whether it is known: it is."""
        return True


@dataclass(slots=True)
class Reading:
    """Reads the steps of one ATIF trajectory; `parent` is the one in which it is embedded."""

    document: Mapping[str, Payload]
    embedded: frozenset[str]
    parent: Reading | None = None
    messages: list[Message] = field(default_factory=list)
    calls: list[LLMInteraction] = field(default_factory=list)
    first: str = ""
    hosts: dict[str, str] = field(default_factory=dict)

    def kept(self, root: Mapping[str, Payload], model: str | None) -> dict[str, Payload]:
        """What it says beyond the values; of a step behind the last call, which no call shows, all."""
        steps = [step for step in self.document["steps"] if not is_of_tools(step)]
        last = max((place for place, step in enumerate(steps, start=1) if _is_call(step)), default=0)
        left = members.of_document(self.document, root=root, model=model, called=bool(self.calls))
        subs = self.document.get("subagent_trajectories") or ()
        silent = [sub for sub in subs if not any(map(_is_call, sub["steps"]))]
        return left | without_none(steps=steps[last:] or None, subagent_trajectories=silent or None)

    def read(self) -> Iterator[LLMInteraction]:
        """Give the calls that its steps tell of."""
        tools = [by_hand.read_tool(tool) for tool in _tools(self.document["agent"])]
        called = False
        for step, follows in _followed([step for step in self.document["steps"] if not is_of_tools(step)]):
            if called and step.get("is_copied_context"):  # the history was rewritten, and is told anew from here
                self.messages = []
            called = _is_call(step)
            message = _message(step, follows)
            results = (step.get("observation") or {}).get("results") or ()
            if called:
                yield self._call(step, message, self._source(step, tools, results))
            if message.content or message.tool_calls or message.reasoning or not (called or results):
                self.messages.append(message)
            self.messages += [self._answer(step, result) for result in results if "content" in result]

    def _source(self, step: Mapping[str, Payload], tools: list[Tool], results: Sequence[Payload]) -> Source:
        extra = members.ours(step.get("extra") or {})
        parameters, effort = extra.get("parameters") or {}, step.get("reasoning_effort")
        if effort is not None and members.effort_of(parameters) != effort:
            parameters = {**parameters, "reasoning_effort": effort}
        observed = tuple(found for result in results if (found := self._result(step, result)) is not None)
        told = tuple(extra.get("agent_steps") or ())
        return Source(self.messages, len(self.messages), tools, parameters, observed, told)

    def _answer(self, step: Mapping[str, Payload], result: Mapping[str, Payload]) -> Message:
        """What a tool gave, as the message that shows it."""
        extra, about = result.get("extra") or {}, step.get("extra") or {}
        succeeded = extra.get("success")
        failed = {"is_error": not succeeded} if isinstance(succeeded, bool) else {}
        left = members.of_result(result, self.embedded, in_step=step["source"] == "agent")
        call_id = result.get("source_call_id") or (None if step["source"] == "agent" else about.get("tool_call_id"))
        name = None if step["source"] == "agent" else about.get("tool_name")
        return Message("tool", result.get("content"), (), call_id, name, extra=failed | members.as_kept(left))

    def _result(self, step: Mapping[str, Payload], result: Mapping[str, Payload]) -> ToolResult | None:
        """What a tool gave: the object where it was recorded, and in which execution sub-agents were started."""
        extra, call_id = result.get("extra") or {}, result.get("source_call_id")
        refs = [ref["trajectory_id"] for ref in result.get("subagent_trajectory_ref") or () if "trajectory_id" in ref]
        execution = None
        if call_id and self.embedded.intersection(refs):
            execution = f"{self.document.get('trajectory_id') or ''}#{step.get('step_id')}/{call_id}"
            self.hosts |= dict.fromkeys(refs, execution)
        if "content" not in result and not execution:
            return None
        shown = result.get("content")
        success, error, value = extra.get("success"), extra.get("error"), extra.get("result")
        if success is False:
            error, shown = (str(shown), None) if error is None else (error, shown)
        recorded = value is not None or error is not None
        return ToolResult(
            call_id or "",
            success=success if isinstance(success, bool) else None,
            result=value if recorded else shown,
            error=error,
            sent=shown if recorded else None,
            duration_seconds=extra.get("duration_seconds"),
            execution_id=execution,
        )

    def _whose(self) -> dict[str, Payload]:
        """Whose calls it holds: by what a view of ours wrote, or by the trajectory's place among the others."""
        agent, identity = self.document["agent"], self.document.get("trajectory_id")
        stated, name = agent.get("extra") or {}, agent.get("name")
        if self.parent is None:
            return {"agent": None if name == "agent" else name} | {key: stated.get(key) for key in _IDS}
        siblings = self.parent.document["subagent_trajectories"]
        names = [sub["agent"].get("name") for sub in siblings]
        place = next(number for number, sub in enumerate(siblings, start=1) if sub is self.document)
        nested = self.document.get("subagent_trajectories") or self.parent.parent is not None
        known_by = stated.get("agent_id") or (identity if nested or names.count(name) > 1 else None)
        parent = self.parent.calls[0].agent_id if self.parent.parent is not None and self.parent.calls else None
        return {
            "agent": name or f"subagent_{place}",
            "agent_id": known_by,
            "parent_agent_id": stated.get("parent_agent_id") or parent,
            "parent_execution_id": self.parent.hosts.get(identity or ""),
        }

    def _call(self, step: Mapping[str, Payload], said: Message, source: Source) -> LLMInteraction:
        extra = members.ours(step.get("extra") or {})
        error = error_of(extra.get("error"))
        silent = not (said.content or said.tool_calls or said.reasoning)
        results = (step.get("observation") or {}).get("results") or ()
        refs = [
            {**result, "subagent_trajectory_ref": left}
            for result in results
            if "content" not in result and (left := members.elsewhere(result, self.embedded))
        ]
        kept = members.as_kept(members.of_call(step, refs))
        return LLMInteraction(
            interaction_id=extra.get("interaction_id") or "",
            timestamp=extra.get("requested_at") or step.get("timestamp") or "",
            provider=extra.get("provider"),
            model=extra.get("model_asked_for") or step.get("model_name") or self.document["agent"].get("model_name"),
            source=source,
            api=extra.get("api") if extra else members.DIALECT,
            step_number=extra.get("step_number"),
            **self._whose(),
            response=NO_RESPONSE if error and silent else _response(step, said, extra, kept),
            error=error,
            **{name: extra.get(name) for name in ("duration_seconds", "time_to_first_token_seconds", "ended_by")},
            attempts=tuple(
                Attempt(**{**one, "error": error_of(one.get("error"))}) for one in extra.get("attempts") or ()
            ),
            stream=extra.get("stream") is True,
            complete=extra.get("complete") is not False,
        )


_IDS = ("agent_id", "parent_agent_id")


def _is_call(step: Mapping[str, Payload]) -> bool:
    """Whether a step is a call to a model: no copy of one, and no deed of the agent's own."""
    return step["source"] == "agent" and not step.get("is_copied_context") and step.get("llm_call_count") != 0


def _followed(steps: Sequence[Mapping[str, Payload]]) -> list[tuple[Mapping[str, Payload], str | None]]:
    """Each step, and when the request of the next call was sent, where a view of ours says so."""
    follows: str | None = None
    found = []
    for step in reversed(steps):
        found.append((step, follows))
        if _is_call(step):
            follows = members.ours(step.get("extra") or {}).get("requested_at")
    return found[::-1]


def _tools(agent: Mapping[str, Payload]) -> list[Payload]:
    built_in = (agent.get("extra") or {}).get("built_in_tools")
    return [*(agent.get("tool_definitions") or ()), *(built_in if isinstance(built_in, list) else ())]


def _message(step: Mapping[str, Payload], follows: str | None) -> Message:
    calls = tuple(_call(call) for call in step.get("tool_calls") or ())
    content = step.get("message") or None
    extra = {} if _is_call(step) else members.as_kept(members.of_message(step, follows))
    return Message(_ROLES[step["source"]], content, calls, reasoning=step.get("reasoning_content"), extra=extra)


def _call(call: Mapping[str, Payload]) -> ToolCall:
    extra = {name: value for name, value in (call.get("extra") or {}).items() if name != "call_id_made_up"}
    made_up = (call.get("extra") or {}).get("call_id_made_up") is True
    return ToolCall(call["tool_call_id"], call["function_name"], call["arguments"], made_up, extra)


def _response(
    step: Mapping[str, Payload], said: Message, extra: Mapping[str, Payload], kept: Mapping[str, Payload]
) -> LLMResponse:
    parts = said.content if isinstance(said.content, list) else []
    text = "".join(part.get("text") or "" for part in parts) if parts else said.content
    metrics = step.get("metrics") or {}
    ids = without_none(token_ids=metrics.get("completion_token_ids"), logprobs=_logprobs(metrics.get("logprobs")))
    prompt = without_none(prompt_token_ids=metrics.get("prompt_token_ids"))
    content = text if isinstance(text, str) else None
    besides = {**(extra.get("choice_extra") or {}), **ids}
    choice = Choice(0, content, said.reasoning, said.tool_calls, extra.get("finish_reason"), extra=besides)
    return LLMResponse(
        content,
        said.reasoning,
        said.tool_calls,
        extra.get("finish_reason"),
        _usage(metrics),
        step.get("model_name"),
        extra.get("response_id"),
        (choice, *(_choice(one) for one in extra.get("other_choices") or ())),
        {**(extra.get("response_extra") or {}), **prompt, **kept},
    )


def _choice(document: Mapping[str, Payload]) -> Choice:
    calls = tuple(by_hand.read_tool_call(call) for call in document.get("tool_calls") or ())
    return Choice(**{**document, "tool_calls": calls})


def _logprobs(logprobs: list[float] | None) -> Payload:
    return None if logprobs is None else {"content": [{"logprob": logprob} for logprob in logprobs]}


def _usage(metrics: Mapping[str, Payload]) -> Usage:
    """The usage as the provider stated it, where a view of ours kept that; else ATIF's own counts."""
    stated = (metrics.get("extra") or {}).get("usage")
    if isinstance(stated, dict):
        return Usage(**stated)
    counts = without_none(
        input_tokens=metrics.get("prompt_tokens"),
        output_tokens=metrics.get("completion_tokens"),
        cache_read_input_tokens=metrics.get("cached_tokens"),
        cost=metrics.get("cost_usd"),
    )
    return Usage(**counts)


def error_of(error: Payload) -> ErrorInfo | None:
    """Read an error as a view of ours wrote it; None for anything else."""
    if not isinstance(error, dict):
        return None
    return ErrorInfo(str(error.get("type") or "error"), str(error.get("message") or ""), error.get("status"))
