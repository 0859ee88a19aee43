"""The part of a call's prompt that its span shows: all of it, or the new messages since the agent's previous call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.messages import Message, Tool
from trace_recorder.values.prompt_relation import compare
from trace_recorder.views.otlp.messages import split_instructions


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages and tools of a call. The first `omitted` messages are those of the call `continues`."""

    instructions: Sequence[Message] = ()
    messages: Sequence[Message] = ()
    tools: Sequence[Tool] = ()
    is_known: bool = True
    omitted: int = 0
    continues: str | None = None


def prompt_of(call: LLMInteraction, before: LLMInteraction | None, messages: EqualMessages) -> Prompt:
    """Return the prompt of a call.

    If `before`, the agent's previous call, is given, only the new messages are returned. `messages` gives numbers to
    the messages of the run. If the history was changed, the prompt is complete.
    """
    if not call.source.has_request():
        return Prompt(is_known=False)
    sent, tools = call.input_messages, call.tools
    known = messages.numbers_of(before.input_messages) if before is not None else None
    if before is not None and known and compare(known, messages.numbers_of(sent)).extends:
        is_same = len(tools) == len(before.tools) and tools == before.tools
        return Prompt((), sent[len(known) :], () if is_same else tools, True, len(known), before.interaction_id)
    apart = split_instructions(call, sent)
    return Prompt(sent[:apart], sent[apart:], tools)
