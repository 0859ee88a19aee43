"""Makes a tree of the spans of a trace, with the call, the tool and the agent around each span.

A call inside another call, with no tool or agent between the two, is the same call: a framework recorded the call, and
so did the framework's client. The inner span becomes the call. If spans name each other as parents in a circle, the
first span of the circle counts as a span without a parent. `vocabularies/` decides which spans are calls, tools and
agents. `trace.py` makes the events of a run from the tree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trace_recorder.formats.foreign_runs.run import MAIN, ForeignAgent
from trace_recorder.formats.spans.attribute_names import genai
from trace_recorder.formats.spans.reading.span import ForeignSpan, SpanReading, merged


@dataclass(eq=False, slots=True)
class Node:
    """A span and the spans around it.

    `agent` is the innermost agent around the span. `tool` is the innermost tool between the span and this agent. `call`
    is the innermost call between the span and this tool or agent. Each is None if there is no such span.
    """

    span: ForeignSpan
    reading: SpanReading
    agent: Node | None = None
    tool: Node | None = None
    call: Node | None = None
    inner_calls: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Tree:
    """The spans of one trace, parents before their children.

    `root` is the first span without a parent. If every span states a parent, `root` is the first span whose parent is
    not in the trace. `main` has the spans of the main agent.
    """

    nodes: list[Node]
    root: Node
    main: frozenset[Node] = frozenset()

    def agent_of(self, node: Node) -> ForeignAgent:
        """Return the agent that a span belongs to."""
        agent = node.agent
        if agent is None:
            return MAIN
        if agent in self.main:
            innermost = next(node for node in reversed(self.nodes) if node in self.main)
            return ForeignAgent(name=_agent_name(innermost))
        parent_agent_id = parent_execution_id = None
        if agent.agent is not None and agent.agent not in self.main:
            parent_agent_id = agent.agent.span.span_id
        if agent.tool is not None:
            parent_execution_id = agent.tool.span.span_id
        return ForeignAgent(
            name=_agent_name(agent),
            agent_id=agent.span.span_id,
            parent_agent_id=parent_agent_id,
            parent_execution_id=parent_execution_id,
        )


def _agent_name(agent: Node) -> str | None:
    """Return the name of an agent, or otherwise the name of the agent's span.

    Return None if the span only has the name of its operation.
    """
    if agent.reading.name:
        return agent.reading.name
    if agent.span.name == agent.span.attributes.get(genai.OPERATION):
        return None
    return agent.span.name or None


def tree_of(pairs: Sequence[tuple[ForeignSpan, SpanReading]]) -> Tree:
    """Return the tree of a trace's spans, of which there is at least one."""
    nodes = _linked([Node(span, reading) for span, reading in pairs])
    known = {node.span.span_id for node in nodes}
    tops = [node for node in nodes if not node.span.parent_id] or [
        node for node in nodes if node.span.parent_id not in known
    ]
    root = min(tops or nodes, key=lambda node: node.span.start or "~")
    _join_calls(nodes)
    return Tree(nodes, root, _main_agents(nodes))


def _linked(nodes: list[Node]) -> list[Node]:
    """Return the nodes, each after its parent. Set the agent, the tool and the call around each node."""
    by_id = {node.span.span_id: node for node in nodes}
    children: dict[str, list[Node]] = {}
    tops: list[Node] = []
    for node in nodes:
        parent = node.span.parent_id
        if parent and parent in by_id and parent != node.span.span_id:
            children.setdefault(parent, []).append(node)
        else:
            tops.append(node)
    linked: dict[int, Node] = {}
    _add_below(tops, children, linked)
    for node in nodes:  # only nodes in a circle are not linked yet
        if id(node) not in linked:
            _add_below([node], children, linked)
    return [*linked.values()]


def _add_below(tops: Iterable[Node], children: dict[str, list[Node]], linked: dict[int, Node]) -> None:
    """Add the nodes `tops`, and all nodes below them, to `linked`."""
    waiting = deque(tops)
    while waiting:
        node = waiting.popleft()
        if id(node) in linked:
            continue
        linked[id(node)] = node
        for child in children.get(node.span.span_id, ()):
            if id(child) not in linked:
                _link(child, node)
                waiting.append(child)


def _link(child: Node, parent: Node) -> None:
    """Set the agent, the tool and the call around a node. A tool or an agent ends what was open around it."""
    match parent.reading.kind:
        case "agent":
            child.agent, child.tool, child.call = parent, None, None
        case "tool":
            child.agent, child.tool, child.call = parent.agent, parent, None
        case "call":
            child.agent, child.tool, child.call = parent.agent, parent.tool, parent
        case None:
            child.agent, child.tool, child.call = parent.agent, parent.tool, parent.call


def _join_calls(nodes: Iterable[Node]) -> None:
    """Turn each call that has other calls inside it into a span without a kind.

    A single inner call gets the facts that only the outer call has. If there are several inner calls, these facts are
    dropped.
    """
    calls = [node for node in nodes if node.reading.kind == "call"]
    for node in calls:
        if node.call is not None:
            node.call.inner_calls.append(node)
    for node in calls:
        if not node.inner_calls:
            continue
        if len(node.inner_calls) == 1:
            _fill(node.inner_calls[0], node.reading)
        node.reading = SpanReading(input=node.reading.input, output=node.reading.output)


def _fill(inner: Node, outer: SpanReading) -> None:
    inner_reading = inner.reading
    if inner_reading.usage is not None:
        outer.usage = None
    whole = merged([inner_reading, outer])
    whole.failed, whole.error, whole.error_type = inner_reading.failed, inner_reading.error, inner_reading.error_type
    inner.reading = whole


def _main_agents(nodes: Sequence[Node]) -> frozenset[Node]:
    """Return the spans of the run's main agent.

    The main agent is the only outermost agent. If this agent has no calls and tools of its own, but has a single inner
    agent, the inner agent's span belongs to the main agent, too. The same rule applies to that inner agent. There is no
    main agent if a call or a tool is outside of all agents, or if there are several outermost agents.
    """
    agents = [node for node in nodes if node.reading.kind == "agent"]
    active_agents = {id(node.agent) for node in nodes if node.reading.kind in {"call", "tool"}}
    inside: dict[int, list[Node]] = {}
    for agent in agents:
        inside.setdefault(id(agent.agent), []).append(agent)
    outermost = inside.get(id(None), [])
    if len(outermost) != 1 or id(None) in active_agents:
        return frozenset()
    main = outermost
    while id(main[-1]) not in active_agents and len(inner := inside.get(id(main[-1]), [])) == 1:
        main = [*main, inner[0]]
    return frozenset(main)
