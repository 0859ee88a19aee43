"""Runs of every shape that a view must export.

Each function writes a run to a directory, and returns its path. `RUNS` names all of them: runs through the real SDKs
(`sdk_conversations.py`), of text agents and of sub-agents, and runs that are empty, interrupted, damaged, or without a
journal. `every(directory)` writes all of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

from tests.data import recorded
from tests.data.written import Writing, asked, called, change, said
from tests.formats import sdk_conversations as conversations
from tests.formats.sdk_conversations import QUESTION, SYSTEM, ULM, WEATHER, answered, openai_client, spoken
from tests.provider import plain, serving
from trace_recorder import TrajectoryRecorder

Payload = Any
Run = Callable[[Path], Path]


def _user(content: Payload) -> dict[str, Payload]:
    return {"role": "user", "content": content}


def _assistant(content: str) -> dict[str, Payload]:
    return {"role": "assistant", "content": content}


def _texts(path: Path, says: list[str], observes: list[str]) -> Path:
    """Return a text agent's answer, and the user's next message that shows its result."""
    messages: list[Payload] = [SYSTEM, _user("How long is the file?")]
    with serving(*(plain(spoken(text)) for text in says)) as server:
        with TrajectoryRecorder(path, task="measure") as recorder, openai_client(server.url, recorder) as client:
            for text, shown in zip(says, [*observes, None], strict=True):
                client.chat.completions.create(model="local", messages=messages)
                messages = [*messages, _assistant(text), _user(shown)]
    return path


def code_agent(directory: Path) -> Path:
    """Record an agent that writes code and gets its output, with the words of smolagents."""
    says = [
        "Thought: I count.\n<code>\nprint(len(open('a').read()))\n</code>",
        "Thought: I know it.\n<code>\nfinal_answer(12)\n</code>",
    ]
    return _texts(
        directory / "code_agent.json", says, ["Observation:\nExecution logs:\n12\nLast output from code snippet:\nNone"]
    )


def react(directory: Path) -> Path:
    """Record an agent that writes its actions as text."""
    says = [
        'Thought: I count.\nAction: wc\nAction Input: {"path": "a"}',
        "Thought: I now know the final answer\nFinal Answer: 12",
    ]
    return _texts(directory / "react.json", says, ["Observation: 12"])


def compacted(directory: Path) -> Path:
    """Record a history that is replaced by a summary after the second call."""
    path = directory / "compacted.json"
    asking = {"role": "assistant", "content": None, "tool_calls": [ULM]}
    long = [SYSTEM, QUESTION, asking, answered("call_1", "7")]
    short = [
        SYSTEM,
        _user("Summary: Ulm has 7 °C. Go on."),
    ]
    again = called("call_9", "weather", city="Rome")
    end = [*short, {"role": "assistant", "content": None, "tool_calls": [again]}, answered("call_9", "31")]
    answers = [spoken(None, ULM), spoken("7, so far."), spoken(None, again), spoken("Rome.")]
    with serving(*map(plain, answers)) as server, TrajectoryRecorder(path, task="compare") as recorder:
        with openai_client(server.url, recorder) as client:
            for messages in ([SYSTEM, QUESTION], long, short, end):
                client.chat.completions.create(model="gpt-4o", messages=messages, tools=[WEATHER])
    return path


def own_steps(directory: Path) -> Path:
    """Record captured calls, and the agent's own steps with the objects that its tools returned."""
    path = directory / "own_steps.json"
    result = {"call_id": "call_1", "name": "weather", "success": True, "result": {"celsius": 7, "wind": [1, 2]}}
    told = [SYSTEM, QUESTION, {"role": "assistant", "content": None, "tool_calls": [ULM]}, answered("call_1", "7 °C …")]
    with serving(plain(spoken(None, ULM)), plain(spoken("Ulm has 7 °C.", number=2))) as server:
        with TrajectoryRecorder(path, task="look", max_steps=1) as recorder:
            with openai_client(server.url, recorder) as client:
                first = client.chat.completions.create(model="gpt-4o", messages=[SYSTEM, QUESTION], tools=[WEATHER])
                call = {"call_id": "call_1", "name": "weather", "arguments": {"city": "Ulm"}}
                recorder.record_agent_step(1, "calling_tool", [SYSTEM, QUESTION], first, [call], [result])
                last = client.chat.completions.create(model="gpt-4o", messages=told, tools=[WEATHER])
                recorder.record_agent_step(2, "completed", told, last)
            recorder.finalize(success=True, final_result="7")
    return path


def steps_alone(directory: Path) -> Path:
    """Record an agent that records its steps and no calls."""
    path = directory / "steps_alone.json"
    call = {"call_id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    result = {"call_id": "c1", "name": "bash", "success": False, "result": None, "error": "denied"}
    with TrajectoryRecorder(path, task="list") as recorder:
        recorder.record_agent_step(1, "calling_tool", [SYSTEM, QUESTION], {"content": "I look."}, [call], [result])
        recorder.record_agent_step(2, "error", error=ValueError("bad"))
    return path


def sampled(directory: Path) -> Path:
    """Record a server that gives the token ids and log-probabilities of its samples.

    The second prompt continues the first.
    """
    path = directory / "sampled.json"
    asked_twice = [QUESTION, _assistant("Ulm?"), _user("No.")]
    answers = [_sampled("Ulm?", [1, 2, 3], [7, 8]), _sampled("Rome.", [1, 2, 3, 7, 8, 4], [9])]
    with serving(*map(plain, answers)) as server, TrajectoryRecorder(path, task="guess") as recorder:
        with openai_client(server.url, recorder) as client:
            for messages in ([QUESTION], asked_twice):
                client.chat.completions.create(model="local", messages=messages, logprobs=True)
    return path


def _sampled(content: str, prompt: list[int], ids: list[int]) -> dict[str, Payload]:
    body = spoken(content) | {"prompt_token_ids": prompt}
    scored = [{"token": f"token_id:{one}", "logprob": -0.5, "bytes": None, "top_logprobs": []} for one in ids]
    body["choices"][0] |= {"token_ids": ids, "logprobs": {"content": scored, "refusal": None}}
    return body


def sub_agents(directory: Path) -> Path:
    """Record a planner that calls a researcher twice. The researcher's calls are between the planner's."""
    path = directory / "sub_agents.json"
    writing = Writing(path.with_suffix(".jsonl"), task="plan", provider="openai", model="gpt-4o")
    research = called("call_r", "research", topic="Ulm")
    inner = called("call_1", "search", q="Ulm")
    plan = [SYSTEM, _user("Plan a trip.")]
    digging = [_user("Research Ulm.")]
    writing.request(1, asked(*plan), agent="planner")
    writing.response(1, body=said("First I research.", research))
    writing.request(2, asked(*digging), agent="researcher")
    writing.response(2, body=said(None, inner))
    used = {"role": "assistant", "content": None, "tool_calls": [inner]}
    writing.request(3, asked(*digging, used, answered("call_1", "a minster")), agent="researcher")
    writing.response(3, body=said("It has a minster."))
    spent = {"role": "assistant", "content": "First I research.", "tool_calls": [research]}
    writing.request(4, asked(*plan, spent, answered("call_r", "It has a minster.")), agent="planner")
    writing.response(4, body=said("See the minster."))
    writing.add("finalize", status="completed", success=True, final_result="See the minster.", execution_time=12.5)
    return _written(writing, path)


def twins(directory: Path) -> Path:
    """Record two researchers of the same name under two parents, at once, with the same questions and answers."""
    path = directory / "twins.json"
    asks, dig = [SYSTEM, _user("Research Ulm.")], called("call_1", "search", q="Ulm")
    spent = {"role": "assistant", "content": None, "tool_calls": [dig]}
    prompts_of = {parent: [*asks, spent, answered("call_1", f"found by {parent}")] for parent in ("east", "west")}
    answers = [spoken(None, dig), spoken(None, dig), spoken("A minster."), spoken("A river.")]
    with serving(*map(plain, answers)) as server, TrajectoryRecorder(path, task="research") as recorder:
        with openai_client(server.url, recorder) as client:
            places = {parent: copy_context() for parent in prompts_of}
            for parent, place in places.items():
                place.run(lambda parent=parent: recorder.agent(parent).__enter__())
                place.run(lambda: recorder.agent("researcher").__enter__())
            for prompts in (dict.fromkeys(prompts_of, asks), prompts_of):
                for parent, messages in prompts.items():
                    places[parent].run(client.chat.completions.create, model="gpt-4o", messages=messages)
    return path


def damaged(directory: Path) -> Path:
    """Write a run without a record that the second of two requests needs, so that only the second answer is known."""
    path = directory / "damaged.json"
    writing = Writing(path.with_suffix(".jsonl"), task="lose")
    writing.request(1, asked(SYSTEM))
    writing.response(1, body=said("What?"))
    writing.request(2, asked(SYSTEM, QUESTION))
    writing.response(2, body=said("Rome."))
    writing.journal.close()
    change(writing.path, lambda record: record["data"].get("value") != QUESTION)
    return writing.path


def interrupted(directory: Path) -> Path:
    """Record a run whose process died during a call, after the model had asked for a tool."""
    path = directory / "interrupted.json"
    writing = Writing(path.with_suffix(".jsonl"), task="die", max_steps=9)
    writing.request(1, asked(SYSTEM, QUESTION, tools=[WEATHER]))
    writing.response(1, body=said(None, ULM))
    asking = {"role": "assistant", "content": None, "tool_calls": [ULM]}
    writing.request(2, asked(SYSTEM, QUESTION, asking, answered("call_1", "7"), tools=[WEATHER]))
    return _written(writing, path)


def _written(writing: Writing, path: Path) -> Path:
    writing.journal.close()
    return writing.path if not path.exists() else path


def empty(directory: Path) -> Path:
    """Record a run in which nothing happened."""
    path = directory / "empty.json"
    with TrajectoryRecorder(path, task="nothing"):
        pass
    return path


def document_only(directory: Path) -> Path:
    """Write a run without its journal."""
    made = conversations.tools(_made(directory / "whole"))
    return Path(shutil.copy(made, directory / "document_only.json"))


def _made(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    return directory


SDK_RUNS: tuple[Run, ...] = (
    conversations.tools,
    conversations.thinking,
    conversations.gemini,
    conversations.local,
    conversations.responses,
    conversations.streamed,
    conversations.images,
    conversations.failed,
)
TEXT_RUNS: tuple[Run, ...] = (code_agent, react)
SHAPED_RUNS: tuple[Run, ...] = (
    compacted,
    own_steps,
    steps_alone,
    sub_agents,
    twins,
    sampled,
    recorded.by_hand,
    recorded.captured,
)
ODD_RUNS: tuple[Run, ...] = (damaged, interrupted, empty, document_only, recorded.in_flight, recorded.poisoned)
RUNS: dict[str, Run] = {run.__name__: run for run in (*SDK_RUNS, *TEXT_RUNS, *SHAPED_RUNS, *ODD_RUNS)}
"""The function that writes each run, by the run's name."""


def every(directory: Path) -> dict[str, Path]:
    """Record all runs, each in a directory of its own. Return their documents or journals by name."""
    return {name: run(_made(directory / name)) for name, run in RUNS.items()}
