"""What a span shows of a call's prompt: all of it, or what is new since the agent's call before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Tool
from trace_recorder.values.shared_sequence import SharedSequence
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


def prompt_of(one: LLMInteraction, before: LLMInteraction | None = None) -> Prompt:
    """Return the prompt of a call; with the agent's call `before` it, what is new since that.

    What is new is found by the messages that calls share as objects, in a run that was read from its journal. Of any
    other run, and where a history was changed, the prompt is complete.
    """
    if not one.source.has_request():
        return Prompt(is_known=False)
    messages, tools = SharedSequence.of(one.input_messages), one.tools
    known = SharedSequence.of(before.input_messages) if before is not None else SharedSequence[Message]()
    if before is not None and known and messages.shared_length(known) == len(known):
        is_same = len(tools) == len(before.tools) and tools == before.tools
        return Prompt((), messages[len(known) :], () if is_same else tools, True, len(known), before.interaction_id)
    apart = split_instructions(one, messages)
    return Prompt(messages[:apart], messages[apart:], tools)
