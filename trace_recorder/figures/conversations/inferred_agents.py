"""Sub-agents that a program names nowhere: they are inferred from their prompts.

Qwen Code 0.24, Kimi Code 2.1, Cline 3.0 and Droid 0.215 send no header that names the agent of a request. But the model
asks for a sub-agent by a tool call, and the text of an argument becomes the sub-agent's first prompt. So a conversation
that begins with such a text is a sub-agent's. A program may put lines of its own before the text.

This is an inference, and is shown as one. Only runs of the proxy have inferred sub-agents. A call whose agent is stated
has none. A sub-agent that begins with the history of its parent is not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trace_recorder.figures.conversations.side_calls import is_of_proxy
from trace_recorder.reading.relations.calls_of_run import interactions_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn, key_of_agent
from trace_recorder.values.content_parts import Text, parts_of
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class InferredAgent:
    """A sub-agent: the id of the interaction that asked for it, and the tool call there."""

    started_by: str
    call_id: str
    tool: str


def inferred_agents_of(trajectory: Trajectory) -> dict[str, InferredAgent]:
    """Return the inferred sub-agents of a run, by the ids of their interactions.

    The conversations are read only if the run is one of the proxy, has tool calls, and has calls without an agent.
    """
    if not is_of_proxy(trajectory):
        return {}
    calls = [call for call in interactions_of(trajectory) if key_of_agent(call) is None]
    if not any(call.response.tool_calls for call in calls):
        return {}
    agents: dict[str, InferredAgent] = {}
    asked: dict[str, InferredAgent] = {}
    for turn in turns_of(trajectory):
        call = turn.interaction
        if key_of_agent(call) is not None:
            continue
        texts = _first_texts(turn)
        if texts:
            agent = _agent_of(texts, asked)
        else:
            agent = agents.get((turn.previous or turn.chain_start).interaction.interaction_id)
        if agent is not None:
            agents[call.interaction_id] = agent
        for tool_call in call.response.tool_calls:
            started = InferredAgent(call.interaction_id, tool_call.call_id, tool_call.name)
            asked.update(dict.fromkeys(_texts_in(tool_call.arguments), started))
    return agents


def _agent_of(prompts: Sequence[str], asked: dict[str, InferredAgent]) -> InferredAgent | None:
    """Return the agent whose prompt is one of these texts, or the last lines of one. `asked` has agents by prompt."""
    for prompt in prompts:
        if prompt in asked:
            return asked[prompt]
        for text, agent in asked.items():
            if prompt.endswith(text) and prompt[-len(text) - 1] == "\n":
                return agent
    return None


def _first_texts(turn: Turn) -> list[str]:
    """Return the texts of the user's messages in a prompt without an answer of a model. Return [] for any other."""
    call = turn.interaction
    if call.api is None or not call.source.has_request():
        return []
    texts: list[str] = []
    for message in call.input_messages:
        if message.role == "assistant":
            return []
        if message.role == "user":
            texts += [part.text.strip() for part in parts_of(message) if isinstance(part, Text)]
    return texts


def _texts_in(arguments: Payload) -> Iterator[str]:
    """Yield the texts among the arguments of a tool call, and in lists among them."""
    values = list(arguments.values()) if isinstance(arguments, dict) else []
    for value in values:
        for element in value if isinstance(value, list) else (value,):
            if isinstance(element, str) and element.strip():
                yield element.strip()
