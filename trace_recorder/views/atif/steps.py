"""The steps of an ATIF document: one conversation, message by message.

What the model said is an agent step; what a tool answered is the observation of the step that called it; everything
else is a user or a system step. Messages that were copied from an earlier conversation, and what an assistant is made
to have said, are `is_copied_context`. Images are files. Whatever ATIF has no member for goes into `extra`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from trace_recorder.imports.atif.extra_members import DIALECT, KEPT, effort_of, kept_in
from trace_recorder.imports.atif.tool_steps import MARK
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Choice, Message, Payload, ToolCall, ToolResult, without_none
from trace_recorder.values.trajectory import AgentStep
from trace_recorder.views.content.openai_functions import arguments_of, result_text
from trace_recorder.views.content.parts import Image, Part, Text, described, parts_of
from trace_recorder.views.conversations.call_chains import Turn
from trace_recorder.views.conversations.lines import Conversation, Said, Told
from trace_recorder.views.token_counts import counts_of, tokens_of

_KINDS = {"image/jpeg": "jpg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}
AT_THE_END = frozenset({None, DIALECT})
"""The dialects of calls of which it is known when the answer was there: those by hand, and those of other tools."""
_SAMPLED = frozenset({"token_ids", "logprobs", "logprobsResult"})
_LONGEST = 2000
"""Strings beyond this many characters are cut in parts that are neither text nor image, and counted as left out."""


@dataclass(frozen=True, slots=True)
class Images:
    """Where images are written, each once, by its content; without a directory they are left out, and counted."""

    directory: Path | None
    dropped: Counter[str]

    def content(self, message: Message) -> str | list[Payload]:
        """Give a message's content as ATIF has it: a text, or parts where there are images."""
        parts = [self._part(part) for part in parts_of(message)]
        if all(part["type"] == "text" for part in parts):
            between = "\n" if message.role == "tool" else ""
            return between.join(part["text"] for part in parts)
        return parts

    def _part(self, part: Part) -> dict[str, Payload]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, Image):
            return self._image(part)
        text, cut = described(part, _LONGEST)
        self.dropped["long strings in parts that are neither text nor image"] += cut
        return {"type": "text", "text": text}

    def _image(self, image: Image) -> dict[str, Payload]:
        """An image as a reference; one that is left out, or of a kind that ATIF does not know, is named in words."""
        path = image.url or self._written(image)
        kind = image.media_type if image.media_type in _KINDS else _kind_of(path or "")
        if path and kind:
            return {"type": "image", "source": {"media_type": kind, "path": path}}
        left_out = "images, for which no directory was given" if self.directory is None else "images that are no base64"
        self.dropped[left_out] += path is None
        return {"type": "text", "text": f"[image: {path or image.media_type or 'of an unknown kind'}]"}

    def _written(self, image: Image) -> str | None:
        content = image.content()
        if self.directory is None or content is None:
            return None
        name = f"{hashlib.sha256(content).hexdigest()[:20]}.{_KINDS.get(image.media_type or '', 'bin')}"
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / name).write_bytes(content)
        return f"{self.directory.name}/{name}"


def _kind_of(path: str) -> str | None:
    """The kind of an image by the end of its address."""
    end = path.partition("?")[0].rpartition(".")[2].lower()
    return next((kind for kind, ending in _KINDS.items() if end in {ending, kind.removeprefix("image/")}), None)


@dataclass(slots=True)
class Steps:
    """Writes the steps of conversations, one behind the other. `at` finds the step of a turn."""

    images: Images
    told: Told
    steps: list[dict[str, Payload]] = field(default_factory=list)
    at: dict[Turn, dict[str, Payload]] = field(default_factory=dict)
    _open: dict[str, dict[str, Payload]] = field(default_factory=dict)

    def add(self, conversation: Conversation) -> None:
        """Write a conversation's steps behind those that are there."""
        self._open = {}
        for said in conversation.lines:
            if said.message.role == "tool":
                self._observe(said)
            elif said.message.role == "assistant":
                self._agent(said)
            else:
                source = "system" if said.message.role in {"system", "developer"} else "user"
                self._step(said, source, {"message": self.images.content(said.message)})
        for turn in conversation.turns:
            self._tell(turn)

    def add_kept(self, steps: Iterable[Mapping[str, Payload]]) -> None:
        """Put back steps behind the last call, which the values have no place for."""
        self.steps += [{**step, "step_id": len(self.steps) + n} for n, step in enumerate(steps, start=1)]

    def add_tools(self, tools: Iterable[AgentStep]) -> None:
        """Write steps of tools alone between the others, in the order of time."""
        for tool in tools:
            later = (at for at, step in enumerate(self.steps) if step.get("timestamp", "") > tool.timestamp)
            self.steps.insert(next(later, len(self.steps)), _of_tools(tool, tool.timestamp))
        for number, step in enumerate(self.steps, start=1):
            step["step_id"] = number

    def _step(self, said: Said, source: str, members: dict[str, Payload]) -> dict[str, Payload]:
        kept = {} if said.answer or said.message.role == "tool" else kept_in(said.message.extra)
        step = {
            "step_id": len(self.steps) + 1,
            **without_none(timestamp=_time_of(said)),
            "source": source,
            **members,
            **without_none(is_copied_context=said.copied or None),
            **kept,
        }
        self.steps.append(step)
        return step

    def _agent(self, said: Said) -> None:
        """Write what the model said, or what it is made to have said."""
        message = said.message
        calls = [_call(call) for call in message.tool_calls]
        members = {"message": self.images.content(message)}
        members |= without_none(reasoning_content=message.reasoning, tool_calls=calls or None)
        if said.answer:
            told = self.told.steps.get(said.turn, ())
            step = self._step(said, "agent", _about(said.turn) | members | _of_call(said.turn, told))
            self.at[said.turn] = step
            for tools in self.told.unasked.get(said.turn, ()):
                self.steps.append(_of_tools(tools, step.get("timestamp"), len(self.steps) + 1))
        else:
            step = self._step(said, "agent", members)
            if KEPT not in message.extra:
                step["is_copied_context"] = True
        self._open.update((call.call_id, step) for call in message.tool_calls)

    def _observe(self, said: Said) -> None:
        """Write a tool's answer into the step that called it; one that nobody called for is a step of its own."""
        message = said.message
        kept = kept_in(message.extra)
        step = self._open.get(message.call_id or "")
        if step is None and kept.get("in_step"):
            step = next((one for one in reversed(self.steps) if one["source"] == "agent"), None)
        result = {"content": self.images.content(message), **_only(kept, "subagent_trajectory_ref")}
        if step is None:
            extra = without_none(tool_call_id=message.call_id, tool_name=message.name)
            self._step(said, "system", {"message": "", "observation": {"results": [result]}, "extra": extra})
            return
        failed = message.extra.get("is_error")
        extra = ({"success": not failed} if isinstance(failed, bool) else {}) | kept.get("extra", {})
        _results(step).append(without_none(source_call_id=message.call_id, **result, extra=extra or None))

    def _tell(self, turn: Turn) -> None:
        """Add what the steps tell of the results of a turn's calls."""
        step = self.at[turn]
        called = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        told = [
            (result, one.derived and result.duration_seconds is None)
            for one in self.told.steps.get(turn, ())
            for result in one.tool_results
        ]
        for result, derived in told:
            text = result_text(result)
            found = [one for one in _known_results(step) if _is_of(one, result, text)]
            if not found:
                found = [without_none(source_call_id=result.call_id if result.call_id in called else None)]
                found[0] |= {"content": text} if _says_something(result) else {}
                _results(step).extend(found)
            extra = found[0].get("extra", {}) | _extra_of(result, found[0].get("content"), derived=derived)
            if extra:
                found[0]["extra"] = extra
        for left in kept_in(turn.interaction.response.extra).get("refs", ()):
            _refer_elsewhere(step, left)


def _time_of(said: Said) -> str | None:
    """When something was said: a prompt when it was sent, an answer when it was there; None where that is not known.

    A call that was recorded by hand was recorded when its answer was there.
    """
    one = said.turn.interaction
    if one.api in AT_THE_END:
        return (one.timestamp or None) if said.answer else None
    if not said.answer:
        return one.timestamp or None
    began = one.attempts[-1].timestamp if one.attempts else one.timestamp
    if one.duration_seconds is None or not began:
        return None
    return (datetime.fromisoformat(began) + timedelta(seconds=one.duration_seconds)).isoformat()


def _results(step: dict[str, Payload]) -> list[Payload]:
    results: list[Payload] = step.setdefault("observation", {"results": []})["results"]
    return results


def _known_results(step: dict[str, Payload]) -> list[Payload]:
    results: list[Payload] = step.get("observation", {}).get("results", [])
    return results


def _is_of(found: Mapping[str, Payload], result: ToolResult, text: str) -> bool:
    """Whether it is this result that an observation has; of one that is for no call, by what it says."""
    if result.call_id:
        return found.get("source_call_id") == result.call_id
    return "source_call_id" not in found and found.get("content") == text


def _says_something(result: ToolResult) -> bool:
    return result.success is not None or result.error is not None or result.result is not None


def _refer_elsewhere(step: dict[str, Payload], left: Mapping[str, Payload]) -> None:
    """Put back a result that is none but references to other documents."""
    call_id = left.get("source_call_id")
    found = [one for one in _known_results(step) if call_id and one.get("source_call_id") == call_id]
    if found:
        found[0].setdefault("subagent_trajectory_ref", []).extend(left["subagent_trajectory_ref"])
    else:
        _results(step).append(dict(left))


def _only(members: Mapping[str, Payload], name: str) -> dict[str, Payload]:
    return {name: [*members[name]]} if name in members else {}


def _of_tools(one: AgentStep, at: str | None, number: int = 0) -> dict[str, Payload]:
    results = []
    for result in one.tool_results:
        content = result_text(result)
        extra = _extra_of(result, content, derived=False)
        results.append({"source_call_id": result.call_id, "content": content} | without_none(extra=extra or None))
    return {
        "step_id": number,
        "timestamp": at or one.timestamp,
        "source": "agent",
        "message": "",
        "tool_calls": [_call(call) for call in one.tool_calls],
        **without_none(observation={"results": results} if results else None),
        "llm_call_count": 0,
        "extra": {MARK: True} | without_none(error=one.error),
    }


def _extra_of(result: ToolResult, content: Payload, *, derived: bool) -> dict[str, Payload]:
    value = None if derived or result.result == content else result.result
    error = None if result.error == content else result.error
    return without_none(
        success=result.success,
        error=error,
        result=value,
        duration_seconds=result.duration_seconds,
    )


def _call(call: ToolCall) -> dict[str, Payload]:
    extra = {**call.extra, **without_none(call_id_made_up=call.call_id_made_up or None)}
    members = {"tool_call_id": call.call_id, "function_name": call.name, "arguments": arguments_of(call)}
    return members | ({"extra": extra} if extra else {})


def _about(turn: Turn) -> dict[str, Payload]:
    one, parameters = turn.interaction, turn.parameters
    response = one.response
    return without_none(model_name=response.model or one.model, reasoning_effort=effort_of(parameters))


def _of_call(turn: Turn, told: Iterable[AgentStep]) -> dict[str, Payload]:
    """What ATIF has members for of a call, and all the rest of it."""
    one = turn.interaction
    made = one.answered or one.api is not None
    kept = kept_in(one.response.extra)
    metrics = metrics_of_call(one)
    if "metrics_extra" in kept:
        metrics["extra"] = {**metrics.get("extra", {}), **kept["metrics_extra"]}
    extra = _extra_of_call(turn) | without_none(agent_steps=[_told(step) for step in told if not step.derived] or None)
    count = kept.get("llm_call_count", 1 if made else None)
    return without_none(metrics=metrics or None, llm_call_count=count) | {"extra": extra | kept.get("extra", {})}


def metrics_of_call(one: LLMInteraction) -> dict[str, Payload]:
    """Give a call's tokens, its cost where the provider stated one, and what was recorded for training."""
    counts, tokens = counts_of(one), tokens_of(one)
    usage = one.response.usage
    return without_none(
        prompt_tokens=counts and counts.prompt,
        completion_tokens=counts and counts.completion,
        cached_tokens=counts and counts.cache_read,
        cost_usd=usage.cost,
        prompt_token_ids=tokens.prompt_ids,
        completion_token_ids=tokens.completion_ids,
        logprobs=tokens.logprobs,
        extra={"usage": stated} if (stated := usage.to_document()) else None,
    )


def _extra_of_call(turn: Turn) -> dict[str, Payload]:
    one = turn.interaction
    response = one.response
    others = [choice.to_document() for choice in response.choices[1:]]
    return without_none(
        interaction_id=one.interaction_id,
        requested_at=None if one.api in AT_THE_END else one.timestamp,
        step_number=one.step_number,
        provider=one.provider,
        api=one.api,
        model_asked_for=one.model,
        response_id=response.id,
        finish_reason=response.finish_reason,
        other_choices=others or None,
        choice_extra=_unsampled(response.choices[0]) if response.choices else None,
        response_extra=_unkept(response.extra),
        parameters={name: value for name, value in turn.parameters.items() if name != "model"} or None,
        duration_seconds=one.duration_seconds,
        time_to_first_token_seconds=one.time_to_first_token_seconds,
        stream=one.stream or None,
        complete=None if one.complete else False,
        ended_by=one.ended_by,
        error=one.error.to_document() if one.error else None,
        attempts=[attempt.to_document() for attempt in one.attempts] if len(one.attempts) > 1 else None,
    )


def _unkept(extra: Mapping[str, Payload]) -> dict[str, Payload] | None:
    return {name: value for name, value in extra.items() if name != KEPT} or None


def _unsampled(choice: Choice) -> dict[str, Payload] | None:
    """What the first choice says besides, but for what was sampled, which stands in the metrics."""
    return {name: value for name, value in choice.extra.items() if name not in _SAMPLED} or None


def _told(step: AgentStep) -> dict[str, Payload]:
    """What an agent recorded of its own step, beyond what its call says."""
    return without_none(
        step_number=step.step_number,
        timestamp=step.timestamp,
        state=step.state,
        reflection=step.reflection,
        error=step.error,
        duration_seconds=step.duration_seconds,
        **step.extra,
    )
