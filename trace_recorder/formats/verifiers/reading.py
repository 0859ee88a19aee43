"""The files of the library `verifiers`: traces (version 1 and later) and rows (before version 1).

A line of `traces.jsonl` is an episode. Each trace of an episode is a run, and has calls and a graph of messages. A node
of the graph is a message, and names the node before it. A call names the node of its answer. The call saw this node's
ancestors. `prompt_tokens` leaves out cached tokens. Source: `verifiers/v1/trace.py`, `graph.py` and `episode.py` of
0.4.

A line of `results.jsonl` is a rollout with its prompt and completion, in OpenAI's chat form. Source:
https://docs.primeintellect.ai/verifiers, and published rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects import manual
from trace_recorder.dialects.call_ids import CallNumbering
from trace_recorder.dialects.json_access import Members as Remaining
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, json_value
from trace_recorder.dialects.openai_chat import read_message
from trace_recorder.formats.foreign_runs.agent_history import MAX_BRANCHES, first_text
from trace_recorder.formats.foreign_runs.run import (
    UNSEEN,
    Call,
    ForeignConversation,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.plain_conversations import events_of
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.structs import replace

_TRACE = Signs(members=("verifiers", "nodes", "calls"))
_OF_THE_RUN = {"nodes", "calls", "rewards", "metrics", "timing", "task", "agent", "tools", "errors"}


def recognizes(source: Source) -> bool:
    """Return whether the first line, or the document, is an episode or a trace."""
    values = [line.value for line in source.first_lines[:1]] or [source.document]
    return any(_TRACE.match(trace) for value in values for trace in _traces(value)[:1])


def _traces(value: Payload) -> list[Members]:
    members = as_dict(value)
    if "traces" not in members:
        return [members]
    return [as_dict(trace) for trace in as_list(members["traces"])]


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each trace."""
    name = source.path.name.partition(".")[0]
    document = source.document
    for line in source.each_line() if document is None else [Line(1, document)]:
        traces = [trace for trace in _traces(line.value) if _TRACE.match(trace)]
        for number, trace in enumerate(traces, start=1):
            yield _run(f"{name}-{line.number}-{number}", trace, as_dict(line.value))
        if not traces:
            missing = TimedFact.gap(what=f"line {line.number}", why=line.why or "it has no trace")
            yield ForeignRun(identity=f"{name}-{line.number}", events=[missing])


def _run(name: str, trace: Members, episode: Members) -> ForeignRun:
    agent, timing, task = as_dict(trace.get("agent")), as_dict(trace.get("timing")), as_dict(trace.get("task"))
    ends = [as_number(as_dict(timing.get(span)).get("end")) for span in ("scoring", "finalize", "agent")]
    prompt = as_dict(task.get("data")).get("prompt")
    episode_id: str | None = None
    if "traces" in episode:
        episode_id = as_text(episode.get("id"))
    run = ForeignRun(
        identity=as_text(trace.get("id")) or name,
        task=as_text(prompt) or _last_prompt(as_list(prompt)),
        model=as_text(as_dict(agent.get("config")).get("model")),
        start_time=stated_time(timing.get("start")),
        end_time=stated_time(next(filter(None, ends), None)),
        final_result=trace.get("root_reply"),
        source=without_none(
            version=as_text(as_dict(trace.get("verifiers")).get("version")),
            episode=episode_id,
            environment=as_text(as_dict(episode.get("env")).get("id")),
            agent=as_text(agent.get("name")),
            stop_condition=as_text(trace.get("stop_condition")),
        ),
    )
    if trace.get("is_completed") is True:
        run.status = "completed" if trace.get("ok") else "failed"
    for error in as_list(trace.get("errors"))[-1:]:
        if trace.get("ok") is not True:
            run.error = _error(as_dict(error))
    _GraphReader(run, trace).read_all()
    for key, reward in as_dict(trace.get("rewards")).items():
        score, weight = as_number(as_dict(reward).get("score")), as_number(as_dict(reward).get("weight"))
        if weight is None:
            weight = 1.0
        if score is not None:
            run.events.append(TimedFact.reward(name=key, value=score, weight=weight))
    if metrics := as_dict(trace.get("metrics")):
        run.events.append(TimedFact.annotation(key="metrics", value=metrics))
    rest = {key: value for key, value in trace.items() if key not in _OF_THE_RUN}
    run.events.append(TimedFact.unread(what="trace", value={**rest, "timing": timing, "task": task, "agent": agent}))
    return run


class _GraphReader:
    """Reads the graph of one trace.

    `_ends[n]` has the conversation of node n, and how many messages it has up to this node.
    """

    def __init__(self, run: ForeignRun, trace: Members) -> None:
        self.run = run
        self._nodes = [as_dict(node) for node in as_list(trace.get("nodes"))]
        self._calls = [as_dict(call) for call in as_list(trace.get("calls"))]
        self._tools = as_list(trace.get("tools"))
        self._ends: list[tuple[ForeignConversation, int]] = []
        self._messages: list[list[Members]] = []
        """The messages of each node."""
        self._numbering = CallNumbering()
        self._branches = 0

    def read_all(self) -> None:
        """Read the nodes, then the calls."""
        for number, node in enumerate(self._nodes):
            self._add_node(number, node)
        by_node = self._calls_by_node()
        answers = [
            number for number, node in enumerate(self._nodes) if node.get("sampled") is True or number in by_node
        ]
        calls = [self._call(number, self._nodes[number], by_node.get(number, {})) for number in answers]
        calls += [self._unanswered_call(call) for call in self._calls if self._node_of(call) is None]
        if all(call.time for call in calls):
            calls.sort(key=lambda call: call.time)
        self.run.events += calls
        self._add_unseen(answers)

    def _calls_by_node(self) -> dict[int, Members]:
        """Return the calls by the numbers of their answers' nodes.

        If several calls name the same node, the last call counts.
        """
        by_node: dict[int, Members] = {}
        for call in self._calls:
            number = self._node_of(call)
            if number is None:
                continue
            if number in by_node:
                self.run.events.append(
                    TimedFact.gap(what=f"a call of node {number}", why="a later call names the same node")
                )
            by_node[number] = call
        return by_node

    def _node_of(self, call: Members) -> int | None:
        node = as_int(call.get("node"))
        if node is None or not 0 <= node < len(self._nodes):
            return None
        return node

    def _parent(self, number: int) -> int | None:
        """Return the number of a node's parent, or None. The parent must be an earlier node."""
        parent = as_int(self._nodes[number].get("parent"))
        if parent is None or not 0 <= parent < number:
            return None
        return parent

    def _add_node(self, number: int, node: Members) -> None:
        parent = self._parent(number)
        if parent is None:
            conversation, length = ForeignConversation(), 0
            if node.get("parent") is not None:
                self.run.events.append(
                    TimedFact.gap(what=f"the parent of node {number}", why="it is not an earlier node")
                )
        else:
            conversation, length = self._ends[parent]
            if length < len(conversation):
                conversation = self._branch_of(conversation, length)
        messages = [self._numbering.number(message).to_document() for message in _read_message(node.get("message"))]
        for message in messages:
            conversation.add(message)
        self._ends.append((conversation, len(conversation)))
        self._messages.append(messages)

    def _branch_of(self, conversation: ForeignConversation, length: int) -> ForeignConversation:
        self._branches += 1
        if self._branches <= MAX_BRANCHES:
            return conversation.branch(length)
        if self._branches == MAX_BRANCHES + 1:
            why = f"there are more than {MAX_BRANCHES} of them"
            self.run.events.append(TimedFact.gap(what="the prompts of later branches", why=why))
        return ForeignConversation()

    def _call(self, number: int, node: Members, members: Members) -> Call:
        conversation, length = self._ends[number]
        answer = self._messages[number]
        response: Members = {"content": None}
        for message in answer[-1:]:
            response = {key: value for key, value in message.items() if key != "role"}
        tokens = self._tokens(number)
        response |= without_none(finish_reason=as_text(members.get("finish_reason")), usage=_usage(members) or None)
        response |= without_none(extra=tokens or None)
        call = self._bare_call(members, stated_time(node.get("timestamp")))
        call.conversation, call.length, call.response = conversation, length - len(answer), response
        return call

    def _tokens(self, number: int) -> Members:
        """Return the ids of a call's prompt, and the ids and log-probabilities of its answer, with vLLM's names.

        The prompt has the tokens of all ancestors, and those of the node before the first that is sampled.
        """
        node = self._nodes[number]
        ids, mask = as_list(node.get("token_ids")), as_list(node.get("mask"))
        if len(ids) != len(mask) or True not in mask:
            return {}
        begin, end = mask.index(True), len(mask) - mask[::-1].index(True)
        pieces = [ids[:begin]]
        ancestor = self._parent(number)
        while ancestor is not None:
            pieces.append(as_list(self._nodes[ancestor].get("token_ids")))
            ancestor = self._parent(ancestor)
        scores = as_list(node.get("logprobs"))
        logprobs: Members | None = None
        if len(scores) == end - begin:
            logprobs = {"content": [{"logprob": score} for score in scores]}
        prompt = [identity for piece in reversed(pieces) for identity in piece]
        return {"prompt_token_ids": prompt, "token_ids": ids[begin:end], **without_none(logprobs=logprobs)}

    def _unanswered_call(self, members: Members) -> Call:
        call = self._bare_call(members, "")
        call.error = call.error or {"type": "error", "message": "it has no answer"}
        return call

    def _bare_call(self, members: Members, time: str) -> Call:
        """Return a call without its prompt and its response."""
        span = as_dict(members.get("time"))
        start, end = as_number(span.get("start")), as_number(span.get("end"))
        call = Call(
            time=stated_time(start) or time,
            conversation=None,
            model=as_text(members.get("model")) or self.run.model,
            tools=self._tools,
            parameters=without_none(**as_dict(members.get("sampling"))),
        )
        if error := as_dict(members.get("error")):
            call.error = _error(error)
        if start and end:
            call.duration_seconds = max(0.0, end - start)
        return call

    def _add_unseen(self, answers: list[int]) -> None:
        """Append to the events the messages that no call saw.

        Results of tools become executions. Other messages are kept unchanged.
        """
        seen: set[int] = set()
        for number in answers:
            ancestor: int | None = number
            while ancestor is not None and ancestor not in seen:
                seen.add(ancestor)
                ancestor = self._parent(ancestor)
        for number, messages in enumerate(self._messages):
            if number in seen:
                continue
            time = stated_time(self._nodes[number].get("timestamp"))
            for message in messages:
                if message["role"] == "tool":
                    name, call_id = as_text(message.get("name")) or "", as_text(message.get("call_id"))
                    result = message.get("content")
                    self.run.events.append(ToolRun(time=time, name=name, call_id=call_id, ended=time, result=result))
                else:
                    self.run.events.append(TimedFact.unread(what=UNSEEN, value=message, time=time))


def _read_message(value: Payload) -> list[Message]:
    """Read a message in OpenAI's chat form. The tool calls must have `name` and `arguments` beside the id."""
    members = as_dict(value)
    calls = tuple(map(manual.read_tool_call, as_list(members.get("tool_calls"))))
    rest = {name: value for name, value in members.items() if name != "tool_calls" and value is not None}
    return [replace(message, tool_calls=calls or message.tool_calls) for message in read_message(rest)]


def _last_prompt(messages: list[Payload]) -> str | None:
    """Return the first text of the user's last message, or None if there is no such text."""
    users = [message for message in map(as_dict, messages) if message.get("role") == "user"]
    return first_text(next(reversed(users), {}).get("content")) or None


def _usage(members: Members) -> Members:
    usage = Remaining(as_dict(members.get("usage")))
    prompt, cached = usage.integer("prompt_tokens"), usage.integer("cached_input_tokens")
    if prompt is not None:
        prompt += cached or 0
    return without_none(
        input_tokens=prompt,
        output_tokens=usage.integer("completion_tokens"),
        cache_read_input_tokens=cached,
        reasoning_tokens=usage.integer("reasoning_tokens"),
        cost=usage.number("cost"),
        extra=usage.rest() or None,
    )


def _error(error: Members) -> Members:
    members = {"type": as_text(error.get("type")) or "error", "message": as_text(error.get("message")) or ""}
    return members | without_none(status=as_int(error.get("status_code")))


_ROW = Signs(members=("prompt", "completion", "reward"))


def recognizes_results(source: Source) -> bool:
    """Return whether the first row has an id, a prompt, a reward, and a completion of messages or text."""
    if not _ROW.in_first_line(source):
        return False
    row = source.first_lines[0].value
    return ("example_id" in row or "id" in row) and isinstance(row["completion"], list | str)


def read_results(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each row."""
    name = source.path.name.partition(".")[0]
    for line in source.each_line():
        yield _run_of_row(f"{name}-{line.number}", line)


def _run_of_row(name: str, line: Line) -> ForeignRun:
    row = as_dict(line.value)
    prompt, completion = _messages(row.get("prompt"), "user"), _messages(row.get("completion"), "assistant")
    info = as_dict(row.get("info"))
    tools = as_list(row.get("tool_defs")) or as_list(info.get("oai_tools"))
    run = ForeignRun(
        identity=name,
        events=[*events_of([*prompt, *completion], tools, prompt_length=len(prompt))],
        task=_last_prompt(prompt),
        source=without_none(example_id=row.get("example_id", row.get("id")), task=row.get("task")),
        metadata={"row": {key: value for key, value in row.items() if key not in {"prompt", "completion"}}},
    )
    if error := row.get("error"):
        members = as_dict(error)
        kind = as_text(members.get("type")) or as_text(members.get("error")) or "error"
        text = as_text(error) or as_text(members.get("message")) or as_text(members.get("error_chain_str")) or ""
        run.status, run.error = "failed", {"type": kind, "message": text}
    elif row.get("is_completed") is True:
        run.status = "completed"
    if (reward := as_number(row.get("reward"))) is not None:
        run.events.append(TimedFact.reward(name="reward", value=reward))
    if line.why is not None:
        run.events.append(TimedFact.gap(what=f"line {line.number}", why=line.why))
    return run


def _messages(value: Payload, role: str) -> list[Payload]:
    """Return the messages of a prompt or a completion. Tool calls that are JSON texts are parsed."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    messages: list[Payload] = []
    for message in as_list(value):
        calls = as_list(as_dict(message).get("tool_calls"))
        if any(isinstance(call, str) for call in calls):
            messages.append({**message, "tool_calls": [_parsed(call) for call in calls]})
        else:
            messages.append(message)
    return messages


def _parsed(call: Payload) -> Payload:
    if isinstance(call, str):
        return json_value(call)
    return call
