"""Sub-agents that a program names nowhere: they are inferred from their prompts.

Qwen Code 0.24, Kimi Code 2.1, goose 1.52, Cline 3.0 and Droid 0.215 send no header that names the agent of a request.
But the model asks for a sub-agent by a tool call, and the text of an argument becomes the sub-agent's first prompt. So
a conversation that begins with such a text is a sub-agent's. A program may put lines of its own before the text. It may
put a block after the text, as goose does: `<turn-context>`, lines, `</turn-context>`.

This is an inference, and is shown as one. Only runs of the proxy have inferred sub-agents. A call whose agent is stated
has none. A sub-agent that begins with the history of its parent is not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.figures.conversations.side_calls import is_of_proxy
from trace_recorder.reading.relations.calls_of_run import interactions_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.values.content_parts import Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class InferredAgent:
    """A sub-agent: the id of the interaction that asked for it, and the tool call there."""

    started_by: str
    call_id: str
    tool: str

    @property
    def key(self) -> str:
        """The key of the agent in its run. No stated agent has it, unless its id has this form."""
        return f"{self.started_by}/{self.call_id} (inferred)"

    @property
    def name(self) -> str:
        """The name of the tool that started the agent, with the mark of all names of inferred agents."""
        return f"{self.tool} (inferred)"

    def to_document(self) -> dict[str, Payload]:
        """Return the agent as exports have it."""
        return {"started_by": self.started_by, "call_id": self.call_id, "tool": self.tool}


def inferred_agents_of(trajectory: Trajectory) -> dict[str, InferredAgent]:
    """Return the inferred sub-agents of a run, by the ids of their interactions.

    The conversations are read only if one of them begins with a text that a tool call has.
    """
    begun = _agents_that_begin(trajectory)
    if not any(begun.values()):
        return {}
    agents: dict[str, InferredAgent] = {}
    for turn in turns_of(trajectory):
        call = turn.interaction
        if key_of_agent(call) is not None:
            continue
        agent = agents.get((turn.previous or turn.chain_start).interaction.interaction_id)
        agent = begun.get(call.interaction_id, agent)
        if agent is not None:
            agents[call.interaction_id] = agent
    return agents


def begun_agents_of(trajectory: Trajectory) -> dict[str, InferredAgent]:
    """Return the inferred sub-agents of a run, by the ids of the first calls of their conversations.

    Only the beginnings of prompts are read.
    """
    return {call_id: agent for call_id, agent in _agents_that_begin(trajectory).items() if agent is not None}


def _agents_that_begin(trajectory: Trajectory) -> dict[str, InferredAgent | None]:
    """Return the agents of the calls that begin a conversation, by the ids of the calls.

    A call that begins a conversation with a text of its own has None. Calls before the first tool call are left out,
    and so are all calls of a run that the proxy did not record.
    """
    if not is_of_proxy(trajectory):
        return {}
    begun: dict[str, InferredAgent | None] = {}
    asked = _AskedTexts()
    for call in interactions_of(trajectory):
        if key_of_agent(call) is not None:
            continue
        if asked.by_last_line and (texts := _first_texts(call)):
            begun[call.interaction_id] = next(filter(None, map(asked.agent_of, texts)), None)
        for tool_call in call.response.tool_calls:
            agent = InferredAgent(call.interaction_id, tool_call.call_id, tool_call.name)
            for text in _texts_in(tool_call.arguments):
                asked.add(text, agent)
    return begun


@dataclass(slots=True)
class _AskedTexts:
    """The texts in the arguments of tool calls, with the agents that they would start, by the last lines of the texts.

    So a prompt is compared only with texts that end as the prompt does.
    """

    by_last_line: dict[str, dict[str, InferredAgent]] = field(default_factory=dict)

    def add(self, text: str, agent: InferredAgent) -> None:
        """Add a text. The newest tool call with the text counts."""
        self.by_last_line.setdefault(_last_line(text), {})[text] = agent

    def agent_of(self, prompt: str) -> InferredAgent | None:
        """Return the agent whose text is a prompt, or the last lines of the prompt."""
        texts = self.by_last_line.get(_last_line(prompt), {})
        if prompt in texts:
            return texts[prompt]
        for text, agent in texts.items():
            if prompt.endswith(text) and prompt[-len(text) - 1] == "\n":
                return agent
        return None


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]


def _first_texts(call: LLMInteraction) -> list[str]:
    """Return the texts of the user's messages in a prompt without an answer of a model. Return [] for any other."""
    if call.api is None or not call.source.has_request():
        return []
    texts: list[str] = []
    for message in call.input_messages:
        if message.role == "assistant":
            return []
        if message.role == "user":
            texts += [part.text.strip() for part in parts_of(message) if isinstance(part, Text)]
    return [*texts, *filter(None, map(_before_last_block, texts))]


def _before_last_block(text: str) -> str:
    """Return the lines before the block at the end of a text, or "" if the text does not end with a block.

    A block is between lines with the tags `<name>` and `</name>`.
    """
    before, _, tag = text.rpartition("\n</")
    if not tag.endswith(">") or "\n" in tag:
        return ""
    return before.rpartition(f"\n<{tag}\n")[0].rstrip()


def _texts_in(arguments: Payload) -> Iterator[str]:
    """Yield the texts among the arguments of a tool call, and in lists among them."""
    values = list(arguments.values()) if isinstance(arguments, dict) else []
    for value in values:
        for element in value if isinstance(value, list) else (value,):
            if isinstance(element, str) and element.strip():
                yield element.strip()
